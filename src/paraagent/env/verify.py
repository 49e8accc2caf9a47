"""Judges an episode against its task, by program alone.

Place in the flow: layer 3; `toolenv` calls it when an episode ends, rewards and reports read its checks. What counts:

    calls     every gold call is matched to its own successful call of the same tool or an equivalent one: literal
              arguments equal, linked arguments equal to the value in the agent's own upstream result (maximum
              bipartite matching, upstream calls first)
    state     the world ended as the gold calls leave it: nothing missing, no extra write
    facts     the answer states every fact, at its value in the agent's own results or in the gold run's
    declined  `unanswerable`: the answer says that it cannot be done, and nothing was written
    answer    `direct`: the answer holds the literal answer

Numbers are equal as numbers (10 is 10.0), never to text or booleans. An argument that the gold call lacks is allowed
only if it equals the parameter's default in the schema. Extra reads are free here: efficiency is the rewards' affair.
Limits: an answer that states more than was asked is not punished.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from paraagent.env.matching import match
from paraagent.env.states import states
from paraagent.env.task import GoldCall, Task
from paraagent.protocol.links import LinkError, resolve, upstream
from paraagent.types import JsonObject, JsonValue, Result, Tool

_INABILITY = re.compile(
    r"\b(?:cannot|can't|can not|could not|couldn't|unable|not able|impossible|isn't possible|not possible|"
    r"not available|unavailable|not supported|unsupported|no (?:such |suitable |matching |available |fitting )?"
    r"(?:tool|tools|function|capability|service|way)|not (?:find|found)|did(?:n't| not) find|does(?:n't| not) exist|"
    r"do(?:n't| not) have (?:a |any |the )?(?:tool|tools|access|way|ability|capability))\b",
    re.IGNORECASE,
)


_CONDITION = re.compile(
    r"\b(?:or (?:say|state|tell|that)|if|whether|unless|in case)(?:[^\S\n]+(?!(?:and|but|so)\b)[\w']+){0,3}[^\S\n]+$",
    re.IGNORECASE,
)
"""What stands before an inability that is only thought of, as in `the answer, or that it cannot be done`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an episode did, in the verifier's terms."""

    results: tuple[Result, ...]
    """All calls in the order they were asked for, failed ones included."""
    state: str
    """Hash of the world at the end."""
    answer: str | None
    """None if the episode ended without one."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    name: str
    passed: bool
    reason: str = ""
    """Why not, in one line; empty when passed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the task was done, and the parts it was judged by."""

    success: bool
    checks: tuple[Check, ...]
    matched: tuple[tuple[str, int], ...] = ()
    """Gold call id and the index of the result it was matched to."""

    @property
    def reasons(self) -> list[str]:
        """Why it failed, one line a failed check."""
        return [f"{check.name}: {check.reason}" for check in self.checks if not check.passed]

    def to_json(self) -> JsonObject:
        """Return the checks as they stand in a trace."""
        return {check.name: check.reason or check.passed for check in self.checks}


def verify(task: Task, outcome: Outcome, tool: Callable[[str], Tool | None]) -> Verdict:
    """Judge an episode.

    Args:
        task: what was asked.
        outcome: what the episode did.
        tool: looks a tool up by name; needed for the defaults of optional arguments.
    """
    if task.kind == "direct":
        return _verdict([_literal(task, outcome.answer), _state(task, outcome)])
    if task.kind == "unanswerable":
        return _verdict([_declined(outcome.answer), _state(task, outcome)])
    found = matched(task, outcome.results, tool)
    values = {call: outcome.results[index].value for call, index in found.items()}
    checks = [
        *(_call(call, call.id in found) for call in task.calls),
        _state(task, outcome),
        *_facts(task, values, outcome.answer),
    ]
    return _verdict(checks, found)


def matched(task: Task, results: Sequence[Result], tool: Callable[[str], Tool | None]) -> dict[str, int]:
    """Match gold calls to successful results, as many as possible: gold call id to result index."""
    accepted = {slot.tools[0]: slot.tools for slot in task.slots if slot.tools}
    fits: dict[str, list[int]] = {}
    for gold in task.calls:
        names = accepted.get(gold.tool, (gold.tool,))
        fits[gold.id] = [
            index
            for index, result in enumerate(results)
            if result.ok and result.call.name in names and _same_call(gold, result, fits, results, tool)
        ]
    rights = match([fits[gold.id] for gold in task.calls])
    return {gold.id: right for gold, right in zip(task.calls, rights, strict=True) if right is not None}


def equal(left: JsonValue, right: JsonValue) -> bool:
    """Tell whether two JSON values are the same: numbers as numbers, everything else exactly."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    return type(left) is type(right) and left == right


