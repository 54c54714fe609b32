"""The plots of a run, as paths in a box 1000 wide and 100 high; y grows downwards, as in SVG.

Rules of this file: numbers in, numbers out. No text of others comes near a path, and no plot
grows with the run: more turns than fit are drawn together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise

from runner.core.words import span, usd
from runner.reports.digest import Digest, Note, Turn

WIDTH = 1000
HEIGHT = 100
MOST = 250
"""How many bars or points a plot has at most."""

GAP_S = 120.0
"""Nothing happens for longer than this: the run was resumed later, and the time is left out."""

LANE = 26
LANES = {"model": 2, "tool": 37, "check": 72}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot: its paths with their classes, and what stands beside them.

    `starts` says where each turn begins, in thousandths of the width.
    """

    title: str
    paths: tuple[tuple[str, str], ...]
    top: str
    left: str
    right: str
    legend: tuple[tuple[str, str], ...] = ()
    starts: tuple[int, ...] = ()


def plots(run: Digest) -> tuple[Plot, ...]:
    """Every plot there is something to draw for."""
    turns = run.turns
    if not turns:
        return ()
    return (timeline(run), cost(run), tokens(turns), context(turns))


def cost(run: Digest) -> Plot:
    """What the run had cost after each turn; the cap, when the run came near it."""
    spent = [float(turn.total_usd) for turn in run.turns]
    cap = run.state.spec.max_budget_usd if run.state.spec else None
    near = cap is not None and float(cap) <= 4 * max(*spent, 0.0, 1e-9)
    most = max([*spent, float(cap) if near and cap is not None else 0.0])
    paths = [("area cost", _area(_binned(spent, max), most))]
    legend = [("cost", "spent")]
    if near and cap is not None and most > 0:
        y = _y(float(cap), most)
        paths.append(("line cap", f"M0 {y}H{WIDTH}"))
        legend.append(("cap", f"cap {usd(cap)}"))
    elif cap is not None:
        legend.append(("", f"cap {usd(cap)}"))
    total = max(turn.total_usd for turn in run.turns)
    return _by_turn("cost", paths, usd(total), len(spent), tuple(legend))


def tokens(turns: Sequence[Turn]) -> Plot:
    """The tokens of each call, by what they cost: new, written to and read from the cache, out."""
    kinds: tuple[tuple[str, str, Callable[[Turn], int]], ...] = (
        ("out", "out", lambda turn: turn.usage.output_tokens),
        ("fresh", "in", lambda turn: turn.usage.input_tokens),
        ("write", "written", lambda turn: turn.usage.cache_write_tokens),
        ("read", "cached", lambda turn: turn.usage.cache_read_tokens),
    )
    columns = {name: _binned([float(of(turn)) for turn in turns], _mean) for name, _, of in kinds}
    most = max(sum(parts) for parts in zip(*columns.values(), strict=True))
    below = [0.0] * len(columns["out"])
    paths = []
    for name, column in columns.items():
        paths.append((f"bars {name}", _bars(below, column, most)))
        below = [low + part for low, part in zip(below, column, strict=True)]
    legend = tuple((name, words) for name, words, _ in kinds)
    return _by_turn("tokens per call", paths, f"{round(most):,}", len(turns), legend)


def context(turns: Sequence[Turn]) -> Plot:
    """How much the model read in each call of the main loop: the fill of its context."""
    sizes = [turn.context_tokens for turn in turns]
    own = [float(size) if not turn.agent else 0.0 for size, turn in zip(sizes, turns, strict=True)]
    most = max(own)
    paths = [("area context", _area(_binned(own, max), most))]
    return _by_turn("context", paths, f"{round(most):,} tokens", len(turns))


def timeline(run: Digest) -> Plot:
    """What the time went to: the model, the tools, the checks."""
    spans = list(_spans(run))
    axis = _Axis(spans)
    cells: dict[tuple[str, str], set[int]] = {}
    for lane, look, began, ended in spans:
        first, last = axis.at(began), axis.at(ended)
        marked = range(min(int(first), WIDTH - 1), max(int(first) + 1, min(round(last), WIDTH)))
        cells.setdefault((lane, look), set()).update(marked)
    paths = tuple(
        (f"bars {look}", _runs(sorted(marked), LANES[lane]))
        for (lane, look), marked in sorted(cells.items())
    )
    starts = tuple(round(axis.at(_seconds(turn.began))) for turn in run.turns)
    looks = {look for _, look in cells}
    named = (("model", "model"), ("tool", "tools"), ("bad", "failed"), ("check", "checks"))
    return Plot(
        title="timeline",
        paths=paths,
        top="",
        left="0s",
        right=span(axis.length_s),
        legend=tuple((look, words) for look, words in named if look in looks),
        starts=starts,
    )


