"""ParaAgent: the whole loop with a scripted policy, Python functions as tools, and the trace in a file."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from work import Work, serve

from paraagent.agent.budget import Budget
from paraagent.agent.context import Context
from paraagent.agent.limits import Limits
from paraagent.agent.loop import Loop
from paraagent.agent.past import Past
from paraagent.agent.settings import Settings
from paraagent.agent.toolboxes.functions import FunctionToolbox, declare
from paraagent.clock import WallClock
from paraagent.protocol.render import render_turn
from paraagent.trace.events import EpisodeStart
from paraagent.trace.recorder import Recorder
from paraagent.types import Call, Reply, Search

PER_SERVER = None if "--no-limit" in sys.argv else Limits().per_server
SETTINGS = Settings(Budget(turns=1000, calls=None), Limits(per_server=PER_SERVER))
START = EpisodeStart(version=1, run="bench", episode="e", request="go", policy="script")


class Scripted:
    name = "script"

    def __init__(self, work: Work) -> None:
        self._work = work
        self._results: list[str] = []
        self._go = ""
        """What it says in every turn; a model's writing is not what is measured."""
        self._read = 4
        """Messages read so far; before the first calls stand system, request, search and its answer."""

    async def act(self, context: Context) -> Reply:
        if not context.exchanges:
            return Reply(render_turn("look", searches=[Search("work", "do a piece of work")]))
        for message in context.messages[self._read :]:
            self._results += [line for line in message.content.splitlines() if line.startswith('{"name"')]
        self._read = len(context.messages)
        calls = self._work.next_calls(len(context.exchanges) - 1, self._results)
        if not calls:
            return Reply(render_turn("done", answer="done"))
        if not self._go:
            self._go = render_turn("go", calls=[Call("do", {"id": id}, f"c{n}") for n, (_, id) in enumerate(calls)])
        return Reply(self._go)


async def run(work: Work, resume: bool) -> None:
    kind: Any = "create" if work.crash_after is not None or resume else "read"
    keys = {"writes": ["piece/{id}"]} if kind == "create" else {"reads": ["piece/{id}"]}

    @declare(kind, **keys)
    async def do(id: str) -> str:
        """Do a piece of work."""
        return await work.tool(id)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        if resume:
            path.write_bytes(work.state["trace"])
        with Recorder.resume(path) if resume else Recorder(path) as recorder:
            _keep_on_crash(work, path)
            past = Past(recorder.events)
            clock = WallClock(past.at)
            loop = Loop(START, Scripted(work), FunctionToolbox([do]), clock, recorder, SETTINGS, past=past)
            await loop.run()


def _keep_on_crash(work: Work, path: Path) -> None:
    """See to it that the trace is kept as it is at the moment of the crash."""
    tell = work.on_crash

    def on_crash() -> None:
        work.state["trace"] = path.read_bytes()
        tell()

    work.on_crash = on_crash


serve(run)
