"""Random episodes for the fault campaign: what the model says, turn by turn, and the limits it works under.

Turns hold reads, writes, links (to this turn, forwards too, and to earlier ones), conflicts, identical calls with and
without a conflicting call in between, ids used again, and calls that cannot run: unknown tools, dead links, broken
JSON.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from faults_world import SERVERS
from paraagent.agent.budget import Budget
from paraagent.agent.context import Context
from paraagent.agent.limits import Limits
from paraagent.agent.settings import Settings
from paraagent.protocol.render import render_turn
from paraagent.types import Call, JsonObject, Reply, Search

_TOOLS = ("get", "get", "get", "list", "set", "set", "make", "make", "act")
_BROKEN = '<tool_call>{"name": "get_a", "arguments": {</tool_call>'


@dataclass(slots=True)
class Script:
    """A policy that says the same lines whatever happens, as a model at temperature 0 does after the same prompt."""

    lines: Sequence[str]
    settings: Settings
    name: str = "script"

    async def act(self, context: Context) -> Reply:
        return Reply(self.lines[len(context.exchanges)], seconds=0.25)

    @property
    def timed(self) -> bool:
        """Whether what happens depends on how long things take."""
        return self.settings.budget.seconds is not None


def random_script(rng: random.Random) -> Script:
    lines = [render_turn("look", searches=[Search("tools", "read and change things"), Search("more", "the rest")])]
    said: list[Call] = []
    for turn in range(rng.randint(1, 3)):
        calls = _calls(rng, turn, said)
        said += calls
        text = render_turn("go", calls=calls)
        lines.append(text if rng.random() < 0.9 else f"{text}\n{_BROKEN}")
    if rng.random() < 0.1:
        lines.append("nothing at all")
    lines.append(render_turn("done", answer="All done."))
    return Script(lines, _settings(rng))


def _settings(rng: random.Random) -> Settings:
    budget = Budget(calls=rng.choice([None, None, 6]), seconds=rng.choice([None, None, None, 6.0]))
    limits = Limits(timeout=rng.choice([3.0, 10.0]), per_server=rng.choice([None, 1, 2, 8]))
    return Settings(budget=budget, limits=limits)


def _calls(rng: random.Random, turn: int, said: Sequence[Call]) -> list[Call]:
    earlier = [call.id for call in said if call.id is not None]
    count = rng.randint(1, 7)
    names: list[str | None] = [f"c{n}" if rng.random() < 0.6 else None for n in range(count)]
    if rng.random() < 0.4:  # ids of their own: those of earlier turns can be linked to
        names = [name and f"t{turn}{name}" for name in names]
    calls: list[Call] = []
    for n, name in enumerate(names):
        if calls and rng.random() < 0.25:
            calls.append(replace(rng.choice(calls), id=name))
            continue
        others = [other for other in names if other is not None and other != name] + earlier
        tool = f"{rng.choice(_TOOLS)}_{rng.choice(SERVERS)}"
        if rng.random() < 0.04:
            tool = "no_such_tool"
        calls.append(Call(tool, _arguments(rng, f"{turn}.{n}", others), name))
    return calls


def _arguments(rng: random.Random, nonce: str, others: Sequence[str]) -> JsonObject:
    """Return arguments that only an identical call of the same turn has."""
    arguments: JsonObject = {"nonce": nonce}
    draw = rng.random()
    if draw < 0.3 and others:
        arguments["on"] = f"${rng.choice(others)}.{rng.choice(['next', 'next', 'next', 'nothing'])}"
    elif draw < 0.33:
        arguments["on"] = "$nobody.next"
    elif draw < 0.95:
        arguments["on"] = f"k{rng.randrange(3)}"
    if rng.random() < 0.15 and others:
        arguments["note"] = f"${rng.choice(others)}.on"
    return arguments
