"""`paraagent reward ...`: what an episode earned and why, and whether a run's rewards say what they should."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.errors import UsageError
from paraagent.reward.rules import RulesName

if TYPE_CHECKING:
    from paraagent.reward.asking import Unjudged
    from paraagent.reward.audit import Audit
    from paraagent.reward.judge import Judgement
    from paraagent.reward.record import PhaseReward, Reward, Term
    from paraagent.trace.view import EpisodeView


class _ShowByDefault(TyperGroup):
    """Lets `reward TRACE` mean `reward show TRACE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # typer brings its own click's Context
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ShowByDefault,
    no_args_is_help=True,
    help="Say what an episode earned and why. `reward TRACE` is short for `reward show TRACE`.",
)

RulesOption = Annotated[
    RulesName, typer.Option("--rules", help="The published formulas, or ours with their loopholes closed.")
]


@app.command()
@guarded
def show(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    rules: RulesOption = "default",
    judge: Annotated[
        str | None, typer.Option("--judge", metavar="MODEL", help="Ask this model about an episode without verdict.")
    ] = None,
    judge_url: Annotated[
        str | None, typer.Option("--judge-url", metavar="URL", help="The judge's OpenAI-compatible endpoint.")
    ] = None,
    judge_cache: Annotated[
        Path | None, typer.Option("--judge-cache", metavar="DIR", help="Keep judgements here and reuse them.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print every term of an episode's reward with its reason: per turn, per phase, for the whole."""
    from paraagent.reward.rules import rules as preset
    from paraagent.reward.score import score
    from paraagent.trace.reader import load

    out = Output(as_json)
    view = load(trace)
    judged = None
    if judge is not None and view.success is None and view.end is not None and not view.end.mask_sample:
        judged = asyncio.run(_judge(view, judge, judge_url, judge_cache))
    reward = score(view, preset(rules), judged)
    for title, rows in _sections(reward):
        out.text.print(_terms(title, rows))
        out.text.print()
    out.text.print(_total(reward))
    out.finish(reward.to_json())


@app.command()
@guarded
def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A run directory with traces/*.jsonl.")],
    rules: RulesOption = "default",
    as_json: JsonFlag = False,
) -> None:
    """Check a run's rewards before training on them: which terms vary, agree with success, or pay without it."""
    from paraagent.reward.audit import Episode
    from paraagent.reward.audit import audit as examine
    from paraagent.reward.rules import rules as preset
    from paraagent.reward.score import score
    from paraagent.trace.reader import load

    out = Output(as_json)
    paths = sorted(run.glob("traces/*.jsonl"))
    if not paths:
        raise UsageError(f"{run} holds no traces/*.jsonl: name the directory of a run")
    views = [load(path) for path in paths]
    episodes = [Episode.of(v, score(v, preset(rules)), bool(v.success)) for v in views]
    found = examine(episodes)
    same = "of the same task" if found.grouping == "task" else "of the same kind of task (no task has two)"
    out.text.print(f"{found.episodes} episodes: {found.solved} solved, {found.masked} more masked")
    out.text.print(f"{found.groups} groups: episodes {same}")
    out.text.print(_term_audit(found))
    out.text.print(_level_audit(found))
    out.finish(found.to_json())


async def _judge(view: EpisodeView, model: str, url: str | None, cache: Path | None) -> Judgement | Unjudged:
    from paraagent.agent.policies.http import HttpConfig, HttpPolicy
    from paraagent.reward.judge import Judge

    async with HttpPolicy(HttpConfig(model, url, temperature=0.0, max_tokens=1024)) as policy:
        return await Judge(policy, cache).judge(view)


_Row = tuple[str, str, float | None, "tuple[Term, ...]"]
"""What it is about, its kind, its reward and its terms."""


def _sections(reward: Reward) -> Iterator[tuple[str, list[_Row]]]:
    levels = reward.levels
    yield (
        f"steps (mean {levels.step:.3f})",
        [(f"turn {turn.turn}", turn.kind, turn.reward, turn.terms) for turn in reward.turns],
    )
    yield (
        f"phases (level {_number(levels.phase)})",
        [row for phase in reward.phases if phase.kind != "answer" for row in _phase_rows(phase)],
    )
    terms = reward.trajectory.terms
    yield "trajectory", [("whole", "", reward.trajectory.reward, terms)]


def _phase_rows(phase: PhaseReward) -> Iterable[_Row]:
    name = f"phase {phase.number}"
    yield name, phase.kind, phase.reward, phase.terms
    for window in phase.windows:
        yield "  window", f"turns {_turns(window.turns)}, work {window.work:g}", window.reward, window.terms


def _terms(title: str, rows: Iterable[_Row]) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("of", no_wrap=True)
    table.add_column("reward", justify="right", no_wrap=True)
    table.add_column("term", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=1)
    for name, kind, reward, terms in rows:
        first = [name, _number(reward)]
        lead = [("", None, None, kind)] if kind else []
        for term, value, weight, why in [*lead, *((t.name, t.value, t.weight, t.reason) for t in terms)]:
            table.add_row(*first, term, _number(value, ""), _number(weight, ""), Text(_safe(why)))
            first = ["", ""]
    return table


def _total(reward: Reward) -> Text:
    if reward.masked:
        return Text(f"masked: {_safe(reward.failure_kind or '')}: not to be learned from", "yellow")
    return Text(f"total {_number(reward.total)} by the {reward.rules.name} rules", "bold")


def _term_audit(found: Audit) -> Table:
    table = Table(title="terms", title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("level")
    table.add_column("term")
    for name in ("weight", "variance", "solved", "failed"):
        table.add_column(name, justify="right")
    table.add_column("")
    for term in found.terms:
        flag = Text("pays without success", "yellow") if term.pays_without_success else Text("")
        points = (term.weight, term.variance, term.solved, term.failed)
        table.add_row(term.level, term.name, *map(_number, points), flag)
    return table


def _level_audit(found: Audit) -> Table:
    table = Table(title="levels", title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("level", "sign agrees with success", "of", "sets", "of one", "constant"):
        table.add_column(name, justify="left" if name == "level" else "right")
    for level in found.levels:
        agreement = "-" if level.agreement is None else f"{level.agreement:.0%}"
        counts = (str(level.judged), str(level.sets), f"{level.singletons:.0%}", f"{level.constant:.0%}")
        table.add_row(level.level, agreement, *counts)
    return table


def _turns(turns: tuple[int, ...]) -> str:
    return str(turns[0]) if len(turns) == 1 else f"{turns[0]}-{turns[-1]}"


def _number(value: float | None, missing: str = "-") -> str:
    return missing if value is None else f"{value:.3f}"


def _safe(text: str) -> str:
    from paraagent.trace.plain import one_line

    return one_line(text, 300)
