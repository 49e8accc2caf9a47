"""`paraagent run`: let an agent work on held-out tasks, or on a request in your own words."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from paraagent.cli import play, policies, real_tools
from paraagent.cli import request as request_command
from paraagent.cli import tasks as task_options
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.config import RunConfig
from paraagent.cli.output import EXIT_FAILED, JsonFlag, Output, guarded
from paraagent.errors import UsageError


class PolicyName(StrEnum):
    rules = "rules"
    oracle = "oracle"
    http = "http"
    local = "local"


class PlanName(StrEnum):
    advise = "advise"
    enforce = "enforce"


@guarded
def run(
    request: Annotated[
        str | None, typer.Argument(help="A request in your own words; leave it out to run tasks.")
    ] = None,
    policy: Annotated[
        PolicyName | None,
        typer.Option(help="rules (built in, no model), oracle (knows the solution), http (--model), local."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model name at the endpoint.")] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible endpoint, as http://127.0.0.1:8000/v1; default OPENAI_BASE_URL."),
    ] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "OPENAI_API_KEY",
    model_dir: policies.ModelDir = None,
    adapter: policies.Adapter = None,
    guide: policies.Guide = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, max=2.0, help="Sampling temperature.")] = None,
    split: task_options.SplitOption = task_options.SplitName.test_unseen,
    kind: task_options.KindOption = "all",
    limit: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 70,
    seed: task_options.SeedOption = 0,
    difficulty: task_options.Difficulty = None,
    width: task_options.Width = None,
    depth: task_options.Depth = None,
    distractors: task_options.Distractors = None,
    fault_rate: task_options.FaultRate = None,
    writes: task_options.Writes = None,
    hostile_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of results that carry text posing as an instruction.")
    ] = 0.0,
    plan: Annotated[PlanName, typer.Option(help="advise tells deviations, enforce refuses them.")] = PlanName.advise,
    turns: Annotated[int, typer.Option(min=1, help="Turns an episode may take.")] = 15,
    searches: Annotated[int, typer.Option(min=1, help="Searches an episode may make.")] = 60,
    calls: Annotated[int, typer.Option(min=1, help="Calls an episode may make.")] = 100,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Input and output tokens an episode may take.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0.001, help="Seconds an episode may take.")] = None,
    max_money: Annotated[
        float | None, typer.Option(min=0.0, help="What an episode may cost; needs --prices.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML or JSON table of what models cost; see docs/TOOLS.md.")
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, max=50, help="Tools shown per search.")] = 5,
    concurrency: policies.Concurrency = None,
    fail_under: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Exit with 1 if the success rate is below this.")
    ] = None,
    mcp: real_tools.Mcp = None,
    openapi: real_tools.OpenApi = None,
    functions: real_tools.Functions = None,
    auth: real_tools.Auth = None,
    effect: real_tools.Effect = None,
    trust: real_tools.Trust = None,
    allow_writes: real_tools.AllowWrites = False,
    allow_write: real_tools.AllowWrite = None,
    ask: real_tools.Ask = False,
    allow_private: real_tools.AllowPrivate = False,
    with_catalog: Annotated[
        bool, typer.Option("--with-catalog", help="Mix the simulated tools of the catalog with the real ones.")
    ] = False,
    out_dir: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Run directory; runs/<time> unless given.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in --out.")] = False,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Run an agent and print what it achieved: on sampled tasks, or on a request of your own.

    Without a request it works on held-out tasks of every kind in the simulated world, and a program verifies each.
    With one it does what you ask, with the real tools you name (--mcp, --openapi, --functions), else in the simulated
    world. A run of tasks that was stopped goes on with the same --out; a request goes on with `paraagent resume`.
    """
    out = Output(as_json)
    who = policies.policy_of(policy and policy.value, model, model_dir, adapter, guide)
    config = RunConfig(
        policy=who,
        model=model,
        base_url=base_url,
        model_dir=model_dir,
        adapter=adapter,
        guide=guide and guide.value,
        split=split.value,
        kind=kind,
        limit=limit,
        seed=seed,
        difficulty=difficulty,
        width=width,
        depth=depth,
        distractors=distractors,
        fault_rate=fault_rate,
        writes=writes,
        plan=plan.value,
        turns=turns,
        searches=searches,
        calls=calls,
        max_tokens=max_tokens,
        max_seconds=max_seconds,
        max_money=max_money,
        prices=str(prices) if prices else None,
        top_k=top_k,
        temperature=temperature,
        hostile_rate=hostile_rate,
        mcp=tuple(map(str, mcp or ())),
        openapi=tuple(openapi or ()),
        functions=tuple(map(str, functions or ())),
        auth=tuple(auth or ()),
        effect=tuple(effect or ()),
        trust=tuple(trust or ()),
        allow_writes=allow_writes,
        allow_write=tuple(allow_write or ()),
        ask=ask,
        allow_private=allow_private,
        with_catalog=with_catalog,
    )
    directory = out_dir or _fresh_directory()
    if request is not None:
        if who == "oracle":
            raise UsageError("the oracle only knows sampled tasks: use --policy rules, http or local for a request")
        request_command.play(request, config, api_key_env, directory, overwrite, catalog, out)
        return
    if config.real_tools():
        raise UsageError('real tools need a request to work on: paraagent run "what to do" --mcp ...')
    at_once = policies.episodes_at_once(concurrency, who)
    summary = play.tasks(config, api_key_env, directory, overwrite, at_once, catalog, out)
    if fail_under is not None and summary.overall.success < fail_under:
        out.text.print(f"success {summary.overall.success:.3f} is under {fail_under}", style="red")
        raise typer.Exit(EXIT_FAILED)


@guarded
def resume(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="The trace of a request that was stopped.")],
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "OPENAI_API_KEY",
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Go on with a request that was stopped, by Ctrl-C, a crash or a dead endpoint, from its trace.

    Finished calls are not done again. A write that was under way comes back as `outcome_unknown`, with the advice to
    look before writing again; reads run again. The same model, tools and settings are used as before.
    """
    request_command.resume(trace, api_key_env, catalog, Output(as_json))


def _fresh_directory() -> Path:
    """Return a run directory that does not exist yet, named by the time."""
    name = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while (path := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return path
