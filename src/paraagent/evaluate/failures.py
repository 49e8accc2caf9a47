"""Why an episode failed, decided by rules from its trace.

Place in the flow: layer 5, beside `behaviour`; `report` lists what is found here. The rules are asked in this order
and the first that holds names the failure:

    malformed       ended by turns that could not be read
    ran_out         ended by a budget: turns, searches, calls, tokens, money or time
    no_evidence     answered what no tool can answer, or answered a request that needs calls without a successful one
                    though it never searched
    then, for the first gold call that was not done, upstream ones first:
    not_found       no search showed a tool for it, and none was run
    wrong_order     it was called before what it needs was there
    wrong_argument  it was called otherwise than asked; the reason names the argument
    wrong_tool      a tool for it was shown, and one that serves no need was called instead
    gave_up         nothing else was tried: the answer declines, or a failure was not overcome, or it was never called
    then, with all gold calls done:
    side_effect     something else was written, too
    misreported     the answer does not state what was found, or does not decline, or is wrong

Limits: one cause for each failure, the earliest; `reason` tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from paraagent.env.task import GoldCall
from paraagent.env.verify import declines, equal
from paraagent.evaluate.hindsight import Hindsight, error_of, failed_by_fate, look_back, writes
from paraagent.protocol.graph import normal
from paraagent.protocol.links import LinkError, resolve, upstream
from paraagent.trace.plain import one_line
from paraagent.trace.view import CallView, EpisodeView
from paraagent.types import JsonValue

FailureKind = Literal[
    "malformed",
    "ran_out",
    "no_evidence",
    "not_found",
    "wrong_order",
    "wrong_argument",
    "wrong_tool",
    "gave_up",
    "side_effect",
    "misreported",
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong first."""

    kind: FailureKind
    reason: str
    """One line; holds text from the trace, made safe to print."""


def failure(view: EpisodeView) -> Failure | None:
    """Return why an episode failed; None if it succeeded, was not judged, was masked or has no end.

    Raises:
        TraceError: the task record in the trace cannot be read.
    """
    if view.end is None or view.end.mask_sample or view.end.success is not False:
        return None
    seen = look_back(view)
    return next(_causes(seen))


def _causes(seen: Hindsight) -> Iterator[Failure]:
    end = seen.view.end
    assert end is not None
    if end.stop_reason == "invalid_turns":
        yield Failure("malformed", "too many turns in a row could not be read")
    if end.stop_reason != "answered":
        yield Failure("ran_out", f"{end.stop_reason.replace('_', ' ')} after {len(seen.view.turns)} turns")
    yield from _unfounded(seen)
    if seen.task is not None:
        for gold in seen.task.calls:
            if gold.id in seen.missing:
                yield _missing(seen, gold)
    if any(writes(call) and position not in seen.done for position, call in enumerate(seen.calls)):
        yield Failure("side_effect", f"wrote what was not asked for: {_names(_stray(seen))}")
    yield Failure("misreported", _unmet(seen))


def _unfounded(seen: Hindsight) -> Iterator[Failure]:
    """Yield the failure of an answer that rests on nothing."""
    if seen.task is None:
        return
    declined = declines(seen.view.answer or "")
    if seen.task.kind == "unanswerable" and not declined:
        yield Failure("no_evidence", "answered although no tool can")
    if declined and not seen.task.calls and seen.task.kind == "direct":
        yield Failure("gave_up", "declined what needs no tool")
    if seen.task.calls and not declined and not any(call.ok for call in seen.calls) and not any(seen.view.searches):
        yield Failure("no_evidence", "answered without a search or a call")


def _missing(seen: Hindsight, gold: GoldCall) -> Failure:
    """Say why a gold call was not done."""
    serving = _accepted(seen, gold)
    shown = {normal(name) for search in seen.view.searches for name, _ in search.hits}
    tried = [call for call in seen.calls if normal(call.name) in serving]
    if not serving & shown and not any(call.ran for call in tried):
        return Failure("not_found", f"no search showed {one_line(gold.tool, 64)} or an equivalent")
    if tried:
        return _misused(seen, gold, tried)
    strangers = [call for call in seen.calls if not seen.needs.serving(call.name)]
    if strangers:
        return Failure("wrong_tool", f"called {_names(strangers)} instead of {one_line(gold.tool, 64)}")
    if not any(call.ok for call in seen.calls) and not declines(seen.view.answer or ""):
        return Failure("no_evidence", f"answered without calling {one_line(gold.tool, 64)}")
    return Failure("gave_up", f"{one_line(gold.tool, 64)} was shown but never called")


def _misused(seen: Hindsight, gold: GoldCall, tried: list[CallView]) -> Failure:
    """Say what was wrong with the calls of the right tool."""
    fits = [call for call in tried if _wrong_argument(seen, gold, call) is None]
    spoilt = next((call for call in fits if failed_by_fate(call)), None)
    if spoilt is not None:
        return Failure("gave_up", f"{one_line(gold.tool, 64)} failed ({error_of(spoilt)}) and was not got around")
    if early := _too_early(seen, gold, tried):
        return Failure("wrong_order", f"called {one_line(gold.tool, 64)} before {early} was done")
    wrong = next((name for call in tried if (name := _wrong_argument(seen, gold, call))), None)
    if wrong is not None:
        return Failure("wrong_argument", f"called {one_line(gold.tool, 64)} with another {one_line(wrong, 64)}")
    error = next((error_of(call) for call in tried if error_of(call)), None)
    if error == "cancelled":
        return Failure("gave_up", f"{one_line(gold.tool, 64)} was cancelled and not called again")
    why = f" ({error})" if error else " (with an argument more, or once for two)"
    return Failure("wrong_argument", f"called {one_line(gold.tool, 64)} otherwise than asked{why}")


def _too_early(seen: Hindsight, gold: GoldCall, tried: list[CallView]) -> str | None:
    """Return the upstream gold call that was done only after the last try, if that is what went wrong."""
    last = seen.calls.index(tried[-1])
    for up in upstream(gold.arguments):
        position = seen.matches.get(up)
        if position is None or position <= last:
            continue
        first = seen.calls[position]
        if first.turn > tried[-1].turn or error_of(tried[-1]) == "invalid_args":
            return one_line(first.name, 64)
    return None


def _wrong_argument(seen: Hindsight, gold: GoldCall, call: CallView) -> str | None:
    """Return the first argument that differs from the gold call's, or that it lacks; None if all are right."""
    values = {name: end.value for name, index in seen.matches.items() if (end := seen.calls[index].end)}
    for name, wanted in gold.arguments.items():
        value: JsonValue = wanted
        if upstream(wanted):
            try:
                value = resolve(wanted, values)
            except LinkError:
                continue  # nothing is known of what it should have been
        if name not in call.arguments or not equal(call.arguments[name], value):
            return name
    return None


def _accepted(seen: Hindsight, gold: GoldCall) -> frozenset[str]:
    classes = seen.needs.serving(gold.tool)
    return frozenset().union({normal(gold.tool)}, *(seen.needs.classes[index] for index in classes))


def _stray(seen: Hindsight) -> list[CallView]:
    return [call for position, call in enumerate(seen.calls) if writes(call) and position not in seen.done]


def _unmet(seen: Hindsight) -> str:
    checks = seen.view.end.checks if seen.view.end else {}
    reasons = [f"{name}: {reason}" for name, reason in checks.items() if isinstance(reason, str)]
    return one_line("; ".join(reasons), 200) or "the verdict gives no reason"


def _names(calls: list[CallView]) -> str:
    names = list(dict.fromkeys(one_line(call.name or "what cannot be read", 64) for call in calls))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
