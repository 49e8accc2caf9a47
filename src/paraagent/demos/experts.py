"""The built-in experts: all six roles, played with the task's solution at hand and without a model.

Place in the flow: layer 5; `builtin` makes the `Cast` of one task for a `weaver`. They know which tools serve a slot
and which arguments the gold calls have, but act only on what the episode has shown: a tool must have been found, a
link must follow fields that stand on the tool's card, a value must be in the request or in a result. What they think
is put by `voice`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from paraagent.demos.reading import Capability, Solution
from paraagent.demos.roles import (
    Answer,
    AnswererBrief,
    Arrangement,
    Ask,
    Assignment,
    Cast,
    CoordinatorBrief,
    CriticBrief,
    ExecutorBrief,
    ExplorerBrief,
    Filled,
    GiveUp,
    Lead,
    Outline,
    Pick,
    PlannerBrief,
    Review,
    RoleName,
)
from paraagent.demos.shown import reachable
from paraagent.demos.style import Style, spoil
from paraagent.demos.voice import Voice
from paraagent.demos.workings import workings
from paraagent.env.states import states
from paraagent.env.task import Fact, Task
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol.grammar import parse
from paraagent.protocol.links import LinkError, resolve, upstream
from paraagent.protocol.plan import Subgoal
from paraagent.types import Hit, JsonObject, JsonValue, Result, Tool, TurnKind

RETRIES, LAST_RETRIES = 1, 3
"""How often a failed call is made again if there is another tool, and if there is none; the runtime's own repeats
come on top."""
_BLAME: dict[TurnKind, RoleName] = {"exploration": "explorer", "execution": "executor", "answer": "answerer"}


def builtin(task: Task, find: Callable[[str], Tool | None], style: Style) -> Cast:
    """Return the experts of one task.

    Args:
        find: looks a tool up by name.
    """
    experts = _Experts(task, find, style)
    return Cast(
        "builtin",
        experts.plan,
        experts.explore,
        experts.coordinate,
        experts.execute,
        experts.answer,
        experts.criticise,
    )


class _Experts:
    def __init__(self, task: Task, find: Callable[[str], Tool | None], style: Style) -> None:
        self._task = task
        self._solution = Solution(task, find)
        self._style = style
        self._voice = Voice(style.voice)
        self._gold = {call.id: call for call in task.calls}
        self._spoiled: str | None = None
        """The parameter of the one mistake, once it has been made."""

    async def plan(self, brief: PlannerBrief) -> Outline:
        solution, voice = self._solution, self._voice
        slots = tuple(capability.slot for capability in solution.capabilities)
        parts = solution.parts
        if not slots:
            return Outline((), thought=voice.toolless())
        if len(parts) > 1:
            goals = [f"{solution.service(part)}: {solution.steps(part)}" for part in parts]
            subgoals = tuple(Subgoal(f"g{number}", goal) for number, goal in enumerate(goals, 1))
            return Outline(slots, subgoals, voice.missing_many(goals))
        capability = solution.capabilities[0]
        steps = solution.steps(parts[0]) if parts else capability.what
        known = solution.literals(parts[0]) if parts else ""
        return Outline(slots, thought=voice.missing_one(f"{steps} on {capability.service}", known))

    async def explore(self, brief: ExplorerBrief) -> Lead:
        capability = self._solution.by_slot[brief.slot.name]
        if not brief.found:
            return Ask(self._first_query(capability))
        if not capability.tools:
            return self._look_in_vain(capability, brief)
        hits = {hit.tool.name: hit for found in brief.found for hit in found.hits}
        picked = self._choose(capability, hits, brief.failed)
        if picked is not None:
            return Pick(picked.tool, self._pick_thought(capability, picked, hits.values(), brief.failed))
        if len(brief.found) > 2:
            return GiveUp(self._voice.gave_up(capability.slot.name))
        if not brief.failed:
            return Ask(capability.slot.need, self._asked_again(capability, hits.values()))
        last = brief.failed[-1]
        return Ask(self._other_query(capability), self._voice.sought(last.call.name, _why(last)))

    async def coordinate(self, brief: CoordinatorBrief) -> Arrangement:
        by_tool = self._solution.by_tool
        assignments = tuple(
            Assignment(
                call.id, by_tool[call.tool].slot.name, by_tool[call.tool].what, tuple(upstream(call.arguments))
            )
            for call in self._task.calls
            if call.id not in brief.done
        )
        thoughts = []
        for assignment in assignments:
            own = brief.picks.get(assignment.slot)
            for name, value in self._gold[assignment.id].arguments.items():
                producers = [brief.picks.get(by_tool[self._gold[up].tool].slot.name) for up in upstream(value)]
                thoughts += [self._voice.needs(own.name, name, up.name) for up in producers if own and up]
        if not thoughts and len(assignments) > 1:
            thoughts = [self._voice.together(len(assignments))]
        return Arrangement(assignments, " ".join(thoughts))

    async def execute(self, brief: ExecutorBrief) -> Filled:
        arguments: JsonObject = {}
        thoughts = []
        for name, value in self._gold[brief.assignment.id].arguments.items():
            arguments[name] = value
            ups = upstream(value)
            if ups and ups[0] in brief.done:
                arguments[name] = resolve(value, brief.done)
                thoughts.append(self._voice.received(name, _written(arguments[name])))
            elif ups and not (ups[0] in brief.producers and reachable(brief.producers[ups[0]], str(value))):
                return Filled(None)
        if brief.feedback and self._spoiled:
            thoughts = [self._voice.corrected(self._spoiled, brief.feedback[-1].partition(";")[0])]
        elif self._style.mistake is not None and self._spoiled is None:
            spoiled = spoil(arguments, brief.tool, self._style.mistake)
            arguments, self._spoiled = spoiled or (arguments, None)
        return Filled(arguments, " ".join(thoughts))

    async def answer(self, brief: AnswererBrief) -> Answer:
        voice = self._voice
        if self._task.literal_answer is not None:
            text = voice.any_of("The answer is {}.", "It is {}.", "{}.").format(self._task.literal_answer)
            return Answer(f"{workings(brief.request, self._task.literal_answer)} {text}".strip())
        if brief.given_up:
            capability = self._solution.by_slot[brief.given_up[0].name]
            return Answer(voice.declined(f"{capability.what} on {capability.service}"))
        if len(brief.done) < len(self._task.calls):
            why = f": {_why(brief.failed[-1])}" if brief.failed else ""
            return Answer(f"I could not finish this, a tool that it needs kept failing{why}.")
        stated = [f"{fact.label} = {_written(self._value(fact, brief.done))}" for fact in self._task.facts]
        return Answer(self._answer_text(brief), voice.finished(", ".join(stated)))

    async def criticise(self, brief: CriticBrief) -> Review:
        turn = parse(brief.turn)
        if turn.faults:
            return Review(_BLAME.get(brief.kind, "planner"), turn.faults[0].message)
        if brief.kind == "answer" and len(brief.done) == len(self._task.calls):
            for fact in self._task.facts:
                if not states(turn.answer or "", self._value(fact, brief.done)):
                    return Review("answerer", f"the answer does not state the {fact.label}")
        return Review()

    def _first_query(self, capability: Capability) -> str:
        what, service = capability.what, capability.service
        full = self._voice.any_of(f"{service} {what}", f"{what} on {service}", f"{what} in {service}")
        return self._voice.any_of(full, what) if self._style.vague else full

    def _asked_again(self, capability: Capability, hits: Iterable[Hit]) -> str:
        wanted = self._solution.find(capability.tools[0])
        strangers = all(wanted is None or hit.tool.provider != wanted.provider for hit in hits)
        return self._voice.asked_again(capability.slot.name, capability.service, strangers=strangers)

    def _look_in_vain(self, capability: Capability, brief: ExplorerBrief) -> Lead:
        if len(brief.found) > 1:
            return GiveUp(self._voice.gave_up(capability.slot.name))
        hits = brief.found[0].hits
        thing = " ".join(capability.what.split()[1:]).removeprefix("a ").removeprefix("the ")
        query = self._voice.any_of(
            f"{capability.service} {thing} management", f"change a {thing} in {capability.service}"
        )
        return Ask(query, self._voice.doubted(capability.slot.name, hits[0].tool if hits else None))

    def _other_query(self, capability: Capability) -> str:
        """Return a query in the words of a tool that serves the slot and has not been shown."""
        tool = self._solution.find(capability.tools[-1])
        described = " ".join(tool.description.split()[:10]) if tool else capability.what
        return f"{capability.service} {described}".rstrip(".")

    def _choose(self, capability: Capability, hits: dict[str, Hit], failed: tuple[Result, ...]) -> Hit | None:
        """Return the tool to call next, if one that serves the slot was shown and may still work."""
        failures = Counter(result.call.name for result in failed)
        gone = {r.call.name for r in failed if r.error and not ERROR_TRAITS[r.error.kind].retry_helps}
        fit = [hits[name] for name in hits if name in capability.tools and name not in gone]
        faulty = {fault.tool for fault in self._task.faults}
        untried = [hit for hit in fit if not failures[hit.tool.name]]
        untried.sort(key=lambda hit: hit.tool.name not in faulty)  # the failure is what the task is about
        retries = RETRIES if len(capability.tools) > 1 else LAST_RETRIES
        again = [hit for hit in fit if 0 < failures[hit.tool.name] <= retries]
        return next(iter(untried + again), None)

    def _pick_thought(
        self, capability: Capability, picked: Hit, hits: Iterable[Hit], failed: tuple[Result, ...]
    ) -> str:
        slot, tool = capability.slot.name, picked.tool
        if not failed:
            return self._voice.picked(slot, tool.name, self._reason(capability, tool, [hit.tool for hit in hits]))
        last = failed[-1]
        if last.call.name == tool.name:
            return self._voice.retried(tool.name, _why(last))
        return self._voice.switched(last.call.name, _why(last), tool.name)

    def _reason(self, capability: Capability, tool: Tool, shown: list[Tool]) -> str:
        """Say in a few words what speaks for a tool against the others that were shown; often nothing at all."""
        others = [other for other in shown if other.name != tool.name]
        reasons = [""]
        if others and all(other.provider != tool.provider for other in others):
            reasons.append(f"the only one of {capability.service}")
        same = [other for other in others if (other.provider, other.resource) == (tool.provider, tool.resource)]
        if same and all(other.effect != tool.effect for other in same):
            reasons.append(f"{same[0].name} is for {_deed(same[0])}")
        required = tool.parameters.get("required")
        if isinstance(required, list) and required:
            reasons.append(f"it takes {', '.join(map(str, required[:3]))}")
        return self._voice.any_of(*reasons)

    def _value(self, fact: Fact, done: Mapping[str, JsonValue]) -> JsonValue:
        """Return a fact's value in the episode's own results."""
        try:
            return resolve(f"${fact.call}.{fact.path}", done)
        except LinkError:
            return fact.value

    def _answer_text(self, brief: AnswererBrief) -> str:
        """Return one sentence per part: its facts, or that it is done."""
        parts = self._solution.parts
        sentences = []
        for part in parts:
            service = self._solution.service(part)
            stated = [f"the {fact.label} is {_written(self._value(fact, brief.done))}" for fact in part.facts]
            if stated:
                said = " and ".join(stated)
                sentences.append(f"On {service}, {said}" if len(parts) > 1 else said[0].upper() + said[1:])
            else:
                sentences.append(f"Done on {service}: {self._solution.steps(part)}")
        return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in sentences)


def _why(result: Result) -> str:
    return result.error.kind.replace("_", " ") if result.error else ""


def _deed(tool: Tool) -> str:
    deeds = {"read": "reading", "create": "creating", "update": "changing", "delete": "deleting"}
    return deeds.get(tool.effect, "another action")


def _written(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
