"""smolagents' tool calling agent with a scripted model; it keeps nothing over a crash, so a run starts over.

`--quiet` switches off the log that it prints by default.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from smolagents import ChatMessage, LogLevel, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from work import Work, serve


class Scripted(Model):
    def __init__(self, work: Work) -> None:
        super().__init__(model_id="scripted")
        self.work = work

    def generate(self, messages: list[ChatMessage], *args: Any, **kwargs: Any) -> ChatMessage:
        turn = sum(message.role == MessageRole.TOOL_CALL for message in messages)
        answers = [_text(message) for message in messages if message.role == MessageRole.TOOL_RESPONSE]
        results = [line for text in answers for line in text.splitlines() if "value-" in line or "Error" in line]
        calls = self.work.next_calls(turn, results)
        wanted = [("do", call, {"id": id}) for call, id in calls] or [("final_answer", "end", {"answer": "done"})]
        made = [
            ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), call, "function")
            for name, call, arguments in wanted
        ]
        return ChatMessage(MessageRole.ASSISTANT, "", made)


def _text(message: ChatMessage) -> str:
    if isinstance(message.content, list):
        return "\n".join(str(part.get("text", "")) for part in message.content)
    return str(message.content)


async def run(work: Work, resume: bool) -> None:
    @tool
    def do(id: str) -> str:
        """Do a piece of work.

        Args:
            id: which piece
        """
        return work.tool_now(id)

    level = LogLevel.OFF if "--quiet" in sys.argv else LogLevel.INFO
    agent = ToolCallingAgent([do], Scripted(work), verbosity_level=level, max_steps=work.turns + 2)
    await asyncio.to_thread(agent.run, "go")


serve(run)
