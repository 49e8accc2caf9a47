"""ParaAct: the loop that lets a policy explore and execute in parallel until it answers.

Place in the flow: layer 3. One `Loop` is one episode. Each round the policy writes a turn; all its searches are
answered at once, or all its calls run through the scheduler; what came back is appended to the prompt. Everything
that happens is an event in the trace, and the same code serves simulated and real tools, training and evaluation.
Limits: a malformed turn is told to the agent, at most `Settings.invalid_turns` times in a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from paraagent.agent.budget import Spending
from paraagent.agent.context import Context, Exchange
from paraagent.agent.journal import Journal
from paraagent.agent.limits import Servers
from paraagent.agent.past import Past
from paraagent.agent.prepare import Run
from paraagent.agent.record import CallRecorder
from paraagent.agent.schedule import run_group
from paraagent.agent.settings import Settings, User, Verifier
from paraagent.clock import Clock
from paraagent.errors import EnvironmentFault, ModelError
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.card import card
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.monitor import PlanMonitor, Review
from paraagent.protocol.observe import render_found, render_notes, render_result
from paraagent.trace.events import EpisodeEnd, EpisodeStart, Event, NoteKind, SearchDone, TurnText
from paraagent.trace.recorder import Recorder
from paraagent.types import Call, Found, Message, Policy, Result, StopReason, Toolbox, ToolError, Usage


class Loop:
    """One episode.

    Args:
        start: the trace's first event; its request is what the agent is asked.
        verify: judges the end; without one `success` stays None.
        user: is told every answer and says what else is wanted, or None, which ends the episode; without one the
            first answer ends it.
        on_event: is told every event as it is recorded, for live progress.
        past: what the episode did before it was stopped, if it is resumed; its clock must start at `past.at`.
    """

    def __init__(
        self,
        start: EpisodeStart,
        policy: Policy,
        toolbox: Toolbox,
        clock: Clock,
        recorder: Recorder,
        settings: Settings | None = None,
        *,
        verify: Verifier | None = None,
        user: User | None = None,
        on_event: Callable[[Event], None] | None = None,
        past: Past | None = None,
    ) -> None:
        self._past = past or Past()
        self._journal = Journal(recorder, clock, self._past, on_event)
        self._start = start
        self._policy = policy
        self._toolbox = toolbox
        self._clock = clock
        self._settings = settings or Settings()
        self._verify = verify
        self._user = user
        self._monitor = PlanMonitor(self._settings.plan)
        self._spending = Spending(self._settings.budget)
        self._servers = Servers[Run](clock, self._settings.limits.per_server)
        self._calls = CallRecorder(self._journal.emit, f"{start.run}/{start.episode}", durable=self._settings.durable)
        self._invalid = 0
        self.context = Context(start.request)

    async def run(self) -> EpisodeEnd:
        """Play the episode to its end and return the trace's last event.

        Raises:
            CancelledError: the caller was cancelled; the trace is closed as cancelled first.
            TraceError: the trace cannot be written.
        """
        self._journal.emit(self._start)
        self._tell("system", self._settings.system_prompt())
        self._tell("user", self._start.request)
        try:
            end: EpisodeEnd | None = None
            while end is None:
                end = await self._turn()
        except asyncio.CancelledError:
            self._finish("cancelled", failure="cancelled")
            raise
        return end

    async def _turn(self) -> EpisodeEnd | None:
        """Play one turn; return the end if it was the last."""
        said = self._past.turn(self._spending.turns)
        now = said.started if said else self._clock.now()
        if reason := self._spending.exhausted(now):
            return self._finish(reason)
        self.context.turns_left = self._spending.turns_left
        self.context.reply_tokens = self._spending.reply_tokens
        left = self._spending.seconds_left(now)
        limit = asyncio.timeout(left)
        try:
            async with limit:
                said = said or await self._ask()
        except ModelError as error:
            return self._finish("model_error", failure=str(error))
        except TimeoutError:
            if not limit.expired():
                raise
            self._clock.advance(left or 0.0)
            return self._finish("time_limit")
        turn = self._hear(said)
        review = self._monitor.review(turn)
        faults = [fault.message for fault in turn.faults]
        deviations = [deviation.message for deviation in review.deviations if deviation.message not in faults]
        self._note("protocol", faults)
        self._note("plan", deviations)
        notes = faults + deviations
        self._invalid = self._invalid + 1 if turn.kind == "invalid" else 0
        if turn.kind == "answer":
            return self._answered(turn)
        if self._invalid > self._settings.invalid_turns:
            return self._finish("invalid_turns")
        if turn.kind == "exploration":
            return await self._explore(turn, notes)
        if turn.kind == "execution":
            return await self._execute(turn, review, notes)
        self._observe(Exchange(turn, notes=tuple(notes)))
        return None

    async def _ask(self) -> TurnText:
        started = self._clock.now()
        reply = await self._policy.act(self.context)
        self._clock.advance(reply.seconds)
        return TurnText(
            turn=self._spending.turns,
            text=reply.text,
            started=started,
            ended=self._clock.now(),
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            cached_tokens=reply.usage.cached_tokens,
        )

    def _hear(self, said: TurnText) -> Turn:
        usage = Usage(said.input_tokens, said.output_tokens, said.cached_tokens)
        cost = self._spending.add_turn(usage, said.ended - said.started)
        self._journal.emit(replace(said, cost=cost))
        self.context.messages.append(Message("assistant", said.text))
        return parse(said.text)

    def _answered(self, turn: Turn) -> EpisodeEnd | None:
        more = self._user(turn.answer or "") if self._user else None
        if more is None:
            return self._finish("answered", answer=turn.answer)
        self.context.exchanges.append(Exchange(turn, reply=more))
        self._tell("user", more)
        return None

    async def _explore(self, turn: Turn, notes: list[str]) -> EpisodeEnd | None:
        most = self._settings.most(len(turn.searches))
        allowed = self._spending.take_searches(most)
        if allowed < len(turn.searches):
            if not allowed and self._spending.insists("search_limit"):
                return self._finish("search_limit")
            why = f"a turn holds at most {most}" if allowed == most else "the search budget is used up"
            told = f"Only {allowed} of {len(turn.searches)} searches were run: {why}."
            self._note("budget", [told])
            notes.append(told)
        searches = turn.searches[:allowed]
        started = self._clock.now()
        known = self._past.found(self._spending.turns - 1, searches, self._toolbox.tool)
        new = [search for index, search in enumerate(searches) if index not in known]
        try:
            answers = await self._clock.wait(self._clock.spawn(self._toolbox.search(new))) if new else []
            if len(answers) != len(new):
                raise ValueError(f"{len(new)} queries got {len(answers)} answers")
        except EnvironmentFault:
            raise
        except Exception as error:  # a toolbox may be anybody's
            return self._finish("search_error", failure=f"the search failed: {str(error) or type(error).__name__}")
        order = iter(answers)
        found = [known.get(index) or next(order) for index in range(len(searches))]
        for index, answer in enumerate(found):
            self._journal.emit(self._search_done(index, answer, started))
        self._monitor.record_searches([[hit.tool.name for hit in answer.hits] for answer in found])
        self._observe(Exchange(turn, found=tuple(found), notes=tuple(notes)))
        return None

    async def _execute(self, turn: Turn, review: Review, notes: list[str]) -> EpisodeEnd | None:
        refused = self._refusals(turn, review)
        if len(refused) == len(turn.calls) and any(isinstance(call, Call) for call in turn.calls):
            out_of_budget = self._settings.budget.calls == self._spending.calls
            if out_of_budget and self._spending.insists("call_limit"):
                return self._finish("call_limit")
        results = await self._run(turn, refused)
        self._monitor.record_calls([result.ok for result in results])
        self._observe(Exchange(turn, results=tuple(results), notes=tuple(notes)))
        return None

    async def _run(self, turn: Turn, refused: dict[int, ToolError]) -> list[Result]:
        number = self._spending.turns - 1
        calls = [call.as_call() if isinstance(call, BrokenCall) else call for call in turn.calls]
        broken = {index: call.error for index, call in enumerate(turn.calls) if isinstance(call, BrokenCall)}
        self._calls.begin(number, self._past.starts(number))
        return await run_group(
            calls,
            self._toolbox,
            self._clock,
            limits=self._settings.limits,
            observer=self._calls,
            known=self.context.values(),
            servers=self._servers,
            deadline=self._spending.deadline,
            refused=refused | broken,
            recorded=self._past.results(number, calls),
        )

    def _refusals(self, turn: Turn, review: Review) -> dict[int, ToolError]:
        """Return the well-formed calls that must not run, with the reason the agent is told."""
        refused = {index: ToolError("permission", reason) for index, reason in review.refused.items()}
        refused |= self._settings.switched_off(turn)
        surfaced = self.context.surfaced()
        for index, call in enumerate(turn.calls):
            if isinstance(call, BrokenCall) or index in refused or call.name in surfaced:
                continue
            tool = self._toolbox.tool(call.name)
            if tool is not None:
                message = f"no search has shown this tool, so it was not run; it is {card(tool)}"
                refused[index] = ToolError("tool_not_found", message)
        wanted = [i for i, call in enumerate(turn.calls) if isinstance(call, Call) and i not in refused]
        allowed = self._spending.take_calls(len(wanted))
        for index in wanted[allowed:]:
            refused[index] = ToolError("cancelled", "not run: the call budget is used up; answer with what is known")
        self._note("budget", ["The call budget is used up."] if allowed < len(wanted) else [])
        return refused

    def _search_done(self, index: int, found: Found, started: float) -> SearchDone:
        return SearchDone(
            turn=self._spending.turns - 1,
            index=index,
            slot=found.search.slot,
            query=found.search.query,
            hits=[(hit.tool.name, hit.score) for hit in found.hits],
            total=found.total,
            nothing_fits=found.nothing_fits,
            started=started,
            ended=self._clock.now(),
        )

    def _observe(self, exchange: Exchange) -> None:
        """Append what came back to the history and to the prompt."""
        notes = list(exchange.notes)
        blocks = [render_found(found, self._settings.tools) for found in exchange.found]
        blocks += [render_result(result, self._settings.result_chars) for result in exchange.results]
        if told := self._spending.last_turn(self._journal.now(), "\n".join(blocks)):
            notes.append(told)
            self._note("budget", [told])
        if notes:
            blocks.append(render_notes(notes))
        self.context.exchanges.append(exchange)
        self._tell("user", "\n".join(blocks))

    def _finish(self, reason: StopReason, *, answer: str | None = None, failure: str | None = None) -> EpisodeEnd:
        masked = failure is not None
        verdict = self._verify(list(self.context.results()), answer) if self._verify and not masked else None
        end = EpisodeEnd(
            at=self._clock.now(),
            stop_reason=reason,
            terminated=reason == "answered",
            truncated=reason != "answered" and not masked,
            answer=answer,
            success=verdict.success if verdict else None,
            checks=verdict.to_json() if verdict else {},
            mask_sample=masked,
            failure_kind=failure,
        )
        self._journal.emit(end)
        return end

    def _tell(self, role: Literal["system", "user"], text: str) -> None:
        message = self._journal.prompt(Message(role, text))
        self.context.messages.append(message)
        self._spending.add_prompt(message.content)

    def _note(self, kind: NoteKind, messages: Sequence[str]) -> None:
        self._journal.note(self._spending.turns - 1, kind, messages)
