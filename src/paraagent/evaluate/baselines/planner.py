"""Plan, then execute, for a model: find all tools first, plan every call at once, run the plan, then answer.

Place in the flow: layer 5, a baseline after LLMCompiler (arXiv 2312.04511). The plan is one turn of linked calls; the
scheduler runs each as soon as its inputs are there. After that the model answers, or plans once more; it never goes
back to searching. Turns are in the protocol's grammar; what does not belong to a stage is left out of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from paraagent.agent.context import Context
from paraagent.protocol.grammar import parse
from paraagent.protocol.prompt import OPENING, RULES
from paraagent.protocol.render import render_think
from paraagent.types import Message, Policy, Reply, TurnKind

Stage = Literal["search", "plan", "join"]
PLANS = 2
"""The first and one more after a failure."""

_PROMPT = """\
{opening}

The work has three stages. Begin each turn with <think>...</think> and write nothing outside tags.
1. Search, in the first turn only: <search_tool>slot: what the tool must do</search_tool>, one block per capability \
that the request needs, all at once. A <tools> block answers each, one tool a line: name(parameter: type, optional?: \
type) - purpose -> {{result fields}}.
2. Plan, in one turn: every call that the request needs, each as <tool_call>{{"id": "...", "name": "...", \
"arguments": {{...}}}}</tool_call>. Where a value will come from another call, write the whole string \
"$id.path.to.field" (list items by index: "$id.items.0.sku"). Calls run as soon as their inputs are there, in \
parallel where they can; a <tool_response> answers each, in order.
3. Join: <answer>...</answer> ends the task. If calls failed, you may plan once more instead; you cannot search again.

Rules
{rules}
- You have at most {turns} turns.

Example of a plan
<think>I need the order, then its courier.</think>
<tool_call>{{"id": "o", "name": "get_order", "arguments": {{"order_id": "A7"}}}}</tool_call>
<tool_call>{{"id": "t", "name": "track_parcel", "arguments": {{"parcel": "$o.parcels.0.id"}}}}</tool_call>"""


class PlannerPolicy:
    """A model that plans everything before it acts."""

    def __init__(self, model: Policy) -> None:
        self.name = f"{model.name} as plan-execute"
        self._model = model

    async def act(self, context: Context) -> Reply:
        """Return the model's next turn, without what its stage does not allow."""
        prompt = _PROMPT.format(
            opening=OPENING,
            rules=RULES.format(forgery=", never write <tools> or <tool_response> yourself"),
            turns=len(context.exchanges) + context.turns_left,
        )
        asked = replace(context, messages=[Message("system", prompt), *context.messages[1:]])
        reply = await self._model.act(asked)
        return replace(reply, text=held_to(reply.text, stage(context)))


def stage(context: Context) -> Stage:
    """Return where an episode stands: nothing found yet, tools found, or calls made."""
    executions = sum(bool(exchange.results) for exchange in context.exchanges)
    if executions >= PLANS:
        return "join"
    if executions or any(exchange.found for exchange in context.exchanges):
        return "plan"
    return "search"


def held_to(text: str, at: Stage) -> str:
    """Return a turn as it is if its stage allows it, else without its actions.

    An answer is always allowed. A turn without actions is told so by the loop.
    """
    turn = parse(text)
    allowed: dict[Stage, TurnKind] = {"search": "exploration", "plan": "execution", "join": "answer"}
    if turn.kind in (allowed[at], "answer", "invalid"):
        return text
    return render_think(turn.think)
