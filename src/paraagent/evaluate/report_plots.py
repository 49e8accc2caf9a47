"""Three kinds of drawing as inline SVG: intervals, stacked shares, curves.

Place in the flow: layer 5, used by `report`. All are drawn 360 units wide, the width of a phone, so that text keeps a
readable size there; colours are told apart by the colour-blind (M. Okabe and K. Ito, 2008) and on grey paper by marks
and dashes. Text takes the page's own colour. Labels are escaped here: what is returned is safe markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from paraagent.evaluate.intervals import Interval
from paraagent.evaluate.report_document import number
from paraagent.trace.plain import plain

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#8c6d31",
    "#777777",
    "#b2182b",
    "#4d4d4d",
)
_DASHES = ("none", "6 3", "2 3", "8 3 2 3", "4 2", "1 2")
_WIDTH, _LEFT, _RIGHT = 360, 10, 350
_ROW, _LANE = 16, 13


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot of curves."""

    name: str
    points: tuple[tuple[float, Interval], ...]
    """x and the figure there, by x."""


def intervals(rows: Sequence[tuple[str, Sequence[Interval | None]]], names: Sequence[str]) -> str:
    """Draw shares from 0 to 1 as dots with their intervals, one lane for each of `names` under each row's label."""
    legend = _legend(names) if len(names) > 1 else _Drawn([], 4)
    parts, y = legend.parts, legend.height
    top = y
    for label, found in rows:
        parts.append(_text(_LEFT, y + 12, label))
        y += _ROW
        for lane, one in enumerate(found):
            if one is not None:
                parts.append(_whisker(one, y + _LANE / 2, lane))
            y += _LANE
        y += 4
    grid = [_grid(share, top, y) for share in (0, 0.25, 0.5, 0.75, 1)]
    ticks = [_text(_across(share), y + 12, f"{share:g}", "middle", quiet=True) for share in (0, 0.25, 0.5, 0.75, 1)]
    return _svg([*grid, *parts, *ticks], y + 16)


def stacks(rows: Sequence[tuple[str, Sequence[int]]], names: Sequence[str]) -> str:
    """Draw counts as bars of parts, in the order of `names`; all bars to one scale."""
    used = [index for index in range(len(names)) if any(counts[index] for _, counts in rows)]
    legend = _legend([names[index].replace("_", " ") for index in used])
    parts, y = legend.parts, legend.height
    most = max((sum(counts) for _, counts in rows), default=0) or 1
    for label, counts in rows:
        parts.append(_text(_LEFT, y + 12, f"{label}: {sum(counts)}"))
        x = float(_LEFT)
        for colour, index in enumerate(used):
            width = counts[index] / most * (_RIGHT - _LEFT)
            if width:
                parts.append(_bar(x, y + _ROW, width, colour, str(counts[index])))
            x += width
        y += _ROW + 22
    return _svg(parts, y)


def curves(series: Sequence[Series], x_name: str, y_name: str) -> str:
    """Draw shares over x with their intervals as bands; x is spaced by rank, since budgets are doubled."""
    legend = _legend([one.name for one in series])
    xs = sorted({x for one in series for x, _ in one.points})
    low = min((found.low for one in series for _, found in one.points), default=0.0)
    high = max((found.high for one in series for _, found in one.points), default=1.0)
    step = 0.1 if high - low <= 0.5 else 0.2
    bottom = floor(low / step) * step
    lines = max(1, ceil((high - bottom) / step - 1e-9))
    frame = _Frame(xs, bottom, step, lines, legend.height + 18)
    parts = [*legend.parts, _text(_LEFT, legend.height + 10, y_name, quiet=True), *frame.axes(x_name)]
    parts += [frame.band(one, index) for index, one in enumerate(series)]
    parts += [frame.line(one, index) for index, one in enumerate(series)]
    return _svg(parts, frame.y + frame.height + 34)


