"""What sessions work in: a simulated world of the catalog for each, or the same real tools for all.

Place in the flow: layer 7, between commands and `sessions`.
"""

from __future__ import annotations

from collections.abc import Callable

from paraagent.agent.limits import Servers
from paraagent.agent.prepare import Run
from paraagent.agent.toolboxes.opening import LIMITS
from paraagent.catalog.store import Catalog
from paraagent.clock import VirtualClock, WallClock
from paraagent.env.interface import Interfaces
from paraagent.env.simulator import SimulatedToolbox
from paraagent.evaluate.arena import request_task
from paraagent.search.search import SearchIndex
from paraagent.serve.session import Session
from paraagent.types import Toolbox

NewSession = Callable[[], Session]


def simulated(catalog: Catalog, index: SearchIndex, *, seed: int = 0, k: int = 5) -> NewSession:
    """Return what makes a session with a world and a clock of its own; equal calls get equal answers in all of them.

    Args:
        seed: what exists in the world follows from it.
        k: hits per search.
    """
    interfaces = Interfaces(catalog.get)

    def new() -> Session:
        clock = VirtualClock()
        task = request_task("", seed)
        return Session(SimulatedToolbox(catalog, index, task, clock, interfaces=interfaces, k=k), clock)

    return new


def real(toolbox: Toolbox) -> NewSession:
    """Return what makes a session with the same tools as all others; limits per server hold for all together."""
    clock = WallClock()
    servers = Servers[Run](clock, LIMITS.per_server)
    return lambda: Session(toolbox, clock, LIMITS, servers)
