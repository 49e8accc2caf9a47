"""API-Bank: recorded answers, one-to-one matching, and a harness that is proved sound."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmark_data import apibank as write
from paraagent.agent.settings import Settings
from paraagent.errors import EnvironmentFault, ToolFailure
from paraagent.evaluate.benchmarks import apibank, soundness
from paraagent.evaluate.benchmarks.apibank import ApiBank
from paraagent.evaluate.benchmarks.base import Item, Points, Tally
from paraagent.evaluate.benchmarks.recorded import RecordedToolbox, key
from paraagent.protocol.render import render_turn
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, JsonObject, Reply, Search, Tool

SETTINGS = Settings(durable=False)


@pytest.fixture
def bank(tmp_path: Path) -> ApiBank:
    return apibank.load(write(tmp_path))


class Fixed:
    """Searches for every API, makes given calls, answers."""

    name = "fixed"

    def __init__(self, bank: ApiBank, *groups: list[Call]) -> None:
        searches = [Search(name, name) for name in bank.tools]
        self._turns = [render_turn("", searches=searches), *(render_turn("", calls=group) for group in groups)]

    async def act(self, context: object) -> Reply:
        return Reply(self._turns.pop(0) if self._turns else render_turn("", answer="Done."))


def play(bank: ApiBank, item: Item, *groups: list[Call]) -> tuple[Points, EpisodeView]:
    recorder = Recorder()
    asyncio.run(bank.play(item, Fixed(bank, *groups), recorder, SETTINGS))
    view = EpisodeView(recorder.events)
    return bank.points(item, view), view


def test_gold_solves_all_a_spoilt_replay_loses_what_it_must_and_nothing_scores_nothing(bank: ApiBank) -> None:
    found = asyncio.run(soundness.check(bank, bank.items, SETTINGS, seed=3))
    assert found.sound, found.wrong
    assert found.gold == Points(3, 3, 5, 5)
    assert found.spoilt == found.expected
    assert found.spoilt.matched < 5
    assert found.empty == Points(3, 0, 0, 5)


def test_an_unsound_harness_is_found_out(bank: ApiBank, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = bank.points
    monkeypatch.setattr(bank, "points", lambda item, view: honest(item, view) + Points(0, 0, 1, 0))
    found = asyncio.run(soundness.check(bank, bank.items, SETTINGS))
    assert not found.sound
    assert any("the empty replay scored" in line for line in found.wrong)


def test_an_input_counts_as_written_or_as_the_api_read_it(bank: ApiBank) -> None:
    for depth in ("40.50", 40.5):
        calls = [Call("FindShip", {"captain": "Ann"}), Call("ShipPosition", {"ship_id": "S1", "depth": depth})]
        points, view = play(bank, bank.items[0], calls)
        assert points == Points(1, 1, 2, 2)
        assert [call.end.value for call in view.calls if call.end] == [{"ship_id": "S1"}, {"place": "Bergen"}]


def test_equal_gold_calls_need_a_call_each(bank: ApiBank) -> None:
    berth = Call("AddBerth", {"harbour": "Oslo", "crew": ["Ann"]})
    assert play(bank, bank.items[1], [berth])[0] == Points(1, 0, 1, 2)
    assert play(bank, bank.items[1], [berth, berth])[0] == Points(1, 1, 2, 2)
    assert play(bank, bank.items[1], [berth], [berth])[0] == Points(1, 1, 2, 2)


def test_further_calls_are_ignored_and_other_inputs_are_not_taken(bank: ApiBank) -> None:
    good = Call("FindShip", {"captain": "Ann"})
    other = Call("FindShip", {"captain": "Bob"})
    extra = Call("FindShip", {"captain": "Ann", "flag": "no"})
    assert play(bank, bank.items[2], [other, good])[0] == Points(1, 1, 1, 1)
    assert play(bank, bank.items[2], [other])[0] == Points(1, 0, 0, 1)
    assert play(bank, bank.items[2], [extra])[0] == Points(1, 0, 0, 1)


def test_a_wrong_input_gets_a_truthful_error(bank: ApiBank) -> None:
    wrong = [Call("FindShip", {"captain": "Bob"}), Call("FindShip", {"skipper": "Ann"}), Call("FindShip", {})]
    _, view = play(bank, bank.items[2], wrong)
    errors = [(call.end.error, call.end.message) for call in view.calls if call.end]
    assert [kind for kind, _ in errors] == ["not_found", "invalid_args", "invalid_args"]
    assert "none was recorded" in str(errors[0][1])
    assert "captain" in str(errors[2][1])


def test_tools_it_is_hidden_among_can_be_found_but_not_called(tmp_path: Path) -> None:
    other = Tool(
        "cloud.ship", "Ships a parcel.", {"type": "object", "properties": {}}, {}, "action", provider="cloud"
    )
    bank = apibank.load(write(tmp_path), [other])

    async def run() -> None:
        toolbox = RecordedToolbox(bank.tools, SearchIndex.build_in_memory([other, *bank.tools.values()]), {})
        assert toolbox.tool("cloud.ship") is None
        found = await toolbox.search([Search("parcel", "ships a parcel")])
        assert "cloud.ship" in [hit.tool.name for hit in found[0].hits]
        assert toolbox.tool("cloud.ship") == other
        with pytest.raises(ToolFailure, match=r"nothing was recorded of cloud\.ship"):
            await toolbox.call(other, {})

    asyncio.run(run())


def test_whole_numbers_are_one_call_however_they_are_written() -> None:
    assert key("f", {"n": [1.0, {"m": 2}]}) == key("f", {"n": [1, {"m": 2.0}]})
    assert key("f", {"n": 1}) != key("f", {"n": True})
    assert key("f", {"n": 1}) != key("f", {"n": "1"})


def test_types_become_json_schema(bank: ApiBank) -> None:
    crew = bank.tools["AddBerth"].parameters["properties"]
    assert isinstance(crew, dict)
    assert crew["crew"] == {"type": "array", "description": "crew", "items": {"type": "string"}}
    assert (bank.tools["AddBerth"].effect, bank.tools["FindShip"].effect) == ("create", "read")


def test_missing_and_broken_data_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"expected .*apibank.level-3\.json or .*level-3\.json; get it from"):
        apibank.load(tmp_path)
    (tmp_path / "level-3.json").write_text('[{"requirement": 1}]')
    with pytest.raises(EnvironmentFault, match=r"is not API-Bank's"):
        apibank.load(tmp_path)


def test_a_tally_adds_up_by_group_and_leaves_masked_episodes_out(bank: ApiBank) -> None:
    tally = Tally(bank)
    _, view = play(bank, bank.items[2], [Call("FindShip", {"captain": "Ann"})])
    tally.add(bank.items[2], view)
    _, lost = play(bank, bank.items[1])
    tally.add(bank.items[1], lost)
    tally.add(bank.items[0], EpisodeView(view.events[:-1]))
    found: JsonObject = tally.to_json()
    assert (found["tasks"], found["tasks_solved"], found["calls_matched"], found["calls_total"]) == (2, 1, 1, 3)
    assert set(tally.groups) == {"1 calls", "2 calls"}