@dataclass(frozen=True, slots=True)
class _Drawn:
    parts: list[str]
    height: int


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where curves are drawn."""

    xs: Sequence[float]
    bottom: float
    step: float
    lines: int
    """Grid lines above the lowest."""
    y: int
    height: int = 180

    def at(self, x: float, share: float) -> tuple[float, float]:
        left = _LEFT + 30
        apart = (_RIGHT - 8 - left) / max(1, len(self.xs) - 1)
        across = left + apart * self.xs.index(x) if len(self.xs) > 1 else (left + _RIGHT) / 2
        return across, self.y + self.height * (1 - (share - self.bottom) / (self.step * self.lines))

    def axes(self, x_name: str) -> list[str]:
        parts = []
        for line in range(self.lines + 1):
            share = self.bottom + self.step * line
            y = self.at(self.xs[0], share)[1] if self.xs else self.y
            parts.append(f'<line x1="{_LEFT + 30}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
            parts.append(_text(_LEFT + 26, y + 4, f"{share:.1f}", "end", quiet=True))
        below = self.y + self.height + 14
        parts += [_text(self.at(x, 0)[0], below, _short(x), "middle", quiet=True) for x in self.xs]
        parts.append(_text((_LEFT + 30 + _RIGHT) / 2, self.y + self.height + 29, x_name, "middle", quiet=True))
        return parts

    def band(self, series: Series, index: int) -> str:
        ups = [self.at(x, found.high) for x, found in series.points]
        downs = [self.at(x, found.low) for x, found in reversed(series.points)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*ups, *downs])
        return f'<polygon points="{points}" fill="{_colour(index)}" fill-opacity="0.08"/>'

    def line(self, series: Series, index: int) -> str:
        points = [self.at(x, found.value) for x, found in series.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = _DASHES[index % len(_DASHES)]
        stroke = f'fill="none" stroke="{_colour(index)}" stroke-width="2" stroke-dasharray="{dash}"'
        return f'<polyline points="{path}" {stroke}/>' + "".join(_mark(x, y, index) for x, y in points)


def _legend(names: Sequence[str]) -> _Drawn:
    """Draw the marks of the series with their names, in as many lines as they need."""
    parts: list[str] = []
    x, y = _LEFT, 6
    for index, name in enumerate(names):
        shown = name if len(name) <= 44 else f"{name[:43]}…"
        width = 24 + round(6.9 * len(shown))
        if x > _LEFT and x + width > _RIGHT:
            x, y = _LEFT, y + _ROW
        parts += [_mark(x + 5, y + 5, index), _text(x + 14, y + 9, shown)]
        x += width
    return _Drawn(parts, y + 18)


def _whisker(found: Interval, y: float, lane: int) -> str:
    low, high, at = _across(found.low), _across(found.high), _across(found.value)
    colour = _colour(lane)
    line = f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
    left = at > (_LEFT + _RIGHT) / 2
    beside = _text((low - 5) if left else (high + 5), y + 4, number(found.value), "end" if left else "start")
    return line + _mark(at, y, lane) + beside


def _mark(x: float, y: float, index: int) -> str:
    """Draw a dot, a square, a diamond or a triangle."""
    fill = f'fill="{_colour(index)}"'
    if index % 4 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {fill}/>'
    if index % 4 == 1:
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" {fill}/>'
    corners = [(0, -5), (5, 0), (0, 5), (-5, 0)] if index % 4 == 2 else [(0, -5), (5, 4), (-5, 4)]
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in corners)}" {fill}/>'


def _bar(x: float, y: float, width: float, colour: int, label: str) -> str:
    inside = f'<text x="{x + width / 2:.1f}" y="{y + 12}" text-anchor="middle" class="on">{label}</text>'
    box = f'<rect x="{x:.1f}" y="{y}" width="{max(1.0, width - 1):.1f}" height="16" fill="{_colour(colour)}"/>'
    return box + (inside if width > 12 else "")


def _text(x: float, y: float, text: str, anchor: str = "start", *, quiet: bool = False) -> str:
    look = ' class="quiet"' if quiet else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(plain(text))}</text>'


def _grid(share: float, top: float, bottom: float) -> str:
    x = _across(share)
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" class="grid"/>'


def _across(share: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * min(1.0, max(0.0, share))


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _short(x: float) -> str:
    return f"{x / 1000:g}k" if x and log10(abs(x)) >= 4 else f"{x:g}"


def _svg(parts: Sequence[str], height: float) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
