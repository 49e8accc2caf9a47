"""No agent at all: the calls of a turn as tasks of a TaskGroup; what asyncio and the machine cost by themselves."""

from __future__ import annotations

import asyncio

from work import Work, serve


async def run(work: Work, resume: bool) -> None:
    results: list[str] = []
    turn = 0
    while calls := work.next_calls(turn, results):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work.tool(id)) for _, id in calls]
        results = results + [task.result() for task in tasks]
        turn += 1


serve(run)
