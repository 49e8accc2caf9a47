"""Scores an episode: a pure function of its trace, with the task record in it, and a judgement where one is needed.

Place in the flow: layer 4; the entry point. Everything downstream takes the `Reward`.
"""

from __future__ import annotations

from collections.abc import Sequence

from paraagent.reward.asking import Unjudged
from paraagent.reward.judge import Judgement
from paraagent.reward.needs import needs, task_of
from paraagent.reward.phase import phase_level, reward_phases
from paraagent.reward.record import Levels, Reward, TurnReward
from paraagent.reward.replay import replay
from paraagent.reward.rules import DEFAULT, Rules
from paraagent.reward.step import reward_turn
from paraagent.reward.trajectory import outcome, reward_trajectory
from paraagent.trace.view import EpisodeView


def score(view: EpisodeView, rules: Rules = DEFAULT, judged: Judgement | Unjudged | None = None) -> Reward:
    """Return what an episode earned.

    Args:
        view: one episode, finished or not.
        judged: a judge's verdict, for an episode that no verifier judged; see `judge.Judge`.

    Raises:
        TraceError: the trace holds a task record that cannot be read.
    """
    task = task_of(view)
    needed = needs(task)
    turns = replay(view, rules)
    steps = tuple(reward_turn(played, rules) for played in turns)
    phases = reward_phases(turns, needed, rules)
    ended = outcome(view, turns, rules, judged)
    trajectory = reward_trajectory(view, task, turns, needed, rules, ended)
    phase = phase_level(phases, needed, rules)
    if phase is not None and rules.published:  # paid only as far as the task was done
        phase *= min(1.0, max(0.0, (ended.value or 0.0) / rules.solved))
    levels = Levels(trajectory.reward, phase, _mean(steps))
    return Reward(
        rules=rules,
        turns=steps,
        phases=phases,
        trajectory=trajectory,
        levels=levels,
        total=_total(levels, rules),
        masked=ended.value is None,
        failure_kind=ended.failure_kind,
    )


def _mean(steps: Sequence[TurnReward]) -> float:
    return sum(step.reward for step in steps) / len(steps) if steps else 0.0


def _total(levels: Levels, rules: Rules) -> float | None:
    """Return the levels in one number; as published, clipped to [-1, 3] and 1 lower."""
    if levels.trajectory is None:
        return None
    total = levels.trajectory + rules.phase_weight * (levels.phase or 0.0) + rules.step_weight * levels.step
    return min(3.0, max(-1.0, total - 1.0)) if rules.published else total
