"""A model on this machine: any Hugging Face causal language model, asked for the turns of many episodes at once.

Place in the flow: layer 3, optional (`paraagent[local]`). All episodes share one `Engine`, which batches their turns.
`local.LocalPolicy` asks the model for whatever history it is given; `LocalModel.episode` is the policy of one episode
that tells exactly which tokens were read and written, for training. With the compact dialect the model reads and
writes fewer tokens; the loop and the trace see the one grammar either way.
Limits: an episode's tokens must fit the context; beyond it the policy has nothing to say, and the episode fails.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

from paraagent.agent.engine.smollm2 import NAME
from paraagent.agent.policies.guided import next_turn
from paraagent.protocol import compact
from paraagent.protocol.lark import ANSWER_HEAD
from paraagent.types import JsonObject, Message, Reply, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from paraagent.agent.context import Context
    from paraagent.agent.engine.chat import Chat
    from paraagent.agent.engine.sampling import Sampling
    from paraagent.agent.engine.streams import Writer, Written
    from paraagent.agent.policies.critic import Without

Dialect = Literal["tags", "compact"]
Guidance = Literal["off", "calls", "checked"]


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """Which model, and how it is asked; printed into traces."""

    model: str = NAME
    """Folder of a Hugging Face causal language model, or the name of the embedded default."""
    adapter: str | None = None
    """Folder of a PEFT adapter for it, or `none`; None takes the one that is shipped for the embedded default."""
    dialect: Dialect = "compact"
    guide: Guidance = "checked"
    """What keeps turns of the compact dialect from failing: `calls` lets only tools be called that were shown, with
    arguments that they have, and works out sums in answers; `checked` also has a turn that something speaks against
    (`critic`) written again; `off` leaves all free. A single episode's policy, as in training, does not check."""
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 400
    """Per turn."""
    max_length: int = 4096
    """Tokens of one episode at most, prompt included."""
    slots: int = 16
    """Episodes written at once; each takes memory for its keys and values."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    device: str | None = None
    """`cpu` or `cuda`; None takes a GPU if there is one."""
    seed: int = 0

    def to_json(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One episode as token ids: what was read, what was sampled, and with which log-probabilities."""

    prompt_ids: tuple[int, ...] = ()
    """Up to where the first turn begins."""
    completion_ids: tuple[int, ...] = ()
    """Turns and what came back in between, up to the end of the last turn."""
    logprobs: tuple[float, ...] = ()
    """One per completion token; 0 where it was read."""
    spans: tuple[tuple[int, int], ...] = ()
    """Start and end of every turn in the completion."""
    choices: Mapping[int, NDArray[np.int32]] = field(default_factory=dict, compare=False)
    """Of guided turns: by place in the completion, the tokens that could have come there, as bits."""
    forced: frozenset[int] = frozenset()
    """Places where nothing else could come."""

    @property
    def mask(self) -> list[int]:
        """1 for every completion token that the model chose."""
        mask = [0] * len(self.completion_ids)
        for start, end in self.spans:
            mask[start:end] = [int(place not in self.forced) for place in range(start, end)]
        return mask

    @property
    def masks(self) -> NDArray[np.int32] | None:
        """`choices` where `mask` is 1, in order: (chosen, vocabulary / 32). None if nothing was guided."""
        import numpy as np

        found = [self.choices[place] for place, chosen in enumerate(self.mask) if chosen] if self.choices else []
        return np.stack(found) if found else None


