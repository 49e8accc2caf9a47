"""API-Bank Level-3: 50 requests whose APIs must be found by search, with recorded outputs for the exact gold inputs.

Place in the flow: layer 5, a `Benchmark`. A task is solved if every gold call was made: matched one-to-one by name
and input, further calls ignored; API accuracy is the share of gold calls made. An input may be written as in the
gold call or as the API itself read it (`"40.7128"` or `40.7128`). Any other input gets an error that says so.
Limits: outputs are those of the recorded run; writes have no effect on later reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.agent.settings import Settings
from paraagent.clock import VirtualClock
from paraagent.env.matching import match
from paraagent.env.simulator import Searcher
from paraagent.env.task import GoldSlot, Task
from paraagent.env.verify import Check, Verdict
from paraagent.errors import EnvironmentFault
from paraagent.evaluate.benchmarks import base
from paraagent.evaluate.benchmarks.base import Item, OnEvent, Points, Spoilt, Stage
from paraagent.evaluate.benchmarks.recorded import RecordedToolbox, Records, key
from paraagent.evaluate.benchmarks.replays import gold_calls, spoilt
from paraagent.search.search import SearchIndex
from paraagent.trace.events import EpisodeEnd
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import EffectKind, JsonObject, JsonValue, Policy, Result, Tool

FILE = "level-3.json"
SOURCE = "the repository AlibabaResearch/DAMO-ConvAI, api-bank/test-data (Apache-2.0)"
_SEARCHER = "ToolSearcher"
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
_WRITES: dict[str, EffectKind] = {"Add": "create", "Update": "update", "Delete": "delete", "Send": "action"}


class _Output(msgspec.Struct):
    input: JsonObject
    output: JsonValue


class _Call(msgspec.Struct):
    api_name: str
    input: JsonObject
    output: _Output


class _Record(msgspec.Struct):
    requirement: str
    apis: list[_Call]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One gold call: its API and the inputs that count as the gold one."""

    name: str
    inputs: frozenset[tuple[str, bytes]]


class ApiBank:
    """Implements `Benchmark`; use `load`."""

    name = "apibank"
    unit = "calls"

    def __init__(self, records: Sequence[_Record], others: Iterable[Tool] = (), k: int = 5) -> None:
        self._k = k
        self.tools = _tools(records)
        self.items: Sequence[Item] = [_item(number, record, self.tools) for number, record in enumerate(records)]
        self._index: Searcher = SearchIndex.build_in_memory([*others, *self.tools.values()])
        everything = [call for record in records for call in _calls(record)]
        self._answers: dict[str, Records] = {
            item.task.id: {**_answers(everything), **_answers(_calls(record))}
            for item, record in zip(self.items, records, strict=True)
        }
        self._wanted = {
            item.task.id: [Wanted(call.api_name, _inputs(call)) for call in _calls(record)]
            for item, record in zip(self.items, records, strict=True)
        }

    async def play(
        self,
        item: Item,
        policy: Policy,
        recorder: Recorder,
        settings: Settings,
        *,
        run: str = "run",
        config: JsonObject | None = None,
        on_event: OnEvent | None = None,
    ) -> EpisodeEnd:
        toolbox = RecordedToolbox(self.tools, self._index, self._answers[item.task.id], self._k)
        stage = Stage(toolbox, VirtualClock(), lambda results, _: judge(self._wanted[item.task.id], results))
        return await base.play(
            stage, item.task, policy, recorder, settings, run=run, config=config, on_event=on_event
        )

    def gold(self, item: Item) -> Policy:
        return OraclePolicy([item.task])

    def spoil(self, item: Item, rng: Random) -> Spoilt:
        policy, matched = spoilt(item.task, rng)
        return Spoilt(policy, Points(1, 0, matched, len(item.task.calls)))

    def points(self, item: Item, view: EpisodeView) -> Points:
        checks = view.end.checks if view.end else {}
        return Points(1, int(bool(view.success)), sum(done is True for done in checks.values()), len(item.task.calls))


