"""Comparing two attempts: both orders, masks, the cache, and which samples are compared at all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from paraagent.agent.context import Context
from paraagent.errors import ModelError
from paraagent.evaluate.scaling_run import compared, not_compared, sample_of
from paraagent.evaluate.selecting import Sample
from paraagent.reward.judge_prompt import WORK_CAP
from paraagent.reward.pairs import PairJudge, Preference, pair, read_preference
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Reply
from reward_play import PERFECT, play, say

GOOD = play(PERFECT)
BAD = play([*PERFECT[:2], say("Ada has 3 orders.")])
SORRY = play([*PERFECT[:2], say("Sorry, the weather desk is closed.")])
NONE = play([ModelError("down")])


def case_of(context: Context) -> JsonObject:
    """Return the document in the judge's prompt."""
    found = json.loads(context.messages[1].content.split("\n")[2])
    assert isinstance(found, dict)
    return found


class Fair:
    """Prefers answers with 31 orders, can say nothing about apologies, and takes the first of equals."""

    name = "fair"

    def __init__(self) -> None:
        self.asked = 0

    async def act(self, context: Context) -> Reply:
        self.asked += 1
        found = case_of(context)
        if "Sorry" in json.dumps(found):
            return Reply("Hm.")
        better = "SECOND" if "31 orders" in json.dumps(found["second"]) else "FIRST"
        return Reply(f'<think>{{"better": "FIRST"}}?</think>{{"reason": "r", "better": "{better}"}}')


class Biased:
    name = "biased"

    async def act(self, context: Context) -> Reply:
        return Reply('{"better": "FIRST"}')


def compare(judge: PairJudge, one: EpisodeView, other: EpisodeView) -> float | None:
    return asyncio.run(judge.compare(one, other))


def test_both_orders_are_asked_and_a_liking_for_the_first_evens_out() -> None:
    assert compare(PairJudge(Fair()), GOOD, BAD) == 1
    assert compare(PairJudge(Fair()), BAD, GOOD) == 0
    assert compare(PairJudge(Biased()), GOOD, BAD) == 0.5


def test_without_an_answer_nobody_needs_to_be_asked() -> None:
    model = Fair()
    assert compare(PairJudge(model), GOOD, NONE) == 1
    assert compare(PairJudge(model), NONE, GOOD) == 0
    assert compare(PairJudge(model), NONE, NONE) == 0.5
    assert model.asked == 0


def test_verdicts_are_kept_and_failures_are_not(tmp_path: Path) -> None:
    model = Fair()
    judge = PairJudge(model, tmp_path)
    assert compare(judge, GOOD, SORRY) is None
    assert not list(tmp_path.iterdir())
    asked = model.asked
    assert compare(judge, GOOD, BAD) == compare(judge, GOOD, BAD) == 1
    assert (model.asked, len(list(tmp_path.iterdir()))) == (asked + 2, 2)


def test_only_different_answers_are_compared_and_failures_count_for_neither() -> None:
    views = [GOOD, GOOD, BAD, SORRY, NONE]

    async def run() -> dict[str, list[Sample]]:
        samples = {"t": [await sample_of(view) for view in views]}
        return await compared(
            samples, {f"sample-{n}": {"t": view} for n, view in enumerate(views, 1)}, PairJudge(Fair())
        )

    found = asyncio.run(run())
    assert [one.beats for one in found["t"]] == [
        {2: 1.0, 4: 1.0},
        {2: 1.0, 4: 1.0},
        {0: 0.0, 1: 0.0, 4: 1.0},
        {4: 1.0},
        {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0},
    ]
    assert [one.number for one in found["t"]] == [0, 1, 2, 3, 4]
    assert not_compared(found) == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"reason": "a", "better": "FIRST"}', Preference("FIRST", "a")),
        ('```json\n{"better": "second"}\n```', Preference("SECOND")),
        ('{"better": "FIRST"} {"better": "SECOND"}', None),
        ('{"better": "BOTH"}', None),
        ("the first", None),
    ],
)
def test_verdicts_are_read_strictly(text: str, found: Preference | None) -> None:
    assert read_preference(text) == found


def test_attempts_stand_inside_the_fence_in_their_order() -> None:
    lines = pair(GOOD, BAD)[1].content.split("\n")
    assert (len(lines), lines[1]) == (4, lines[3])
    told = json.loads(lines[2])
    assert list(told) == ["request", "first", "second"]
    assert (told["first"]["answer"], told["second"]["answer"]) == (GOOD.answer, BAD.answer)
    assert len(json.dumps(told["first"]["work"])) < WORK_CAP // 2 + 1_000
