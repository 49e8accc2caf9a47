"""A local model that reads the history it is given writes what it would have, and reads what it did not write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import tiny_model
from paraagent.agent.context import Context, Exchange
from paraagent.agent.engine.chat import Chat
from paraagent.agent.engine.sampling import Sampling
from paraagent.agent.engine.streams import Stream, Written
from paraagent.agent.policies.critic import Objection
from paraagent.agent.policies.local import LocalPolicy, _Episode
from paraagent.agent.policies.model import Guidance, LocalConfig, LocalModel
from paraagent.evaluate.baselines.react import ReactPolicy
from paraagent.protocol import compact
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Found, Hit, Message, Policy, Reply, Search, Tool

pytestmark = [pytest.mark.filterwarnings(warning) for warning in tiny_model.WARNINGS]
START = (Message("system", "rules"), Message("user", "Do it."))
TAGS = LocalConfig(dialect="tags", max_tokens=8)


def local(config: LocalConfig = TAGS) -> LocalModel:
    return LocalModel.over(tiny_model.model(), tiny_model.tokenizer(), config)


class Script:
    """Writes given texts where a model would, and keeps what it was given to read."""

    def __init__(self, *texts: str) -> None:
        self.chat = Chat(tiny_model.tokenizer())
        self.texts = iter(texts)
        self.read: list[str] = []
        self.samplings: list[Sampling] = []

    async def write(self, stream: Stream, sampling: Sampling, random: Random) -> Written:
        self.read.append(self.chat._tokenizer.decode(stream.tokens))
        self.samplings.append(sampling)
        tokens = tuple(self.chat.turn(next(self.texts)))
        stream.tokens += tokens
        return Written(tokens, (0.0,) * len(tokens), True)

    def close(self, stream: Stream) -> None:
        pass

    def policy(self, config: LocalConfig = TAGS) -> LocalPolicy:
        return LocalPolicy(LocalModel(self, self.chat, config))


def begun(messages: Sequence[Message] = START, turns_left: int = 9) -> Context:
    return Context("Do it.", list(messages), turns_left=turns_left)


def go_on(policy: Policy, context: Context, turns: int) -> list[str]:
    """Act, append what the loop would, act again."""

    async def play() -> list[str]:
        said = []
        for number in range(turns):
            said.append((await policy.act(context)).text)
            context.messages += [Message("assistant", said[-1]), Message("user", f"seen {number}")]
            context.exchanges.append(Exchange(parse(said[-1])))
        return said

    return asyncio.run(play())


@pytest.mark.parametrize("dialect", ["tags", "compact"])
def test_it_writes_what_an_episode_that_never_looks_back_writes(dialect: str) -> None:
    config = LocalConfig(dialect=dialect, guide="off", max_tokens=8, temperature=1.0)  # type: ignore[arg-type]
    assert go_on(LocalPolicy(local(config)), begun(), 4) == go_on(local(config).episode("0 Do it."), begun(), 4)


def test_a_history_that_only_grows_is_computed_once() -> None:
    policy = local()

    async def play() -> None:
        own, context = LocalPolicy(policy), begun()
        for _ in range(5):
            reply = await own.act(context)
            context.messages += [Message("assistant", reply.text), Message("user", "go on")]
            context.exchanges.append(Exchange(parse(reply.text)))
        assert reply.usage.cached_tokens > 0
        assert policy.engine.stats.read < reply.usage.input_tokens  # type: ignore[attr-defined]

    asyncio.run(play())


@pytest.mark.parametrize("dialect", ["tags", "compact"])
def test_another_process_reads_what_this_one_would(dialect: str) -> None:
    config = LocalConfig(dialect=dialect)  # type: ignore[arg-type]
    lines = ["# a\nfind\nx", "run\nc = x(n=1)", "say\nDone."]
    if dialect == "tags":
        lines = [compact.expand(line) for line in lines]
    script, again = Script(*lines), Script(lines[2])
    go_on(script.policy(config), context := begun(), 3)
    stopped = replace(context, messages=context.messages[:6], exchanges=context.exchanges[:2])
    go_on(again.policy(config), stopped, 1)
    assert again.read == script.read[2:]


def test_it_reads_turns_it_never_wrote_in_its_own_dialect() -> None:
    search = render_turn("look", plan=SearchPlan(("x",)), searches=[Search("x", "x")])
    past = [*START, Message("assistant", search), Message("user", "<tools>\nx: nothing fits\n</tools>")]
    past += [Message("assistant", "mumble"), Message("user", "What?")]
    script = Script("say\nNo.")
    go_on(script.policy(LocalConfig()), begun(past), 1)
    assert script.read == [
        f"<|im_start|>system\n{compact.SYSTEM}<|im_end|>\n<|im_start|>user\nDo it.<|im_end|>\n"
        "<|im_start|>assistant\n# look\nfind\nx<|im_end|>\n<|im_start|>user\nx: nothing fits<|im_end|>\n"
        "<|im_start|>assistant\nmumble<|im_end|>\n<|im_start|>user\nWhat?<|im_end|>\n<|im_start|>assistant\n"
    ]


def test_a_baseline_may_rewrite_every_turn() -> None:
    step = 'Thought: t\nAction: search_tools\nAction Input: {"query": "x"}'
    script = Script(f"{step}\nObservation: made up", step, step)
    model = script.policy()
    go_on(ReactPolicy(model, retrieved=False), begun(), 3)
    assert len(model._episodes) == 1
    assert script.read[2].count(f"<|im_start|>assistant\n{step}<|im_end|>") == 2
    assert "made up" not in script.read[2]


def test_seeds_sample_differently_and_each_repeats() -> None:
    policy = LocalPolicy(local(replace(TAGS, temperature=1.0)))
    said = {seed: go_on(policy.sampled(seed), begun(), 2) for seed in (1, 2)}
    assert said[1] != said[2]
    assert go_on(policy.sampled(2), begun(), 2) == said[2]


def test_a_reply_keeps_to_its_budget() -> None:
    context = begun()
    context.reply_tokens = 2
    reply = asyncio.run(LocalPolicy(local()).act(context))
    assert reply.usage.output_tokens <= 2


def test_memory_is_given_back() -> None:
    policy = LocalPolicy(local(replace(TAGS, slots=2)))
    engine = policy._local.engine
    for _ in range(5):
        go_on(policy, begun(), 1)
    assert len(policy._episodes) <= 2
    go_on(policy, begun(turns_left=1), 1)
    assert len(policy._episodes) <= 2
    assert len(engine.seats.held) <= 2  # type: ignore[attr-defined]


FOUND = Found(
    Search("order", "order"),
    (Hit(Tool("get_order", "", {"properties": {"id": {}, "by": {}}, "required": ["id"]}, {}, "read"), 1.0, ""),),
    1,
    False,
)
INVENTED = 'run\nc1 = get_order(id="A7", by="guest")'
WORSE = 'run\nc1 = get_order(id="B8", by="guest")'
RIGHT = 'run\nc1 = get_order(id="A7")'


def reconsidered(*texts: str, guide: Guidance = "checked", reply_tokens: int | None = None) -> tuple[Script, Reply]:
    """Return what was written, and what was said of it, for a request where one tool was shown."""
    script = Script(*texts)
    request = "Get order A7."
    messages = [Message("system", "rules"), Message("user", request)]
    context = Context(request, messages, turns_left=5, reply_tokens=reply_tokens)
    context.exchanges.append(Exchange(compact.parse("find\norder"), (FOUND,)))
    policy = script.policy(LocalConfig(guide=guide))
    return script, asyncio.run(policy.act(context))


def test_a_turn_with_nothing_against_it_is_written_once() -> None:
    script, reply = reconsidered(RIGHT)
    assert reply.text == compact.expand(RIGHT)
    assert len(script.read) == 1


def test_a_turn_that_invents_is_written_again_from_the_same_prompt() -> None:
    script, reply = reconsidered(INVENTED, RIGHT)
    assert reply.text == compact.expand(RIGHT)
    assert script.read[0] == script.read[1]
    assert reply.usage.output_tokens == sum(len(script.chat.turn(text)) for text in (INVENTED, RIGHT))


def test_second_thoughts_end_and_the_first_best_turn_is_taken() -> None:
    script, reply = reconsidered(INVENTED, WORSE, INVENTED, WORSE, INVENTED, RIGHT)
    assert reply.text == compact.expand(INVENTED)
    assert [*script.texts] == [RIGHT]


def test_an_answer_is_no_way_out_of_an_objection() -> None:
    assert reconsidered(INVENTED, "say\nDone.", RIGHT)[1].text == compact.expand(RIGHT)
    assert reconsidered(INVENTED, "find\norder", "say\nDone.")[1].text == compact.expand(INVENTED)


def test_a_turn_is_written_again_more_strictly_every_time() -> None:
    script, _ = reconsidered(INVENTED, INVENTED, INVENTED, RIGHT)
    first, quoted, less = (sampling.grammar for sampling in script.samplings)
    assert "Get order A7." not in first
    assert "Get order A7." in quoted
    assert '"by="' in quoted
    assert '"by="' not in less
    assert [*script.texts] == [RIGHT]  # there was nothing else to try


def test_a_value_that_is_left_out_is_no_reason_to_change_something() -> None:
    refund = Tool("refund", "", {"properties": {"id": {}, "reason": {}}}, {}, "update")
    found = Found(Search("refund", "refund"), (Hit(refund, 1.0, ""),), 1, False)
    request = 'Get order A7, then refund its payment P5 with the reason "late".'
    hasty = 'run\nc1 = refund(id="A7", reason="late")\nc2 = get_order(id="P5")'

    def answer(*texts: str) -> str:
        context = Context(request, [Message("system", "rules"), Message("user", request)], turns_left=5)
        context.exchanges.append(Exchange(compact.parse("find\norder\nrefund"), (FOUND, found)))
        return asyncio.run(Script(*texts).policy(LocalConfig()).act(context)).text

    assert answer(RIGHT, hasty) == compact.expand(RIGHT)
    wrong = 'run\nc1 = refund(id="A7", by="guest")'
    assert answer(wrong, hasty) == compact.expand(hasty)


def test_drafts_together_keep_to_the_budget() -> None:
    size = len(Chat(tiny_model.tokenizer()).turn(INVENTED))
    script, reply = reconsidered(INVENTED, INVENTED, RIGHT, reply_tokens=2 * size)
    assert [sampling.max_tokens for sampling in script.samplings] == [2 * size, size]
    assert reply.usage.output_tokens == 2 * size


def test_a_second_draft_is_what_a_fresh_model_would_write(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context("Get A7.", [Message("system", "r"), Message("user", "Get A7.")], turns_left=5)
    context.exchanges.append(Exchange(compact.parse("find\norder"), (FOUND,)))
    context.messages += [Message("assistant", "find\norder"), Message("user", "order: get_order(id, by?)")]
    again, asked = frozenset({("get_order", None)}), []

    def objected(turn: Turn, _: Context) -> list[Objection]:
        asked.append(turn)
        return [Objection("done", f"{len(asked)}", "get_order")] if len(asked) < 3 else []

    monkeypatch.setattr("paraagent.agent.policies.local.objections", objected)
    own = local(LocalConfig(max_tokens=12))
    written = []
    write = own.engine.write

    async def noted(*arguments: Any) -> Written:
        written.append(await write(*arguments))
        return written[-1]

    monkeypatch.setattr(own.engine, "write", noted)
    asyncio.run(LocalPolicy(own).act(context))
    fresh = local(LocalConfig(max_tokens=12))
    stream = Stream(LocalPolicy(fresh)._read(_Episode(Stream()), context.messages)[1])
    expected = asyncio.run(fresh.engine.write(stream, fresh.sampling_for(context, again), Random(0)))
    assert written[1].tokens == expected.tokens
    assert written[1].logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert written[0].logprobs != written[1].logprobs  # another grammar


def test_only_a_checked_policy_has_second_thoughts_and_a_budget_ends_them() -> None:
    assert reconsidered(INVENTED, guide="calls")[1].text == compact.expand(INVENTED)
    assert reconsidered(INVENTED, guide="off")[1].text == compact.expand(INVENTED)
    assert reconsidered(INVENTED, reply_tokens=5)[1].text == compact.expand(INVENTED)


def test_the_next_turn_follows_the_turn_that_was_taken() -> None:
    script = Script(INVENTED, RIGHT, "say\nDone.")
    context = Context("Get order A7.", [Message("system", "r"), Message("user", "Get order A7.")], turns_left=5)
    context.exchanges.append(Exchange(compact.parse("find\norder"), (FOUND,)))
    policy = script.policy(LocalConfig())
    said = asyncio.run(policy.act(context)).text
    context.messages += [Message("assistant", said), Message("user", "seen")]
    asyncio.run(policy.act(context))
    assert 'id="A7")' in script.read[-1]
    assert "guest" not in script.read[-1]
