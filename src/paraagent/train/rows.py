"""Demonstrations as token rows: what the model reads, what it writes, and which of it is to be learned.

Place in the flow: layer 6, between `demos.formats` and the trainers. Rows are tokenised by the same `Chat` and told
in the same dialect as the local policy uses, so that training and asking see equal tokens. In the compact dialect the
demonstrations are retold: no thoughts, one text per search, an id for every call, plans that the calls imply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from paraagent.agent.engine.chat import Chat
from paraagent.agent.policies.model import Dialect
from paraagent.demos.demo import Demo
from paraagent.protocol import compact
from paraagent.protocol.flow import call_plan
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.plan import CallPlan, SearchPlan
from paraagent.types import Call, Message


@dataclass(frozen=True, slots=True)
class Row:
    """One demonstration as tokens."""

    input_ids: list[int]
    completion_mask: list[int]
    """1 for every token to be learned."""

    @property
    def learned(self) -> int:
        return sum(self.completion_mask)


def row(demo: Demo, chat: Chat, dialect: Dialect) -> Row:
    """Return a demonstration as tokens.

    Raises:
        ValueError: a turn cannot be told in the compact dialect.
    """
    messages = retell(demo) if dialect == "compact" else demo.messages
    system, rest = ("", messages) if messages[0].role != "system" else (messages[0].content, messages[1:])
    loss = demo.loss[len(messages) - len(rest) :]
    ids = chat.begin(system, rest[0].content)
    mask = [0] * len(ids)
    for message, learn in zip(rest[1:], loss[1:], strict=True):
        spoken = message.role == "assistant"
        new = chat.turn(message.content) if spoken else chat.go_on(chat.end_of_turn, message.content)
        ids += new
        mask += [int(spoken and learn)] * len(new)
    return Row(ids, mask)


def retell(demo: Demo) -> tuple[Message, ...]:
    """Return the demonstration's messages in the compact dialect.

    Raises:
        ValueError: a turn does nothing, so it cannot be told.
    """
    teller = _Teller({call.id for turn in _turns(demo) for call in turn.calls if call.id is not None})
    retold = [Message("system", compact.SYSTEM)] if demo.messages[0].role == "system" else []
    for number, message in enumerate(demo.messages[len(retold) :]):
        if message.role == "assistant":
            retold.append(Message("assistant", teller.turn(parse(message.content))))
        else:
            text = message.content if number == 0 else teller.observation(message.content)
            retold.append(Message("user", text))
    return tuple(retold)


def _turns(demo: Demo) -> Iterator[Turn]:
    return (parse(message.content) for message in demo.messages if message.role == "assistant")


@dataclass(slots=True)
class _Teller:
    """Retells one episode turn by turn."""

    ids: set[str]
    """Taken by calls of the episode."""
    calls: int = 0
    found_under: dict[str, tuple[int, str]] = field(default_factory=dict)
    """For each tool seen, its best rank and the search that showed it there."""
    planned: frozenset[str] = frozenset()
    last_kind: str = ""
    searched: list[str] = field(default_factory=list)
    called: list[str | None] = field(default_factory=list)

    def turn(self, turn: Turn) -> str:
        opens = turn.kind != self.last_kind
        self.last_kind = turn.kind
        self.searched, self.called = [], []
        if turn.kind == "exploration":
            turn = self._exploration(turn)
        elif turn.kind == "execution":
            turn = self._execution(turn, opens)
        remarks = {tool: search for tool, (_, search) in self.found_under.items()}
        return compact.render(replace(turn, think=""), remarks)

    def observation(self, content: str) -> str:
        self._note_tools(content)
        return compact.observe(content, slots=self.searched, ids=self.called)

    def _exploration(self, turn: Turn) -> Turn:
        self.searched = [" ".join(search.query.replace(":", " ").split()) for search in turn.searches]
        searches = [
            replace(search, slot=name, query=name) for search, name in zip(turn.searches, self.searched, strict=True)
        ]
        plan = SearchPlan(tuple(self.searched)) if turn.plan is not None else None
        return replace(turn, searches=tuple(searches), plan=plan)

    def _execution(self, turn: Turn, opens: bool) -> Turn:
        calls = [replace(call, id=self._id(call)) if isinstance(call, Call) else call for call in turn.calls]
        self.called = [call.id for call in calls]
        whole = [call for call in calls if isinstance(call, Call)]
        plan: CallPlan | None = None
        names = frozenset(call.name for call in whole)
        if whole and (opens or turn.plan is not None or not names <= self.planned):
            plan = call_plan(whole)
            self.planned = names
        return replace(turn, calls=tuple(calls), plan=plan)

    def _id(self, call: Call) -> str:
        self.calls += 1
        if call.id is not None:
            return call.id
        number = self.calls
        while f"c{number}" in self.ids:
            number += 1
        self.ids.add(f"c{number}")
        return f"c{number}"

    def _note_tools(self, content: str) -> None:
        blocks = content.split("<tools>\n")[1:]
        for name, block in zip(self.searched, blocks, strict=False):
            cards = block.partition("</tools>")[0].rstrip("\n").split("\n")[1:]
            for rank, card in enumerate(cards):
                tool = card.partition("(")[0]
                if rank < self.found_under.get(tool, (len(cards), ""))[0]:
                    self.found_under[tool] = (rank, name)
