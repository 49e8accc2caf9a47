"""Pydantic AI with its function model; it keeps nothing over a crash by itself, so a run starts over."""

from __future__ import annotations

from pydantic_ai import Agent, UsageLimits
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
        return await work.tool(id)

    await agent.run("go", usage_limits=UsageLimits(request_limit=None))


serve(run)
