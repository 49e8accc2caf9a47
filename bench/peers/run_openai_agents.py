"""OpenAI Agents SDK with a scripted model and, for crashes, a session in memory.

`--quiet` switches its tracing off; by default it makes spans and, without a key, drops them before they are sent.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Runner, SQLiteSession, Usage, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from work import Work, serve

set_tracing_disabled("--quiet" in sys.argv)


class Scripted(Model):
    def __init__(self, work: Work) -> None:
        self.work = work

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        items = input if isinstance(input, list) else []
        asked = sum(item.get("type") == "function_call" for item in items)
        results = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        turn = asked // len(self.work.calls)
        calls = self.work.next_calls(turn, results)
        output: list[Any] = [
            ResponseFunctionToolCall(
                arguments=f'{{"id": "{id}"}}', call_id=call, name="do", type="function_call", id=call
            )
            for call, id in calls
        ] or [_done()]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _done() -> ResponseOutputMessage:
    text = ResponseOutputText(annotations=[], text="done", type="output_text", logprobs=[])
    return ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")


async def run(work: Work, resume: bool) -> None:
    @function_tool
    async def do(id: str) -> str:
        """Do a piece of work."""
        return await work.tool(id)

    session = work.state.setdefault("session", SQLiteSession("s")) if work.crash_after is not None or resume else None
    await Runner.run(Agent("worker", tools=[do], model=Scripted(work)), "go", session=session, max_turns=1000)


serve(run)
