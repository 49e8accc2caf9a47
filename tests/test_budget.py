"""Budgets are hard, reserved before they are spent, and leave room for an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_server import KEY, MODEL, Answer, ChatServer
from paraagent.agent.budget import Budget, Spending
from paraagent.agent.context import Context
from paraagent.agent.loop import Loop
from paraagent.agent.policies.http import HttpConfig, HttpPolicy
from paraagent.agent.prices import Price, read_prices
from paraagent.agent.settings import Settings
from paraagent.clock import VirtualClock
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.trace.events import EpisodeEnd, EpisodeStart, TurnText
from paraagent.trace.recorder import Recorder
from paraagent.types import Call, Effects, Found, Hit, JsonObject, JsonValue, Message, Reply, Search, Tool, Usage

PRICE = Price(input=1.0, output=8.0, cached=0.1, currency="EUR")
TOOL = Tool("wait", "Waits.", {"type": "object"}, {"type": "string"}, "read", provider="p", api="p")
SEARCH = render_turn("look", plan=SearchPlan(("wait",)), searches=[Search("wait", "wait a while")])
CALL = render_turn("go", calls=[Call("wait", {})])
ANSWER = render_turn("done", answer="42")


class Slow:
    """A toolbox with one tool that takes a while and gives a long answer."""

    def __init__(self, clock: VirtualClock, seconds: float = 1.0, answer: str = "x") -> None:
        self.clock, self.seconds, self.answer = clock, seconds, answer

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        return [Found(search, (Hit(TOOL, 0.9, "name"),), 1, False) for search in searches]

    def tool(self, name: str) -> Tool | None:
        return TOOL if name == "wait" else None

    def suggestions(self, name: str) -> list[str]:
        return []

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        return Effects(reads=frozenset({"p"}))

    def server(self, tool: Tool) -> str:
        return "p"

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        await self.clock.sleep(self.seconds)
        return self.answer


class Model:
    """Acts until it is told that a turn is its last; its tokens have `size` bytes each, its turns `tokens` tokens.

    Args:
        obeys: whether it answers when told to.
        reports: whether it says what it used.
    """

    name = "model"

    def __init__(
        self,
        turn: str = CALL,
        *,
        size: float = 4.0,
        tokens: int = 300,
        cached: float = 0.0,
        seconds: float = 0.0,
        obeys: bool = True,
        reports: bool = True,
    ) -> None:
        self.turn, self.size, self.tokens, self.cached, self.seconds = turn, size, tokens, cached, seconds
        self.obeys, self.reports = obeys, reports
        self.used: list[Usage] = []
        self.allowed: list[int | None] = []
        self.told: list[bool] = []

    async def act(self, context: Context) -> Reply:
        told = "last turn" in context.messages[-1].content
        self.told.append(told)
        self.allowed.append(context.reply_tokens)
        text = ANSWER if told and self.obeys else self.turn if self.used else SEARCH
        read = int(sum(len(message.content.encode()) for message in context.messages) / self.size)
        written = self.tokens if context.reply_tokens is None else min(self.tokens, context.reply_tokens)
        usage = Usage(read, max(written, len(text) // 5), int(read * self.cached))
        self.used.append(usage)
        return Reply(text, usage if self.reports else Usage(), self.seconds)

    @property
    def total(self) -> int:
        return sum(usage.input_tokens + usage.output_tokens for usage in self.used)

    @property
    def bill(self) -> float:
        return sum(PRICE.cost(usage) for usage in self.used)


def play(budget: Budget, model: Model, answer: str = "x" * 2_000, seconds: float = 1.0) -> EpisodeEnd:
    return record(budget, model, answer, seconds)[0]


def record(
    budget: Budget, model: Model, answer: str = "x", seconds: float = 1.0
) -> tuple[EpisodeEnd, list[TurnText]]:
    async def run() -> tuple[EpisodeEnd, list[TurnText]]:
        clock, recorder = VirtualClock(), Recorder(None)
        start = EpisodeStart(version=1, run="r", episode="e", request="Wait.", policy="model")
        loop = Loop(start, model, Slow(clock, seconds, answer), clock, recorder, Settings(budget=budget))
        end = await loop.run()
        return end, [event for event in recorder.events if isinstance(event, TurnText)]

    return asyncio.run(run())


@pytest.mark.parametrize("budget", [Budget(turns=100, tokens=60_000), Budget(turns=100, money=0.12, price=PRICE)])
def test_before_tokens_or_money_run_out_the_agent_is_told_and_still_answers(budget: Budget) -> None:
    model = Model()
    end = play(budget, model)
    assert (end.stop_reason, end.answer) == ("answered", "42")
    assert model.told == [False] * (len(model.told) - 1) + [True]
    assert len(model.told) > 3
    assert model.total <= 60_000
    assert model.bill <= 0.12


@pytest.mark.parametrize(
    ("budget", "reason"),
    [(Budget(turns=100, tokens=60_000), "token_limit"), (Budget(turns=100, money=0.1, price=PRICE), "money_limit")],
)
def test_an_agent_that_goes_on_after_its_last_turn_is_ended(budget: Budget, reason: str) -> None:
    model = Model(obeys=False)
    end = play(budget, model)
    assert (end.stop_reason, end.truncated, end.mask_sample) == (reason, True, False)
    assert model.told.count(True) == 1


def test_what_cannot_pay_for_the_first_turn_ends_before_anything_is_spent() -> None:
    for budget in (Budget(tokens=500), Budget(money=0.001, price=PRICE)):
        model = Model()
        assert play(budget, model).stop_reason in ("token_limit", "money_limit")
        assert model.used == []


@settings(max_examples=60)
@given(
    tokens=st.integers(1_000, 80_000),
    money=st.floats(0.001, 0.2),
    size=st.floats(1.0, 6.0),
    written=st.integers(1, 6_000),
    cached=st.floats(0.0, 1.0),
    answer=st.integers(0, 20_000),
    obeys=st.booleans(),
    reports=st.booleans(),
    script=st.sampled_from([CALL, SEARCH, "nonsense"]),
)
def test_no_budget_is_ever_exceeded(
    tokens: int,
    money: float,
    size: float,
    written: int,
    cached: float,
    answer: int,
    obeys: bool,
    reports: bool,
    script: str,
) -> None:
    model = Model(script, size=size, tokens=written, cached=cached, obeys=obeys, reports=reports)
    budget = Budget(turns=30, tokens=tokens, money=money, price=PRICE)
    play(budget, model, "é" * (answer // 2))
    assert model.total <= tokens
    assert model.bill <= money * (1 + 1e-9)


def test_the_last_reply_is_given_what_is_left() -> None:
    model = Model(tokens=4_000)
    assert play(Budget(turns=100, tokens=60_000), model).answer == "42"
    *before, last = model.allowed
    assert before == [4_096] * len(before)
    assert last is not None
    assert 256 <= last <= 4_096


@pytest.mark.parametrize("tokens", range(60_000, 100_000, 4_000))
def test_room_is_kept_for_what_the_last_but_one_turn_brings(tokens: int) -> None:
    model = Model(tokens=100, size=1.0)
    assert play(Budget(turns=100, tokens=tokens, reply_tokens=300), model, "x" * 7_000).answer == "42"


def test_without_a_limit_nothing_is_reserved() -> None:
    model = Model()
    end = play(Budget(turns=4), model)
    assert (end.answer, model.allowed) == ("42", [None] * 4)


def test_usage_that_is_not_reported_counts_as_all_that_was_reserved() -> None:
    model = Model(reports=False)
    end, turns = record(Budget(turns=100, money=0.5, price=PRICE), model)
    assert end.answer == "42"
    assert sum(turn.cost or 0.0 for turn in turns) >= model.bill
    assert len(turns) < 20


def test_every_turn_records_its_cost() -> None:
    model = Model(cached=0.5)
    _, turns = record(Budget(turns=3, price=PRICE), model)
    assert [turn.cost for turn in turns] == [pytest.approx(PRICE.cost(usage)) for usage in model.used]
    assert [turn.turn for turn in turns] == [0, 1, 2]
    _, turns = record(Budget(turns=3), Model())
    assert [turn.cost for turn in turns] == [None] * 3


def test_before_time_runs_out_the_agent_is_told_and_still_answers() -> None:
    model = Model(seconds=10.0)
    end = play(Budget(turns=100, seconds=60.0), model)
    assert (end.stop_reason, end.answer) == ("answered", "42")
    assert end.at <= 60.0
    assert len(model.told) == 5


def test_calls_are_cut_early_enough_to_answer() -> None:
    model = Model(seconds=5.0)
    end, _ = record(Budget(seconds=40.0), model, seconds=100.0)
    assert (end.stop_reason, end.answer, end.at) == ("answered", "42", 40.0)


def test_a_model_that_does_not_answer_in_time_is_cut_off_and_not_masked() -> None:
    class Stuck(Model):
        async def act(self, context: Context) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

    end = play(Budget(seconds=0.05), Stuck())
    assert (end.stop_reason, end.truncated, end.mask_sample, end.at) == ("time_limit", True, False, 0.05)


def test_a_timeout_of_the_policy_itself_is_not_taken_for_the_budget() -> None:
    class Broken(Model):
        async def act(self, context: Context) -> Reply:
            raise TimeoutError("mine")

    for budget in (Budget(), Budget(seconds=5.0)):
        with pytest.raises(TimeoutError, match="mine"):
            play(budget, Broken())


def test_an_endpoint_is_never_asked_for_more_tokens_than_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    async def ask(url: str) -> None:
        async with HttpPolicy(HttpConfig(MODEL, url, max_tokens=1_000)) as policy:
            for most in (None, 300, 5_000):
                await policy.act(Context("x", [Message("user", "x")], reply_tokens=most))

    with ChatServer(default=Answer()) as server:
        asyncio.run(ask(server.base_url))
    assert [request["max_tokens"] for request in server.requests] == [1_000, 300, 1_000]


@pytest.mark.parametrize("name", ["turns", "searches", "calls", "tokens", "seconds", "money", "reply_tokens"])
def test_a_budget_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"the {name} budget must be above 0"):
        Budget(**{name: 0})


def test_a_money_budget_needs_a_price() -> None:
    with pytest.raises(UsageError, match="price"):
        Budget(money=1.0)


def test_free_output_is_limited_by_the_input_only() -> None:
    spending = Spending(Budget(money=1e-3, price=Price(1.0, 0.0, 1.0)))
    spending.add_prompt("x" * 900)
    assert spending.exhausted(0.0) is None
    assert spending.reply_tokens is None
    spending.add_prompt("x" * 200)
    assert spending.exhausted(0.0) == "money_limit"


TABLE = (
    'currency = "EUR"\n["small-1"]\ninput = 0.25\noutput = 2\ncached = 0.025\n["large-1"]\ninput = 2\noutput = 9\n'
)


def test_prices_are_read_from_toml_and_from_json(tmp_path: Path) -> None:
    toml, plain = tmp_path / "prices.toml", tmp_path / "prices.json"
    toml.write_text(TABLE)
    plain.write_text(json.dumps({"currency": "EUR", "small-1": {"input": 0.25, "output": 2, "cached": 0.025}}))
    assert read_prices(toml).of("small-1") == read_prices(plain).of("small-1") == Price(0.25, 2.0, 0.025, "EUR")
    assert read_prices(toml).of("large-1").cached == 2.0


def test_cost_counts_cached_tokens_as_part_of_the_input() -> None:
    assert PRICE.cost(Usage(1_000_000, 500_000, 600_000)) == pytest.approx(0.4 + 0.06 + 4.0)
    assert PRICE.cost(Usage(10, 0, 99)) == pytest.approx(1e-6)


def test_a_missing_price_says_what_to_add(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    with pytest.raises(UsageError, match=r"prices.toml has no price for 'small-2'; it has small-1.*`input`"):
        read_prices(path).of("small-2")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[m]\ninput = 1\n", "m: must have `input`, `output`"),
        ("[m]\ninput = 1\noutput = 1\nofline = 2\n", "m: must have"),
        ("[m]\ninput = -1\noutput = 1\n", "`input` must be a number, 0 or more, not -1"),
        ('[m]\ninput = "1"\noutput = 1\n', "`input` must be a number"),
        ("[m]\ninput = true\noutput = 1\n", "`input` must be a number"),
        ("[m]\ninput = inf\noutput = 1\n", "`input` must be a number"),
        ("m = 3\n", "m: must have"),
        ("currency = 3\n", "`currency` must be a text"),
        ("[m\n", "not valid TOML"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_prices(path)


def test_a_table_that_is_not_there_is_an_environment_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        read_prices(tmp_path / "none.toml")
    path = tmp_path / "list.json"
    path.write_text("[]")
    with pytest.raises(UsageError, match="object"):
        read_prices(path)