Span = tuple[str, str, float, float]
"""Lane, look, and when it began and ended, in seconds since the epoch."""


def _spans(run: Digest) -> Iterator[Span]:
    last = run.state.last_timestamp
    for item in run.items:
        if isinstance(item, Note):
            if item.kind == "checks" and item.began:
                look = "check" if item.good else "bad"
                yield "check", look, _seconds(item.began), _seconds(item.at)
            continue
        heard = item.replied or item.ended or last or item.began
        yield "model", "model", _seconds(item.began), _seconds(heard)
        for call in item.calls:
            if call.began:
                look = "tool" if call.outcome == "ok" else "bad"
                ended = call.ended or item.ended or last or call.began
                yield "tool", look, _seconds(call.began), _seconds(ended)


class _Axis:
    """Time on the width of the plot, with the long gaps taken out."""

    def __init__(self, spans: Iterable[Span]) -> None:
        ordered = sorted((began, max(began, ended)) for _, _, began, ended in spans)
        self._shifts: list[tuple[float, float]] = []
        self._first = ordered[0][0]
        now, cut = self._first, 0.0
        for began, ended in ordered:
            if began - now > GAP_S:
                cut += began - now
                self._shifts.append((began, cut))
            now = max(now, ended)
        self.length_s = now - self._first - cut

    def at(self, moment: float) -> float:
        """Where a moment is, from 0 to the width."""
        cut = next((cut for since, cut in reversed(self._shifts) if moment >= since), 0.0)
        place = (moment - self._first - cut) / (self.length_s or 1.0)
        return min(max(place, 0.0), 1.0) * WIDTH


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _by_turn(
    title: str,
    paths: list[tuple[str, str]],
    top: str,
    number: int,
    legend: tuple[tuple[str, str], ...] = (),
) -> Plot:
    starts = tuple(round(WIDTH * turn / number) for turn in range(number))
    return Plot(
        title=title,
        paths=tuple((look, path) for look, path in paths if path),
        top=top,
        left="turn 1",
        right=f"turn {number}" if number > 1 else "",
        legend=legend,
        starts=starts,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _binned(values: list[float], of: Callable[[Sequence[float]], float]) -> list[float]:
    """At most `MOST` values, each standing for as many as the others."""
    number = min(len(values), MOST)
    edges = [len(values) * i // number for i in range(number + 1)]
    return [of(values[a:b]) for a, b in pairwise(edges)]


def _y(value: float, most: float) -> float:
    return round(HEIGHT - 96 * value / most, 1) if most else float(HEIGHT)


def _area(values: list[float], most: float) -> str:
    """Steps from left to right, filled down to the ground."""
    width = WIDTH / len(values)
    steps = "".join(f"V{_y(v, most)}H{round(width * (i + 1), 1)}" for i, v in enumerate(values))
    return f"M0 {HEIGHT}{steps}V{HEIGHT}Z"


def _bars(below: list[float], values: list[float], most: float) -> str:
    width = WIDTH / len(values)
    thick = round(width * (0.8 if len(values) < 120 else 1), 2)
    found = []
    for place, (low, value) in enumerate(zip(below, values, strict=True)):
        if value > 0:
            y, height = _y(low + value, most), round(_y(low, most) - _y(low + value, most), 1)
            found.append(f"M{round(place * width, 1)} {y}h{thick}v{height}h-{thick}z")
    return "".join(found)


def _runs(cells: list[int], y: int) -> str:
    """Rectangles over neighbouring cells."""
    found = []
    for _, group in groupby(enumerate(cells), key=lambda pair: pair[1] - pair[0]):
        members = [cell for _, cell in group]
        found.append(f"M{members[0]} {y}h{len(members)}v{LANE}h-{len(members)}z")
    return "".join(found)
