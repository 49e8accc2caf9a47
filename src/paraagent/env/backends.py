"""Where the simulator's answers come from.

Place in the flow: layer 3; `simulator` checks arguments and faults first and then asks one of these. Without a
backend the world itself answers (`behave`), which is the default; `llm_respond` lets a language model rewrite that
answer, `recorded` replays answers that were seen before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paraagent.env.interface import Interface
from paraagent.types import JsonObject, JsonValue


class Backend(Protocol):
    """Answers calls. One object serves all episodes of a process and keeps nothing of any."""

    async def answer(self, interface: Interface, arguments: JsonObject, draft: Callable[[], JsonValue]) -> JsonValue:
        """Return what a call answers.

        Args:
            arguments: valid for the tool.
            draft: carries the call out in the simulated world and returns that answer; call it at most once.

        Raises:
            ToolFailure: the call failed, or what `draft` raised.
        """
        ...
