"""Writes a report as Markdown: the same text and tables without the plots, whose figures the tables hold.

Place in the flow: layer 5, after `report`. Text that could be markup is escaped, so that nothing in a trace makes a
link, a heading or HTML of itself.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import quote

from paraagent.evaluate.report_document import Block, Cell, Document, Plot, Story, Table, Text
from paraagent.trace.plain import one_line

_MARKUP = re.compile(r"([\\`*_{}\[\]#|~@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
_WHOLE = 100_000


def to_markdown(document: Document) -> str:
    """Return the whole text."""
    parts = [f"# {_safe(document.title)}"]
    for section in document.sections:
        parts.append(f"## {_safe(section.title)}")
        listed: list[str] = []
        for block in section.blocks:
            if isinstance(block, Story):
                listed.append(_story(block))
                continue
            parts += ["\n".join(listed)] if listed else []
            listed = []
            parts.append(_block(block))
        parts += ["\n".join(listed)] if listed else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return _safe(block.text)
    if isinstance(block, Plot):
        return ""
    return _table(block) if isinstance(block, Table) else ""


def _table(table: Table) -> str:
    rule = ["---", *["---:"] * (len(table.head) - 1)]
    rows = [[_safe(name) or " " for name in table.head], rule, *([_cell(cell) for cell in row] for row in table.rows)]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{lines}\n\n{_safe(table.note)}" if table.note else lines


def _cell(cell: Cell) -> str:
    return f"{_safe(cell.text)} ({_safe(cell.small)})" if cell.small else _safe(cell.text)


def _story(story: Story) -> str:
    link = f" [trace]({quote(story.trace)})" if story.trace else ""
    return f"- **{_safe(story.title)}**: {_safe(story.text)}{link}"


def _safe(text: str) -> str:
    return escape(_MARKUP.sub(r"\\\1", one_line(text, _WHOLE)), quote=False)
