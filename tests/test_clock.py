"""The clocks: jumps, busy counting, time-outs, timers, determinism."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.clock import Clock, VirtualClock, WallClock

Log = list[tuple[float, str]]


def run(clock: VirtualClock, *work: Coroutine[None, None, object]) -> list[object]:
    """Run coroutines as spawned tasks to their end."""

    async def main() -> list[object]:
        return await asyncio.gather(*(clock.spawn(each) for each in work))

    return asyncio.run(main())


async def sleeps(clock: Clock, log: Log, name: str, *seconds: float) -> None:
    for each in seconds:
        await clock.sleep(each)
        log.append((clock.now(), name))


async def passes(count: int = 50) -> None:
    """Let everything that is ready run, many times over."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_time_jumps_from_one_wake_up_to_the_next() -> None:
    clock, log = VirtualClock(), Log()
    run(clock, sleeps(clock, log, "a", 3600.0, 3600.0), sleeps(clock, log, "b", 5000.0))
    assert log == [(3600.0, "a"), (5000.0, "b"), (7200.0, "a")]


def test_wake_ups_of_one_instant_keep_the_order_in_which_they_were_asked_for() -> None:
    clock, log = VirtualClock(), Log()
    run(clock, *(sleeps(clock, log, name, 2.0) for name in "dacb"))
    assert [name for _, name in log] == list("dacb")


def test_a_task_that_waits_for_something_real_holds_the_time_still() -> None:
    clock, log = VirtualClock(), Log()
    answer = asyncio.Event()

    async def asks_a_model() -> None:
        await answer.wait()
        log.append((clock.now(), "answered"))

    async def main() -> None:
        asking, sleeping = clock.spawn(asks_a_model()), clock.spawn(sleeps(clock, log, "slept", 1.0))
        await passes()
        assert (clock.now(), log) == (0.0, [])
        answer.set()
        await asyncio.gather(asking, sleeping)

    asyncio.run(main())
    assert log == [(0.0, "answered"), (1.0, "slept")]


def test_clocks_on_one_loop_do_not_know_of_each_other() -> None:
    clocks = [VirtualClock() for _ in range(20)]

    async def main() -> None:
        blocked = VirtualClock()
        stuck = blocked.spawn(asyncio.Event().wait())
        await asyncio.gather(*(c.spawn(sleeps(c, [], "", *[1.5] * n)) for n, c in enumerate(clocks)))
        stuck.cancel()
        assert blocked.now() == 0.0

    asyncio.run(main())
    assert [clock.now() for clock in clocks] == [1.5 * n for n in range(20)]


def test_sleep_outside_a_spawned_task_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"clock\.spawn"):
        asyncio.run(VirtualClock().sleep(1.0))


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_sleep_of_no_time_lets_others_run_and_takes_no_time(seconds: float) -> None:
    clock, log = VirtualClock(), Log()
    run(clock, sleeps(clock, log, "a", seconds, seconds), sleeps(clock, log, "b", seconds))
    assert log == [(0.0, "a"), (0.0, "b"), (0.0, "a")]


def test_sleep_for_ever_never_ends_and_never_moves_the_time() -> None:
    clock = VirtualClock()

    async def main() -> None:
        task = clock.spawn(clock.sleep(math.inf))
        await passes()
        assert not task.done()
        assert clock.now() == 0.0
        task.cancel()

    asyncio.run(main())


def test_wait_lets_the_time_pass_for_the_work_it_waits_for() -> None:
    clock, log = VirtualClock(), Log()

    async def parent() -> None:
        await clock.wait(clock.spawn(sleeps(clock, log, "child", 7.0)))
        log.append((clock.now(), "parent"))
        await clock.sleep(1.0)

    run(clock, parent())
    assert log == [(7.0, "child"), (7.0, "parent")]
    assert clock.now() == 8.0


def test_wait_works_outside_a_spawned_task_too() -> None:
    clock, log = VirtualClock(), Log()

    async def main() -> None:
        await clock.wait(clock.spawn(sleeps(clock, log, "a", 2.0)))

    asyncio.run(main())
    assert log == [(2.0, "a")]


