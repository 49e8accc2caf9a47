"""Plays training episodes with the model as it is now: all episodes of a batch advance together.

Place in the flow: layer 6; `rl` calls `roll_out` once per step. Episodes run in the real loop over simulated tools;
their time is virtual, so waiting costs nothing. A sample keeps the exact tokens that were read and written, the
trace, and what the episode earned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from paraagent.agent.policies.local import LocalPolicy, Transcript
from paraagent.env.task import Task
from paraagent.evaluate.arena import Arena
from paraagent.reward.credit import Rollout, as_rollout
from paraagent.reward.record import Reward
from paraagent.reward.rules import Rules
from paraagent.reward.score import score
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView


@dataclass(frozen=True, slots=True)
class Sample:
    """One episode to learn from."""

    task: Task
    transcript: Transcript
    view: EpisodeView
    reward: Reward

    @property
    def success(self) -> bool:
        return bool(self.view.success)

    def rollout(self) -> Rollout:
        """Return it as credit assignment takes it: the completion's tokens, the turns' places in it."""
        transcript = self.transcript
        return as_rollout(self.reward, self.task.id, transcript.spans, len(transcript.completion_ids))


def roll_out(arena: Arena, policy: LocalPolicy, tasks: Sequence[Task], rules: Rules, *, seed: str) -> list[Sample]:
    """Play one episode per task, in order; the same task more than once gives different episodes.

    The same weights, tasks and seed give the same episodes.
    """

    async def play_all() -> list[Sample]:
        return await asyncio.gather(
            *(play(arena, policy, task, rules, f"{seed} {n}") for n, task in enumerate(tasks))
        )

    return asyncio.run(play_all())


async def play(arena: Arena, policy: LocalPolicy, task: Task, rules: Rules, seed: str) -> Sample:
    """Play and score one episode."""
    own, recorder = policy.episode(seed), Recorder()
    try:
        await arena.play(task, own, recorder, run="train")
    finally:
        own.close()
    view = EpisodeView(recorder.events)
    return Sample(task, own.transcript, view, score(view, rules))
