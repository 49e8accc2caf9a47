"""Which calls of a group must wait for which: conflicts of effects, and an order in which waiting cannot deadlock.

Place in the flow: layer 3, used by `schedule`; nothing here runs anything. A key is `api/resource/id`, or a prefix of
that which covers all below it. Reads share, writes exclude, an exclusive call conflicts with every other. Of two
calls in conflict the one that comes first in `link_order` runs first, and every link points backwards in that order,
so all waiting does, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paraagent.agent.prepare import Run
from paraagent.protocol import links
from paraagent.types import Effects, ToolError

_IDS_SHOWN = 12


def conflict(a: Effects, b: Effects) -> bool:
    """Tell whether two calls must not overlap: one writes what the other reads or writes, or one is exclusive."""
    if a.exclusive or b.exclusive:
        return True
    if a.writes and (_overlap(a.writes, b.writes) or _overlap(a.writes, b.reads)):
        return True
    return bool(b.writes) and _overlap(b.writes, a.reads)


def _overlap(left: Iterable[str], right: Iterable[str]) -> bool:
    for a in left:
        for b in right:
            if a == b or a.startswith(b + "/") or b.startswith(a + "/"):
                return True
    return False


def connect_links(runs: list[Run], known: Iterable[str]) -> tuple[list[Run], dict[Run, ToolError]]:
    """Make every call known to those it links to; `known` are the ids of earlier calls.

    Returns:
        the calls in link order, and for those that cannot run because of their id or their links, why.
    """
    ids: dict[str, Run] = {}
    wrong: dict[Run, ToolError] = {}
    for run in runs:
        if run.call.id is not None and (owner := ids.setdefault(run.call.id, run)) is not run:
            message = f"the id {run.call.id!r} is taken by call {owner.index + 1} of this turn; use another id"
            wrong[run] = ToolError("invalid_args", message)
    if not any(run.has_links for run in runs):
        return runs, wrong
    there = ids.keys() | set(known)
    upstream: list[list[int]] = []
    for run in runs:
        names = links.upstream(run.call.arguments) if run.has_links else []
        sources = [ids[name] for name in names if name in ids]
        run.links_left = len(sources)
        for source in sources:
            source.linked.append(run)
        upstream.append([source.index for source in sources])
        if strange := [name for name in names if name not in there]:
            wrong.setdefault(run, _no_such_id(strange[0], sorted(there)))
    order, cycles = link_order(upstream)
    for cycle in cycles:
        circle = " -> ".join(f"${runs[i].call.id}" for i in [*cycle[:_IDS_SHOWN], cycle[0]])
        error = ToolError("invalid_args", f"its links run in a circle, so no call of it can go first: {circle}")
        wrong.update((runs[i], error) for i in cycle)
    for rank, i in enumerate(order):
        runs[i].rank = rank
    return [runs[i] for i in order], wrong


def connect_conflicts(order: list[Run]) -> None:
    """Let identical calls share one run, and later calls wait for earlier ones in conflict."""
    first: dict[tuple[str, bytes], Run] = {}
    earlier: list[Run] = []
    writing = False
    for run in order:
        twin = first.setdefault((run.call.name, run.text), run)
        if twin is not run:
            if not twin.after:
                twin.twins.append(run)
                run.is_twin = True
                continue
            first[run.call.name, run.text] = run  # what came in between may have changed the answer
        writing = writing or not run.effects.read_only
        if writing:
            for other in earlier:
                if conflict(other.effects, run.effects):
                    _put_in_order(other, run)
        earlier.append(run)


def reconnect_conflicts(run: Run, runs: Iterable[Run]) -> list[Run]:
    """Look at a call's conflicts anew, now that its effects are exact; return calls that may be free of it."""
    loosened = list(run.after)
    for other in run.before:
        other.after.pop(run, None)
    for other in run.after:
        other.before.pop(run, None)
    run.before.clear()
    run.after.clear()
    for other in runs:
        if other is not run and not other.done and not other.is_twin and conflict(other.effects, run.effects):
            if other.admitted or other.rank < run.rank:  # one that is under way can only be waited for
                _put_in_order(other, run)
            else:
                _put_in_order(run, other)
    return loosened


def _no_such_id(name: str, there: list[str]) -> ToolError:
    listed = ", ".join(there[:_IDS_SHOWN]) or "none"
    return ToolError(
        "invalid_args",
        f"link ${name}: no call has the id {name!r} (ids there are: {listed}); for plain text write $${name}",
    )


def _put_in_order(first: Run, second: Run) -> None:
    first.after[second] = None
    second.before[first] = None


def link_order(upstream: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return the calls ordered so that each comes after those it links to, and the cycles that make it impossible.

    `upstream[i]` holds the indexes that call i links to. The order is call order, except that a call which links to a
    later one pulls that one in front of itself. Every cycle of links holds a call of one of the returned cycles.
    """
    order: list[int] = []
    cycles: list[list[int]] = []
    cyclic: set[int] = set()
    position: dict[int, int] = {}  # on the path that is being walked; -1 once placed
    for root in range(len(upstream)):
        if root in position:
            continue
        path = [root]  # an explicit stack: a hostile group may link a thousand calls in a row
        position[root] = 0
        branches = [iter(upstream[root])]
        while path:
            ahead = next(branches[-1], None)
            if ahead is None:
                branches.pop()
                order.append(path.pop())
                position[order[-1]] = -1
            elif ahead not in position:
                position[ahead] = len(path)
                path.append(ahead)
                branches.append(iter(upstream[ahead]))
            elif position[ahead] >= 0 and path[-1] not in cyclic:
                cycles.append(path[position[ahead] :])
                cyclic.update(cycles[-1])
    return order, cycles
