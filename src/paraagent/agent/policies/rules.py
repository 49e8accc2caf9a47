"""The built-in policy: no model, no privileged information, only the request and what searches and calls return.

Place in the flow: layer 3. It reads the request (`reading`), searches every step of every part at once, chooses tools
(`choosing`), runs the whole DAG in one turn of linked calls, tries again where that can help, and answers
(`answering`). Everything is recomputed from the context, so it keeps no state. It is the embedded default and the
baseline that a learned policy has to beat.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from string import ascii_lowercase

from paraagent.agent.context import Context, Exchange
from paraagent.agent.policies.answering import state_facts
from paraagent.agent.policies.arithmetic import calculate
from paraagent.agent.policies.choosing import Choice, choose
from paraagent.agent.policies.reading import Part, read_request
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol.flow import call_plan
from paraagent.protocol.lifecycle import PLANS_PER_PHASE
from paraagent.protocol.plan import CallPlan, SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Call, Found, Hit, Reply, Result, Search

ROUNDS = 4
"""Execution turns at most; the first and up to three repairs."""


class RulesPolicy:
    """See the module."""

    name = "rules"

    async def act(self, context: Context) -> Reply:
        """Return the next turn; needs no time and no tokens."""
        return Reply(_turn(context))


def _turn(context: Context) -> str:
    direct = calculate(context.request)
    if direct is not None:
        return render_turn("This needs no tool.", answer=f"The answer is {direct}.")
    parts = read_request(context.request)
    if not parts:
        return render_turn("There is nothing to do.", answer="Please say what you need.")
    if not any(exchange.found for exchange in context.exchanges):
        searches = [search for number, part in enumerate(parts) for search in _searches(part, number)]
        slots = tuple(search.slot for search in searches)
        return render_turn("I look for every tool I need at once.", plan=SearchPlan(slots), searches=searches)
    state = _State(context, parts)
    calls = state.next_calls() if state.rounds < ROUNDS and context.turns_left > 1 else []
    if calls:
        plan = None if state.planned(calls) else call_plan(calls)
        return render_turn("I run everything that can run now.", plan=plan, calls=calls)
    return render_turn("I have what can be had.", answer=state.answer())


class _State:
    """What has been found and done, read off the context."""

    def __init__(self, context: Context, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.rounds = sum(1 for exchange in context.exchanges if exchange.results)
        self.results = list(context.results())
        self._phase = _execution_phase(context)
        found = {answer.search.slot: answer for exchange in context.exchanges for answer in exchange.found}
        out = barred(self.results)
        self.choices = [self._choice(number, part, found, out) for number, part in enumerate(parts)]

    def next_calls(self) -> list[Call]:
        """Return all calls that have not succeeded yet and still may."""
        return [
            call
            for choice in self.choices
            if choice is not None
            for call in choice.calls
            if self._result(call) is None and self._tries(call) < 3
        ]

    def planned(self, calls: Sequence[Call]) -> bool:
        """Tell whether the plans of the running phase cover these calls, or no further plan may be written."""
        plans = [exchange.turn.plan for exchange in self._phase if isinstance(exchange.turn.plan, CallPlan)]
        known = {tool for plan in plans for tool in plan.available_tools}
        return len(plans) >= PLANS_PER_PHASE or (bool(plans) and all(call.name in known for call in calls))

    def answer(self) -> str:
        return " ".join(
            self._part_answer(part, choice) for part, choice in zip(self.parts, self.choices, strict=True)
        )

    def _choice(self, number: int, part: Part, found: dict[str, Found], barred: frozenset[str]) -> Choice | None:
        hits: list[Sequence[Hit]] = []
        for search in _searches(part, number):
            answer = found.get(search.slot)
            if answer is None or answer.nothing_fits:
                return None
            hits.append(answer.hits)
        choice = choose(part, ascii_lowercase[number % 26], hits, barred)
        return choice if choice is not None and choice.complete and choice.score > 0 else None

    def _result(self, call: Call) -> Result | None:
        """Return the success of this call, if it has one."""
        return next((r for r in self.results if r.ok and r.call.id == call.id and r.call.name == call.name), None)

    def _tries(self, call: Call) -> int:
        return sum(r.call.id == call.id and r.call.name == call.name for r in self.results)

    def _part_answer(self, part: Part, choice: Choice | None) -> str:
        if choice is None:
            what = "; ".join(part.steps) or part.text
            return f"I cannot do this, no suitable tool exists: {what}."
        done = [self._result(call) for call in choice.calls]
        last = done[-1]
        if last is None or None in done:
            return f"I could not complete this: {'; '.join(part.steps)}. {self._reason(choice)}"
        return " ".join(state_facts(part.facts, last.value)) or f"Done: {'; '.join(part.steps)}."

    def _reason(self, choice: Choice) -> str:
        names = {call.name for call in choice.calls}
        failures = [r.error.message for r in self.results if r.error is not None and r.call.name in names]
        return f"The last error was: {failures[-1]}" if failures else ""


def _execution_phase(context: Context) -> list[Exchange]:
    """Return the exchanges of the execution phase that the episode is in; empty in another phase."""
    phase: list[Exchange] = []
    for exchange in reversed(context.exchanges):
        if exchange.turn.kind != "execution":
            break
        phase.append(exchange)
    return phase[::-1]


def barred(results: Sequence[Result]) -> frozenset[str]:
    """Return the tools that need not be tried again: time will not mend their failure, or has not mended it twice."""
    failures: Counter[str] = Counter()
    for result in results:
        if result.ok:
            failures.pop(result.call.name, None)
        elif result.error is not None and result.error.kind not in ("outcome_unknown", "cancelled"):
            failures[result.call.name] += 1 if ERROR_TRAITS[result.error.kind].retry_helps else 2
    return frozenset(name for name, count in failures.items() if count >= 2)


def _searches(part: Part, number: int) -> list[Search]:
    """Return one search per step; slots are unique within the request and the same every time."""
    searches = []
    for position, step in enumerate(part.steps):
        plain = without_literals(step)
        label = " ".join(re.findall(r"[A-Za-z]+", plain)[:5]).lower() or "tool"
        slot = f"{label} {ascii_lowercase[number % 26]}{position + 1}"
        searches.append(Search(slot, f"{part.service} {plain}".strip()))
    return searches


def without_literals(step: str) -> str:
    text = re.sub(r'"[^"]*"', " ", step)
    kept = [word for word in text.split() if not re.search(r"[\d@_]|://", word)]
    return " ".join(kept)
