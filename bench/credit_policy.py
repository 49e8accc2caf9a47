"""A small policy that learns: what the built-in `rules` policy decides, here a scorer of options decides.

Place in the flow: part of bench/credit.py. It reads requests, fills arguments and states facts as `rules` do. By
itself it decides in every turn whether to search, call or answer; which steps to search for now and in which words;
for every part of the request which tools to take, whether now, and whether a whole chain at once; which plan to
write; and what to say of a part. One decision is to credit assignment what a token of a language model is. Thousands
of episodes take minutes, and all around it (tools, tasks, loop, rewards, credit) is what models are trained with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase

import numpy as np

from credit_net import Decision, Floats, probabilities
from paraagent.agent.context import Context
from paraagent.agent.policies.answering import state_facts
from paraagent.agent.policies.choosing import WEIGHTS, Choice, choices
from paraagent.agent.policies.reading import Part, read_request
from paraagent.agent.policies.rules import barred, without_literals
from paraagent.protocol.flow import call_plan
from paraagent.protocol.plan import CallPlan, SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Call, Found, JsonValue, Reply, Search

Option = Mapping[str, float]
"""Features of something that may be decided, those that are not 0."""

KINDS = ("search", "call", "answer")
_STATE = ("always", "unasked", "open", "failed", "missing", "done", "late")
_WORDS = ("service and step", "step", "service", "part")
_ASK = ("always", "again", "first")
FEATURES = (
    *(f"{kind}: {state}" for kind in KINDS for state in _STATE),
    *(f"ask: {what}" for what in _ASK),
    *(f"words: {form}{again}" for form in _WORDS for again in ("", ", again")),
    *(f"tools: {evidence}" for evidence in (*WEIGHTS, "barred", "tried")),
    *(f"leave: {what}" for what in ("always", "tried", "nothing fits")),
    "whole chain",
    *(f"plan: {what}, {due}" for what in ("search", "right", "flat") for due in ("due", "there")),
    "state facts",
)
_INDEX = {name: place for place, name in enumerate(FEATURES)}
EXPERT: Mapping[str, float] = {
    "search: unasked": 6.0,
    "search: always": -3.0,
    "call: open": 3.0,
    "ask: always": 6.0,
    "ask: again": -9.0,
    "words: service and step": 3.0,
    **{f"tools: {name}": weight for name, weight in WEIGHTS.items()},
    "tools: barred": -9.0,
    "leave: nothing fits": 9.0,
    "whole chain": 3.0,
    "plan: search, due": 3.0,
    "plan: search, there": -3.0,
    "plan: right, due": 6.0,
    "plan: right, there": -3.0,
    "plan: flat, due": 3.0,
    "plan: flat, there": -6.0,
    "state facts": 6.0,
}
"""Weights with which the best decisions are about those of `rules`."""


def expert(options: Floats) -> Floats:
    """Return the scores of who shows how it is done."""
    found: Floats = options @ np.array([EXPERT.get(name, 0.0) for name in FEATURES])
    return found


class SmallPolicy:
    """One episode's policy.

    Args:
        score: returns the scores (options,) of options (options, features).
        random: decides by chance; without it the likeliest option is taken.
    """

    name = "small"

    def __init__(self, score: Callable[[Floats], Floats], random: np.random.Generator | None = None) -> None:
        self._score, self._random = score, random
        self.turns: list[list[Decision]] = []
        """The decisions of every turn so far."""

    async def act(self, context: Context) -> Reply:
        """Return the next turn; needs no time and no tokens."""
        self.turns.append([])
        view = _View(context)
        if not view.parts:
            return Reply(render_turn("There is nothing to do.", answer="Please say what you need."))
        kind = "answer"
        if context.turns_left > 1:
            possible = {"search": bool(view.askable), "call": any(view.open), "answer": True}
            kinds = [kind for kind in KINDS if possible[kind]]
            kind = kinds[self._decide([_about(kind, view.state()) for kind in kinds])]
        turns = {"search": self._search, "call": self._call, "answer": self._answer}
        return Reply(turns[kind](view))

    def _search(self, view: _View) -> str:
        searches: list[Search] = []
        for step in view.askable:
            asked = float(step.slot in view.found)
            ask = _about("ask", {"always": 1.0, "again": asked, "first": float(not searches)})
            if self._decide([ask, {}]) == 0:
                again = ", again" if asked else ""
                form = self._decide([{f"words: {form}{again}": 1.0} for form in step.words])
                searches.append(Search(step.slot, [*step.words.values()][form]))
        if not searches:
            return self._answer(view)
        due = "there" if view.phase_plans("exploration") else "due"
        planned = self._decide([{f"plan: search, {due}": 1.0}, {}]) == 0
        plan = SearchPlan(tuple(search.slot for search in searches)) if planned else None
        return render_turn("I look for tools.", plan=plan, searches=searches)

    def _call(self, view: _View) -> str:
        calls: list[Call] = []
        for number, open_choices in enumerate(view.open):
            if not open_choices:
                continue
            leave = _about("leave", view.reasons_to_leave(number))
            taken = self._decide([*(_about("tools", view.evidence(choice)) for choice in open_choices), leave])
            if taken < len(open_choices):
                rest = [call for call in open_choices[taken].calls if view.value(call) is None]
                whole = len(rest) == 1 or self._decide([{"whole chain": 1.0}, {}]) == 0
                calls += rest if whole else rest[:1]
        if not calls:
            return self._answer(view)
        return render_turn("I run tools.", plan=self._plan(calls, view), calls=calls)

    def _plan(self, calls: Sequence[Call], view: _View) -> CallPlan | None:
        covered = {tool for plan in view.phase_plans("execution") for tool in plan}
        due = "there" if covered and all(call.name in covered for call in calls) else "due"
        right = call_plan(calls)
        flat = CallPlan(right.available_tools, (), (tuple(call.name for call in calls),))
        taken = self._decide([{f"plan: right, {due}": 1.0}, {f"plan: flat, {due}": 1.0}, {}])
        return (right, flat, None)[taken]

    def _answer(self, view: _View) -> str:
        said = []
        for number, part in enumerate(view.parts):
            value = view.result(number)
            if value is not None and self._decide([{"state facts": 1.0}, {}]) == 0:
                said.append(" ".join(state_facts(part.facts, value[0])) or f"Done: {'; '.join(part.steps)}.")
            else:
                said.append(f"I cannot do this, no suitable tool exists: {'; '.join(part.steps) or part.text}.")
        return render_turn("I have what can be had.", answer=" ".join(said))

    def _decide(self, options: Sequence[Option]) -> int:
        table = np.zeros((len(options), len(FEATURES)))
        for row, option in zip(table, options, strict=True):
            for name, value in option.items():
                row[_INDEX[name]] = value
        scores = self._score(table)
        if self._random is None:
            taken = int(scores.argmax())
        else:
            taken = int(self._random.choice(len(options), p=probabilities(scores)))
        self.turns[-1].append(Decision(table, taken))
        return taken


@dataclass(frozen=True, slots=True)
class _Step:
    """One step that a tool is wanted for."""

    slot: str
    words: Mapping[str, str]
    """The queries that may be asked, by form."""


class _View:
    """What has been asked, found and done, read off the context."""

    def __init__(self, context: Context) -> None:
        self._exchanges = context.exchanges
        self.parts = read_request(context.request)
        self.found: dict[str, Found] = {f.search.slot: f for exchange in context.exchanges for f in exchange.found}
        self._asked = [found.search.slot for exchange in context.exchanges for found in exchange.found]
        self._results = list(context.results())
        self._barred = barred(self._results)
        self._failed = {r.call.name for r in self._results if not r.ok}
        self._steps = [[*_steps(part, letter(n))] for n, part in enumerate(self.parts)]

    @cached_property
    def askable(self) -> list[_Step]:
        """Steps that were not asked for twice."""
        return [step for steps in self._steps for step in steps if self._asked.count(step.slot) < 2]

    @cached_property
    def open(self) -> list[list[Choice]]:
        """For every part what may be run; nothing if it is done."""
        return [[] if self.result(n) is not None else [*self._choices(n)] for n in range(len(self.parts))]

    def _choices(self, number: int) -> Iterator[Choice]:
        found = [self.found.get(step.slot) for step in self._steps[number]]
        hits = [one.hits for one in found if one is not None]
        if len(hits) == len(found):
            for choice in choices(self.parts[number], letter(number), hits):
                done = {r.call.id: r.call.name for r in self._results if r.ok}
                if all(done.get(call.id, call.name) == call.name for call in choice.calls):
                    yield choice

    def state(self) -> Option:
        """Return what the kind of the next turn depends on."""
        done = [self.result(number) is not None for number in range(len(self.parts))]
        rounds = sum(bool(exchange.results) for exchange in self._exchanges)
        last = self._exchanges[-1].results if self._exchanges else ()
        return {
            "always": 1.0,
            "unasked": float(any(step.slot not in self.found for step in self.askable)),
            "open": float(any(self.open)),
            "failed": float(any(not result.ok for result in last)),
            "missing": float(any(not (d or o) for d, o in zip(done, self.open, strict=True))),
            "done": sum(done) / len(done),
            "late": min(rounds, 4) / 4,
        }

    def evidence(self, choice: Choice) -> Option:
        names = [call.name for call in choice.calls]
        return {
            **choice.evidence,
            "barred": sum(name in self._barred for name in names),
            "tried": sum(name in self._failed for name in names),
        }

    def reasons_to_leave(self, number: int) -> Option:
        nothing = any(self.found[step.slot].nothing_fits for step in self._steps[number])
        tried = any(r.call.id == f"{letter(number)}1" for r in self._results)
        return {"always": 1.0, "tried": float(tried), "nothing fits": float(nothing)}

    def value(self, call: Call) -> tuple[JsonValue] | None:
        """Return what this call gave, if it has succeeded."""
        return next(((r.value,) for r in self._results if r.ok and r.call.id == call.id), None)

    def result(self, number: int) -> tuple[JsonValue] | None:
        """Return what the last call of a part gave, once it has succeeded."""
        last = f"{letter(number)}{len(self._steps[number])}"
        return next(((r.value,) for r in self._results if r.ok and r.call.id == last), None)

    def phase_plans(self, kind: str) -> list[tuple[str, ...]]:
        """Return what the plans of the running phase name; nothing in another phase."""
        plans: list[tuple[str, ...]] = []
        for exchange in reversed(self._exchanges):
            if exchange.turn.kind != kind:
                break
            plan = exchange.turn.plan
            if plan is not None:
                plans.append(plan.available_tools if isinstance(plan, CallPlan) else plan.capacity_slots)
        return plans


def _steps(part: Part, name: str) -> Iterator[_Step]:
    for position, step in enumerate(part.steps, 1):
        plain = without_literals(step)
        label = " ".join(re.findall(r"[A-Za-z]+", plain)[:5]).lower() or "tool"
        queries = (f"{part.service} {plain}".strip(), plain, part.service, part.text)
        words = {form: query for form, query in zip(_WORDS, queries, strict=True) if query}
        yield _Step(f"{label} {name}{position}", words)


def letter(number: int) -> str:
    """Return the letter of a part; its calls are `a1`, `a2`..."""
    return ascii_lowercase[number % 26]


def _about(what: str, features: Option) -> Option:
    return {f"{what}: {name}": value for name, value in features.items()}
