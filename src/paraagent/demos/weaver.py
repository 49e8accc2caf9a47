"""Weaves the work of six roles into one ParaAct trajectory: a policy, so the normal loop plays it for real.

Place in the flow: layer 5; `generate` makes one `Weaver` per episode. In each turn it lets those roles work whose
work is due: explorers of all slots side by side, then the coordinator, then the executors of all ready calls side by
side, and the answerer once there is nothing left to do. The critic reads the turn before it is played and may send
it back. Work that is done stays done; what comes back from the tools tells which role is due next:

    nothing suitable was found     the slot's explorer asks again or gives up
    a tool failed                  the slot's explorer has it called again, picks another one, or searches for one
    the arguments were wrong       the executor corrects them

Limits: a Weaver holds one episode's state and must not be shared between episodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from paraagent.agent.context import Context
from paraagent.demos.desks import Desk, Job
from paraagent.demos.roles import (
    AnswererBrief,
    Arrangement,
    Ask,
    Assignment,
    Cast,
    CoordinatorBrief,
    CriticBrief,
    ExecutorBrief,
    Feedback,
    GiveUp,
    Outline,
    Pick,
    PlannerBrief,
    Review,
    RoleName,
)
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol import links
from paraagent.protocol.flow import call_plan
from paraagent.protocol.plan import CallPlan, SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Call, JsonValue, Reply, Result, Search, Tool, TurnKind

REVIEWS = 2
"""How often a turn is sent back at most; then it is played as it is and `Weaver.refused` is set."""
ASKS = 4
"""Searches for one slot after which its explorer has given up, whatever it says."""
_ORDER: tuple[RoleName, ...] = ("planner", "explorer", "coordinator", "executor", "answerer", "critic")


@dataclass(frozen=True, slots=True)
class _Draft:
    """A turn before it is played."""

    kind: TurnKind
    text: str
    sent: tuple[Assignment, ...] = ()


class Weaver:
    """Implements `types.Policy` for one episode.

    Args:
        cast: who plays the roles.
        linked: let executors link to results of the same turn, so that whole chains run at once; else a call waits
            until the results that it needs are there.
    """

    def __init__(self, cast: Cast, *, linked: bool = True) -> None:
        self.name = f"weaver:{cast.name}"
        self.refused: Review | None = None
        """The critic's last word on a turn that it would not accept in the end."""
        self._cast = cast
        self._linked = linked
        self._outline: Outline | None = None
        self._desks: dict[str, Desk] = {}
        self._picks: dict[str, Tool] = {}
        self._arrangement = Arrangement(())
        self._replan = False
        self._jobs: dict[str, Job] = {}
        self._done: dict[str, JsonValue] = {}
        self._sent: tuple[Assignment, ...] = ()
        self._taken_in = 0
        self._thoughts: list[tuple[RoleName, str]] = []
        self._feedback: dict[RoleName, Feedback] = {}

    async def act(self, context: Context) -> Reply:
        """Return the next turn; it takes no time on the episode's clock.

        Raises:
            ModelError: a role could not be played; the episode is masked, not failed.
        """
        self._take_in(context)
        draft = await self._draft(context)
        review = await self._review(context, draft)
        for _ in range(REVIEWS):
            if review.back_to is None:
                break
            self._send_back(review.back_to, review.reason)
            draft = await self._draft(context)
            review = await self._review(context, draft)
        if review.back_to is not None:
            self.refused = review
        self._sent, self._thoughts, self._feedback = draft.sent, [], {}
        if draft.kind == "execution":
            self._replan = False
        return Reply(draft.text, self._cast.spent())

    def _take_in(self, context: Context) -> None:
        """Put what came back since the last turn on the desks of those it concerns."""
        for exchange in context.exchanges[self._taken_in :]:
            for found in exchange.found:
                self._desks[found.search.slot].found.append(found)
            for assignment, result in zip(self._sent, exchange.results, strict=False):
                self._note(assignment, result)
        self._taken_in = len(context.exchanges)

    def _note(self, assignment: Assignment, result: Result) -> None:
        job = self._jobs[assignment.id]
        if result.error is None:
            self._done[assignment.id] = result.value
            return
        job.failure = result
        if ERROR_TRAITS[result.error.kind].fault == "agent":
            job.filled = None
            job.feedback = (*job.feedback, result.error.message)
        elif result.error.kind != "cancelled":
            self._desks[assignment.slot].failed.append(result)

    async def _draft(self, context: Context) -> _Draft:
        """Let the roles work whose work is due, and write the turn that comes of it."""
        if self._outline is None:
            self._outline = await self._cast.planner(PlannerBrief(context.request, self._told("planner")))
            self._desks = {slot.name: Desk(slot) for slot in self._outline.slots}
            self._think("planner", self._outline.thought)
        if context.turns_left != 1:
            if asks := await self._explore(context.request):
                return self._exploration(context, self._outline, asks)
            await self._coordinate(context.request)
            if calls := await self._execute(context.request):
                return self._execution(context, calls)
        return await self._answer(context.request, self._outline)

    async def _explore(self, request: str) -> list[tuple[str, Ask]]:
        """Let every explorer work that has something new to look at; return the queries that are to be made."""
        due = [desk for desk in self._desks.values() if desk.due]
        told = self._told("explorer")
        leads = await asyncio.gather(*(self._cast.explorer(desk.brief(request, told)) for desk in due))
        for desk, lead in zip(due, leads, strict=True):
            desk.lead, desk.seen = lead, desk.now
            if isinstance(lead, Ask) and len(desk.found) >= ASKS:
                desk.lead = GiveUp()
            self._think("explorer", lead.thought)
        return [(desk.slot.name, desk.lead) for desk in self._desks.values() if isinstance(desk.lead, Ask)]

    async def _coordinate(self, request: str) -> None:
        """Have the calls arranged, anew whenever other tools were picked."""
        picks = {name: desk.lead.tool for name, desk in self._desks.items() if isinstance(desk.lead, Pick)}
        if picks == self._picks:
            return
        self._picks = picks
        if not picks:
            return
        slots = tuple(desk.slot for desk in self._desks.values())
        brief = CoordinatorBrief(request, slots, picks, dict(self._done), self._told("coordinator"))
        self._arrangement = await self._cast.coordinator(brief)
        self._replan = True
        self._think("coordinator", self._arrangement.thought)

    async def _execute(self, request: str) -> list[tuple[Assignment, Call]]:
        """Let the executors of all calls work that may be made now; return the calls."""
        wave = self._wave()
        open_jobs = [assignment for assignment in wave if self._job(assignment).filled is None]
        briefs = [self._executor_brief(request, assignment) for assignment in open_jobs]
        work = await asyncio.gather(*map(self._cast.executor, briefs))
        for assignment, filled in zip(open_jobs, work, strict=True):
            self._jobs[assignment.id].filled = filled
            self._think("executor", filled.thought)
        filled_in: dict[str, Call] = {}
        for assignment in wave:
            job = self._jobs[assignment.id]
            arguments = job.filled.arguments if job.filled else None
            if arguments is None:  # asked again once the results are there
                job.filled = None
            elif all(up in self._done or up in filled_in for up in assignment.after):
                filled_in[assignment.id] = Call(self._picks[assignment.slot].name, arguments, assignment.id)
        linked = {up for call in filled_in.values() for up in links.upstream(call.arguments)}
        return [
            (assignment, call if call.id in linked else Call(call.name, call.arguments))
            for assignment in wave
            if (call := filled_in.get(assignment.id))
        ]

    def _pending(self) -> list[Assignment]:
        return [a for a in self._arrangement.assignments if a.id not in self._done and a.slot in self._picks]

    def _wave(self) -> list[Assignment]:
        """Return the assignments whose inputs are there, or come from calls of the same turn."""
        reachable = set(self._done)
        wave = []
        for assignment in self._pending():
            if reachable.issuperset(assignment.after):
                wave.append(assignment)
                reachable |= {assignment.id} if self._linked else set()
        return wave

    def _job(self, assignment: Assignment) -> Job:
        """Return the job of an assignment, a fresh one if it or its tool has changed."""
        tool = self._picks[assignment.slot]
        job = self._jobs.get(assignment.id)
        if job is None or job.assignment != assignment or job.tool.name != tool.name:
            job = self._jobs[assignment.id] = Job(assignment, tool)
        return job

    def _executor_brief(self, request: str, assignment: Assignment) -> ExecutorBrief:
        slots = {other.id: other.slot for other in self._arrangement.assignments}
        producers = {up: self._picks[slots[up]] for up in assignment.after if slots.get(up) in self._picks}
        told = (*self._jobs[assignment.id].feedback, *self._told("executor"))
        return ExecutorBrief(request, assignment, self._picks[assignment.slot], producers, dict(self._done), told)

    def _exploration(self, context: Context, outline: Outline, asks: Sequence[tuple[str, Ask]]) -> _Draft:
        plan = None
        if _opens(context, "exploration"):
            first = not context.exchanges
            plan = SearchPlan(tuple(name for name, _ in asks), outline.subgoals if first else ())
        searches = [Search(name, ask.query) for name, ask in asks]
        return _Draft("exploration", render_turn(self._thinking(), plan=plan, searches=searches))

    def _execution(self, context: Context, calls: Sequence[tuple[Assignment, Call]]) -> _Draft:
        plan = self._plan() if self._replan or _opens(context, "execution") else None
        text = render_turn(self._thinking(), plan=plan, calls=[call for _, call in calls])
        return _Draft("execution", text, tuple(assignment for assignment, _ in calls))

    def _plan(self) -> CallPlan:
        """Return the plan of everything that is left."""
        pending = self._pending()
        left = {assignment.id for assignment in pending}
        nodes: list[Call] = []
        for assignment in pending:
            waits: list[JsonValue] = [f"${up}" for up in assignment.after if up in left]
            nodes.append(Call(self._picks[assignment.slot].name, {"after": waits}, assignment.id))
        return call_plan(nodes)

    async def _answer(self, request: str, outline: Outline) -> _Draft:
        brief = AnswererBrief(
            request=request,
            outline=outline,
            arrangement=self._arrangement.assignments,
            done=dict(self._done),
            given_up=tuple(desk.slot for desk in self._desks.values() if isinstance(desk.lead, GiveUp)),
            failed=tuple(job.failure for id, job in self._jobs.items() if job.failure and id not in self._done),
            feedback=self._told("answerer"),
        )
        answer = await self._cast.answerer(brief)
        self._think("answerer", answer.thought)
        return _Draft("answer", render_turn(self._thinking(), answer=answer.text))

    async def _review(self, context: Context, draft: _Draft) -> Review:
        seen = context.messages[-1].content if context.exchanges else ""
        return await self._cast.critic(CriticBrief(context.request, draft.kind, draft.text, seen, dict(self._done)))

    def _send_back(self, role: RoleName, reason: str) -> None:
        """Throw away what a role has made and what was made from it, and tell the role why."""
        later = _ORDER[_ORDER.index(role) :]
        self._thoughts = [(own, text) for own, text in self._thoughts if own not in later]
        self._feedback[role] = (*self._told(role), reason)
        if "planner" in later:
            self._outline = None
        if "explorer" in later:
            for desk in self._desks.values():
                desk.lead = None
        if "coordinator" in later:
            self._picks = {}
        if "executor" in later:
            for job in self._jobs.values():
                job.filled = None

    def _told(self, role: RoleName) -> Feedback:
        return self._feedback.get(role, ())

    def _think(self, role: RoleName, thought: str) -> None:
        if thought:
            self._thoughts.append((role, thought))

    def _thinking(self) -> str:
        return "\n".join(text for _, text in self._thoughts) or "I go on as planned."


def _opens(context: Context, kind: TurnKind) -> bool:
    """Tell whether a turn of this kind begins a phase, so that a plan is due."""
    return not context.exchanges or context.exchanges[-1].turn.kind != kind
