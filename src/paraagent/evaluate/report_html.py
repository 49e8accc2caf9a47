"""Writes a report as one self-contained HTML page: no script, no font, no picture from elsewhere.

Place in the flow: layer 5, after `report`. Every text is escaped, and a policy in the page forbids scripts and
connections, so that nothing in a trace can act. It is made for a phone of 360 px, a screen and paper: wide tables
scroll by themselves and keep their first column, and folded parts stay folded on paper.
"""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from paraagent.evaluate.report_document import Block, Cell, Document, Plot, Section, Story, Table, Text
from paraagent.trace.plain import plain

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --line: #d5dae0; --paper: #fff; --soft: #f4f6f8;
  --good: #0a6b3d; --bad: #a5231a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --dim: #9aa4af; --line: #3a424b; --paper: #14181d;
  --soft: #1d232a; --good: #5fd39a; --bad: #ff9087; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; padding-top: .5rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 44rem; }
nav { font-size: .9rem; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
a { color: inherit; text-decoration-color: var(--dim); }
.quiet, small { color: var(--dim); }
.wide { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: separate; border-spacing: 0; font-size: .875rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
th, td { padding: .25rem .6rem .25rem 0; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--paper);
  min-width: 6.5rem; }
td small { display: block; white-space: nowrap; font-size: .86em; }
.good { color: var(--good); } .bad { color: var(--bad); }
figure { margin: .75rem 0; max-width: 30rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .quiet { fill: var(--dim); font-size: 11px; } svg .on { fill: #fff; font-size: 11px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
details, .story { border-bottom: 1px solid var(--line); padding: .4rem 0; font-size: .9rem; }
summary { cursor: pointer; }
pre { overflow-x: auto; background: var(--soft); padding: .6rem; font-size: .75rem; line-height: 1.35;
  margin: .5rem 0; overflow-wrap: normal; }
@media (max-width: 30rem) {
  table { font-size: .8rem; } th, td { padding-right: .4rem; } th:first-child, td:first-child { min-width: 5.5rem; }
}
@media print {
  :root { --ink: #000; --dim: #444; --line: #bbb; --paper: #fff; --good: #000; --bad: #000; }
  @page { margin: 1.5cm; }
  body { font-size: 10pt; max-width: none; padding: 0; }
  nav { display: none; }
  table { font-size: 8pt; } .wide { overflow: visible; } th:first-child, td:first-child { position: static; }
  figure { max-width: 10cm; } figure, tr, .story, details { break-inside: avoid; } h2 { break-after: avoid; }
  svg rect, svg circle, svg polygon { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def to_html(document: Document) -> str:
    """Return the whole page."""
    title = _safe(document.title)
    links = "".join(
        f'<a href="#s{number}">{_safe(section.title)}</a>' for number, section in enumerate(document.sections)
    )
    sections = "\n".join(_section(number, section) for number, section in enumerate(document.sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<nav>{links}</nav>\n{sections}\n</body>\n</html>\n"
    )


def _section(number: int, section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return f'<section id="s{number}">\n<h2>{_safe(section.title)}</h2>\n{blocks}\n</section>'


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f'<p class="quiet">{_safe(block.text)}</p>' if block.quiet else f"<p>{_safe(block.text)}</p>"
    if isinstance(block, Plot):
        svg = block.svg.replace("<svg ", f'<svg role="img" aria-label="{_safe(block.says)}" ', 1)
        return f"<figure>{svg}</figure>"
    return _table(block) if isinstance(block, Table) else _story(block)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_safe(name)}</th>" for name in table.head)
    rows = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f'<p class="quiet">{_safe(table.note)}</p>' if table.note else ""
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{note}'


def _cell(cell: Cell) -> str:
    small = f"<small>{_safe(cell.small)}</small>" if cell.small else ""
    tone = f' class="{cell.tone}"' if cell.tone != "plain" else ""
    return f"<td{tone}>{_safe(cell.text)}{small}</td>"


def _story(story: Story) -> str:
    link = f'<a href="{_safe(quote(story.trace))}">trace</a>' if story.trace else ""
    text = f"<b>{_safe(story.title)}</b>: {_safe(story.text)}"
    if not story.told:
        return f'<div class="story">{text} {link}</div>'
    return f"<details><summary>{text}</summary>{link}<pre>{_safe(story.told)}</pre></details>"


def _safe(text: str) -> str:
    return escape(plain(text))
