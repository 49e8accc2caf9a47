"""LangGraph: a model node and its ToolNode in a loop; a checkpointer in memory stands for a durable one."""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from work import Work, serve

CHECKPOINTS = "--checkpoints" in sys.argv


async def run(work: Work, resume: bool) -> None:
    @tool
    async def do(id: str) -> str:
        """Do a piece of work."""
        return await work.tool(id)

    async def model(state: MessagesState) -> dict[str, Any]:
        messages = state["messages"]
        turn = sum(isinstance(message, AIMessage) for message in messages)
        results = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        calls = work.next_calls(turn, results)
        wanted = [{"name": "do", "args": {"id": id}, "id": call} for call, id in calls]
        return {"messages": [AIMessage("" if calls else "done", tool_calls=wanted)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([do]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    saver = work.state.setdefault("saver", MemorySaver()) if CHECKPOINTS else None
    begin = None if resume and CHECKPOINTS else {"messages": [HumanMessage("go")]}
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 1000}
    await graph.compile(checkpointer=saver).ainvoke(begin, config)


serve(run)
