"""The six roles that make a demonstration together, what each is given, and what each hands back.

Place in the flow: layer 5; `weaver` calls the roles and weaves their work into one trajectory. A role is an async
callable that takes its brief and returns its work; who plays it is open: `experts` play all six with the task's
solution at hand, `llm` plays any of them with a language model that sees only what an agent would see.

    planner      request -> slots (missing capabilities) and sub-goals
    explorer     one per slot, in parallel: asks, judges what was found, asks again, picks a tool or gives up
    coordinator  picked tools -> which calls are left to make, and which waits for which
    executor     one per ready call, in parallel: its arguments, from the request and from results
    answerer     results -> the answer
    critic       reads every turn before it is played: accepts it, or sends it back to a role with the reason

Every piece of work carries a `thought`, which goes into the turn's `<think>`; it may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from paraagent.protocol.plan import Subgoal
from paraagent.types import Found, JsonObject, JsonValue, Result, Tool, TurnKind, Usage

RoleName = Literal["planner", "explorer", "coordinator", "executor", "answerer", "critic"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A missing capability."""

    name: str
    """Short, unique within the outline, without a colon."""
    need: str
    """What the tool must do, in words."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The planner's work."""

    slots: tuple[Slot, ...]
    """Empty if the request needs no tool."""
    subgoals: tuple[Subgoal, ...] = ()
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """An explorer's next query."""

    query: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Pick:
    """An explorer's choice for its slot; choosing a tool that failed means to call it again."""

    tool: Tool
    thought: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An explorer's verdict that no tool serves its slot."""

    thought: str = ""


Lead = Ask | Pick | GiveUp


@dataclass(frozen=True, slots=True)
class Assignment:
    """One call that has to be made."""

    id: str
    """Fit for linking: `$id.path`."""
    slot: str
    purpose: str
    """What this call is to achieve, in words."""
    after: tuple[str, ...] = ()
    """Ids of the assignments whose results it needs."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The coordinator's work: everything that is still to be done, calls that others wait for first."""

    assignments: tuple[Assignment, ...]
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Filled:
    """An executor's work."""

    arguments: JsonObject | None
    """None if the arguments cannot be told before the results that the call waits for are there."""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answerer's work."""

    text: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """The critic's word on one turn."""

    back_to: RoleName | None = None
    """Who has to do it again; None accepts the turn."""
    reason: str = ""


Feedback = tuple[str, ...]
"""What the critic, or the tools, found wrong with this role's earlier work."""


@dataclass(frozen=True, slots=True)
class PlannerBrief:
    request: str
    feedback: Feedback = ()


@dataclass(frozen=True, slots=True)
class ExplorerBrief:
    request: str
    slot: Slot
    found: tuple[Found, ...] = ()
    """What the searches for this slot have shown, oldest first."""
    failed: tuple[Result, ...] = ()
    """Calls of tools picked for this slot that failed through no fault of their arguments, oldest first."""
    feedback: Feedback = ()


@dataclass(frozen=True, slots=True)
class CoordinatorBrief:
    request: str
    slots: tuple[Slot, ...]
    picks: Mapping[str, Tool]
    """The chosen tool by slot name; a slot that was given up has none."""
    done: Mapping[str, JsonValue]
    """Results of the assignments that have succeeded, by id."""
    feedback: Feedback = ()


@dataclass(frozen=True, slots=True)
class ExecutorBrief:
    request: str
    assignment: Assignment
    tool: Tool
    producers: Mapping[str, Tool]
    """Tools of the assignments it comes after, by id."""
    done: Mapping[str, JsonValue]
    """Results of the assignments that have succeeded, by id."""
    feedback: Feedback = ()


@dataclass(frozen=True, slots=True)
class AnswererBrief:
    request: str
    outline: Outline
    arrangement: tuple[Assignment, ...]
    done: Mapping[str, JsonValue]
    given_up: tuple[Slot, ...] = ()
    """Slots that no tool serves."""
    failed: tuple[Result, ...] = ()
    """The last failure of every assignment that has not succeeded."""
    feedback: Feedback = ()


@dataclass(frozen=True, slots=True)
class CriticBrief:
    request: str
    kind: TurnKind
    turn: str
    """The whole turn as protocol text."""
    seen: str
    """What the tools answered last; empty in the first turn."""
    done: Mapping[str, JsonValue]


class Planner(Protocol):
    async def __call__(self, brief: PlannerBrief) -> Outline: ...


class Explorer(Protocol):
    async def __call__(self, brief: ExplorerBrief) -> Lead: ...


class Coordinator(Protocol):
    async def __call__(self, brief: CoordinatorBrief) -> Arrangement: ...


class Executor(Protocol):
    async def __call__(self, brief: ExecutorBrief) -> Filled: ...


class Answerer(Protocol):
    async def __call__(self, brief: AnswererBrief) -> Answer: ...


class Critic(Protocol):
    async def __call__(self, brief: CriticBrief) -> Review: ...


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays the roles of one episode."""

    name: str
    planner: Planner
    explorer: Explorer
    coordinator: Coordinator
    executor: Executor
    answerer: Answerer
    critic: Critic
    spent: Callable[[], Usage] = Usage
    """Returns the tokens used since it was last asked."""