def declines(answer: str) -> bool:
    """Tell whether an answer says that what was asked cannot be done, and not only what if it could not."""
    return any(not _CONDITION.search(answer[: found.start()]) for found in _INABILITY.finditer(answer))


def _same_call(
    gold: GoldCall,
    result: Result,
    fits: Mapping[str, Sequence[int]],
    results: Sequence[Result],
    tool: Callable[[str], Tool | None],
) -> bool:
    """Tell whether a result's arguments are the gold call's, given which results may stand for its upstream calls."""
    for name, value in gold.arguments.items():
        if name not in result.arguments:
            return False
        wanted = [value] if not upstream(value) else _linked(value, fits, results)
        if not any(equal(result.arguments[name], one) for one in wanted):
            return False
    extra = result.arguments.keys() - gold.arguments.keys()
    return not extra or _defaults(tool(result.call.name), {name: result.arguments[name] for name in extra})


def _linked(link: JsonValue, fits: Mapping[str, Sequence[int]], results: Sequence[Result]) -> list[JsonValue]:
    """Return the values that a link has in the results that may stand for its upstream call."""
    source = upstream(link)[0]
    found = []
    for index in fits.get(source, ()):
        try:
            found.append(resolve(link, {source: results[index].value}))
        except LinkError:
            continue
    return found


def _defaults(tool: Tool | None, arguments: JsonObject) -> bool:
    properties = tool.parameters.get("properties") if tool else None
    if not isinstance(properties, dict):
        return False
    schemas = [(properties.get(name), value) for name, value in arguments.items()]
    return all(isinstance(s, dict) and "default" in s and equal(s["default"], value) for s, value in schemas)


def _call(gold: GoldCall, done: bool) -> Check:
    return Check(
        f"call {gold.id}", done, "" if done else f"no successful call of {gold.tool} with the right arguments"
    )


def _state(task: Task, outcome: Outcome) -> Check:
    same = outcome.state == task.final_state
    return Check(
        "state", same, "" if same else "the world did not end as the task leaves it: a write too many or too few"
    )


def _facts(task: Task, values: Mapping[str, JsonValue], answer: str | None) -> list[Check]:
    checks = []
    for fact in task.facts:
        name = f"fact {fact.label}"
        try:
            value = resolve(f"${fact.call}.{fact.path}", values) if fact.call in values else fact.value
        except LinkError:
            value = fact.value
        said = answer is not None and (states(answer, value) or states(answer, fact.value))
        checks.append(Check(name, said, "" if said else f"the answer does not state {value!r}"))
    return checks


def _declined(answer: str | None) -> Check:
    said = answer is not None and declines(answer)
    return Check("declined", said, "" if said else "no tool serves this request, and the answer does not say so")


def _literal(task: Task, answer: str | None) -> Check:
    wanted = task.literal_answer or ""
    number = re.fullmatch(r"-?\d+(?:\.\d+)?", wanted)
    said = answer is not None and states(answer, float(wanted) if number else wanted)
    return Check("answer", said, "" if said else f"the answer does not say {wanted!r}")


def _verdict(checks: Sequence[Check], found: Mapping[str, int] | None = None) -> Verdict:
    return Verdict(all(check.passed for check in checks), tuple(checks), tuple((found or {}).items()))
