"""ReAct in plain text for a model: Thought, Action, Action Input, one action a turn.

Place in the flow: layer 5, a baseline's dialect. The model reads a prompt and a history in this dialect, written anew
from the episode's history, which only ever grows; its reply is turned into a turn of the protocol, so loop, trace and
verifier are those of every paradigm. Without a search tool (`retrieved`) one retrieval with the whole request is made
for it. A reply without an action is its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from paraagent.agent.context import Context, Exchange
from paraagent.evaluate.baselines.dialect import (
    LAST_STEP,
    found_text,
    literal_call,
    plain_arguments,
    result_text,
    retrieval,
    user,
)
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.jsontext import read_json, write_json
from paraagent.protocol.prompt import OPENING, RULES
from paraagent.protocol.render import render_think, render_turn
from paraagent.types import JsonObject, Message, Policy, Reply, Search

_PROMPT = """\
{opening}

Work step by step. A step is exactly these three lines and nothing after them; an observation follows it:
Thought: what is known, what is missing, what comes next
Action: {search_action}the exact name of a tool that was shown, or finish
Action Input: one JSON object

Actions
{search}- A tool: the input holds its arguments. Tools are shown one a line: name(parameter: type, optional?: type) \
- purpose -> {{result fields}}.
- finish: the input is {{"answer": "..."}}; it ends the task.

Rules
{rules}
- You have at most {turns} steps.

Example
Thought: I need the order.
Action: get_order
Action Input: {{"order_id": "A7"}}"""
_SEARCH = '- search_tools: the input is {"query": "what the tool must do"}; the tools that fit are shown.\n'
_STEP = re.compile(
    r"(?:Thought:(?P<thought>.*?))?\s*^[ \t]*Action:[ \t]*(?P<action>[^\n]+?)[ \t]*\n"
    r"\s*Action Input:[ \t]*(?P<input>.*)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_STOP = re.compile(r"^\s*Observation:", re.IGNORECASE | re.MULTILINE)
_REASONING = re.compile(r"^.*</think>", re.DOTALL)
_FINAL = re.compile(r"^.*?Final Answer:", re.DOTALL | re.IGNORECASE)


class ReactPolicy:
    """A model that works in ReAct steps.

    Args:
        retrieved: it has no search tool; one retrieval is made for it.
    """

    def __init__(self, model: Policy, *, retrieved: bool) -> None:
        self.name = f"{model.name} as {'react-ete' if retrieved else 'react-eae'}"
        self._model = model
        self._retrieved = retrieved

    async def act(self, context: Context) -> Reply:
        """Return the model's next step as a turn of the protocol."""
        if self._retrieved and not context.exchanges:
            return retrieval(context.request)
        asked = replace(context, messages=list(self._messages(context)))
        reply = await self._model.act(asked)
        return replace(reply, text=read_step(reply.text, len(context.exchanges) + 1))

    def _messages(self, context: Context) -> Iterator[Message]:
        exchanges, shown = context.exchanges, ""
        if self._retrieved:
            first, *exchanges = exchanges
            shown = "\n\n" + "\n".join(found_text(found) for found in first.found)
        prompt = _PROMPT.format(
            opening=OPENING,
            search_action="" if self._retrieved else "search_tools, ",
            search="" if self._retrieved else _SEARCH,
            rules=RULES.format(forgery=", never write observations yourself"),
            turns=len(exchanges) + context.turns_left,
        )
        yield Message("system", prompt)
        yield Message("user", context.request + shown)
        for place, exchange in enumerate(exchanges, len(context.exchanges) - len(exchanges)):
            yield Message("assistant", _step(exchange))
            last = place == len(context.exchanges) - 1 and context.turns_left == 1
            answered = exchange.turn.kind == "answer"
            told = exchange.reply if answered else f"Observation: {_observation(exchange)}"
            yield user([told, LAST_STEP if last else ""])


def read_step(text: str, number: int) -> str:
    """Return a ReAct step, the n-th of its episode, as a turn of the protocol."""
    text = _REASONING.sub("", text)
    if stop := _STOP.search(text):
        text = text[: stop.start()]
    step = _STEP.search(text)
    if step is None:
        answer = _FINAL.sub("", text).strip()
        return render_turn("", answer=answer) if answer else text
    thought, action = (step["thought"] or "").strip(), step["action"].strip("`\"'* ")
    try:
        given = read_json(step["input"])
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raw: JsonObject = {"name": action, "arguments": step["input"].strip()}
        return f"{render_think(thought)}\n<tool_call>{write_json(raw)}</tool_call>"
    if action == "finish":
        said = given.get("answer")
        return render_turn(thought, answer=said if isinstance(said, str) else write_json(given))
    if action == "search_tools":
        query = str(given.get("query", "")).strip() or write_json(given)
        return render_turn(thought, searches=[Search(f"step {number}", query)])
    return render_turn(thought, calls=[literal_call(action, given)])


def _step(exchange: Exchange) -> str:
    """Return a past turn as the model wrote it, in its clean form."""
    turn = exchange.turn
    if turn.searches:
        action, given = "search_tools", write_json({"query": turn.searches[0].query})
    elif turn.calls:
        call = turn.calls[0]
        action, given = call.name, call.text if isinstance(call, BrokenCall) else write_json(plain_arguments(call))
    else:
        return turn.answer or turn.text or "(nothing)"
    return f"Thought: {turn.think}\nAction: {action}\nAction Input: {given}"


def _observation(exchange: Exchange) -> str:
    parts = [*map(found_text, exchange.found), *map(result_text, exchange.results), *exchange.notes]
    return "\n".join(parts)
