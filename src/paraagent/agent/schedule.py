"""Runs the calls of one turn: as many at once as their links, conflicts and limits allow; one result each, in order.

Place in the flow: layer 3; the loop hands over a turn's calls and gets a `Result` for every one, whatever happens:
a failure stays with its call and those that link to it. A call starts when the calls it links to have succeeded, no
earlier unfinished call conflicts with it (`conflicts`), and its server has room (`limits`). The end of a call starts
those that waited for it directly: nothing polls, and there are no barriers.
Each attempt is one task on the clock and its end is `_settle`; `_finish` gives a call its result and `_drain` tells
those who wait for it. Waiting always points backwards in one order of the group, so no group can deadlock.
Limits: work that ignores its cancellation is left behind after `GRACE` seconds and its call gets its result anyway.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paraagent.agent.conflicts import connect_conflicts, connect_links, reconnect_conflicts
from paraagent.agent.limits import Limits, Servers, asked_wait
from paraagent.agent.observer import Guarded, Observer
from paraagent.agent.prepare import Run, as_json, canonical, prepare, resolve, unexpected
from paraagent.clock import Clock
from paraagent.errors import ToolFailure
from paraagent.types import Call, JsonValue, Result, Toolbox, ToolError

GRACE = 5.0
"""Seconds that cancelled work has to end."""

_OUT_OF_TIME = "the time budget is used up"


async def run_group(
    calls: Sequence[Call],
    toolbox: Toolbox,
    clock: Clock,
    *,
    limits: Limits | None = None,
    observer: Observer | None = None,
    known: Mapping[str, JsonValue] | None = None,
    servers: Servers[Run] | None = None,
    deadline: float | None = None,
    refused: Mapping[int, ToolError] | None = None,
    recorded: Mapping[int, Result] | None = None,
) -> list[Result]:
    """Run the calls of one turn and return one result per call, in call order.

    Args:
        known: values of earlier calls by id, for links; ids of this group go first.
        servers: share one between the groups of a clock, so that a pause outlives its turn.
        deadline: seconds on the clock at which unfinished calls are cancelled; finished ones keep their results.
        refused: calls, by index, that must not run, and why.
        recorded: results, by index, that an earlier run of this very group had; their calls do not run again, and
            all others wait for them, link to them and share them as they would have.

    Raises:
        CancelledError: the caller was cancelled; by then all work is cancelled and the observer knows every result.
        Exception: what the observer raised, or what came of a toolbox that broke its contract; all work is cancelled.
    """
    group = CallGroup(calls, toolbox, clock, limits, observer, known, servers, refused, recorded)
    if deadline is None:
        return await group.run()
    left = deadline - clock.now()
    if left <= 0:
        group.cancel(_OUT_OF_TIME)
    timer = clock.call_later(left, group.cancel, _OUT_OF_TIME)
    try:
        return await group.run()
    finally:
        timer.cancel()


class CallGroup:
    """`run_group` as an object, for a caller that wants to `cancel` it and keep the results so far."""

    def __init__(
        self,
        calls: Sequence[Call],
        toolbox: Toolbox,
        clock: Clock,
        limits: Limits | None = None,
        observer: Observer | None = None,
        known: Mapping[str, JsonValue] | None = None,
        servers: Servers[Run] | None = None,
        refused: Mapping[int, ToolError] | None = None,
        recorded: Mapping[int, Result] | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._clock = clock
        self._limits = limits or Limits()
        self._servers: Servers[Run] = servers or Servers(clock, self._limits.per_server)
        self._observer = Guarded(observer, self._abort)
        self._values = dict(known or {})
        self._refused = refused or {}
        self._recorded = recorded or {}
        self._runs = [Run(i, call, call.arguments, canonical(call.arguments)) for i, call in enumerate(calls)]
        self._results: list[Result | None] = [None] * len(self._runs)
        self._left = len(self._runs)
        self._ended: deque[Run] = deque()
        self._finished: asyncio.Future[None] | None = None
        self._closing = False
        self._problem: Exception | None = None
        self._timeout = self._limits.timeout or 0.0
        self._timed_out = ToolError("timeout", f"no answer within {self._timeout:g} s") if self._timeout else None

    async def run(self) -> list[Result]:
        """Run all calls to their results; see `run_group`."""
        self._begin()
        try:
            await self._all_finished()
        except asyncio.CancelledError:
            self.cancel("the run was cancelled")
            await self._all_finished()
            raise
        if self._problem is not None:
            raise self._problem
        return [result for result in self._results if result is not None]

    def cancel(self, reason: str) -> None:
        """End the group soon: calls that have not finished get a `cancelled` result, and running work is cancelled.

        A write that is under way gets `outcome_unknown` instead, since it may have happened.
        """
        self._closing = True
        self._recall()
        error = ToolError("cancelled", f"cancelled: {reason}")
        for run in self._runs:
            if run.done:
                continue
            if run.task is not None:
                self._stop(run, error)
            else:
                self._finish(run, error=error)
        self._drain()

    async def _all_finished(self) -> None:
        if self._left:
            self._finished = asyncio.get_running_loop().create_future()
            await self._clock.wait(self._finished)

    def _begin(self) -> None:
        """Fail what cannot run, connect the rest, start what waits for nothing."""
        if self._closing:
            return
        order, wrong = connect_links(self._runs, self._values)
        for run in order:
            error = self._refused.get(run.index) or wrong.get(run)
            if error := error or prepare(run, self._toolbox, self._values):
                wrong[run] = error
        connect_conflicts([run for run in order if run not in wrong])
        self._recall()
        for run, error in wrong.items():
            self._finish(run, error=error)
        for run in order:
            self._admit_if_ready(run)
        self._drain()

    def _recall(self) -> None:
        """Give the recorded results to their calls."""
        for index, result in self._recorded.items():
            self._give(self._runs[index], result)

    def _link_arrived(self, run: Run, source: Result) -> None:
        """Go on with a call, if this was the last of the results it links to."""
        if source.error is not None:
            message = f"not run: it needs the result of ${source.call.id}, which failed ({source.error.kind})"
            self._finish(run, error=ToolError("cancelled", message))
        run.links_left -= 1
        if run.links_left or run.done or run.is_twin:
            return
        if error := resolve(run, self._toolbox, self._values):
            self._finish(run, error=error)
            return
        loosened = reconnect_conflicts(run, self._runs)
        self._admit_if_ready(run)
        for other in loosened:
            self._admit_if_ready(other)

    def _admit_if_ready(self, run: Run) -> None:
        waiting = run.is_twin or run.links_left or run.before
        if not (waiting or run.done or run.admitted or self._closing):
            run.admitted = True
            self._servers.admit(run.server, self._attempt, run)

    def _attempt(self, run: Run) -> bool:
        """Start one attempt; tell whether it was started."""
        if run.started is None and not run.done:
            run.started = self._clock.now()
            self._observer.started(run, run.started)
        if run.done:
            return False
        run.stop = None
        run.entered = False
        run.task = self._clock.spawn(self._invoke(run))
        if self._timed_out is not None:
            run.timer = self._clock.call_later(self._timeout, self._stop, run, self._timed_out)
        return True

    async def _invoke(self, run: Run) -> None:
        assert run.tool is not None
        task = run.task
        run.entered = True
        run.attempts += 1
        value: JsonValue = None
        error: ToolError | None = None
        try:
            value = as_json(await self._toolbox.call(run.tool, run.arguments))
        except ToolFailure as failure:
            error = run.stop or ToolError(failure.kind, str(failure), failure.retry_after, failure.injected)
        except asyncio.CancelledError:
            error = run.stop or ToolError("cancelled", "cancelled from within the tool")
        except Exception as problem:
            error = run.stop or unexpected(problem)
        if run.task is not task:  # it was left behind
            return
        try:
            self._settle(run, value, error)
        except Exception as problem:  # a toolbox broke its contract; end the group rather than hang
            self._abort(problem)

    def _stop(self, run: Run, error: ToolError) -> None:
        """Cancel the attempt that is under way, because of `error`."""
        if run.task is None or run.stop is not None:
            return
        if run.timer is not None:
            run.timer.cancel()
        run.stop = error
        run.task.cancel()
        if run.entered:
            run.timer = self._clock.call_later(GRACE, self._settle, run, None, error)
        else:
            self._settle(run, None, error)

    def _settle(self, run: Run, value: JsonValue, error: ToolError | None) -> None:
        """End an attempt: repeat the call later, or finish it; then give its place at the server to the next."""
        if run.timer is not None:
            run.timer.cancel()
        run.timer = run.task = None
        writing = run.entered and not run.effects.read_only
        if error is not None and writing and error.kind in ("timeout", "cancelled"):
            error = ToolError("outcome_unknown", f"{error.message}; the write may have happened")
        try:
            if error is None or not self._repeat(run, error):
                self._finish(run, value, error)
                self._drain()
        finally:
            self._servers.release(run.server)

    def _repeat(self, run: Run, error: ToolError) -> bool:
        """Arrange for another attempt if that is allowed and may help; pause a server that asks for it."""
        wait = None if self._closing else self._limits.repeat_after(error, run.effects, run.attempts)
        if error.kind == "rate_limited":
            pause = asked_wait(error) if wait is None else wait
            if pause <= self._limits.longest_wait:
                self._servers.pause(run.server, pause)
        if wait is None:
            return False
        run.timer = self._clock.call_later(wait, self._servers.admit, run.server, self._attempt, run)
        return True

    def _finish(self, run: Run, value: JsonValue = None, error: ToolError | None = None) -> None:
        """End a call with what came of it."""
        if run.timer is not None:
            run.timer.cancel()
        now = self._clock.now()
        started = now if run.started is None else run.started
        self._give(run, Result(run.call, run.arguments, value, error, started, now, run.attempts))

    def _give(self, run: Run, result: Result) -> None:
        """Give a call its result, once; `_drain` then tells those that wait for it."""
        if run.done:
            return
        run.done = True
        self._results[run.index] = result
        if self._problem is None:
            self._observer.ended(run, result)
        self._ended.append(run)
        self._left -= 1
        if not self._left and self._finished is not None and not self._finished.done():
            self._finished.set_result(None)

    def _drain(self) -> None:
        """Tell the calls that wait for ended ones; a queue and no recursion, since chains may be long."""
        while self._ended:
            run = self._ended.popleft()
            result = self._results[run.index]
            assert result is not None
            for twin in run.twins:
                self._give(twin, replace(result, call=twin.call, attempts=0, shared_with=run.index))
            if result.ok and run.call.id is not None:
                self._values[run.call.id] = result.value
            for later in run.linked:
                self._link_arrived(later, result)
            for later in run.after:
                later.before.pop(run, None)
                self._admit_if_ready(later)

    def _abort(self, problem: Exception) -> None:
        self._problem = self._problem or problem
        self.cancel("the group cannot go on")