def test_a_waiting_task_is_busy_again_before_any_further_jump() -> None:
    clock, log = VirtualClock(), Log()

    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def waits() -> None:
            await clock.wait(future)
            await passes()
            log.append((clock.now(), "waited"))

        waiter = clock.spawn(waits())
        other = clock.spawn(sleeps(clock, log, "slept", 9.0))
        clock.call_later(4.0, future.set_result, None)
        await asyncio.gather(waiter, other)

    asyncio.run(main())
    assert log == [(4.0, "waited"), (9.0, "slept")]


@pytest.mark.parametrize("waiting", ["sleep", "wait"])
def test_a_cancelled_wait_leaves_the_count_right(waiting: str) -> None:
    clock, log = VirtualClock(), Log()

    async def waits() -> None:
        try:
            if waiting == "sleep":
                await clock.sleep(100.0)
            else:
                await clock.wait(asyncio.get_running_loop().create_future())
        except asyncio.CancelledError:
            await passes()  # busy: the time must stand still
            log.append((clock.now(), "cleaned up"))
            raise

    async def cancels(task: asyncio.Task[None]) -> None:
        await clock.sleep(3.0)
        task.cancel()
        await clock.sleep(3.0)
        log.append((clock.now(), "done"))

    async def main() -> None:
        task = clock.spawn(waits())
        await clock.spawn(cancels(task))
        assert task.cancelled()

    asyncio.run(main())
    assert log == [(3.0, "cleaned up"), (6.0, "done")]


def test_a_wake_up_and_a_cancel_at_the_same_instant_count_once() -> None:
    clock, log = VirtualClock(), Log()

    async def main() -> None:
        task = clock.spawn(clock.sleep(2.0))
        await asyncio.sleep(0)
        clock.call_later(2.0, task.cancel)  # its future is done by then, the task is not
        await clock.spawn(sleeps(clock, log, "a", 5.0))
        assert task.cancelled()
        await clock.spawn(sleeps(clock, log, "b", 5.0))

    asyncio.run(main())
    assert log == [(5.0, "a"), (10.0, "b")]


def test_timeout_ends_work_that_takes_too_long() -> None:
    clock, log = VirtualClock(), Log()

    async def work() -> None:
        with pytest.raises(TimeoutError, match="longer than 2 s"):
            await clock.timeout(2.0, sleeps(clock, log, "never", 60.0))
        log.append((clock.now(), "timed out"))
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0  # the task goes on as if nothing had been cancelled
        assert await clock.timeout(5.0, value()) == 42
        assert await clock.timeout(None, value()) == 42

    async def value() -> int:
        await clock.sleep(1.0)
        return 42

    run(clock, work())
    assert log == [(2.0, "timed out")]
    assert clock.now() == 4.0  # and not 7: a timer that is not needed any more moves nothing


def test_the_inner_of_two_timeouts_is_caught_inside() -> None:
    clock = VirtualClock()

    async def work() -> str:
        try:
            await clock.timeout(1.0, clock.sleep(10.0))
        except TimeoutError:
            return "inner"
        return "none"

    async def main() -> None:
        assert await clock.timeout(5.0, work()) == "inner"
        with pytest.raises(TimeoutError):
            await clock.timeout(1.0, clock.timeout(5.0, clock.sleep(10.0)))

    run(clock, main())
    assert clock.now() == 2.0


