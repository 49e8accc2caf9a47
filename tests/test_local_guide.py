"""A guided turn stays within its grammar, whoever shares the batch, and what has no alternative costs no step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

import tiny_model

pytest.importorskip("llguidance")

import numpy as np

from paraagent.agent.context import Context, Exchange
from paraagent.agent.engine.chat import Chat
from paraagent.agent.engine.engine import Engine
from paraagent.agent.engine.guide import Guides
from paraagent.agent.engine.sampling import Sampling
from paraagent.agent.engine.streams import Stream, Written
from paraagent.agent.policies.critic import ANSWER
from paraagent.agent.policies.guided import next_turn
from paraagent.agent.policies.local import LocalPolicy
from paraagent.agent.policies.model import Dialect, Guidance, LocalConfig, LocalModel
from paraagent.errors import UsageError
from paraagent.protocol.grammar import parse
from paraagent.types import Call, Found, Hit, JsonValue, Message, Result, Search, Tool, ToolError

pytestmark = [pytest.mark.filterwarnings(warning) for warning in tiny_model.WARNINGS]
WORDS = 'start: "a" ("b" | "c") "def" /[0-9]/ "."'
PROMPT = [5, 9, 17, 30]


def engine(**limits: int) -> Engine:
    return Engine(tiny_model.model(), tiny_model.tokenizer(), [2], slots=4, **limits)  # type: ignore[arg-type]


def text(written: Written) -> str:
    return Chat(tiny_model.tokenizer()).text(written.tokens)


def write(own: Engine, sampling: Sampling, seed: str = "s") -> Written:
    return asyncio.run(own.write(Stream([*PROMPT]), sampling, Random(seed)))


def test_every_turn_is_one_that_the_grammar_has() -> None:
    said = set()
    for seed in range(24):
        turn = write(engine(), Sampling(temperature=1.0, grammar=WORDS), f"{seed}")
        said.add(text(turn))
        assert turn.ended
        assert len(turn.tokens) == len(turn.logprobs)
    assert all(one[0] == "a" and one[1] in "bc" and one[2:5] == "def" and one[5].isdigit() for one in said)
    assert {one[1] for one in said} == {"b", "c"}
    assert len({one[5] for one in said}) > 3


def test_probabilities_are_those_of_what_is_allowed() -> None:
    own = engine()
    turn = write(own, Sampling(grammar='start: "b" | "c"'))
    free = write(own, Sampling(max_tokens=1))
    assert free.logprobs[0] < turn.logprobs[0] < 0
    assert write(own, Sampling(grammar='start: "b"')).logprobs[0] == 0


def test_what_else_could_have_come_is_kept() -> None:
    turn = write(engine(), Sampling(temperature=1.0, grammar=WORDS))
    counts = [None if mask is None else int(np.bitwise_count(mask.view(np.uint32)).sum()) for mask in turn.masks]
    assert len(counts) == len(turn.tokens)
    assert counts[1:5] == [2, None, None, None]  # b or c, then d, e, f
    assert all(logprob == 0 for logprob, count in zip(turn.logprobs, counts, strict=True) if count in (None, 1))
    assert write(engine(), Sampling(max_tokens=3)).masks == ()


def test_what_has_no_alternative_takes_no_step() -> None:
    own = engine()
    turn = write(own, Sampling(grammar=WORDS))
    assert len(turn.tokens) == 8  # the end included
    assert own.stats.steps < 6
    assert own.stats.read == len(PROMPT)
    assert own.stats.written == 8


def test_limits_cut_what_is_forced() -> None:
    assert text(write(engine(), Sampling(max_tokens=4, grammar=WORDS))) in ("abde", "acde")
    assert len(write(engine(max_length=6), Sampling(grammar=WORDS)).tokens) == 2


SUM = 'start: ("say" | "ask") "\\n27 x 50 =" /[ 0-9+]{0,40}/'


def test_the_result_of_a_sum_in_an_answer_is_written_and_not_chosen() -> None:
    ends = set()
    for seed in range(20):
        turn = write(engine(), Sampling(temperature=1.0, grammar=SUM, answer="say\n"), f"{seed}")
        start, said = len("say\n27 x 50 ="), text(turn)
        if said.startswith("ask"):
            ends.add("ask")
            continue
        assert said[start:].startswith(" 1350")
        assert turn.masks[start : start + 5] == (None,) * 5
        assert turn.logprobs[start : start + 5] == (0,) * 5
        ends.add(said[start + 5 : start + 6])
    assert {"ask", "+"} < ends <= {"ask", "+", " ", ""}  # no digit
    assert "1350" not in text(write(engine(), Sampling(grammar=SUM)))


def test_a_line_that_has_ended_may_change_what_follows() -> None:
    asked = []

    def rest(begun: str) -> str:
        asked.append(begun)
        return 'start: "b" "."' if begun == "a\n" else ""

    turn = write(engine(), Sampling(grammar='start: "a\\n" ("c" | "d") ("\\n" "e")+', rest=rest))
    assert text(turn) == "a\nb."
    assert asked == ["a\n"]
    with pytest.warns(UserWarning, match="rest"):
        failing = write(engine(), Sampling(grammar='start: "a\\n" "c"', rest=lambda _: text(None)))  # type: ignore[arg-type]
    assert text(failing) == "a\nc"
    with_none = write(engine(), Sampling(max_tokens=6, grammar='start: "a\\n" "c"', rest=lambda _: "start: nothing"))
    assert text(with_none) == "a\nc"


def test_a_turn_goes_on_from_a_guided_one_as_if_it_had_been_read() -> None:
    async def play(own: Engine, grammar: str) -> Written:
        stream = Stream([*PROMPT])
        if grammar:
            await own.write(stream, Sampling(grammar=grammar), Random(0))
        else:
            stream.tokens += written.tokens
        stream.tokens += [40, 41]
        return await own.write(stream, Sampling(max_tokens=6), Random(0))

    written = write(engine(), Sampling(grammar=WORDS))
    assert asyncio.run(play(engine(), WORDS)).tokens == asyncio.run(play(engine(), "")).tokens


def test_guided_and_free_turns_share_a_batch() -> None:
    own = engine()

    async def play() -> list[Written]:
        samplings = [Sampling(max_tokens=9), Sampling(grammar=WORDS), Sampling(max_tokens=9, temperature=1.0)]
        streams = [Stream([*PROMPT, number]) for number in range(3)]
        turns = (own.write(s, how, Random(n)) for n, (s, how) in enumerate(zip(streams, samplings, strict=True)))
        return await asyncio.gather(*turns)

    async def alone(number: int, sampling: Sampling) -> Written:
        return await engine().write(Stream([*PROMPT, number]), sampling, Random(number))

    first, guided, third = asyncio.run(play())
    assert first.tokens == asyncio.run(alone(0, Sampling(max_tokens=9))).tokens
    assert guided.tokens == asyncio.run(alone(1, Sampling(grammar=WORDS))).tokens
    assert third.tokens == asyncio.run(alone(2, Sampling(max_tokens=9, temperature=1.0))).tokens


def test_a_grammar_that_cannot_be_read_guides_nothing_and_is_told() -> None:
    with pytest.warns(UserWarning, match="unguided"):
        turn = write(engine(), Sampling(max_tokens=6, grammar="start: nothing"))
    assert turn.tokens == write(engine(), Sampling(max_tokens=6)).tokens


def test_a_grammar_that_is_too_large_guides_nothing_and_is_told() -> None:
    large = "start: " + " | ".join(f'"{n} " /[a-z]/' for n in range(4000))
    with pytest.warns(UserWarning, match="unguided"):
        assert len(write(engine(), Sampling(max_tokens=6, grammar=large)).tokens) == 6


def test_a_tokenizer_without_a_vocabulary_file_is_refused() -> None:
    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        Guides(object(), [2], 259)


TOOL = Tool("get_order", "", {"type": "object", "properties": {"id": {"type": "string"}}}, {}, "read")


FOUND = Found(Search("order", "get an order"), (Hit(TOOL, 1.0, ""),), 1, False)


def asked(turns_left: int = 5, guide: Guidance = "calls") -> list[str]:
    """Return what random weights say to one request, by thirty seeds."""
    config = LocalConfig(guide=guide, temperature=1.0, max_tokens=60)
    local = LocalModel.over(tiny_model.model(), tiny_model.tokenizer(), config)
    context = Context("Do it.", [Message("system", "rules"), Message("user", "Do it.")], turns_left=turns_left)
    return [asyncio.run(LocalPolicy(local, seed).act(context)).text for seed in range(30)]


def kinds(texts: list[str]) -> set[str]:
    return {parse(text).kind for text in texts}


def test_a_policy_of_random_weights_keeps_to_the_protocol() -> None:
    assert kinds(asked()) <= {"exploration", "answer"}
    assert kinds(asked(turns_left=1)) == {"answer"}
    assert kinds(asked(guide="off")) == {"invalid"}


def shown(guide: Guidance = "calls", dialect: Dialect = "compact") -> Iterator[tuple[Context, str]]:
    """Yield an episode and the grammar of its next turn, as it goes on."""
    config = LocalConfig(guide=guide, dialect=dialect)
    local = LocalModel.over(tiny_model.model(), tiny_model.tokenizer(), config)
    context = Context("Get A7.", [Message("user", "Get A7.")], turns_left=5)
    yield context, local.sampling_for(context).grammar
    context.exchanges.append(Exchange(parse("find\norder"), (FOUND,)))
    context.messages.append(Message("user", "order: get_order(id?: string)"))
    yield context, local.sampling_for(context).grammar
    calls = [Call("get_order", {"id": "A7"}, name) for name in ("c1", "c2")]
    results = Result(calls[0], {}, {"id": ["Zurich", 12]}), Result(calls[1], {}, error=ToolError("timeout", "late"))
    context.exchanges.append(Exchange(parse("run"), results=results))
    yield context, local.sampling_for(context).grammar
    context.turns_left = 1
    yield context, local.sampling_for(context).grammar


def test_it_names_only_what_was_shown() -> None:
    first, found, called, last = (text for _, text in shown())
    assert "get_order" not in first
    assert '"order: " id0 (call0s0)' in found
    assert '"get_order("' in found
    assert 'id0: "c1 = "' in found
    assert 'id0: "c3 = "' in called
    assert '"$c1"' in called
    assert '"$c2"' not in called  # it has no result
    assert "find" not in last
    assert "run" not in last


@pytest.mark.parametrize(
    ("ids", "late", "moving", "again"),
    [
        (["A7", "A7"], False, False, True),
        (["A7", "B8", "A7"], False, False, True),
        (["A7"] * 3, False, False, False),
        (["A7"] * 3, True, False, True),
        (["A7"] * 3, False, True, True),
    ],
)
def test_a_call_is_not_repeated_for_ever(ids: list[str], late: bool, moving: bool, again: bool) -> None:
    episode = shown()
    next(episode)
    context, _ = next(episode)
    for number, one in enumerate(ids):
        call = Call("get_order", {"id": one}, f"c{number}")
        error = ToolError("rate_limited", "") if late else None
        value = {"polled": number} if moving else {}
        context.exchanges.append(Exchange(parse("run"), results=(Result(call, call.arguments, value, error),)))
    assert ("get_order" in next_turn(context)) is again


LATE = ToolError("timeout", "")


def failed(error: ToolError | None = LATE, **arguments: JsonValue) -> Result:
    return Result(Call("get_order", arguments, "c1"), arguments, {} if error is None else None, error)


@pytest.mark.parametrize(
    ("exchanges", "fixed"),
    [
        ([[failed(id="A7")]], True),
        ([[failed(ToolError("rate_limited", ""), id="A7")]], True),
        ([[failed(id="A7")], [failed(id="A7")]], True),
        ([[failed(id="A7")]] * 3, False),  # enough
        ([[failed(id="A7")], [failed(None, id="B8")]], False),
        ([[failed(ToolError("invalid_args", ""), id="A7")]], False),
        ([[failed(id="A7"), failed(id="B8")]], False),  # which of them?
        ([[failed(id=["A7"])]], False),
        ([[failed(id="A7" * 1000)]], False),
        ([[failed(id="A7")], "Try B8."], False),
    ],
)
def test_what_failed_in_passing_is_repeated_as_it_was(exchanges: list[list[Result] | str], fixed: bool) -> None:
    episode = shown()
    next(episode)
    context, _ = next(episode)
    for one in exchanges:
        said = one if isinstance(one, str) else ""
        results = () if isinstance(one, str) else tuple(one)
        context.exchanges.append(Exchange(parse("run"), results=results, reply=said))
    assert ('"id=" ("\\"A7\\""' in next_turn(context)) is fixed


@pytest.mark.filterwarnings("error:a turn is written unguided")
def test_turns_of_several_lines_are_kept_to_what_there_is() -> None:
    makes = Tool("make", "", {"type": "object"}, {"type": "object", "properties": {"id": {"type": "string"}}}, "read")
    takes = replace(TOOL, name="take", returns={"type": "object", "properties": {"n": {"type": "integer"}}})
    found = Found(Search("s", "s"), (Hit(makes, 1.0, ""), Hit(takes, 1.0, "")), 2, False)
    local = LocalModel.over(
        tiny_model.model(), tiny_model.tokenizer(), LocalConfig(guide="calls", temperature=1.0, max_tokens=90)
    )
    lines = []
    for seed in range(40):
        context = Context("Do it.", [Message("user", "Do it.")], turns_left=5)
        context.exchanges.append(Exchange(parse("find\ns"), (found,)))
        turn = parse(asyncio.run(LocalPolicy(local, seed).act(context)).text)
        assert turn.kind != "invalid"
        lines.append(len(turn.calls))
    assert max(lines) > 1


def test_later_lines_know_what_earlier_ones_call() -> None:
    episode = shown()
    next(episode)
    context, _ = next(episode)
    rest = next_turn(context, begun='run\nc1 = get_order(id="A7")\n')
    assert rest.startswith("start: line0")
    assert 'id0: "c2 = "' in rest
    assert '"$c1"' in rest
    for begun in ("run\n", "run\nc1 = get_or", "find\nan order\n", "say\nDone.\n", "run\nc1 = other()\n"):
        assert next_turn(context, begun=begun) == ""


def test_quotes_come_from_what_the_user_said_and_from_what_came_back() -> None:
    grammars = [next_turn(context, frozenset()) for context, _ in shown()]
    assert "Zurich" not in grammars[1]
    assert "Get A7." in grammars[1]
    assert "Zurich" in grammars[2]
    assert not any("Zurich" in text for _, text in shown())


def test_a_turn_can_be_written_without_a_tool_or_an_argument() -> None:
    episode = shown()
    next(episode)
    context, _ = next(episode)
    assert '"id="' in next_turn(context)
    less = next_turn(context, frozenset({("get_order", "id"), ("other", "x")}))
    assert '"get_order("' in less
    assert '"id="' not in less
    assert "get_order" not in next_turn(context, frozenset({("get_order", None)}))
    assert "say" in next_turn(context).split("\n")[0]
    assert "say" not in next_turn(context, frozenset({(ANSWER, None)})).split("\n")[0]


def test_tags_and_a_free_model_have_no_grammar() -> None:
    assert not any(text for _, text in shown("off"))
    assert not any(text for _, text in shown(dialect="tags"))
