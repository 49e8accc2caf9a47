"""Lets a policy that speaks ParaAct work under a paradigm: it decides as ever, and that is carried out piecemeal.

Place in the flow: layer 5, part of `paradigm`. The policy sees a history in which each of its turns was carried out
whole; in truth each takes as many turns as the paradigm needs. So all paradigms share the policy's judgement exactly,
and differ in what a turn may hold and in what search may show.
Limits: the policy learns the results of a turn only when all of it is done. What it decided is remembered per
episode; of an episode that is resumed it is asked anew, so it must decide alike.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from paraagent.agent.context import Context, Exchange
from paraagent.agent.settings import Settings
from paraagent.evaluate.baselines.dialect import LAST_TURN, retrieval
from paraagent.evaluate.baselines.paradigm import Paradigm
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.links import LinkError, literal, resolve, upstream
from paraagent.protocol.observe import render_found, render_notes, render_result
from paraagent.protocol.render import render_turn
from paraagent.search.search import SearchIndex
from paraagent.types import Call, Found, JsonValue, Message, Policy, Reply, Result, ToolError

Pieces = Generator[str, Exchange, None]
"""Yields the texts of real turns and is sent what came of each."""

_PLENTY = 100
"""Turns left, as the policy is told of decisions that were carried out already."""
_REMEMBERED = 512
"""Episodes; the oldest are forgotten first."""


class RestrictedPolicy:
    """A policy under a paradigm."""

    def __init__(self, policy: Policy, way: Paradigm) -> None:
        self.name = f"{policy.name} as {way.name}"
        self._policy = policy
        self._way = way
        self._episodes: OrderedDict[int, tuple[Context, _Episode]] = OrderedDict()

    async def act(self, context: Context) -> Reply:
        """Return the next piece of what the policy wants to do."""
        if self._way.exploring == "retrieved" and not context.exchanges:
            return retrieval(context.request)
        known = self._episodes.pop(id(context), None)
        own = known[1] if known else _Episode(self._way, context)
        self._episodes[id(context)] = (context, own)
        while len(self._episodes) > _REMEMBERED:
            self._episodes.popitem(last=False)
        return await own.next(self._policy, context)


class _Episode:
    """What one policy decided in one episode, and how far that is carried out."""

    def __init__(self, way: Paradigm, context: Context) -> None:
        self._way = way
        self._context = context
        self._told = Context(context.request)
        turns = len(context.exchanges) + context.turns_left
        prompt = replace(Settings(), budget=replace(Settings().budget, turns=turns)).system_prompt()
        self._told.messages += [Message("system", prompt), Message("user", context.request)]
        self._pieces: Pieces | None = None
        self._consumed = 0
        self._idle = 0  # turns of the policy that took no real one
        self._executions = 0
        self._searched = False
        self._frozen: SearchIndex | None = None
        if way.exploring == "retrieved":
            self._consumed = 1
            self._frozen = SearchIndex.build_in_memory([h.tool for f in context.exchanges[0].found for h in f.hits])

    async def next(self, policy: Policy, context: Context) -> Reply:
        """Return the next real turn."""
        self._context = context
        reply = Reply("")
        while True:
            if self._pieces is None:
                self._told.turns_left = self._turns_left()
                self._told.reply_tokens = context.reply_tokens
                reply = await policy.act(self._told)
                self._pieces = self._carry_out(parse(reply.text))
                text = next(self._pieces, None)
                self._idle += text is None
            else:
                text = self._go_on(self._pieces)
            while text is not None and self._behind:
                text = self._go_on(self._pieces)
            if text is not None:
                return replace(reply, text=text)
            self._pieces = None
            if self._idle > _PLENTY:
                return reply  # it will not end by itself; the loop's budget will end it

    def _turns_left(self) -> int:
        """Return how many turns the policy is told it has."""
        if self._behind:
            return _PLENTY
        return 1 if self._used_up else max(1, self._context.turns_left - self._idle)

    @property
    def _used_up(self) -> bool:
        return self._way.executions is not None and self._executions >= self._way.executions

    @property
    def _behind(self) -> bool:
        """Whether something happened that the policy was not told yet."""
        return self._consumed < len(self._context.exchanges)

    @property
    def _may_go_on(self) -> bool:
        return self._behind or self._context.turns_left > 1

    def _go_on(self, pieces: Pieces) -> str | None:
        """Hand the next thing that happened over, and return the text of the turn after it."""
        exchange = self._context.exchanges[self._consumed]
        self._consumed += 1
        try:
            return pieces.send(exchange)
        except StopIteration:
            return None

    def _carry_out(self, turn: Turn) -> Pieces:
        if turn.kind == "exploration":
            yield from self._explore(turn)
        elif turn.kind == "execution":
            yield from self._execute(turn)
        else:
            exchange = yield turn.text
            self._see(turn, notes=exchange.notes, said=exchange.reply)

    def _explore(self, turn: Turn) -> Pieces:
        found: list[Found] = []
        if self._frozen is not None:
            found = self._frozen.search(turn.searches)
        elif self._way.exploring == "free" or not self._searched:
            width = self._way.actions or len(turn.searches)
            while len(found) < len(turn.searches) and self._may_go_on:
                part = turn.searches[len(found) : len(found) + width]
                plan = turn.plan if self._way.plans and not found else None
                exchange = yield render_turn(turn.think, plan=plan, searches=part)
                found += [replace(one, search=asked) for one, asked in zip(exchange.found, part, strict=False)]
                if len(exchange.found) < len(part):
                    break
        self._searched = True
        found += [Found(search, (), 0, True) for search in turn.searches[len(found) :]]
        self._see(turn, found=found)

    def _execute(self, turn: Turn) -> Pieces:
        calls = [call for call in turn.calls if isinstance(call, Call)]
        results: dict[int, Result] = {}
        used_up = self._used_up
        self._executions += 1
        while not used_up and self._may_go_on and (ready := self._ready(calls, results)):
            plan = turn.plan if self._way.plans and not results else None
            exchange = yield render_turn(turn.think, plan=plan, calls=[call for _, call in ready])
            for (place, _), result in zip(ready, exchange.results, strict=True):
                results[place] = replace(result, call=calls[place])
        never = ToolError("cancelled", "there was no turn left for this call")
        self._see(turn, results=[results.get(n) or _failed(call, never) for n, call in enumerate(calls)])

    def _ready(self, calls: Sequence[Call], results: dict[int, Result]) -> list[tuple[int, Call]]:
        """Return what the next real turn calls, by place; calls that cannot run any more get results instead."""
        if self._way.links and self._way.actions is None:
            return [] if results else list(enumerate(calls))
        done = {calls[place].id: result.value for place, result in results.items() if result.ok}
        known = {**self._told.values()} | {name: value for name, value in done.items() if name is not None}
        places = {call.id: place for place, call in enumerate(calls) if call.id is not None}
        ready: list[tuple[int, Call]] = []
        for place, call in enumerate(calls):
            sources = [places[name] for name in upstream(call.arguments) if name in places]
            if place in results or any(source not in results for source in sources):
                continue
            if not all(results[source].ok for source in sources):
                results[place] = _failed(call, ToolError("cancelled", "not run: a call it links to failed"))
                continue
            try:
                ready.append((place, call if self._way.links else _unlinked(call, known)))
            except LinkError as error:
                results[place] = _failed(call, ToolError(error.kind, str(error)))
        return ready[: self._way.actions]

    def _see(
        self,
        turn: Turn,
        found: Sequence[Found] = (),
        results: Sequence[Result] = (),
        notes: Sequence[str] = (),
        said: str = "",
    ) -> None:
        """Tell the policy that its turn was carried out."""
        self._told.exchanges.append(Exchange(turn, tuple(found), tuple(results), tuple(notes), said))
        notes = [*notes, *([LAST_TURN] if not self._may_go_on else [])]
        blocks = [said] if said else [*map(render_found, found), *map(render_result, results)]
        blocks += [render_notes(notes)] if notes else []
        self._told.messages += [Message("assistant", turn.text), Message("user", "\n".join(blocks))]


def _failed(call: Call, error: ToolError) -> Result:
    return Result(call, call.arguments, error=error)


def _unlinked(call: Call, known: Mapping[str, JsonValue]) -> Call:
    """Return the call with values in place of links, and without an id, which only links need."""
    arguments = literal(resolve(call.arguments, known))
    assert isinstance(arguments, dict)
    return Call(call.name, arguments)