class LocalModel:
    """A model, its engine, and how it is asked.

    Args:
        engine: shared by all episodes; any that writes at the ends of streams.
        config: how turns are sampled; its model, dtype and device say what the engine was opened with.
        timed: charge the real time of a turn to the episode's clock; off where runs must repeat exactly.
    """

    def __init__(self, engine: Writer, chat: Chat, config: LocalConfig, *, timed: bool = True) -> None:
        from paraagent.agent.engine.sampling import Sampling

        self.engine = engine
        self.chat = chat
        self.config = config
        self.name = f"local:{Path(config.adapter or config.model).name}"
        stop = ("</answer>",) if config.dialect == "tags" else ()
        self.sampling: Sampling = Sampling(config.temperature, config.top_p, config.max_tokens, stop)
        self.timed = timed

    @property
    def guided(self) -> bool:
        """Whether turns are written within a grammar."""
        return self.config.guide != "off" and self.config.dialect == "compact"

    @property
    def checked(self) -> bool:
        """Whether turns that something speaks against are written again."""
        return self.guided and self.config.guide == "checked"

    @classmethod
    def open(cls, config: LocalConfig) -> LocalModel:
        """Load the model.

        Raises:
            UsageError: the folder or adapter cannot be used.
            EnvironmentFault: a package or the default model's download is missing.
        """
        from paraagent.agent.engine.load import load_model, load_tokenizer, resolve_adapter, resolve_folder

        folder, adapter = resolve_folder(config.model), resolve_adapter(config.model, config.adapter)
        config = replace(config, adapter=str(adapter) if adapter else None)
        tokenizer = load_tokenizer(folder)
        model = load_model(folder, adapter=adapter, dtype=config.dtype, device=config.device)
        return cls.over(model, tokenizer, config)

    @classmethod
    def over(cls, model: object, tokenizer: object, config: LocalConfig, *, timed: bool = True) -> LocalModel:
        """Make the policy of a model that is loaded already, as one in training.

        Raises:
            UsageError: the architecture is not supported, or there is no chat template.
        """
        from transformers import PreTrainedModel, PreTrainedTokenizerBase

        from paraagent.agent.engine.chat import Chat
        from paraagent.agent.engine.engine import Engine

        assert isinstance(tokenizer, PreTrainedTokenizerBase)
        chat = Chat(tokenizer)
        found: PreTrainedModel = model
        positions = getattr(found.config, "max_position_embeddings", None) or config.max_length
        declared = getattr(found.generation_config, "eos_token_id", None)
        engine = Engine(
            found,
            tokenizer,
            chat.stop_ids(declared),
            slots=config.slots,
            max_length=min(config.max_length, positions),
        )
        return cls(engine, chat, config, timed=timed)

    def sampling_for(self, context: Context, again: Without | None = None, spent: int = 0) -> Sampling:
        """Return how the next turn is written: within its grammar if turns are guided, and within what is left.

        Args:
            again: what a guided turn must do without when it is written again, see `guided.next_turn`.
            spent: tokens that earlier drafts of the turn took.
        """
        usual, most = self.sampling, context.reply_tokens
        if self.guided:
            rest = partial(next_turn, context, again)
            usual = replace(usual, grammar=next_turn(context, again), rest=rest, answer=ANSWER_HEAD)
        return usual if most is None else replace(usual, max_tokens=max(1, min(most - spent, usual.max_tokens)))

    def episode(self, seed: str | int | None = None) -> EpisodePolicy:
        """Return the policy of one episode; equal seeds sample equal turns for equal prompts."""
        return EpisodePolicy(self, self.config.seed if seed is None else seed)


@dataclass(slots=True)
class _Turn:
    start: int
    written: Written


class EpisodePolicy:
    """One episode's part of a local policy; close it when the episode is over."""

    def __init__(self, policy: LocalModel, seed: str | int) -> None:
        from paraagent.agent.engine.streams import Stream

        self.name = policy.name
        self.finished = False
        """Whether the last turn was an answer."""
        self._policy = policy
        self._seed = seed
        self._stream = Stream()
        self._prompt = 0
        self._seen = 0
        self._turns: list[_Turn] = []

    async def act(self, context: Context) -> Reply:
        """Write the next turn; an empty one if the context is full."""
        began = time.perf_counter()
        stream, policy = self._stream, self._policy
        cached = stream.cached
        self._read(context.messages[self._seen :])
        self._seen = len(context.messages) + 1  # the loop appends this turn
        start = len(stream.tokens)
        self._prompt = self._prompt or start
        random = Random(f"{self._seed} {len(self._turns)}")
        written = await policy.engine.write(stream, policy.sampling_for(context), random)
        self._turns.append(_Turn(start, written))
        text = policy.chat.text(written.tokens)
        if policy.config.dialect == "compact":
            text = compact.expand(text)
        self.finished = "<answer>" in text
        usage = Usage(start, len(written.tokens), min(cached, start))
        return Reply(text, usage, time.perf_counter() - began if policy.timed else 0.0)

    def close(self) -> None:
        """Give the episode's memory back."""
        self._policy.engine.close(self._stream)

    @property
    def transcript(self) -> Transcript:
        """What was read and written so far, as tokens."""
        turns = [turn for turn in self._turns if turn.written.tokens]
        if not turns:
            return Transcript(tuple(self._stream.tokens))
        end = turns[-1].start + len(turns[-1].written.tokens)
        logprobs = [0.0] * (end - self._prompt)
        spans: list[tuple[int, int]] = []
        masks: dict[int, NDArray[np.int32] | None] = {}
        for turn in self._turns:
            start = min(turn.start, end) - self._prompt
            spans.append((start, start + len(turn.written.tokens)))
            logprobs[start : spans[-1][1]] = turn.written.logprobs
            masks |= dict(enumerate(turn.written.masks, start))
        tokens = self._stream.tokens
        return Transcript(
            tuple(tokens[: self._prompt]),
            tuple(tokens[self._prompt : end]),
            tuple(logprobs),
            tuple(spans),
            {place: mask for place, mask in masks.items() if mask is not None},
            frozenset(place for place, mask in masks.items() if mask is None),
        )

    def _read(self, messages: list[Message]) -> None:
        """Append the tokens of new messages; own turns among them are there already."""
        chat, tokens = self._policy.chat, self._stream.tokens
        spoken = [message for message in messages if message.role != "assistant"]
        if not tokens:
            system = "\n".join(message.content for message in spoken if message.role == "system")
            user = "\n".join(message.content for message in spoken if message.role == "user")
            if self._policy.config.dialect == "compact":
                system = compact.SYSTEM
            tokens += chat.begin(system, user)
            return
        text = "\n".join(message.content for message in spoken)
        if self._policy.config.dialect == "compact":
            text = compact.observe(text)
        last = self._turns[-1].written.tokens if self._turns else ()
        tokens += chat.go_on(last[-1] if last else None, text)
