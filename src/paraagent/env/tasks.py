"""Samples verifiable tasks from a catalog: same catalog, split, kind, seed and dials, same task, in every process.

Place in the flow: layer 3. A shape is drawn (`shapes`), filled with tools along the dependency graph (`draft`), run
once in the simulated world (`replay`), asked about (`facts`), put in words (`phrasing`), and kept only if its gold
tools are found by a sensible search and the oracle's answer verifies. Everything else is `Dropped` with the reason.
Limits: one seed is one attempt; `TaskSampler.tasks` yields those that were kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Literal

from paraagent.catalog.store import Catalog
from paraagent.env import direct, facts, phrasing, unanswerable
from paraagent.env.draft import Draft, Drafter
from paraagent.env.interface import Interfaces
from paraagent.env.repertoire import Repertoire
from paraagent.env.replay import Replay, answer, replay
from paraagent.env.service import service_name
from paraagent.env.setbacks import LASTING, setback
from paraagent.env.shapes import Dials, Goal, depths
from paraagent.env.states import states
from paraagent.env.task import Fact, GoldCall, GoldSlot, Task
from paraagent.env.verify import Outcome, verify
from paraagent.env.world import World
from paraagent.errors import ToolFailure

if TYPE_CHECKING:
    from paraagent.search.search import SearchIndex
from paraagent.protocol.links import upstream
from paraagent.types import Search, Split, TaskKind

if TYPE_CHECKING:
    from paraagent.search.search import SearchIndex

DropReason = Literal[
    "no_tool",
    "call_failed",
    "no_fact",
    "repeated_call",
    "bad_words",
    "not_retrievable",
    "not_solved",
    "order_matters",
]
TOP = 5
"""A gold tool or an equivalent must be among this many hits for its slot's query: what an agent is shown."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A seed that gave no task."""

    reason: DropReason
    detail: str = ""


