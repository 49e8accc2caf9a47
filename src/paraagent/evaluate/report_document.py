"""What a report is made of before it is HTML or Markdown: sections of text, tables, plots and folded parts.

Place in the flow: layer 5; `report` fills it, `report_html` and `report_markdown` write it out. All text here is raw
and may come from a trace: whoever writes it out escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paraagent.evaluate.intervals import Interval

Tone = Literal["plain", "good", "bad"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    small: str = ""
    """Below the text, as an interval."""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a heading; the first column names the row."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing."""

    svg: str
    """Safe markup, made by `report_plots`."""
    says: str
    """What it shows, for those who cannot see it."""


@dataclass(frozen=True, slots=True)
class Story:
    """One episode, with its trace."""

    title: str
    text: str
    trace: str
    """Path of the trace file, relative to the report."""
    told: str = ""
    """The episode as plain text; empty to leave it to the trace."""


Block = Text | Table | Plot | Story


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    sections: tuple[Section, ...]


def figure(found: Interval | None, *, tone: Tone = "plain") -> Cell:
    """Return a figure with its interval as a cell; a dash if it applies to nothing."""
    if found is None:
        return Cell("–")
    spread = f"{number(found.low)} to {number(found.high)}" if found.low < found.high else ""
    return Cell(number(found.value), spread, tone)


def number(value: float) -> str:
    """Write a number in four places or fewer: 0.762, 1.85, 12.3, 1,204."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3f}" if size < 1 else f"{value:.2f}" if size < 10 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(text) == round(value) else text
