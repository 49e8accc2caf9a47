"""`paraagent eval BENCHMARK`: play a benchmark under a policy and a paradigm, or prove that its harness is sound."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from paraagent.cli import policies
from paraagent.cli import tasks as task_options
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.eval_config import EvalConfig
from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.types import JsonObject

if TYPE_CHECKING:
    from paraagent.cli.eval_open import Opened
    from paraagent.cli.eval_play import Played


class Benchmarks(StrEnum):
    toolenv = "toolenv"
    apibank = "apibank"
    toolbench = "toolbench"
    bfcl = "bfcl"


class Policies(StrEnum):
    rules = "rules"
    oracle = "oracle"
    empty = "empty"
    http = "http"
    local = "local"


_WHO, _RUN, _BENCH = "Who plays", "The run", "Only toolbench"


@guarded
def evaluate(
    benchmark: Annotated[Benchmarks, typer.Argument(help="What to play.")],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the benchmark's own files; ./data unless given."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Splits or categories, by commas; all unless given.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many items of each split.")] = None,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Hide the benchmark's tools among the catalog's; takes a minute.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Prove the harness instead: replay gold, spoilt and empty policies.")
    ] = False,
    policy: Annotated[
        Policies | None,
        typer.Option(rich_help_panel=_WHO, help="oracle replays the solution; http needs --model, local none."),
    ] = None,
    model: Annotated[str | None, typer.Option(rich_help_panel=_WHO, help="Model name at the endpoint.")] = None,
    base_url: Annotated[
        str | None, typer.Option(rich_help_panel=_WHO, help="OpenAI-compatible endpoint of the model.")
    ] = None,
    api_key_env: Annotated[
        str, typer.Option(rich_help_panel=_WHO, help="Environment variable that holds the key.")
    ] = "OPENAI_API_KEY",
    model_dir: Annotated[
        str | None, typer.Option(metavar="DIR", rich_help_panel=_WHO, help=policies.MODEL_DIR_HELP)
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(metavar="DIR", rich_help_panel=_WHO, help=policies.ADAPTER_HELP)
    ] = None,
    guide: Annotated[policies.GuideName | None, typer.Option(rich_help_panel=_WHO, help=policies.GUIDE_HELP)] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, max=2.0, rich_help_panel=_WHO, help="Sampling temperature.")
    ] = None,
    paradigm: Annotated[
        str,
        typer.Option(
            rich_help_panel=_WHO,
            help="paraact, no-plans, no-links, no-parallel, plan-execute, native, react-eae, react-ete.",
        ),
    ] = "paraact",
    turns: Annotated[int, typer.Option(min=1, rich_help_panel=_RUN, help="Turns of an episode.")] = 15,
    searches: Annotated[int, typer.Option(min=1, rich_help_panel=_RUN, help="Searches of an episode.")] = 60,
    calls: Annotated[int, typer.Option(min=1, rich_help_panel=_RUN, help="Calls of an episode.")] = 100,
    top_k: Annotated[int, typer.Option(min=1, max=50, rich_help_panel=_RUN, help="Tools shown per search.")] = 5,
    seed: task_options.SeedOption = 0,
    concurrency: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_RUN, help=policies.CONCURRENCY_HELP)
    ] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, rich_help_panel=_RUN, help="Exit with 1 if the success rate is below this."),
    ] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", rich_help_panel=_RUN, help="Run directory, else runs/<name>-<time>."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel=_RUN, help="Replace the run that is in --out.")
    ] = False,
    kind: task_options.KindOption = "all",
    difficulty: task_options.Difficulty = None,
    width: task_options.Width = None,
    depth: task_options.Depth = None,
    distractors: task_options.Distractors = None,
    fault_rate: task_options.FaultRate = None,
    writes: task_options.Writes = None,
    search_only: Annotated[
        bool, typer.Option("--search-only", rich_help_panel=_BENCH, help="Score search alone, without an agent.")
    ] = False,
    backend: Annotated[
        str | None,
        typer.Option(metavar="MODEL", rich_help_panel=_BENCH, help="Let this model play the APIs, not schemas."),
    ] = None,
    backend_url: Annotated[str | None, typer.Option(rich_help_panel=_BENCH, help="Its endpoint.")] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODEL", rich_help_panel=_BENCH, help="Let this model judge how complete answers are."),
    ] = None,
    judge_url: Annotated[str | None, typer.Option(rich_help_panel=_BENCH, help="Its endpoint.")] = None,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Play a benchmark: toolenv, apibank (API-Bank Level-3), toolbench or bfcl (multi-turn).

    The data of the last three is not part of this package; without it the command says where to get it. Every
    paradigm has the same budget, search and policy. A run that was stopped goes on if you name its --out again.
    """
    from paraagent.cli import eval_play
    from paraagent.cli.eval_open import open_benchmark

    out = Output(as_json)
    who = policies.policy_of(policy and policy.value, model, model_dir, adapter, guide)
    config = EvalConfig(
        benchmark=benchmark.value,
        policy=who,
        model=model,
        base_url=base_url,
        model_dir=model_dir,
        adapter=adapter,
        guide=guide and guide.value,
        temperature=temperature,
        paradigm=paradigm,
        split=split,
        limit=limit,
        seed=seed,
        turns=turns,
        searches=searches,
        calls=calls,
        top_k=top_k,
        mixed=mixed,
        kind=kind,
        difficulty=difficulty,
        width=width,
        depth=depth,
        distractors=distractors,
        fault_rate=fault_rate,
        writes=writes,
        backend=backend,
        backend_url=backend_url,
    )
    config.check(search_only=search_only, judged=judge is not None)
    directory = out_dir or eval_play.fresh_directory(benchmark.value)
    with out.text.status(f"reading {benchmark.value}..."):
        opened = open_benchmark(config, data, catalog, directory / "backend")
    found = _search(opened) if benchmark is Benchmarks.toolbench else {}
    if check:
        eval_play.check(opened, config, out)
    elif search_only:
        _show_search(found, out)
        out.finish(found)
    else:
        _show_search(found, out)
        at_once = policies.episodes_at_once(concurrency, who)
        where = eval_play.Where(directory, api_key_env, overwrite, at_once)
        played = eval_play.play(opened, config, where, out)
        eval_play.show(played, out)
        found |= _called(opened, played) if benchmark is Benchmarks.toolbench else {}
        found |= _judged(played, judge, judge_url, api_key_env, out) if judge else {}
        out.finish({**played.to_json(), **found})
        eval_play.insist(played, fail_under, out)


