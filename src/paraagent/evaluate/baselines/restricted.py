"""Lets a built-in policy work under a paradigm: it decides as ever, and what it decides is carried out piecemeal.

Place in the flow: layer 5, part of `paradigm`. The policy sees a history in which each of its turns was carried out
whole; in truth each takes as many turns as the paradigm needs. So all paradigms share the policy's judgement exactly,
and differ in what a turn may hold and in what search may show. Everything is recomputed from the context: the policy
must decide alike whenever it is asked about the same history.
Limits: the policy learns the results of a turn only when all of it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paraagent.agent.context import Context, Exchange
from paraagent.evaluate.baselines.dialect import retrieval
from paraagent.evaluate.baselines.paradigm import Paradigm
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.links import LinkError, literal, resolve, upstream
from paraagent.protocol.render import render_turn
from paraagent.search.search import SearchIndex
from paraagent.types import Call, Found, JsonValue, Policy, Reply, Result, ToolError

_PLENTY = 100
"""Turns left, as the policy is told of decisions that it has taken already."""


class RestrictedPolicy:
    """A policy under a paradigm."""

    def __init__(self, policy: Policy, way: Paradigm) -> None:
        self.name = f"{policy.name} as {way.name}"
        self._policy = policy
        self._way = way

    async def act(self, context: Context) -> Reply:
        """Return the next piece of what the policy wants to do."""
        if self._way.exploring == "retrieved" and not context.exchanges:
            return retrieval(context.request)
        unrolling = _Unrolling(self._way, context)
        while True:
            reply = await self._policy.act(unrolling.told())
            piece = unrolling.next_piece(parse(reply.text))
            if piece is not None:
                return reply if piece == "" else replace(reply, text=piece)


class _Unrolling:
    """Replays what really happened against what the policy decided."""

    def __init__(self, way: Paradigm, context: Context) -> None:
        self._way = way
        self._context = context
        self._happened = deque(context.exchanges)
        self._told = Context(context.request, messages=context.messages)
        self._executions = 0
        self._searched = False
        self._frozen: SearchIndex | None = None
        if way.exploring == "retrieved":
            found = self._happened.popleft().found
            self._frozen = SearchIndex.build_in_memory([hit.tool for one in found for hit in one.hits])

    def told(self) -> Context:
        """Return the history as the policy is to see it."""
        self._told.turns_left = _PLENTY if self._happened else self._context.turns_left
        return self._told

    def next_piece(self, turn: Turn) -> str | None:
        """Return the text of the next real turn; empty for the policy's own, None if its turn is done already."""
        if turn.kind == "exploration":
            return self._explore(turn)
        if turn.kind == "execution":
            return self._execute(turn)
        return ""

    def _explore(self, turn: Turn) -> str | None:
        if self._frozen is not None:
            self._see(turn, found=self._frozen.search(turn.searches))
            return None
        if self._way.exploring == "first" and self._searched:
            self._see(turn, found=[Found(search, (), 0, True) for search in turn.searches])
            return None
        width = self._way.actions or len(turn.searches)
        found: list[Found] = []
        while len(found) < len(turn.searches):
            part = turn.searches[len(found) : len(found) + width]
            if not self._happened:
                if self._context.turns_left > 1 or not self._context.exchanges:
                    plan = turn.plan if self._way.plans and not found else None
                    return render_turn(turn.think, plan=plan, searches=part)
                found += [Found(search, (), 0, True) for search in turn.searches[len(found) :]]
            else:
                found += [replace(one, search=part[n]) for n, one in enumerate(self._happened.popleft().found)]
        self._searched = True
        self._see(turn, found=found)
        return None

    def _execute(self, turn: Turn) -> str | None:
        calls = [call for call in turn.calls if isinstance(call, Call)]
        results: dict[int, Result] = {}
        begun = False
        while ready := self._ready(calls, results):
            if self._happened:
                self._executions += not begun
                begun = True
                for (place, _), result in zip(ready, self._happened.popleft().results, strict=True):
                    results[place] = replace(result, call=calls[place])
            elif self._context.turns_left > 1 and (begun or not self._used_up):
                plan = turn.plan if self._way.plans and not begun else None
                return render_turn(turn.think, plan=plan, calls=[call for _, call in ready])
            else:
                break
        never = ToolError("cancelled", "there was no turn left for this call")
        ordered = [
            results.get(place) or Result(call, call.arguments, error=never) for place, call in enumerate(calls)
        ]
        self._see(turn, results=ordered)
        return None

    @property
    def _used_up(self) -> bool:
        return self._way.executions is not None and self._executions >= self._way.executions

    def _ready(self, calls: Sequence[Call], results: dict[int, Result]) -> list[tuple[int, Call]]:
        """Return what the next real turn calls, by place; calls that cannot run any more get results instead."""
        if self._way.links and self._way.actions is None:
            return [] if results else list(enumerate(calls))
        known = self._told.values() | {
            call.id: results[place].value
            for place, call in enumerate(calls)
            if call.id is not None and place in results and results[place].ok
        }
        places = {call.id: place for place, call in enumerate(calls) if call.id is not None}
        ready: list[tuple[int, Call]] = []
        for place, call in enumerate(calls):
            sources = [places[name] for name in upstream(call.arguments) if name in places]
            if place in results or any(source not in results for source in sources):
                continue
            if not all(results[source].ok for source in sources):
                results[place] = _failed(call, ToolError("invalid_args", "the call it links to failed"))
                continue
            try:
                ready.append((place, call if self._way.links else _unlinked(call, known)))
            except LinkError as error:
                results[place] = _failed(call, ToolError(error.kind, str(error)))
        return ready[: self._way.actions]

    def _see(self, turn: Turn, found: Sequence[Found] = (), results: Sequence[Result] = ()) -> None:
        """Tell the policy that its turn was carried out."""
        self._told.exchanges.append(Exchange(turn, found=tuple(found), results=tuple(results)))


def _failed(call: Call, error: ToolError) -> Result:
    return Result(call, call.arguments, error=error)


def _unlinked(call: Call, known: Mapping[str, JsonValue]) -> Call:
    """Return the call with values in place of links, and without an id, which only links need."""
    arguments = literal(resolve(call.arguments, known))
    assert isinstance(arguments, dict)
    return Call(call.name, arguments)
