"""The policy that has read the task's gold DAG: the upper bound, and the proof that a task can be solved.

Place in the flow: layer 3. It searches every slot in one turn, runs all calls as linked calls in one turn (or layer
by layer), calls again what failed, goes around a tool that fails for good by an equivalent one, and states the facts.
Everything is recomputed from the context, so it keeps no state and is deterministic. Limits: it knows only the tasks
it was given, by their requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paraagent.agent.context import Context
from paraagent.env.replay import answer
from paraagent.env.task import GoldSlot, Task
from paraagent.errors import UsageError
from paraagent.protocol import links
from paraagent.protocol.flow import call_plan
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Call, Reply, Search, TurnKind

PATIENCE = 3
"""How many calls of a tool may fail before an equivalent one is tried; the runtime's own repeats do not count."""


class OraclePolicy:
    """Solves the tasks it was given.

    Args:
        tasks: every task it may be asked for.
        linked: run a whole DAG in one turn of linked calls; else one turn per layer.
    """

    name = "oracle"

    def __init__(self, tasks: Iterable[Task], *, linked: bool = True) -> None:
        self._tasks = {task.request: task for task in tasks}
        self._linked = linked

    async def act(self, context: Context) -> Reply:
        """Return the next turn; needs no time and no tokens.

        Raises:
            UsageError: the request is of none of the tasks it was given.
        """
        task = self._tasks.get(context.request)
        if task is None:
            raise UsageError("the oracle policy was not given the task of this request")
        return Reply(_State(task, context, self._linked).turn())


@dataclass(frozen=True, slots=True)
class _State:
    """What has been found and done, read off the context."""

    task: Task
    context: Context
    linked: bool

    def turn(self) -> str:
        last = self.context.turns_left == 1
        searches, pending = ([], []) if last else (self._searches(), self._pending())
        if searches:
            plan = SearchPlan(tuple(search.slot for search in searches)) if self._opens("exploration") else None
            return render_turn("I look for all the tools I need at once.", plan=plan, searches=searches)
        if pending:
            due = self._opens("execution") or not {call.name for call in pending} <= self._planned()
            plan_of_calls = call_plan(pending) if due else None
            return render_turn("I run what is ready.", plan=plan_of_calls, calls=self._ready(pending))
        return render_turn("There is nothing left to do.", answer=self._answer())

    def _searches(self) -> list[Search]:
        """Return a search for every slot not asked yet, and for every wanted tool that has not shown."""
        asked = [found.search.slot for exchange in self.context.exchanges for found in exchange.found]
        surfaced = self.context.surfaced()
        wanted = []
        for slot in self.task.slots:
            if slot.name not in asked:
                wanted.append(Search(slot.name, slot.query))
            elif slot.tools and self._tool(slot) not in surfaced and asked.count(slot.name) <= len(slot.tools):
                wanted.append(Search(slot.name, self._tool(slot).replace("_", " ")))
        return wanted

    def _pending(self) -> list[Call]:
        """Return the gold calls that have not succeeded and whose tools and inputs can be had."""
        done, surfaced = self.context.values(), self.context.surfaced()
        slots = {slot.tools[0]: slot for slot in self.task.slots if slot.tools}
        wanted: dict[str, Call] = {}
        for gold in self.task.calls:
            name = self._tool(slots[gold.tool])
            fed = all(up in done or up in wanted for up in links.upstream(gold.arguments))
            if gold.id not in done and name in surfaced and fed:
                wanted[gold.id] = Call(name, gold.arguments, gold.id)
        return list(wanted.values())

    def _ready(self, pending: list[Call]) -> list[Call]:
        """Return what may run in this turn: everything that is linked, or only calls whose inputs are there."""
        waiting = {call.id for call in pending}
        return [call for call in pending if self.linked or waiting.isdisjoint(links.upstream(call.arguments))]

    def _tool(self, slot: GoldSlot) -> str:
        """Return the slot's first tool that has not failed for good, one that a search has shown if there is one."""
        surfaced = self.context.surfaced()
        usable = [name for name in slot.tools if not self._hopeless(name)]
        return next((name for name in usable if name in surfaced), (usable or slot.tools)[0])

    def _hopeless(self, name: str) -> bool:
        failures = [r.error for r in self.context.results() if r.call.name == name and r.error and r.attempts]
        return len(failures) >= PATIENCE or any(error.kind == "permission" for error in failures)

    def _planned(self) -> set[str]:
        """Return the tools of the call plans so far."""
        plans = (exchange.turn.plan for exchange in self.context.exchanges)
        return {name for plan in plans if plan and not isinstance(plan, SearchPlan) for name in plan.available_tools}

    def _opens(self, kind: TurnKind) -> bool:
        """Tell whether a turn of this kind begins a phase, so that a plan is due."""
        kinds = [exchange.turn.kind for exchange in self.context.exchanges if exchange.turn.kind != "invalid"]
        return not kinds or kinds[-1] != kind

    def _answer(self) -> str:
        values = self.context.values()
        if any(gold.id not in values for gold in self.task.calls):
            return "I could not finish this: a tool that it needs kept failing."
        return answer(self.task, values)