def _search(opened: Opened) -> JsonObject:
    """Return the recall of search alone, over the requests that are wanted and by split."""
    from paraagent.evaluate.benchmarks.toolbench import ToolBench, recall

    assert isinstance(opened.benchmark, ToolBench)
    bench, wanted = opened.benchmark, {item.task.id for item in opened.items}
    requests = [r for item, r in zip(bench.items, bench.requests, strict=True) if item.task.id in wanted]
    splits = dict.fromkeys(request.split for request in requests)
    by_split: JsonObject = {
        split: dict(recall(bench.index, [request for request in requests if request.split == split]))
        for split in splits
    }
    return {"search": {**recall(bench.index, requests), "requests": len(requests), "by_split": by_split}}


def _show_search(found: JsonObject, out: Output) -> None:
    figures = found.get("search")
    if isinstance(figures, dict):
        shown = ", ".join(f"{figures[f'recall_at_{k}']:.3f} at {k}" for k in (1, 5, 10))
        out.text.print(f"recall of search alone over {figures['requests']} requests: {shown}")


def _called(opened: Opened, played: Played) -> JsonObject:
    """Return how many relevant APIs were called with success, and their mean share."""
    from paraagent.evaluate.benchmarks.toolbench import ToolBench

    bench = opened.benchmark
    assert isinstance(bench, ToolBench)
    items = [item for item in opened.items if item.task.id in played.views]
    called = [(bench.called(item, played.views[item.task.id]), len(item.task.slots)) for item in items]
    shares = [done / relevant for done, relevant in called]
    return {"apis_called": sum(done for done, _ in called), "called_share": sum(shares) / max(len(shares), 1)}


def _judged(played: Played, model: str, url: str | None, api_key_env: str, out: Output) -> JsonObject:
    """Let a model judge every episode, and return the rates over all and by split."""
    from paraagent.agent.policies.http import HttpConfig, HttpPolicy
    from paraagent.evaluate.benchmarks.completeness import CompletenessJudge, rates

    async def ask() -> JsonObject:
        async with HttpPolicy(HttpConfig(model, url, api_key_env, temperature=0.0)) as policy:
            await policy.check()
            judge = CompletenessJudge(policy, played.directory / "judge")
            verdicts = await asyncio.gather(*map(judge.judge, played.views.values()))
        groups = [played.group(name) for name in played.views]
        by_split: JsonObject = {
            split: rates(v for v, group in zip(verdicts, groups, strict=True) if group == split)
            for split in dict.fromkeys(groups)
        }
        return {"judge": {**rates(verdicts), "model": model, "by_split": by_split}}

    with out.text.status(f"{model} judges {len(played.views)} episodes..."):
        found = asyncio.run(ask())
    figures = cast(JsonObject, found["judge"])
    out.text.print(
        f"judged {figures['judged']}: solved {figures['solved_rate']:.3f}, pass {figures['pass_rate']:.3f}"
    )
    return found