class TaskSampler:
    """Samples tasks from one catalog; keeps what it loaded, so one sampler should serve a whole run."""

    def __init__(self, catalog: Catalog, index: SearchIndex | None = None) -> None:
        """Make a sampler; without an index it is not checked that searches find the gold tools."""
        self.catalog = catalog
        self.interfaces = Interfaces(catalog.get)
        self._index = index
        self._repertoire = Repertoire(catalog)
        self._drafter = Drafter(self._repertoire)

    def tasks(
        self, split: Split, kinds: Sequence[TaskKind], seeds: Iterable[int], dials: Dials | None = None
    ) -> Iterator[Task]:
        """Yield the task of every seed that gives one; the kinds take turns."""
        for seed in seeds:
            found = self.sample(split, kinds[seed % len(kinds)], seed, dials)
            if isinstance(found, Task):
                yield found

    def sample(self, split: Split, kind: TaskKind, seed: int, dials: Dials | None = None) -> Task | Dropped:
        """Return the task of a seed, or why there is none.

        Raises:
            UsageError: a dial is outside its range.
        """
        dials = dials or Dials()
        dials.check()
        key = hashlib.sha256(f"{self.catalog.digest} {split} {kind} {seed} {dials}".encode()).hexdigest()
        rng = Random(key)
        blank = Task(
            id=f"{split}-{kind}-{seed}-{key[:6]}",
            kind=kind,
            split=split,
            seed=rng.getrandbits(32),
            request="",
            fault_rate=dials.fault_rate,
            catalog=self.catalog.digest,
        )
        if kind == "direct":
            request, wanted = direct.puzzle(rng)
            task: Task | Dropped = self._still(replace(blank, request=request, literal_answer=wanted))
        elif kind == "unanswerable":
            task = self._unanswerable(blank, rng)
        else:
            lasting = kind == "recover" and rng.random() < 0.5
            draft = self._drafter.draft(split, depths(kind, dials, rng), dials, rng, replaceable=lasting)
            task = self._compose(blank, draft, rng) if draft else Dropped("no_tool")
            if isinstance(task, Task) and kind == "recover":
                task = replace(task, faults=(setback(task, self._replaceable(task), self.catalog.get, rng),))
        return task if isinstance(task, Dropped) else self._solved(task)

    def _compose(self, task: Task, draft: Draft, rng: Random) -> Task | Dropped:
        """Run a draft, choose the facts, write the request."""
        calls = tuple(
            GoldCall(step.id, step.tool.name, step.arguments) for goal in draft.goals for step in goal.steps
        )
        if len({(call.tool, str(call.arguments)) for call in calls}) < len(calls):
            return Dropped("repeated_call")
        try:
            run = replay(World(task.seed, draft.entities), calls, self.interfaces)
        except ToolFailure as failure:
            return Dropped("call_failed", str(failure))
        goals = _asking(draft.goals, run, rng)
        if isinstance(goals, Dropped):
            return goals
        request = phrasing.request(goals, rng, draft.asides)
        if problem := _ill_worded(request, goals):
            return Dropped("bad_words", problem)
        composed = replace(
            task,
            request=request,
            slots=tuple(self._slots(goals)),
            calls=calls,
            facts=tuple(fact for goal in goals for fact in goal.facts),
            entities=draft.entities,
            final_state=run.state,
        )
        return self._interchangeable(composed)

    def _interchangeable(self, task: Task) -> Task:
        """Return the task with only those equivalents in its slots that solve it in the gold tool's place."""
        slots = []
        for slot in task.slots:
            fit = [name for name in slot.tools[1:] if self._failure(task, {slot.tools[0]: name}) is None]
            slots.append(replace(slot, tools=(slot.tools[0], *fit)))
        return replace(task, slots=tuple(slots))

    def _slots(self, goals: Sequence[Goal]) -> Iterator[GoldSlot]:
        """Yield one slot per gold tool, in calling order."""
        seen: dict[str, int] = {}
        for step in (step for goal in goals for step in goal.steps):
            if step.tool.name in seen:
                continue
            seen[step.tool.name] = len(seen)
            others = [name for name in self.catalog.equivalents(step.tool.name) if name != step.tool.name]
            query = f"{service_name(step.tool)} {step.wording.text}"
            yield GoldSlot(_slot_name(step.wording.text, len(seen)), query, (step.tool.name, *others))

    def _unanswerable(self, task: Task, rng: Random) -> Task | Dropped:
        missing = self._gap(task.split, rng) if rng.random() < 0.5 else None
        found = missing or unanswerable.invented(rng, self.catalog.providers())
        return self._still(
            replace(task, request=found.request, slots=(GoldSlot(_slot_name(found.slot, 1), found.query, ()),))
        )

    def _gap(self, split: Split, rng: Random) -> unanswerable.Missing | None:
        """Return a request for an operation that a real provider lacks, if one is found."""
        providers = self._repertoire.providers(split)
        for provider in rng.sample(providers, min(len(providers), 12)):
            apis = self._repertoire.apis(provider)
            if len(apis) > 6:
                continue
            everything = [tool for api in apis for tool in self.catalog.by_api(provider, api)]
            part = self._repertoire.part(provider, rng.choice(apis))
            for tool in rng.sample(list(part.tools.values()), min(len(part.tools), 4)):
                found = self._drafter.gap(tool, everything, rng)
                if found:
                    return found
        return None

    def _still(self, task: Task) -> Task:
        """Return a task in which nothing may be written."""
        return replace(task, final_state=World(task.seed, task.entities).hash())

    def _solved(self, task: Task) -> Task | Dropped:
        """Return the task if its gold tools can be found and the oracle solves it."""
        if missing := self._unfound(task):
            return Dropped("not_retrievable", missing)
        lasting = {fault.tool for fault in task.faults if fault.times >= LASTING}
        instead = {slot.tools[0]: slot.tools[1] for slot in task.slots if lasting.intersection(slot.tools[:1])}
        failure = self._failure(task, instead)
        if failure is not None:
            return Dropped("not_solved", failure)
        if self._failure(task, instead, backwards=True) is not None:
            return Dropped("order_matters", "its goals get in each other's way")
        return task

    def _failure(self, task: Task, instead: Mapping[str, str], *, backwards: bool = False) -> str | None:
        """Return why the gold calls, some with another tool, and the oracle's answer do not solve a task, or None.

        `backwards` runs the last goal first: goals that speak of the same things may get in each other's way.
        """
        calls = [replace(call, tool=instead.get(call.tool, call.tool)) for call in task.calls]
        if backwards:
            goals = _goals(calls)
            if len({self._api(goal[0].tool) for goal in goals}) == len(goals):
                return None  # goals at different services cannot meet
            calls = [call for goal in reversed(goals) for call in goal]
        try:
            run = replay(World(task.seed, task.entities), calls, self.interfaces)
            outcome = Outcome(run.results, run.state, answer(task, run.values))
        except ToolFailure as failure:
            return str(failure)
        return "; ".join(verify(task, outcome, self.catalog.get).reasons) or None

    def _api(self, name: str) -> str | None:
        interface = self.interfaces.get(name)
        return interface.identity.api if interface else None

    def _unfound(self, task: Task) -> str | None:
        """Return the query of a slot whose tools its own search does not find."""
        slots = [slot for slot in task.slots if slot.tools]
        found = self._found(slots)
        return next(
            (slot.query for slot, names in zip(slots, found, strict=True) if names.isdisjoint(slot.tools)), None
        )

    def _replaceable(self, task: Task) -> list[str]:
        """Return the gold tools of which an equivalent is found by the same search."""
        found = self._found(task.slots)
        pairs = zip(task.slots, found, strict=True)
        return [slot.tools[0] for slot, names in pairs if not names.isdisjoint(slot.tools[1:])]

    def _found(self, slots: Sequence[GoldSlot]) -> list[set[str]]:
        """Return the names that each slot's query finds; without an index, its own tools."""
        if self._index is None:
            return [set(slot.tools) for slot in slots]
        found = self._index.search([Search(slot.name, slot.query) for slot in slots], k=TOP)
        return [{hit.tool.name for hit in hits.hits} for hits in found]