def test_a_cancel_from_outside_is_no_timeout() -> None:
    clock = VirtualClock()

    async def main() -> None:
        task = clock.spawn(clock.timeout(9.0, clock.sleep(10.0)))
        clock.call_later(3.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await clock.wait(task)

    asyncio.run(main())
    assert clock.now() == 3.0


def test_a_cancel_from_outside_wins_over_a_timeout_at_the_same_instant() -> None:
    clock = VirtualClock()

    async def main() -> None:
        task = clock.spawn(clock.timeout(3.0, clock.sleep(10.0)))
        await asyncio.sleep(0)
        clock.call_later(3.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await clock.wait(task)

    asyncio.run(main())


def test_timers_fire_in_order_and_can_be_cancelled() -> None:
    clock, log = VirtualClock(), Log()

    def note(name: str) -> None:
        log.append((clock.now(), name))

    async def work() -> None:
        clock.call_later(2.0, note, "second")
        clock.call_later(1.0, note, "first")
        cancelled = clock.call_later(1.5, note, "cancelled")
        clock.call_later(-1.0, note, "at once")
        cancelled.cancel()
        cancelled.cancel()
        await clock.sleep(3.0)

    run(clock, work())
    assert log == [(0.0, "at once"), (1.0, "first"), (2.0, "second")]


def test_many_cancelled_timers_do_not_pile_up() -> None:
    clock, log = VirtualClock(), Log()

    async def work() -> None:
        for _ in range(2000):
            timer = clock.call_later(60.0, log.append, (0.0, "never"))
            await clock.sleep(0.001)
            timer.cancel()
        assert len(clock._heap) < 600

    run(clock, work())
    assert log == []


def test_a_timer_nobody_waits_for_does_not_move_the_time() -> None:
    clock = VirtualClock()

    async def main() -> None:
        clock.call_later(99.0, print)
        await clock.spawn(clock.sleep(1.0))
        await passes()

    asyncio.run(main())
    assert clock.now() == 1.0


def test_a_timer_that_raises_does_not_stop_the_clock() -> None:
    clock, log = VirtualClock(), Log()
    problems: list[object] = []

    def breaks() -> None:
        raise ValueError("broken timer")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))
        clock.call_later(1.0, breaks)
        await clock.spawn(sleeps(clock, log, "a", 1.0))

    asyncio.run(main())
    assert log == [(1.0, "a")]
    assert [str(problem) for problem in problems] == ["broken timer"]


def test_advance_charges_time_and_wakes_what_became_due() -> None:
    clock, log = VirtualClock(), Log()

    async def thinks() -> None:
        await asyncio.sleep(0)
        clock.advance(2.5)  # a model took that long
        clock.advance(-1.0)
        await asyncio.sleep(0)
        log.append((clock.now(), "thought"))

    run(clock, sleeps(clock, log, "due", 2.0), sleeps(clock, log, "later", 4.0), thinks())
    assert sorted(log) == [(2.5, "due"), (2.5, "thought"), (4.0, "later")]


def test_no_jump_comes_between_a_cancel_and_its_effect() -> None:
    clock, log = VirtualClock(), Log()

    async def cancels_and_waits(child: asyncio.Task[None]) -> None:
        try:
            await clock.sleep(50.0)
        except asyncio.CancelledError:
            child.cancel()
            await clock.wait(asyncio.gather(child, return_exceptions=True))
            log.append((clock.now(), "child ended"))

    async def main() -> None:
        parent = clock.spawn(cancels_and_waits(clock.spawn(clock.sleep(9.0))))
        clock.call_later(5.0, parent.cancel)
        await clock.wait(parent)

    asyncio.run(main())
    assert log == [(5.0, "child ended")]


def test_a_failing_task_frees_the_clock() -> None:
    clock, log = VirtualClock(), Log()

    async def fails() -> None:
        raise ValueError("no")

    async def main() -> None:
        task = clock.spawn(fails())
        await clock.spawn(sleeps(clock, log, "a", 1.0))
        assert isinstance(task.exception(), ValueError)

    asyncio.run(main())
    assert log == [(1.0, "a")]


@given(st.lists(st.lists(st.integers(0, 3).map(float), max_size=4), max_size=6))
def test_every_wake_up_comes_exactly_when_asked_for(plans: list[list[float]]) -> None:
    logs: list[Log] = []
    for _ in range(2):
        clock, log = VirtualClock(), Log()
        run(clock, *(sleeps(clock, log, str(n), *plan) for n, plan in enumerate(plans)))
        logs.append(log)
    assert logs[0] == logs[1]
    assert [at for at, _ in logs[0]] == sorted(at for at, _ in logs[0])
    for n, plan in enumerate(plans):
        assert [at for at, name in logs[0] if name == str(n)] == [sum(plan[: i + 1]) for i in range(len(plan))]


def test_the_wall_clock_offers_the_same() -> None:
    clock: Clock = WallClock()
    log: list[str] = []

    async def work() -> str:
        clock.advance(1e9)
        clock.call_later(0.0, log.append, "called")
        await clock.sleep(0.001)
        with pytest.raises(TimeoutError):
            await clock.timeout(0.001, clock.sleep(60.0))
        return await clock.wait(clock.spawn(value()))

    async def value() -> str:
        return "value"

    assert asyncio.run(work()) == "value"
    assert log == ["called"]
    assert 0.002 <= clock.now() < 60.0
