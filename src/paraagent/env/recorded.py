"""Answers that were seen before, replayed: a backend for benchmarks and for tests against a real service's record.

Place in the flow: layer 3, one of the `backends`. A call is answered if its tool and arguments were recorded, in any
order and as often as asked; anything else fails and says so. Limits: there is no world behind it, so a write changes
nothing that a later read answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from paraagent.env.interface import Interface
from paraagent.env.validate import canonical
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue, Result, ToolError


class RecordedBackend:
    """Replays results by tool and arguments; of several for the same call the last one counts."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._results: dict[tuple[str, bytes], JsonValue | ToolError] = {}
        for result in results:
            key = result.call.name, canonical(result.arguments)
            self._results[key] = result.value if result.error is None else result.error
        self._tools = {name for name, _ in self._results}

    async def answer(self, interface: Interface, arguments: JsonObject, draft: Callable[[], JsonValue]) -> JsonValue:
        name = interface.tool.name
        if name not in self._tools:
            raise ToolFailure("unavailable", f"nothing was recorded of {name}")
        found = self._results.get((name, canonical(arguments)), _ABSENT)
        if found is _ABSENT:
            raise ToolFailure("not_found", f"no answer of {name} was recorded for these arguments")
        if isinstance(found, ToolError):
            raise ToolFailure(found.kind, found.message, retry_after=found.retry_after)
        return found


_ABSENT = ToolError("not_found", "")