def load(data: Path, others: Iterable[Tool] = (), k: int = 5) -> ApiBank:
    """Read the benchmark from a folder that holds `apibank/level-3.json` or `level-3.json`.

    Args:
        others: tools to hide the benchmark's own among; they can be found but not called.
        k: hits per search.

    Raises:
        EnvironmentFault: the file is not there or is not API-Bank's.
    """
    places = [data / "apibank" / FILE, data / FILE]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise base.missing("API-Bank Level-3", [str(place) for place in places], SOURCE)
    try:
        return ApiBank(msgspec.json.decode(path.read_bytes(), type=list[_Record]), others, k)
    except (OSError, msgspec.DecodeError) as error:
        raise EnvironmentFault(f"{path} is not API-Bank's {FILE}: {error}; get it from {SOURCE}") from error


def judge(wanted: Sequence[Wanted], results: Sequence[Result]) -> Verdict:
    """Match gold calls one-to-one to calls of the same name and input; solved if none is left."""
    made = [key(result.call.name, result.arguments) for result in results]
    found = match([[index for index, one in enumerate(made) if one in gold.inputs] for gold in wanted])
    checks = [
        Check(f"call c{number}", index is not None, "" if index is not None else f"{gold.name} was not called so")
        for number, (gold, index) in enumerate(zip(wanted, found, strict=True), 1)
    ]
    return Verdict(all(check.passed for check in checks), tuple(checks))


def _item(number: int, record: _Record, tools: dict[str, Tool]) -> Item:
    calls = gold_calls([(call.api_name, call.input) for call in _calls(record)])
    slots = dict.fromkeys(call.tool for call in calls)
    task = Task(
        id=f"apibank-{number:02}",
        kind="mixed",
        split="test-unseen",
        seed=number,
        request=record.requirement.strip(),
        slots=tuple(GoldSlot(name, tools[name].description, (name,)) for name in slots),
        calls=calls,
    )
    return Item(task, f"{len(calls)} calls")


def _calls(record: _Record) -> list[_Call]:
    return [call for call in record.apis if call.api_name != _SEARCHER]


def _inputs(call: _Call) -> frozenset[tuple[str, bytes]]:
    return frozenset({key(call.api_name, call.input), key(call.api_name, call.output.input)})


def _answers(calls: Iterable[_Call]) -> Records:
    return {one: call.output.output for call in calls for one in _inputs(call)}


def _tools(records: Sequence[_Record]) -> dict[str, Tool]:
    """Return the APIs that the recorded tool searches showed."""
    shown = (call.output.output for record in records for call in record.apis if call.api_name == _SEARCHER)
    tools = {str(api["name"]): _tool(api) for api in shown if isinstance(api, dict)}
    called = {call.api_name: call for record in records for call in _calls(record)}
    for name, call in called.items():
        parameters: JsonObject = {"type": "object", "properties": {parameter: {} for parameter in call.input}}
        tools.setdefault(name, Tool(name, name, parameters, {}, "action", provider="apibank"))
    return tools


def _tool(api: JsonObject) -> Tool:
    name = str(api["name"])
    inputs, outputs = (_properties(api.get(part)) for part in ("input_parameters", "output_parameters"))
    required: list[JsonValue] = list(inputs)
    return Tool(
        name=name,
        description=str(api.get("description", "")),
        parameters={"type": "object", "properties": inputs, "required": required},
        returns={"type": "object", "properties": outputs},
        effect=next((effect for verb, effect in _WRITES.items() if verb in name), "read"),
        provider="apibank",
        api="apibank",
        source="API-Bank",
        operation=name,
    )


def _properties(parameters: JsonValue) -> JsonObject:
    if not isinstance(parameters, dict):
        return {}
    return {name: _schema(spec) for name, spec in parameters.items() if isinstance(spec, dict)}


def _schema(spec: JsonObject) -> JsonObject:
    """Return a parameter as JSON Schema; `list(str)` is an array of strings."""
    outer, _, inner = str(spec.get("type", "")).rstrip(")").partition("(")
    schema: JsonObject = {"type": _TYPES.get(outer, "string"), "description": str(spec.get("description", ""))}
    return schema | {"items": {"type": _TYPES[inner]}} if inner in _TYPES else schema
