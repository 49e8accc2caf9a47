"""Roles played by a language model behind any chat endpoint.

Place in the flow: layer 5; `played` makes a `Cast` in which a model plays some or all roles and another cast the
rest. A role is one question and one JSON object back; a reply that cannot be used is told so and asked for again.
Any `Policy` can be the model, as `HttpPolicy` for OpenAI-compatible endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Literal, TypeVar

import msgspec

from paraagent.agent.context import Context
from paraagent.demos import prompts
from paraagent.demos.roles import (
    Answer,
    AnswererBrief,
    Arrangement,
    Ask,
    Assignment,
    Cast,
    CoordinatorBrief,
    CriticBrief,
    ExecutorBrief,
    ExplorerBrief,
    Filled,
    GiveUp,
    Lead,
    Outline,
    Pick,
    PlannerBrief,
    Review,
    RoleName,
    Slot,
)
from paraagent.errors import ModelError
from paraagent.protocol.jsontext import read_json
from paraagent.protocol.links import is_id
from paraagent.protocol.plan import Subgoal
from paraagent.trace.plain import one_line
from paraagent.types import JsonObject, Message, Policy, Usage

REPLIES = 3
"""How often a role is asked for a usable reply before the episode is given up."""
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)


class _SlotReply(msgspec.Struct):
    name: str
    need: str


class _OutlineReply(msgspec.Struct):
    slots: list[_SlotReply]
    subgoals: list[str] = []
    thought: str = ""


class _LeadReply(msgspec.Struct):
    action: Literal["search", "pick", "give_up"]
    query: str = ""
    tool: str = ""
    thought: str = ""


class _CallReply(msgspec.Struct):
    id: str
    slot: str
    purpose: str = ""
    after: list[str] = []


class _ArrangementReply(msgspec.Struct):
    calls: list[_CallReply]
    thought: str = ""


class _FilledReply(msgspec.Struct):
    arguments: JsonObject | None
    thought: str = ""


class _AnswerReply(msgspec.Struct):
    answer: str
    thought: str = ""


class _ReviewReply(msgspec.Struct):
    accept: bool
    back_to: Literal["planner", "explorer", "coordinator", "executor", "answerer"] | None = None
    reason: str = ""


R = TypeVar("R", bound=msgspec.Struct)


def played(model: Policy, roles: Collection[RoleName], others: Cast) -> Cast:
    """Return a cast for one episode in which the model plays `roles` and `others` play the rest."""
    players = _Players(model)
    return Cast(
        f"{model.name} as {', '.join(roles)}" if len(roles) < 6 else model.name,
        players.plan if "planner" in roles else others.planner,
        players.explore if "explorer" in roles else others.explorer,
        players.coordinate if "coordinator" in roles else others.coordinator,
        players.execute if "executor" in roles else others.executor,
        players.answer if "answerer" in roles else others.answerer,
        players.criticise if "critic" in roles else others.critic,
        players.spent,
    )


class _Players:
    def __init__(self, model: Policy) -> None:
        self._model = model
        self._usage = Usage()

    def spent(self) -> Usage:
        spent, self._usage = self._usage, Usage()
        return spent

    async def plan(self, brief: PlannerBrief) -> Outline:
        def check(reply: _OutlineReply) -> str | None:
            names = [_plain(slot.name) for slot in reply.slots]
            if not all(names):
                return "every slot needs a name"
            return "the names of the slots must differ" if len(set(names)) < len(names) else None

        reply = await self._ask("planner", prompts.planner(brief), _OutlineReply, check)
        slots = tuple(Slot(_plain(slot.name), slot.need.strip() or slot.name) for slot in reply.slots)
        goals = [goal.strip() for goal in reply.subgoals if goal.strip()] if slots else []
        subgoals = tuple(Subgoal(f"g{number}", goal) for number, goal in enumerate(goals, 1))
        return Outline(slots, subgoals if len(subgoals) > 1 else (), reply.thought.strip())

    async def explore(self, brief: ExplorerBrief) -> Lead:
        shown = {hit.tool.name: hit.tool for found in brief.found for hit in found.hits}

        def check(reply: _LeadReply) -> str | None:
            if reply.action == "pick" and reply.tool not in shown:
                return (
                    f"no search has shown a tool {reply.tool!r}: pick one of {', '.join(shown) or 'none'}, or search"
                )
            return "give the query" if reply.action == "search" and not reply.query.strip() else None

        reply = await self._ask("explorer", prompts.explorer(brief), _LeadReply, check)
        thought = reply.thought.strip()
        if reply.action == "search":
            return Ask(" ".join(reply.query.split()), thought)
        return Pick(shown[reply.tool], thought) if reply.action == "pick" else GiveUp(thought)

    async def coordinate(self, brief: CoordinatorBrief) -> Arrangement:
        def check(reply: _ArrangementReply) -> str | None:
            known = set(brief.done)
            for call in reply.calls:
                if call.slot not in brief.picks:
                    return f"{call.slot!r} is not a slot with a chosen tool; those are {', '.join(brief.picks)}"
                if not is_id(call.id) or call.id in known:
                    return f"{call.id!r} cannot be an id: use letters and digits, and each id once"
                if unknown := [up for up in call.after if up not in known]:
                    return f"{call.id} comes after {unknown[0]!r}, which does not stand before it"
                known.add(call.id)
            return None

        reply = await self._ask("coordinator", prompts.coordinator(brief), _ArrangementReply, check)
        calls = (Assignment(call.id, call.slot, call.purpose, tuple(call.after)) for call in reply.calls)
        return Arrangement(tuple(calls), reply.thought.strip())

    async def execute(self, brief: ExecutorBrief) -> Filled:
        waiting = any(up not in brief.done for up in brief.assignment.after)

        def check(reply: _FilledReply) -> str | None:
            return None if waiting or reply.arguments is not None else "all results are there: give the arguments"

        reply = await self._ask("executor", prompts.executor(brief), _FilledReply, check)
        return Filled(reply.arguments, reply.thought.strip())

    async def answer(self, brief: AnswererBrief) -> Answer:
        def check(reply: _AnswerReply) -> str | None:
            return None if reply.answer.strip() else "the answer is empty"

        reply = await self._ask("answerer", prompts.answerer(brief), _AnswerReply, check)
        return Answer(reply.answer.strip(), reply.thought.strip())

    async def criticise(self, brief: CriticBrief) -> Review:
        def check(reply: _ReviewReply) -> str | None:
            return None if reply.accept or reply.back_to else "say who has to do it again"

        reply = await self._ask("critic", prompts.critic(brief), _ReviewReply, check)
        return Review() if reply.accept else Review(reply.back_to, reply.reason.strip() or "do it again")

    async def _ask(self, role: RoleName, question: str, form: type[R], check: Callable[[R], str | None]) -> R:
        """Ask until the reply is of the form and passes the check.

        Raises:
            ModelError: no reply could be used, or the model could not be asked.
        """
        messages = [Message("system", prompts.SYSTEM[role]), Message("user", question)]
        problem: str | None = None
        for _ in range(REPLIES):
            answered = await self._model.act(Context(question, messages))
            self._usage = _sum(self._usage, answered.usage)
            try:
                reply = msgspec.convert(_json(answered.text), form)
                problem = check(reply)
                if problem is None:
                    return reply
            except ValueError as error:  # msgspec's errors are among them
                problem = str(error)
            told = f"This cannot be used: {problem}. Reply with the corrected JSON object and nothing else."
            messages = [*messages, Message("assistant", answered.text), Message("user", told)]
        raise ModelError(f"{self._model.name} gave no usable reply as {role}: {one_line(problem or '')}")


def _json(text: str) -> JsonObject:
    """Return the JSON object in a reply, whatever stands around it."""
    text = _THOUGHT.sub("", text)
    value = read_json(text[text.find("{") : text.rfind("}") + 1])
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _plain(name: str) -> str:
    return " ".join(name.replace(":", " ").split())


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
    )