def _goals(calls: Iterable[GoldCall]) -> list[list[GoldCall]]:
    """Return gold calls by goal: a call that links to none before it begins the next one."""
    goals: list[list[GoldCall]] = []
    for call in calls:
        goals += [] if upstream(call.arguments) else [[]]
        goals[-1].append(call)
    return goals


def _asking(goals: Sequence[Goal], run: Replay, rng: Random) -> tuple[Goal, ...] | Dropped:
    """Return the goals with facts about what their last steps returned."""
    stated = " ".join(text for goal in goals for text in phrasing.literals(goal))
    taken: list[Fact] = []
    asking = []
    for goal in goals:
        last = goal.steps[-1]
        count = 1 if rng.random() < 0.7 else 2
        found = facts.choose(last.id, run.values[last.id], stated, rng, count, taken)
        if not found and (last.tool.effect == "read" or not last.arguments):
            return Dropped("no_fact", last.tool.name)
        taken += found
        asking.append(replace(goal, facts=tuple(found)))
    return tuple(asking)


def _ill_worded(request: str, goals: Sequence[Goal]) -> str | None:
    """Return what is wrong with a request: a literal that is gone, a tool's identifier, an answer given away."""
    lowered = request.lower()
    for goal in goals:
        for literal in phrasing.literals(goal):
            if literal not in request:
                return f"literal {literal!r} is missing"
        for fact in goal.facts:
            if states(request, fact.value):
                return f"the request gives {fact.label!r} away"
        for step in goal.steps:
            names = {step.tool.name.lower(), step.tool.operation.lower()}
            if any(name in lowered for name in names if len(name) > 8 and " " not in name):
                return f"the request names {step.tool.name}"
    return None


def _slot_name(text: str, number: int) -> str:
    """Return a short unique name for a slot, without a colon, which would end it."""
    return f"{' '.join(text.replace(':', ' ').split()[:5])} {number}"
