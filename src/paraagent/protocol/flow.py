"""Writes the plan that a set of calls follows: tools, dependencies by links, and the steps of its flow.

Place in the flow: layer 2; used by policies that know their calls before they write the turn, and by the compact
dialect, whose plan is the one its calls imply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paraagent.protocol import links
from paraagent.protocol.plan import CallPlan, Dependency
from paraagent.types import Call


def call_plan(calls: Sequence[Call]) -> CallPlan:
    """Return the plan of linked calls: each stands one step after the deepest call of the group that it links to."""
    layers = _layers(calls)
    flow = [tuple(call.name for call in calls if layers[id(call)] == n) for n in range(1, max(layers.values()) + 1)]
    references = _references(calls, layers)
    by_id = {call.id: call for call in calls if call.id is not None}
    dependencies = []
    for call in calls:
        sources = [references[id(by_id[up])] for up in links.upstream(call.arguments) if up in by_id]
        if sources:
            dependencies.append(Dependency(tuple(dict.fromkeys(sources)), references[id(call)]))
    return CallPlan(tuple(dict.fromkeys(call.name for call in calls)), tuple(dependencies), tuple(flow))


def _layers(calls: Sequence[Call]) -> dict[int, int]:
    by_id = {call.id: call for call in calls if call.id is not None}
    layers: dict[int, int] = {}
    for call in calls:  # upstream calls stand before those that link to them
        above = [layers.get(id(by_id[up]), 0) for up in links.upstream(call.arguments) if up in by_id]
        layers[id(call)] = 1 + max(above, default=0)
    return layers


def _references(calls: Sequence[Call], layers: dict[int, int]) -> dict[int, str]:
    """Return what dependencies call each call: its name, or `name#n` in the order of the flow if used repeatedly."""
    uses = Counter(call.name for call in calls)
    seen: Counter[str] = Counter()
    references = {}
    for call in sorted(calls, key=lambda call: layers[id(call)]):
        seen[call.name] += 1
        references[id(call)] = call.name if uses[call.name] == 1 else f"{call.name}#{seen[call.name]}"
    return references
