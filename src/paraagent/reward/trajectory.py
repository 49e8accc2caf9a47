"""The trajectory level: was the task done, were its tools found and called, what did the way there cost.

Place in the flow: layer 4.

    reward = outcome + 0.4 * gold calls done + 0.1 * needed tools surfaced - 0.25 * (protocol + repeats + order)

`outcome` is the verifier's verdict, or a judge's where a task has no verifier. An episode that broke for reasons
outside the agent, that never ended, or that nobody judged has no outcome: it is masked, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paraagent.env.task import Task
from paraagent.env.verify import matched
from paraagent.reward.asking import Unjudged
from paraagent.reward.judge import Judgement
from paraagent.reward.needs import Needs
from paraagent.reward.penalties import penalties
from paraagent.reward.record import Term, TrajectoryReward
from paraagent.reward.replay import Played
from paraagent.reward.rules import Rules
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Result, ToolError


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the episode ended: a value, or why there is none."""

    value: float | None
    reason: str
    failure_kind: str | None = None
    solved: bool = False


def outcome(
    view: EpisodeView, turns: Sequence[Played], rules: Rules, judged: Judgement | Unjudged | None = None
) -> Outcome:
    """Return the outcome of an episode: masked if it is broken, else by verifier, else by judge."""
    end = view.end
    if end is None:
        return Outcome(None, "the episode has no end", "unfinished")
    if end.mask_sample:
        return Outcome(None, "broken for reasons outside the agent", end.failure_kind or "masked")
    if end.success is not None:
        failed = [f"{name}: {found}" for name, found in end.checks.items() if found is not True]
        reason = "verified" if end.success else "not verified: " + ("; ".join(failed[:3]) or "no check says why")
        return Outcome(rules.solved if end.success else rules.failed, reason, solved=end.success)
    if not (end.answer or "").strip():
        return Outcome(rules.failed, "no answer")
    if rules.published and not any(call.ok for played in turns for call in played.calls):
        return Outcome(rules.failed, "no tool gave a result")
    if not isinstance(judged, Judgement):
        unjudged = judged or Unjudged("not_judged", "the task has no verifier, and no judge was asked")
        return Outcome(None, unjudged.reason, unjudged.failure_kind)
    value = judged.published_value() if rules.published else judged.value()
    return Outcome(value, judged.describe(), solved=judged.clean)


def reward_trajectory(
    view: EpisodeView, task: Task | None, turns: Sequence[Played], needs: Needs, rules: Rules, ended: Outcome
) -> TrajectoryReward:
    """Return what the episode as a whole earned."""
    terms = (
        Term("outcome", ended.value or 0.0, 1.0, ended.reason),
        _calls_done(view, task, turns, needs, rules, ended),
        _surfaced(turns, needs, rules, ended),
        *penalties(turns, needs, rules, view.request, solved=ended.solved),
    )
    return TrajectoryReward(None if ended.value is None else sum(term.points for term in terms), terms)


def _calls_done(
    view: EpisodeView, task: Task | None, turns: Sequence[Played], needs: Needs, rules: Rules, ended: Outcome
) -> Term:
    if task is None:
        return Term("calls_done", 0.0, rules.calls_done, "no task record: not scored")
    if not task.calls:
        return _vacuous("calls_done", rules.calls_done, rules, ended)
    if rules.published:
        called = {i for played in turns for call in played.calls if call.ok for i in needs.serving(call.call.name)}
        done, total, what = len(called), len(needs.classes), "needed tools called with success"
    else:
        done, total, what = len(_matched(view, task, turns)), len(task.calls), "gold calls done"
    return Term("calls_done", done / total, rules.calls_done, f"{done} of {total} {what}")


def _matched(view: EpisodeView, task: Task, turns: Sequence[Played]) -> list[str]:
    """Return the gold calls that were done: as the verifier found, or without one by our own matching."""
    checks = view.end.checks if view.end else {}
    if checks:
        return [call.id for call in task.calls if checks.get(f"call {call.id}") is True]
    return list(matched(task, list(_results(turns)), lambda name: None))


def _results(turns: Sequence[Played]) -> list[Result]:
    results = []
    for call in (call for played in turns for call in played.calls if call.view and call.view.end):
        assert call.view is not None
        end = call.view.end
        assert end is not None
        error = ToolError(end.error, end.message or "") if end.error else None
        results.append(Result(Call(end.name, end.arguments), end.arguments, end.value, error))
    return results


def _surfaced(turns: Sequence[Played], needs: Needs, rules: Rules, ended: Outcome) -> Term:
    if not needs.known:
        return Term("tools_surfaced", 0.0, rules.tools_surfaced, "no task record: not scored")
    if not needs.classes:
        return _vacuous("tools_surfaced", rules.tools_surfaced, rules, ended)
    shown = {
        i for played in turns for search in played.searches for tool in search.shown for i in needs.serving(tool)
    }
    total = len(needs.classes)
    return Term(
        "tools_surfaced", len(shown) / total, rules.tools_surfaced, f"{len(shown)} of {total} needed tools shown"
    )


def _vacuous(name: str, weight: float, rules: Rules, ended: Outcome) -> Term:
    """Return a share of nothing: by default whole exactly if the task was solved, so that it never pays by itself."""
    value = float(ended.solved and not rules.published)
    return Term(name, value, weight, "none needed: counts as the outcome" if not rules.published else "none needed")
