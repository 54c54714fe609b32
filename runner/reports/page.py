"""A run as one HTML page that needs nothing else: no network, no other file.

Rules of this file: everything that is not ours is escaped by the template, characters that act or
hide are written out, and the page itself forbids every script and style but its own two.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from runner.core import wire
from runner.core.truncate import fit
from runner.core.words import count, gist, one_line, span, usd
from runner.reports import facts
from runner.reports.digest import Call, Digest, Turn
from runner.reports.plots import plots
from runner.reports.wording import how_it_went

TEXTS_BYTES = 6_000_000
"""How much the page gives to arguments, outputs and diffs; each gets the same share of it."""

LEAST_BYTES, MOST_BYTES = 1_000, 16_000
PATCH_BYTES = 400_000
PARTS = ("page.html", "page.css", "page.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The page's template, its style and its script, as they stand in `configs/reports`."""

    template: str
    style: str
    script: str


def page(run: Digest, *, parts: Parts, visible: Callable[[str], str], patch: str = "") -> str:
    """The page. `patch` is what the run changed in the workspace, as a diff.

    jinja2 is imported here: no other command pays for it.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    def shown(value: object) -> object:
        ours = isinstance(value, Markup) or not isinstance(value, str)
        return value if ours else visible(str(value))

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    share = TEXTS_BYTES // max(3 * len(run.calls) + 2 * len(run.turns), 1)
    share = min(max(share, LEAST_BYTES), MOST_BYTES)
    environment.filters.update(
        usd=usd,
        seconds=lambda ms: span((ms or 0) / 1000),
        count=count,
        one_line=one_line,
        gist=gist,
        cut=lambda text: fit(text, share),
        diff_lines=diff_lines,
        how=how_it_went,
        marks=marks,
        pretty=_json,
        arguments=lambda call: _arguments(call, share),
    )
    return environment.from_string(parts.template).render(
        run=run,
        facts=facts,
        tone=facts.tone(run),
        rows=facts.rows(run),
        plots=plots(run),
        policy=_policy(parts),
        style=Markup(parts.style),  # ours, both of them
        script=Markup(parts.script),
        patch=fit(patch, PATCH_BYTES),
        spec=_spec(run),
        tools=sorted({call.tool for call in run.calls}),
    )


def _policy(parts: Parts) -> str:
    """Nothing loads, and no script or style but these two runs."""
    style, script = (
        b64encode(sha256(text.encode()).digest()).decode() for text in (parts.style, parts.script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def marks(turn: Turn) -> str:
    """What a turn can be filtered by."""
    found = {call.outcome.replace(" ", "-") for call in turn.calls} - {"ok"}
    if any(call.diff for call in turn.calls):
        found.add("changed")
    return " ".join(sorted(found))


def diff_lines(text: str) -> list[tuple[str, str]]:
    """Each line of a diff with its class: added, removed, header, context."""
    looks = {"+": "a", "-": "d", "@": "h"}
    found = []
    for line in text.split("\n"):
        header = line.startswith(("+++ ", "--- ", "diff --git "))
        found.append(("h" if header else looks.get(line[:1], "c"), line))
    return found


def _arguments(call: Call, share: int) -> list[tuple[str, str]]:
    """The arguments by name; what a diff shows anyway is left out."""
    in_diff = ("old_string", "new_string", "content") if call.diff else ()
    return [
        (name, fit(value if isinstance(value, str) else _json(value), share))
        for name, value in call.arguments.items()
        if name not in in_diff
    ]


def _spec(run: Digest) -> str:
    if run.state.spec is None:
        return ""
    spec: Mapping[str, Any] = wire.encode(run.state.spec)
    return fit(_json(spec), MOST_BYTES)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
