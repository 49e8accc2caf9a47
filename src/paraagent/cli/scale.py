"""`paraagent scale`: what more turns, more tokens and more samples bring at test time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from paraagent.cli import policies
from paraagent.cli import tasks as task_options
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.config import is_general, local_config, refuse_tokens, weights_of
from paraagent.cli.output import EXIT_INTERRUPTED, JsonFlag, Output, guarded
from paraagent.cli.report import AllowIncomplete, write
from paraagent.cli.scale_play import Judged, Stage
from paraagent.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from paraagent.agent.policies.model import LocalConfig
    from paraagent.evaluate.report_document import Document
    from paraagent.evaluate.scaling import Scaling
    from paraagent.evaluate.scaling_run import Experiment, ScaleConfig

RESULT = "scale.json"
_SELF = "self"
_TEMPERATURE = 0.7
"""At which models are sampled unless told: at 0 all samples would be alike."""


class Policies(StrEnum):
    rules = "rules"
    oracle = "oracle"
    http = "http"
    local = "local"


@guarded
def scale(
    policy: Annotated[Policies | None, typer.Option(help="Who plays; http needs --model, local none.")] = None,
    model: Annotated[str | None, typer.Option(help="Model name at the endpoint.")] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the model.")] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "OPENAI_API_KEY",
    model_dir: policies.ModelDir = None,
    adapter: policies.Adapter = None,
    guide: policies.Guide = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, max=2.0, help=f"Sampling temperature; {_TEMPERATURE} for a model.")
    ] = None,
    slips: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Let turns go wrong at this rate, so that built-in policies vary.")
    ] = 0.0,
    samples: Annotated[int, typer.Option(min=1, max=64, help="Parallel: how often each task is played.")] = 4,
    turns: Annotated[str, typer.Option(metavar="N,N,...", help="Sequential: budgets of turns.")] = "2,3,4,6,10,15",
    tokens: Annotated[str, typer.Option(metavar="N,N,...", help="Sequential: budgets of tokens.")] = "",
    rounds: Annotated[
        str, typer.Option(metavar="N,N,...", help="Sequential: how often an answer is sent back to be checked.")
    ] = "",
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Choose by this model's judgement, too; `self` for the playing one."),
    ] = None,
    judge_url: Annotated[str | None, typer.Option(help="The judge's endpoint; --base-url unless given.")] = None,
    pairs: Annotated[
        bool, typer.Option(help="Let the judge also compare the samples of a task two by two, in both orders.")
    ] = True,
    split: task_options.SplitOption = task_options.SplitName.validation,
    kind: task_options.KindOption = "all",
    limit: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 42,
    seed: task_options.SeedOption = 0,
    difficulty: task_options.Difficulty = None,
    top_k: Annotated[int, typer.Option(min=1, max=50, help="Tools shown per search.")] = 5,
    concurrency: policies.Concurrency = None,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where it is kept.")] = Path("runs/scale"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Play all of it anew.")] = False,
    allow_incomplete: AllowIncomplete = False,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Play the same tasks at growing budgets and several times over, and show what that brings.

    Sequential: more turns, tokens or rounds of checking for one sample. Parallel: of K samples one is chosen by
    majority, by how well its answer is borne out (verifier), by a judge (one by one, and in pairs), or by the truth
    (oracle), against a random one. Writes curves, plateau and verification gap as HTML, Markdown and JSON; every
    budget and sample is a run that `paraagent report` reads.
    An experiment that was stopped goes on if you name its --out again.
    """
    from paraagent.evaluate.scaling_run import Experiment, ScaleConfig

    out = Output(as_json)
    who = policies.policy_of(policy and policy.value, model, model_dir, adapter, guide)
    if tokens:
        refuse_tokens(who, "--tokens")
    base = ScaleConfig(
        policy=who,
        model=model,
        base_url=base_url,
        model_dir=model_dir,
        adapter=adapter,
        guide=guide and guide.value,
        temperature=_TEMPERATURE if temperature is None and who in ("http", "local") else temperature,
        slips=slips,
        split=split.value,
        kind=kind,
        limit=limit,
        seed=seed,
        difficulty=difficulty,
        top_k=top_k,
    )
    base = replace(base, weights=weights_of(base))
    grown = _sizes("--turns", turns), _sizes("--tokens", tokens), _sizes("--rounds", rounds)
    experiment = Experiment(base, samples, *grown)
    at_once = policies.episodes_at_once(concurrency, who)
    if judge == _SELF and judge_url:
        raise UsageError("--judge self asks the model that plays, where it is: leave out --judge-url")
    judge_model = _itself(base, at_once) if judge == _SELF else judge
    judged_by = Judged(judge_model, judge_url or base_url, api_key_env, out_dir / "judged", pairs)
    stage = Stage(experiment, out_dir, judged_by, api_key_env, at_once, overwrite, allow_incomplete)
    try:
        scaling = asyncio.run(stage.run(catalog, out))
    except KeyboardInterrupt:
        out.text.print(f"\ninterrupted: what was played is kept in {out_dir}; run again to go on", markup=False)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _finish(scaling, experiment, out_dir, out)


def _itself(base: ScaleConfig, at_once: int) -> str | LocalConfig:
    """Return the playing model as a judge."""
    if not is_general(base):
        raise UsageError(
            "--judge self needs a general model, named by --model or --model-dir: a built-in policy cannot judge, "
            "nor one that was trained to act"
        )
    return base.model or local_config(base, at_once)


def load(path: Path) -> Document:
    """Read an experiment's result back and compose its report.

    Raises:
        EnvironmentFault: the result cannot be read.
    """
    from paraagent.evaluate.report_scaling import document
    from paraagent.evaluate.scaling import Scaling

    try:
        found = msgspec.json.decode((path / RESULT).read_bytes(), type=dict[str, msgspec.Raw])
        scaling = msgspec.json.decode(found["scaling"], type=Scaling)
    except (OSError, msgspec.DecodeError, KeyError) as error:
        raise EnvironmentFault(f"{path / RESULT} cannot be read ({error}): run `paraagent scale` again") from error
    return document(scaling, f"Test-time scaling: {path.name}")


def _finish(scaling: Scaling, experiment: Experiment, path: Path, out: Output) -> None:
    """Write the result and its report, and print it."""
    from paraagent.evaluate.report_scaling import said

    record = {"config": experiment.base.to_json(), "samples": experiment.samples, "scaling": scaling}
    try:
        (path / RESULT).write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    except OSError as error:
        raise EnvironmentFault(f"{path / RESULT}: cannot write the result ({error.strerror})") from error
    written = write(load(path), path / "report")
    for line in said(scaling):
        out.text.print(line, markup=False)
    for one in written:
        out.text.print(f"wrote {one}", markup=False, soft_wrap=True)
    found = msgspec.to_builtins(scaling)
    out.finish({"config": experiment.base.to_json(), **found, "written": [str(one) for one in written]})


def _sizes(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers by commas, as 2,4,8, not {text!r}") from None
