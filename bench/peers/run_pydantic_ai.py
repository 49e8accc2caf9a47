"""Pydantic AI with its function model; it keeps nothing over a crash by itself, so a run starts over.

`--tool-failed` turns what a tool raises into its ToolFailed, the documented way to let the run go on.
"""

from __future__ import annotations

import sys

from pydantic_ai import Agent, ToolFailed, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from work import Work, serve


async def run(work: Work, resume: bool) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        results = [
            str(part.content) for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
        ]
        calls = work.next_calls(turn, results)
        parts = [ToolCallPart("do", {"id": id}, tool_call_id=call) for call, id in calls]
        return ModelResponse(parts=parts or [TextPart("done")])

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    async def do(id: str) -> str:
        """Do a piece of work."""
        if "--tool-failed" not in sys.argv:
            return await work.tool(id)
        try:
            return await work.tool(id)
        except Exception as problem:
            raise ToolFailed(str(problem)) from problem

    await agent.run("go", usage_limits=UsageLimits(request_limit=None))


serve(run)
