"""`paraagent demos ...`: make cold-start demonstrations, look at them, convert between formats."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from paraagent.cli import tasks as task_options
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.errors import UsageError

if TYPE_CHECKING:
    from paraagent.cli.demos_make import Playing
    from paraagent.demos.roles import RoleName

app = typer.Typer(
    no_args_is_help=True, help="Make demonstrations to start learning from, look at them, convert them."
)


class Experts(StrEnum):
    builtin = "builtin"
    http = "http"


class LinkedName(StrEnum):
    always = "always"
    never = "never"
    mix = "mix"


class FormatName(StrEnum):
    chat = "chat"
    sharegpt = "sharegpt"


class OnErrorName(StrEnum):
    skip = "skip"
    fail = "fail"


OnErrorOption = Annotated[
    OnErrorName, typer.Option("--on-error", help="Whether a malformed row is left out and reported, or ends it all.")
]


@app.command()
@guarded
def make(
    out_file: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where the demonstrations go, as JSON lines.")
    ],
    limit: Annotated[int, typer.Option(min=1, help="How many demonstrations to keep.")] = 1000,
    experts: Annotated[
        Experts, typer.Option(help="builtin (no model, reads the solutions) or http (a model plays the roles).")
    ] = Experts.builtin,
    model: Annotated[str | None, typer.Option(help="Model name at the endpoint.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible endpoint, as http://127.0.0.1:8000/v1.")
    ] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "OPENAI_API_KEY",
    temperature: Annotated[float | None, typer.Option(min=0.0, max=2.0, help="Sampling temperature.")] = None,
    roles: Annotated[
        str,
        typer.Option(metavar="ROLES", help="With http: roles the model plays, by commas; the experts do the rest."),
    ] = "all",
    split: task_options.SplitOption = task_options.SplitName.train,
    kind: task_options.KindOption = "all",
    seed: task_options.SeedOption = 0,
    linked: Annotated[
        LinkedName, typer.Option(help="Chains as linked calls in one turn, layer by layer, or some of both.")
    ] = LinkedName.mix,
    vague: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share that first asks too vaguely, so that it must ask again.")
    ] = 0.2,
    mistakes: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share with a mistake in a call that is then corrected.")
    ] = 0.08,
    width: Annotated[int, typer.Option(min=1, max=5, help="Most independent goals.")] = 5,
    depth: Annotated[int, typer.Option(min=1, max=3, help="Longest chain of calls.")] = 3,
    max_tokens: Annotated[int, typer.Option(min=100, help="Leave longer ones out (estimated tokens).")] = 12_000,
    top_k: Annotated[int, typer.Option(min=1, max=50, help="Tools shown per search.")] = 5,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the result does not depend on it.")] = 2,
    concurrency: Annotated[int, typer.Option(min=1, help="With http: episodes in flight.")] = 8,
    sharegpt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write them in the ShareGPT format.")
    ] = None,
    held_out: Annotated[bool, typer.Option("--held-out", help="Allow test splits, which are for measuring.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Make demonstrations: six roles solve sampled tasks together, and what is verified and clean is kept.

    Their work is woven into one trajectory and played for real in the simulated world. A card in Markdown beside the
    file says what is in it and what was left out. With the built-in experts the same seed gives the same bytes.
    """
    from paraagent.cli import demos_make
    from paraagent.demos.recipe import Recipe

    if experts is Experts.http and not model:
        raise UsageError("--experts http needs --model (and --base-url for an endpoint of your own)")
    recipe = Recipe(
        limit=limit,
        seed=seed,
        split=split.value,
        kinds=tuple(task_options.kinds_of(kind)),
        linked=linked.value,
        vague=vague,
        mistakes=mistakes,
        width=width,
        depth=depth,
        top_k=top_k,
        max_tokens=max_tokens,
        tries=12 if experts is Experts.builtin else 2,
        held_out=held_out,
    )
    recipe.check()
    playing: Playing | None = None
    if experts is Experts.http:
        names = _roles(roles)
        playing = demos_make.Playing(str(model), base_url, api_key_env, temperature, names, concurrency)
    files = demos_make.Files(out_file, sharegpt, overwrite)
    demos_make.make(recipe, playing, files, workers, catalog, Output(as_json))


@app.command()
@guarded
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Demonstrations, in the chat or ShareGPT format.")],
    index: Annotated[int | None, typer.Option(min=0, help="Tell this one, counted from 0.")] = None,
    on_error: OnErrorOption = OnErrorName.skip,
    as_json: JsonFlag = False,
) -> None:
    """Show what a file of demonstrations holds, or with --index one of them, turn by turn."""
    from paraagent.cli import demos_show

    demos_show.show(file, index, on_error.value, Output(as_json))


@app.command()
@guarded
def convert(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Demonstrations in either format.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to write.")],
    to: Annotated[FormatName, typer.Option("--to", help="The format to write.")],
    on_error: OnErrorOption = OnErrorName.fail,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file that is there.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Convert demonstrations between our chat format and the ShareGPT format of published sets.

    Demonstrations with turns that must not be learned have no ShareGPT form; they are left out and counted.
    """
    from paraagent.cli import demos_show

    demos_show.convert(source, target, to.value, on_error.value, overwrite, Output(as_json))


def _roles(text: str) -> tuple[RoleName, ...]:
    """Read `--roles`; `all` stands for all six."""
    from paraagent.demos.roles import RoleName

    known = get_args(RoleName)
    names = known if text == "all" else tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(f"unknown role {unknown[0] if unknown else text!r}: use {', '.join(known)} or all")
    return tuple(cast("RoleName", name) for name in names)
