"""What an episode loses at the trajectory level: for skipping the loop, for repeating itself, for the wrong order.

Place in the flow: layer 4, part of `trajectory`. Values before the common factor `penalty`:

    protocol   0.5 once: answered without a search or a call, or called without a search
    repeats    0.2 * min(1, n / 7) for each of plans, searches and calls
    order      0.3 * (required orders broken / required orders of which both ends were called)

By default a solved task, or one that needs no tool, costs no protocol penalty and only calls of needed tools count;
repeats are those of the step level and plans that say nothing new; an order is broken unless the first success of the
later tool (its first attempt, if none succeeded) came in a later turn than a success of the earlier one, or in the
same turn and linked to it. As published, a repeat of each call is free once, an order is broken only inside one turn
and only if the later tool was never called properly afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from paraagent.agent.prepare import canonical
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol.graph import normal
from paraagent.protocol.links import upstream
from paraagent.protocol.plan import CallPlan
from paraagent.reward.needs import Needs
from paraagent.reward.past import asked, error_kind
from paraagent.reward.record import Term
from paraagent.reward.replay import Played, PlayedCall
from paraagent.reward.rules import Rules
from paraagent.types import Call


def penalties(turns: Sequence[Played], needs: Needs, rules: Rules, request: str, *, solved: bool) -> tuple[Term, ...]:
    """Return the three penalties."""
    return (
        _protocol(turns, needs, rules, solved),
        _repeats(turns, rules),
        _order(turns, needs, rules, request),
    )


def _protocol(turns: Sequence[Played], needs: Needs, rules: Rules, solved: bool) -> Term:
    free = not rules.published and (solved or (needs.known and not needs.classes))
    if free:
        return _term("protocol", 0.0, rules, "solved" if solved else "no tool was needed")
    calls = [call.call.name for played in turns for call in played.calls]
    if needs.known and not rules.published:
        calls = [name for name in calls if needs.serving(name)]
    searched = any(played.searches for played in turns)
    answered = any(played.kind == "answer" for played in turns)
    if calls and searched:
        return _term("protocol", 0.0, rules, "searched, then called")
    if calls or answered:
        how = (
            "called without a search" if calls else f"answered without a {'call' if searched else 'search or a call'}"
        )
        return _term("protocol", rules.protocol_penalty, rules, how)
    return _term("protocol", 0.0, rules, "gave no answer")


def _repeats(turns: Sequence[Played], rules: Rules) -> Term:
    counts = _published_repeats(turns) if rules.published else _repeated(turns)
    value = sum(rules.repeat_penalty * min(1.0, count / rules.repeat_cap) for count in counts)
    told = [f"{count} {name}" for count, name in zip(counts, ("plans", "searches", "calls"), strict=True) if count]
    return _term("repeats", value, rules, f"repeated: {', '.join(told)}" if told else "nothing repeated")


def _repeated(turns: Sequence[Played]) -> tuple[int, int, int]:
    plans = sum(played.review is not None and played.review.outcome == "redundant" for played in turns)
    searches = sum(search.repeat for played in turns for search in played.searches)
    return plans, searches, sum(call.repeat for played in turns for call in played.calls)


def _published_repeats(turns: Sequence[Played]) -> tuple[int, int, int]:
    plans = [plan.to_json() for played in turns if isinstance(plan := played.turn.plan, CallPlan)]
    queries = Counter(
        tuple(sorted(asked(search.search) for search in played.searches)) for played in turns if played.searches
    )
    calls: dict[tuple[str, bytes], list[PlayedCall]] = {}
    for call in (call for played in turns for call in played.calls if isinstance(call.call, Call)):
        arguments = call.view.arguments if call.view else getattr(call.call, "arguments", {})
        calls.setdefault((normal(call.call.name), canonical(arguments)), []).append(call)
    return (
        sum(one == other for one, other in pairwise(plans)),
        queries.total() - len(queries),
        sum(max(0, len(same) - 1 - (not _failed_for_good(same[0]))) for same in calls.values()),
    )


def _failed_for_good(call: PlayedCall) -> bool:
    kind = error_kind(call.view) if call.view else None
    return kind is not None and not ERROR_TRAITS[kind].retry_helps


def _order(turns: Sequence[Played], needs: Needs, rules: Rules, request: str) -> Term:
    present, broken = 0, []
    for up, down in sorted(needs.before):
        earlier, later = (list(_of(turns, needs.classes[index])) for index in (up, down))
        if not earlier or not later:
            continue
        present += 1
        wrong = _never_in_order(earlier, later, request) if rules.published else _first_too_early(earlier, later)
        if wrong:
            broken.append(f"{later[0][1].call.name} before {earlier[0][1].call.name}"[:120])
    value = rules.order_penalty * len(broken) / present if present else 0.0
    return _term("order", value, rules, "; ".join(broken[:3]) or f"{present} required orders, all kept")


_Placed = tuple[int, PlayedCall]
"""A call and the position of its turn."""


def _of(turns: Sequence[Played], tools: frozenset[str]) -> Iterator[_Placed]:
    """Yield the calls of some tools, in order."""
    for played in turns:
        yield from ((played.position, call) for call in played.calls if normal(call.call.name) in tools)


def _first_too_early(earlier: Sequence[_Placed], later: Sequence[_Placed]) -> bool:
    deciding = next((placed for placed in later if placed[1].ok), later[0])
    return not any((up[1].ok or not deciding[1].ok) and _before(up, deciding) for up in earlier)


def _never_in_order(earlier: Sequence[_Placed], later: Sequence[_Placed], request: str) -> bool:
    same_turn = {turn for turn, _ in earlier} & {turn for turn, _ in later}
    if not same_turn or any(up[1].ok and _before(up, down) for up in earlier for down in later):
        return False
    return not any(_given(call, request) for _, call in later)


def _before(up: _Placed, down: _Placed) -> bool:
    """Tell whether one call came in an earlier turn than the other, or in the same and is linked to by it."""
    if up[0] != down[0]:
        return up[0] < down[0]
    call = down[1].call
    return isinstance(call, Call) and up[1].call.id is not None and up[1].call.id in upstream(call.arguments)


def _given(call: PlayedCall, request: str) -> bool:
    """Tell whether a call holds an identifier that stands in the request: 6 to 80 characters with a digit."""
    values = call.call.arguments.values() if isinstance(call.call, Call) else ()
    return any(
        isinstance(value, str) and 6 <= len(value) <= 80 and any(map(str.isdigit, value)) and value in request
        for value in values
    )


def _term(name: str, value: float, rules: Rules, reason: str) -> Term:
    return Term(name, value, -rules.penalty, reason)
