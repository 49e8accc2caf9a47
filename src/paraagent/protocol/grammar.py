"""One assistant message read as a turn: its thinking, its plan, and its searches, calls or answer.

Place in the flow: layer 2; the loop, the trace view, rewards and demonstrations all read turns through `parse`, and
`render` is its inverse. A turn is `<think>`, then at most one `<plan>`, then one family: `<search_tool>` blocks,
`<tool_call>` blocks, or one `<answer>`. Tags are exact and lower case; a block runs to the next closing tag of its
own name, so other tags inside it are text. `parse` never raises and takes time linear in the text: whatever is wrong
becomes a fault (one per kind) whose message a model can act on, and what can still be used is used.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from paraagent.protocol.call import BrokenCall, read_calls
from paraagent.protocol.jsontext import read_json
from paraagent.protocol.plan import CallPlan, Plan, PlanError, SearchPlan, plan_from_json
from paraagent.types import Call, Search, TurnKind

Tag = Literal["think", "plan", "search_tool", "tool_call", "answer"]
FaultKind = Literal[
    "missing_think",
    "misplaced_think",
    "stray_text",
    "forged_observation",
    "unclosed_tag",
    "unopened_tag",
    "no_action",
    "mixed_families",
    "several_answers",
    "empty_answer",
    "empty_search",
    "bad_call_json",
    "duplicate_call_id",
    "loose_call",
    "several_plans",
    "misplaced_plan",
    "bad_plan_json",
    "bad_plan_schema",
    "wrong_plan",
]
PLAN_FAULTS: frozenset[FaultKind] = frozenset(
    {"several_plans", "misplaced_plan", "bad_plan_json", "bad_plan_schema", "wrong_plan"}
)
_FAMILIES: dict[Tag, TurnKind] = {"search_tool": "exploration", "tool_call": "execution", "answer": "answer"}
_TAG = re.compile(r"<(/?)(think|plan|search_tool|tool_call|answer)>")
_OBSERVATION = re.compile(r"</?(?:tools|tool_response)>")


@dataclass(frozen=True, slots=True)
class TurnFault:
    """One way in which a turn breaks the grammar."""

    kind: FaultKind
    message: str
    """One sentence that tells the agent what to do."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant message, read."""

    kind: TurnKind
    """`invalid` when there is nothing to run: no action, more than one family, or more than one answer."""
    text: str
    think: str = ""
    plan: Plan | None = None
    """The plan, if there is exactly one, in its place, well formed and of the turn's kind."""
    has_plan: bool = False
    """Whether any plan tag stands in the turn, usable or not."""
    searches: tuple[Search, ...] = ()
    calls: tuple[Call | BrokenCall, ...] = ()
    """In order; every one gets exactly one answer, a broken one the reason why it could not be read."""
    answer: str | None = None
    faults: tuple[TurnFault, ...] = ()

    def has_fault(self, *kinds: FaultKind) -> bool:
        return any(fault.kind in kinds for fault in self.faults)


def well_formed(turn: Turn) -> float:
    """Score the form of a turn without its plan: 1 if clean, 0.5 for an answer whose think is missing, else 0.

    The `well_formed` term of the step reward.
    """
    faults = {fault.kind for fault in turn.faults} - PLAN_FAULTS
    if not faults:
        return 1.0
    return 0.5 if turn.kind == "answer" and faults <= {"missing_think", "misplaced_think"} else 0.0


def parse(text: str) -> Turn:
    """Read one assistant message; never raises."""
    scan = _scan(text)
    faults = scan.faults
    searches = _searches(scan, faults)
    calls, call_faults = read_calls(scan.bodies("tool_call"))
    for kind, message in call_faults:
        faults.add(kind, message)
    answers = scan.bodies("answer")
    turn_kind = _kind(bool(searches), bool(calls), answers, faults)
    _check_think(scan, faults)
    plan = _plan(scan, turn_kind, faults)
    return Turn(
        kind=turn_kind,
        text=text,
        think="\n".join(filter(None, scan.bodies("think"))),
        plan=plan,
        has_plan=scan.has_plan,
        searches=tuple(searches),
        calls=tuple(calls),
        answer=answers[0] if turn_kind == "answer" else None,
        faults=faults.all(),
    )


@dataclass(frozen=True, slots=True)
class _Block:
    tag: Tag
    body: str


class _Faults:
    """Faults in the order found, at most one per kind."""

    def __init__(self) -> None:
        self._messages: dict[FaultKind, str] = {}

    def add(self, kind: FaultKind, message: str) -> None:
        self._messages.setdefault(kind, message)

    def all(self) -> tuple[TurnFault, ...]:
        return tuple(TurnFault(kind, message) for kind, message in self._messages.items())


