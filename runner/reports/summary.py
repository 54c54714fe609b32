"""The Markdown summary of a run, for the summary page of a CI job.

Rules of this file: text of others stands in code, inline or fenced, and nowhere else: as Markdown
it could draw a green tick, hide what follows it, or load a picture from somewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from runner.core.truncate import fit
from runner.core.words import count, gist, one_line, span, usd
from runner.reports import facts
from runner.reports.digest import Call, Digest, Turn
from runner.reports.wording import how_it_went

MAX_BYTES = 1024 * 1024
"""What GitHub takes as the summary of one step."""

MAX_ANSWER_BYTES = 64 * 1024
MAX_ROWS = 50
MAX_TURNS = 100
CELL_CHARS = 120
_MARKS: dict[facts.Tone, str] = {"good": "✅", "bad": "❌", "open": "⏳"}
_RUNS = re.compile("`+")
_MARKUP = re.compile(r"[!-/:-@\[-`{-~]")
"""Every ASCII character that is neither letter, digit nor space."""


def summary(run: Digest, *, visible: Callable[[str], str], max_bytes: int = MAX_BYTES) -> str:
    """The summary, at most `max_bytes` long: what is least needed is left out first.

    `visible` writes out characters that act or hide.
    """
    parts = [
        _head(run, visible),
        _checks(run, visible),
        _denials(run, visible),
        _files(run, visible),
        _answer(run, visible),
        _object(run, visible),
        _warnings(run, visible),
        _turns(run, visible),
    ]
    kept: list[str] = []
    room = max_bytes
    for part in parts:
        size = len(part.encode("utf-8", "replace"))
        if part and size + 1 <= room:
            kept.append(part)
            room -= size + 1
    return "\n".join(kept)


def _head(run: Digest, visible: Callable[[str], str]) -> str:
    mark = _MARKS[facts.tone(run)]
    code = f", exit code {run.result['exit_code']}" if run.result else ""
    lines = [f"## {mark} {_code(run.name, visible)}: {_plain(facts.ending(run))}{code}", ""]
    if why := facts.cause(run):
        lines += [_fenced(fit(visible(why), 4000)), ""]
    if do := facts.advice(run):
        lines += [f"**What to do:** {do}", ""]
    cells = [(name, _code(text, visible)) for name, text in facts.rows(run).items()]
    return "\n".join([*lines, *_table(("", ""), cells)])


def _checks(run: Digest, visible: Callable[[str], str]) -> str:
    last = run.state.verified
    if last is None or not last.checks:
        return ""
    cells = [
        ("✅" if one.passed else "❌", _code(one.name, visible), how_it_went(one))
        for one in last.checks
    ]
    blocks = [
        f"\n{_code(one.name, visible)} said:\n\n{_fenced(fit(visible(one.output), 4000))}\n"
        for one in last.checks
        if not one.passed and one.output.strip()
    ]
    return "\n".join(["### Checks", "", *_table(("", "check", "outcome"), cells), *blocks])


def _denials(run: Digest, visible: Callable[[str], str]) -> str:
    found = facts.denials(run)
    if not found:
        return ""
    cells = [
        (
            _code(denial.tool, visible),
            _code(gist(denial.arguments, CELL_CHARS), visible),
            _code(denial.reason, visible),
        )
        for denial in found[:MAX_ROWS]
    ]
    table = _table(("tool", "call", "why"), cells)
    return "\n".join(["### Denied calls", "", *table, *_more(len(found), MAX_ROWS)])


def _files(run: Digest, visible: Callable[[str], str]) -> str:
    diff = (run.result or {}).get("workspace_diff") or {}
    files = diff.get("files") or ()
    if not files:
        return ""
    cells = [
        (
            _code(str(file["path"]), visible),
            str(file["status"]),
            "binary" if file.get("binary") else f"+{file['lines_added']} -{file['lines_removed']}",
        )
        for file in files[:MAX_ROWS]
    ]
    table = _table(("file", "", "lines"), cells)
    more = _more(diff.get("files_total", len(files)), MAX_ROWS)
    return "\n".join(["### Changed files", "", *table, *more])


def _answer(run: Digest, visible: Callable[[str], str]) -> str:
    answer = (run.result or {}).get("result") or ""
    if not answer.strip():
        return ""
    return f"### Answer\n\n{_fenced(fit(visible(answer), MAX_ANSWER_BYTES))}\n"


def _object(run: Digest, visible: Callable[[str], str]) -> str:
    found = (run.result or {}).get("structured_output")
    if found is None:
        return ""
    text = visible(json.dumps(found, indent=2, ensure_ascii=False))
    return f"### Structured output\n\n{_fenced(fit(text, MAX_ANSWER_BYTES))}\n"


def _warnings(run: Digest, visible: Callable[[str], str]) -> str:
    told = [note.text for note in run.notes if note.kind == "warning"]
    if not told:
        return ""
    lines = [f"- {_code(text, visible, 300)}" for text in told[:MAX_ROWS]]
    return "\n".join(["### Warnings", "", *lines, *_more(len(told), MAX_ROWS), ""])


def _turns(run: Digest, visible: Callable[[str], str]) -> str:
    if not run.turns:
        return ""
    cells = [_turn(turn, visible) for turn in run.turns[-MAX_TURNS:]]  # how it came to its end
    title = count(len(run.turns), "turn")
    if len(cells) < len(run.turns):
        title = f"the last {len(cells)} of {title}"
    head = [f"<details><summary>{title}</summary>", ""]
    table = _table(("turn", "calls", "text", "cost", "time"), cells)
    return "\n".join([*head, *table, "", "</details>", ""])


def _turn(turn: Turn, visible: Callable[[str], str]) -> tuple[str, ...]:
    calls = "; ".join(_call(call) for call in turn.calls)
    number = f"{turn.number} {_code(turn.agent, visible)}" if turn.agent else str(turn.number)
    return (
        number,
        _code(calls, visible),
        _code(turn.text, visible, 80),
        usd(turn.cost_usd),
        span(turn.api_ms / 1000),
    )


def _call(call: Call) -> str:
    outcome = "" if call.outcome == "ok" else f" ({call.outcome})"
    return f"{call.tool} {gist(call.arguments, 40)}{outcome}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def _more(total: int, shown: int) -> list[str]:
    return [f"and {total - shown} more", ""] if total > shown else []


def _code(text: str, visible: Callable[[str], str], max_chars: int = CELL_CHARS) -> str:
    """Inline code that no text can leave, fit for a cell of a table."""
    flat = one_line(visible(text), max_chars)
    if not flat:
        return ""
    if "|" in flat:  # ends a cell, in code too, and after a backslash it cannot be escaped
        return f"<code>{_MARKUP.sub(_entity, flat)}</code>"
    longest = max((len(run) for run in _RUNS.findall(flat)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if flat[0] == "`" or flat[-1] == "`" else ""
    return f"{fence}{edge}{flat}{edge}{fence}"


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def _fenced(text: str) -> str:
    """A block of code that no text can leave."""
    longest = max((len(run) for run in _RUNS.findall(text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def _plain(text: str) -> str:
    """Words of ours, in which an underscore is an underscore."""
    return text.replace("_", "\\_")
