"""One BFCL dialogue while it is played: its instances, its tools, its user, and a script that plays the solution.

Place in the flow: layer 5, part of `bfcl`. The user's reply to an answer is the next thing wanted; at that moment the
turn is judged, by running the solution's calls on instances of its own. As in the original, only public attributes
are compared, a result is compared by its text, and a turn without calls in the solution is passed.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from paraagent.agent.context import Context, Exchange
from paraagent.env.verify import Check, Verdict
from paraagent.errors import ToolFailure
from paraagent.evaluate.benchmarks.bfcl_data import Dialogue, Step
from paraagent.protocol.flow import call_plan
from paraagent.protocol.links import literal
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.search.search import SearchIndex
from paraagent.types import Call, Effects, Found, JsonObject, JsonValue, Reply, Search, Tool

_STATELESS = frozenset({"MathAPI"})


class Instances:
    """Fresh instances of the classes of a dialogue, in its initial state."""

    def __init__(self, classes: Mapping[str, type[Any]], dialogue: Dialogue) -> None:
        self._all: dict[str, Any] = {}
        for name in dialogue.classes:
            instance = classes[name]()
            if name not in _STATELESS:
                config = copy.deepcopy(dialogue.config.get(name, {}))
                instance._load_scenario(config, long_context=dialogue.category == "long_context")
            self._all[name] = instance

    def run(self, name: str, arguments: JsonObject) -> object:
        """Call a public method of whichever instance has it; raises what it raises, LookupError if none has."""
        for instance in self._all.values():
            method = getattr(instance, name, None) if not name.startswith("_") else None
            if callable(method):
                return method(**copy.deepcopy(arguments))
        raise LookupError(name)

    def state(self) -> dict[str, dict[str, object]]:
        """Return the public attributes of every instance."""
        return {
            name: {key: value for key, value in vars(instance).items() if not key.startswith("_")}
            for name, instance in self._all.items()
        }


class ClassToolbox:
    """Implements `types.Toolbox` over instances.

    Args:
        index: finds the functions of the dialogue's classes.
        held_out: functions that cannot be found or called before a user turn.
        k: hits per search.
    """

    def __init__(
        self,
        instances: Instances,
        tools: Mapping[str, Tool],
        index: SearchIndex,
        held_out: Mapping[int, Sequence[str]],
        k: int,
    ) -> None:
        self.instances = instances
        self.texts: list[str] = []
        """What every call so far returned."""
        self._all = tools
        self._whole = index
        self._held_out = held_out
        self._k = k
        self.open(0)

    def open(self, turn: int) -> None:
        """Let all functions be found that a user turn has."""
        hidden = {name for later, names in self._held_out.items() if later > turn for name in names}
        self._tools = {name: tool for name, tool in self._all.items() if name not in hidden}
        self._index = self._whole.without(hidden) if hidden else self._whole

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        return self._index.search(searches, self._k)

    def tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def suggestions(self, name: str) -> list[str]:
        return difflib.get_close_matches(name[:200], self._tools, n=3, cutoff=0.5)

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        return Effects(writes=frozenset({tool.api}))

    def server(self, tool: Tool) -> str:
        return tool.provider

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        try:
            value = self.instances.run(tool.name, arguments)
        except Exception as error:  # the classes raise whatever they like
            self.texts.append(f"Error during execution: {error}")
            raise ToolFailure("tool_error", f"{type(error).__name__}: {error}") from None
        self.texts.append(_text(value))
        return _json(value)


class Talk:
    """The user of one dialogue, who also judges it."""

    def __init__(self, dialogue: Dialogue, toolbox: ClassToolbox, solution: Instances) -> None:
        self._dialogue = dialogue
        self._toolbox = toolbox
        self._solution = solution
        self._faults: list[str] = []
        """Of every finished turn why it failed; empty if it passed."""
        self._calls_before = 0

    def reply(self, answer: str) -> str | None:
        """Take an answer, judge the turn, and return what the user says next."""
        turn = len(self._faults)
        self._faults.append(self._fault(self._dialogue.gold[turn]))
        self._calls_before = len(self._toolbox.texts)
        self._toolbox.open(turn + 1)
        return self._dialogue.says[turn + 1] if turn + 1 < len(self._dialogue.says) else None

    def verdict(self) -> Verdict:
        """Return the verdict on the whole; turns after the first failure, and those not reached, are failed."""
        checks: list[Check] = []
        failed = ""
        for number in range(1, len(self._dialogue.says) + 1):
            fault = self._faults[number - 1] if number <= len(self._faults) else "the dialogue did not get this far"
            failed = failed or fault
            checks.append(Check(f"turn {number}", not failed, failed))
        return Verdict(not failed, tuple(checks))

    def _fault(self, steps: Sequence[Step]) -> str:
        """Run a turn's solution and say what the agent's turn lacks; nothing if it lacks nothing."""
        wanted = [_text(self._solution.run(step.name, step.arguments)) for step in steps]
        if not steps:
            return ""
        if len(self._toolbox.texts) == self._calls_before:
            return "nothing was called"
        mine, gold = self._toolbox.instances.state(), self._solution.state()
        different = [f"{name}.{key}" for name in gold for key in gold[name] if mine[name].get(key) != gold[name][key]]
        if different:
            return f"the state differs: {', '.join(different[:5])}"
        lacking = Counter(wanted) - Counter(self._toolbox.texts)
        return f"a result of the solution was not seen: {min(lacking)[:200]}" if lacking else ""


class Script:
    """A policy that plays given calls, user turn by user turn; it searches for a function by its name."""

    name = "gold"

    def __init__(self, turns: Sequence[Sequence[Step]]) -> None:
        self._turns = turns

    async def act(self, context: Context) -> Reply:
        return Reply(self._turn(context))

    def _turn(self, context: Context) -> str:
        answered = [index for index, one in enumerate(context.exchanges) if one.turn.kind == "answer"]
        steps = self._turns[len(answered)]
        since = context.exchanges[answered[-1] + 1 :] if answered else context.exchanges
        missing = dict.fromkeys(step.name for step in steps if step.name not in context.surfaced())
        if missing and not any(exchange.found for exchange in since):
            plan = SearchPlan(tuple(missing))
            return render_turn("I look them up.", plan=plan, searches=[Search(name, name) for name in missing])
        due = _distinct(steps[sum(len(exchange.results) for exchange in since) :])
        if not due:
            return render_turn("This turn is done.", answer="Done.")
        calls = [Call(step.name, _arguments(step)) for step in due]
        plan_of_calls = call_plan(calls) if not _has_plan(since) else None
        return render_turn("I run them.", plan=plan_of_calls, calls=calls)


def _has_plan(exchanges: Sequence[Exchange]) -> bool:
    return any(exchange.results for exchange in exchanges)


def _distinct(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the first steps up to one that repeats another: of equal calls of one turn only one runs."""
    seen: list[Step] = []
    for step in steps:
        if step in seen:
            break
        seen.append(step)
    return seen


def _arguments(step: Step) -> JsonObject:
    """Return a step's arguments so that nothing in them reads as a link."""
    return {name: literal(value) for name, value in step.arguments.items()}


def _text(value: object) -> str:
    """Return a result in the text form in which results are compared."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except TypeError:
            pass
    return str(value)


def _json(value: object) -> JsonValue:
    try:
        decoded: JsonValue = msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))
    except (TypeError, ValueError):
        return str(value)
    return decoded
