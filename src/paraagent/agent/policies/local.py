"""A model on this machine as a policy: it reads the history it is given, turn by turn, as an endpoint does.

Place in the flow: layer 3, optional (`paraagent[local]`); what `--policy local` plays. The past may be told otherwise
than it was said: baselines rewrite it in their dialect, and an episode that goes on after a stop has turns that this
process never wrote. A turn that stands as it was said keeps its tokens; what a history has in common with the last
one is not computed again. A turn that something speaks against gets second thoughts (`critic`).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING

from paraagent.agent.policies.critic import ANSWER, Objection, Without, objections, weight
from paraagent.protocol import compact
from paraagent.protocol.grammar import Turn, parse
from paraagent.types import Call, Message, Reply, Usage

if TYPE_CHECKING:
    from paraagent.agent.context import Context
    from paraagent.agent.engine.streams import Stream
    from paraagent.agent.policies.model import LocalModel


@dataclass(slots=True)
class _Episode:
    stream: Stream
    said: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Tokens of the turns it wrote, by their texts."""


_SECOND_THOUGHTS = 4
"""How often a turn is written again at most."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A turn as it might be taken."""

    text: str
    tokens: tuple[int, ...]
    turn: Turn
    without: Without
    against: Sequence[Objection]

    @property
    def acts(self) -> bool:
        return self.turn.kind == "execution"

    def changing(self, context: Context) -> set[str]:
        """Return the tools it calls that may change something."""
        called = {call.name for call in self.turn.calls if isinstance(call, Call)}
        return {name for name, tool in context.surfaced().items() if name in called and tool.effect != "read"}

    def otherwise(self) -> Iterator[Without]:
        """Yield what the turn might be written again without: nothing more if other values may do, then arguments,
        then one tool."""
        if any(one.reason in ("invented", "unreadable") for one in self.against):
            yield self.without
        if arguments := {(one.tool, one.argument) for one in self.against if one.argument is not None}:
            yield self.without | arguments
        for one in self.against:
            if one.argument is None:
                yield self.without | {(one.tool, None)}


def _best(drafts: Sequence[_Draft], context: Context) -> _Draft:
    """Return the draft with the least against it, the first of equals, and the first of all rather than one that does
    not act, or one that changes more only to take up a value that a call of the first left out."""
    first = drafts[0]
    incomplete = all(one.reason == "left_out" and one.tool != ANSWER for one in first.against)
    allowed = first.changing(context) if incomplete else None
    others = [one for one in drafts if one.acts and (allowed is None or one.changing(context) <= allowed)]
    return min([first, *others], key=lambda one: weight(one.against))


class LocalPolicy:
    """Implements `types.Policy` on the engine of a local policy.

    Args:
        local: which model is asked, and how.
        seed: what turns are sampled by, if not the local policy's own seed; equal seeds sample equal turns.
    """

    def __init__(self, local: LocalModel, seed: int | None = None) -> None:
        self.name = local.name
        self._local = local
        self._seed = local.config.seed if seed is None else seed
        self._episodes: OrderedDict[int, _Episode] = OrderedDict()

    def sampled(self, seed: int) -> LocalPolicy:
        """Return the same model, sampling by another seed."""
        return LocalPolicy(self._local, seed)

    async def act(self, context: Context) -> Reply:
        """Write the next turn; an empty one if the history fills the model's context."""
        began, local = time.perf_counter(), self._local
        key = id(context.exchanges)  # the same list all through an episode, also where messages are rewritten
        own = self._episodes.pop(key, None) or _new()
        own.stream.cached, own.stream.tokens[:] = self._read(own, context.messages)
        start, cached = len(own.stream.tokens), own.stream.cached
        random = Random(f"{self._seed} {context.request} {len(context.exchanges)}")
        draft, spent = await self._reconsider(own, context, random, await self._write(own, context, random))
        own.said[draft.text] = draft.tokens
        if "<answer>" in draft.text or context.turns_left == 1:
            local.engine.close(own.stream)
        else:
            self._keep(key, own)
        usage = Usage(start, spent, min(cached, start))
        return Reply(draft.text, usage, time.perf_counter() - began if local.timed else 0.0)

    async def _write(
        self, own: _Episode, context: Context, random: Random, again: Without | None = None, spent: int = 0
    ) -> _Draft:
        """Write a turn at the end of the stream, or write it again without something after drafts that were worse."""
        local = self._local
        written = await local.engine.write(own.stream, local.sampling_for(context, again, spent), random)
        text = local.chat.text(written.tokens)
        if local.config.dialect == "compact":
            text = compact.expand(text)
        turn = parse(text)
        against = objections(turn, context) if local.checked else []
        return _Draft(text, written.tokens, turn, again or frozenset(), against)

    async def _reconsider(self, own: _Episode, context: Context, random: Random, draft: _Draft) -> tuple[_Draft, int]:
        """Write the turn again without what speaks against it; return the best and what all of them took."""
        stream, spent, drafts, seen = own.stream, len(draft.tokens), [draft], set[Without]()
        prompt = len(stream.tokens) - spent
        while len(drafts) <= _SECOND_THOUGHTS and not any(one.acts and not one.against for one in drafts):
            options = (option for one in reversed(drafts) for option in one.otherwise())
            again = next((option for option in options if option not in seen), None)
            if again is None or (context.reply_tokens is not None and context.reply_tokens <= spent):
                break
            seen.add(again)
            del stream.tokens[prompt:]
            stream.cached = min(stream.cached, prompt - 1)
            drafts.append(await self._write(own, context, random, again, spent))
            spent += len(drafts[-1].tokens)
        return _best(drafts, context), spent

    def _keep(self, key: int, own: _Episode) -> None:
        """Remember an episode between two turns, and give the memory of those that did not come back."""
        self._episodes[key] = own
        while len(self._episodes) > self._local.config.slots:
            self._local.engine.close(self._episodes.popitem(last=False)[1].stream)

    def _read(self, own: _Episode, messages: Sequence[Message]) -> tuple[int, list[int]]:
        """Return how much of the history is computed already, and the whole history as tokens."""
        tokens, stream = self._tokens(own, messages), own.stream
        pairs = enumerate(zip(tokens, stream.tokens[: stream.cached], strict=False))
        common = next((place for place, (one, other) in pairs if one != other), stream.cached)
        return min(common, len(tokens) - 1), tokens

    def _tokens(self, own: _Episode, messages: Sequence[Message]) -> list[int]:
        chat, compactly = self._local.chat, self._local.config.dialect == "compact"
        first = next((place for place, one in enumerate(messages) if one.role == "assistant"), len(messages))
        system = "\n".join(one.content for one in messages[:first] if one.role == "system")
        user = "\n".join(one.content for one in messages[:first] if one.role == "user")
        tokens = chat.begin(compact.SYSTEM if compactly else system, user)
        for is_own, group in groupby(messages[first:], key=lambda one: one.role == "assistant"):
            text = "\n".join(one.content for one in group)
            if is_own:
                tokens += own.said.get(text) or chat.turn(_compact(text) if compactly else text)
            else:
                tokens += chat.go_on(tokens[-1], compact.observe(text) if compactly else text)
        return tokens


def _new() -> _Episode:
    from paraagent.agent.engine.streams import Stream

    return _Episode(Stream())


def _compact(text: str) -> str:
    """Return a turn as the compact dialect writes it; one that does nothing stays as it is."""
    try:
        return compact.render(parse(text))
    except ValueError:
        return text
