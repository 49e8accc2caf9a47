"""The work behind `paraagent demos make`: play, keep, write, and tell how it went.

Place in the flow: layer 7; imported by `demos` only when it runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from paraagent.agent.policies.http import HttpConfig, HttpPolicy
from paraagent.catalog.store import Catalog
from paraagent.cli.output import EXIT_INTERRUPTED, Output
from paraagent.demos.card import Origin, card
from paraagent.demos.demo import Demo
from paraagent.demos.experts import builtin
from paraagent.demos.formats import line
from paraagent.demos.llm import played
from paraagent.demos.maker import Maker
from paraagent.demos.produce import PATIENCE, Keeper, produce, produce_live
from paraagent.demos.recipe import Recipe
from paraagent.demos.roles import RoleName
from paraagent.demos.statistics import NAMES, Statistics, ordered
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.search.search import SearchIndex

_PATIENCE_WITH_MODELS = 20
"""Lots in a row without anything to keep after which a model is asked no more: every lot costs."""
_TOLD = tuple(name for name in NAMES if name not in ("split", "dataset", "experts"))


@dataclass(frozen=True, slots=True)
class Playing:
    """A model that plays roles."""

    model: str
    base_url: str | None
    api_key_env: str
    temperature: float | None
    roles: tuple[RoleName, ...]
    concurrency: int

    @property
    def name(self) -> str:
        who = "all roles" if len(self.roles) == 6 else ", ".join(self.roles)
        return f"{self.model} as {who}"


@dataclass(frozen=True, slots=True)
class Files:
    """Where the demonstrations and their card go."""

    chat: Path
    sharegpt: Path | None
    overwrite: bool

    @property
    def card(self) -> Path:
        return self.chat.with_suffix(".md")

    def check(self) -> None:
        """Raise UsageError if something is there that must not be replaced, or two names are one."""
        wanted = [path for path in (self.chat, self.card, self.sharegpt) if path is not None]
        if len(set(wanted)) < len(wanted):
            raise UsageError(f"{self.chat}: the data, its card ({self.card}) and --sharegpt need different names")
        there = [str(path) for path in wanted if path.exists()]
        if there and not self.overwrite:
            raise UsageError(f"{', '.join(there)}: exists already; choose another --out, or --overwrite it")


@dataclass(slots=True)
class _Writer:
    """Writes what is kept, as soon as it is."""

    chat: BinaryIO
    sharegpt: BinaryIO | None
    on_kept: Callable[[int], None]
    statistics: Statistics = field(default_factory=Statistics)
    not_in_sharegpt: int = 0
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    def keep(self, demo: Demo) -> None:
        text = line(demo, "chat")
        assert text is not None
        self.chat.write(text)
        self._hash.update(text)
        if self.sharegpt is not None:
            other = line(demo, "sharegpt")
            self.not_in_sharegpt += other is None
            self.sharegpt.write(other or b"")
        self.statistics.add(demo)
        self.on_kept(self.statistics.total)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def make(
    recipe: Recipe, playing: Playing | None, files: Files, workers: int, catalog: Path | None, out: Output
) -> None:
    """Make the demonstrations and the card; what was made before an interruption or error is kept."""
    files.check()
    began = time.monotonic()
    with Catalog.open(catalog) as opened:
        digest, tools = opened.digest, len(opened)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with ExitStack() as stack:
            bar = stack.enter_context(
                Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=out.text)
            )
            task = bar.add_task("demonstrations", total=recipe.limit)
            writer = _open(files, stack, lambda kept: bar.update(task, completed=kept))
            keeper = Keeper(recipe, writer.keep, _PATIENCE_WITH_MODELS if playing else PATIENCE)
            interrupted = _play(recipe, playing, workers, catalog, keeper)
        origin = Origin(playing.name if playing else "builtin", digest, tools, version("paraagent"), _command())
        text = card(files.chat.name, writer.sha256, writer.statistics, keeper.refused, recipe, origin)
        files.card.write_text(text)
    except OSError as error:
        raise EnvironmentFault(f"{files.chat}: cannot write there ({error.strerror})") from error
    _tell(out.text, writer, keeper, files, time.monotonic() - began)
    out.finish(
        writer.statistics.to_json()
        | {
            "refused": {**ordered(keeper.refused)},
            "not_in_sharegpt": writer.not_in_sharegpt,
            "sha256": writer.sha256,
            "file": str(files.chat),
            "card": str(files.card),
            "seconds": round(time.monotonic() - began, 1),
        }
    )
    if isinstance(interrupted, KeyboardInterrupt):
        out.text.print(f"interrupted: {keeper.kept} of {recipe.limit} demonstrations are kept")
        raise typer.Exit(EXIT_INTERRUPTED)
    if interrupted is not None:
        raise interrupted


def _open(files: Files, stack: ExitStack, on_kept: Callable[[int], None]) -> _Writer:
    files.chat.parent.mkdir(parents=True, exist_ok=True)
    chat = stack.enter_context(files.chat.open("wb"))
    if files.sharegpt is None:
        return _Writer(chat, None, on_kept)
    files.sharegpt.parent.mkdir(parents=True, exist_ok=True)
    return _Writer(chat, stack.enter_context(files.sharegpt.open("wb")), on_kept)


def _play(
    recipe: Recipe, playing: Playing | None, workers: int, catalog: Path | None, keeper: Keeper
) -> BaseException | None:
    """Make demonstrations; return what ended it early, if anything did after some were kept."""
    try:
        if playing is None:
            produce(recipe, catalog, workers, keeper)
        else:
            asyncio.run(_play_live(recipe, playing, catalog, keeper))
    except (KeyboardInterrupt, UsageError, EnvironmentFault) as error:
        if not keeper.kept:
            raise
        return error
    return None


async def _play_live(recipe: Recipe, playing: Playing, path: Path | None, keeper: Keeper) -> None:
    config = HttpConfig(
        playing.model, playing.base_url, api_key_env=playing.api_key_env, temperature=playing.temperature
    )
    with Catalog.open(path) as catalog:
        async with HttpPolicy(config) as model:
            await model.check()
            maker = Maker(
                catalog,
                SearchIndex.open(catalog),
                recipe,
                lambda task, style: played(model, playing.roles, builtin(task, catalog.get, style)),
            )
            await produce_live(maker, playing.concurrency, keeper)


def _command() -> str:
    """Return the command line, the program by its name alone."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def _tell(console: Console, writer: _Writer, keeper: Keeper, files: Files, seconds: float) -> None:
    statistics = writer.statistics
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name in _TOLD:
        counter = statistics.counts[name]
        if counter:
            table.add_row(name, "  ".join(f"{key} {count:,}" for key, count in ordered(counter).items()))
    tokens = statistics.token_quantiles()
    table.add_row("tokens", "  ".join(f"{key} {count:,}" for key, count in tokens.items()))
    left_out = "  ".join(f"{reason} {count:,}" for reason, count in ordered(keeper.refused).items())
    table.add_row("left out", left_out or "nothing")
    console.print(table, markup=False)
    console.print(
        f"{keeper.kept:,} demonstrations in {seconds:.0f} s ({keeper.kept / max(seconds, 0.1):.1f}/s): "
        f"{files.chat}, card {files.card}",
        markup=False,
    )
    if writer.not_in_sharegpt:
        console.print(
            f"{writer.not_in_sharegpt} of them hold turns not to be learned and are not in {files.sharegpt}"
        )
