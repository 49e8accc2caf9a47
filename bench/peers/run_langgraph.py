"""LangGraph, built in either of its two ways.

By default a graph of one's own, with a model node and a ToolNode in a loop; with `--react` the agent it brings along,
which runs every call as a task of its own. `--checkpoints` adds a checkpointer, in memory in place of a durable one.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from work import Work, serve

warnings.simplefilter("ignore")


def answer(work: Work, messages: list[BaseMessage]) -> AIMessage:
    turn = sum(isinstance(message, AIMessage) for message in messages)
    results = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
    calls = work.next_calls(turn, results)
    return AIMessage(
        "" if calls else "done", tool_calls=[{"name": "do", "args": {"id": id}, "id": call} for call, id in calls]
    )


class Scripted(BaseChatModel):
    """The model of the agent that it brings along."""

    work: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=answer(self.work, messages))])


def own_graph(work: Work, do: Any, saver: MemorySaver | None) -> Any:
    async def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [answer(work, state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([do]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


async def run(work: Work, resume: bool) -> None:
    @tool
    async def do(id: str) -> str:
        """Do a piece of work."""
        return await work.tool(id)

    saver = work.state.setdefault("saver", MemorySaver()) if "--checkpoints" in sys.argv else None
    if "--react" in sys.argv:
        agent = create_react_agent(Scripted(work=work), [do], checkpointer=saver)
    else:
        agent = own_graph(work, do, saver)
    begin = None if resume and saver else {"messages": [HumanMessage("go")]}
    await agent.ainvoke(begin, {"configurable": {"thread_id": "t"}, "recursion_limit": 1000})


serve(run)