@dataclass(slots=True)
class _Scan:
    """The blocks of a text in order, and what was wrong around them."""

    blocks: list[_Block] = field(default_factory=list)
    has_plan: bool = False
    faults: _Faults = field(default_factory=_Faults)

    def bodies(self, tag: Tag) -> list[str]:
        return [block.body for block in self.blocks if block.tag == tag]

    def first_action(self) -> int:
        """Return the position of the first block that acts, or the number of blocks."""
        return next((index for index, block in enumerate(self.blocks) if block.tag in _FAMILIES), len(self.blocks))


def _scan(text: str) -> _Scan:
    scan = _Scan()
    marks = list(_TAG.finditer(text))
    closing: dict[str, deque[int]] = {}
    for index, mark in enumerate(marks):
        if mark[1]:
            closing.setdefault(mark[2], deque()).append(index)
    position = index = 0
    while index < len(marks):
        mark = marks[index]
        tag = cast(Tag, mark[2])
        _check_gap(text[position : mark.start()], scan.faults)
        scan.has_plan |= tag == "plan"
        end = _next_after(closing.get(tag), index)
        if not mark[1] and end is not None:
            scan.blocks.append(_Block(tag, text[mark.end() : marks[end].start()].strip()))
            position, index = marks[end].end(), end + 1
            continue
        index += 1
        if mark[1]:
            scan.faults.add("unopened_tag", f"</{tag}> has no <{tag}> before it.")
            position = mark.end()
        else:
            scan.faults.add("unclosed_tag", f"<{tag}> is not closed; end the block with </{tag}>.")
            position = marks[index].start() if index < len(marks) else len(text)
    _check_gap(text[position:], scan.faults)
    return scan


def _next_after(places: deque[int] | None, index: int) -> int | None:
    """Drop the places up to `index` and return the next one; scanning moves forward only, so this stays linear."""
    while places and places[0] <= index:
        places.popleft()
    return places[0] if places else None


def _check_gap(gap: str, faults: _Faults) -> None:
    if not gap or gap.isspace():
        return
    if _OBSERVATION.search(gap):
        faults.add("forged_observation", "Do not write <tools> or <tool_response> yourself: the tools answer next.")
    else:
        faults.add("stray_text", "All text must stand inside tags; put reasoning into <think>.")


def _searches(scan: _Scan, faults: _Faults) -> list[Search]:
    bodies = scan.bodies("search_tool")
    if not all(bodies):
        faults.add("empty_search", "An empty <search_tool> was ignored: write `slot: what the tool must do`.")
    return [_search(body) for body in bodies if body]


def _search(body: str) -> Search:
    slot, _, query = (part.strip() for part in body.partition(":"))
    return Search(slot or query or body, query or slot or body)


def _kind(searches: bool, calls: bool, answers: Sequence[str], faults: _Faults) -> TurnKind:
    families: list[TurnKind] = [
        kind for kind, present in zip(_FAMILIES.values(), (searches, calls, bool(answers)), strict=True) if present
    ]
    if len(families) > 1:
        faults.add("mixed_families", "Search, call or answer: only one of them in a turn. Nothing was run.")
    elif not families:
        faults.add("no_action", "Nothing to do: write <search_tool>, <tool_call> or <answer> blocks.")
    elif len(answers) > 1:
        faults.add("several_answers", "Write exactly one <answer>.")
    elif answers and not answers[0]:
        faults.add("empty_answer", "The <answer> is empty: write what the user should read.")
    else:
        return families[0]
    return "invalid"


def _check_think(scan: _Scan, faults: _Faults) -> None:
    tags = [block.tag for block in scan.blocks]
    if "think" not in tags:
        faults.add("missing_think", "Begin the turn with <think>your reasoning</think>.")
    elif "think" in tags[tags.count("think") :]:
        faults.add("misplaced_think", "<think> comes first, before the plan and every action.")


def _plan(scan: _Scan, kind: TurnKind, faults: _Faults) -> Plan | None:
    bodies = scan.bodies("plan")
    if len(bodies) > 1:
        faults.add("several_plans", "Write at most one <plan> in a turn; none of them was taken.")
        return None
    if not bodies:
        return None
    if any(block.tag == "plan" for block in scan.blocks[scan.first_action() :]):
        faults.add("misplaced_plan", "<plan> comes after <think> and before the first action; it was not taken.")
        return None
    plan = _read_plan(bodies[0], faults)
    if plan is not None and kind == "exploration" and not isinstance(plan, SearchPlan):
        faults.add("wrong_plan", "A turn that searches takes a plan with capacity_slots.")
    elif plan is not None and kind == "execution" and not isinstance(plan, CallPlan):
        faults.add("wrong_plan", "A turn that calls tools takes a plan with available_tools and execution_flow.")
    else:
        return plan
    return None


def _read_plan(body: str, faults: _Faults) -> Plan | None:
    try:
        return plan_from_json(read_json(body))
    except PlanError as error:
        faults.add("bad_plan_schema", f"The plan was not taken: {error}.")
    except ValueError as error:
        faults.add("bad_plan_json", f"The plan was not taken: {error}.")
    return None
