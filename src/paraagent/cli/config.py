"""What a run was asked to do: the frozen config of `paraagent run`, and the policy and tools that follow from it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

import msgspec

from paraagent.errors import UsageError
from paraagent.protocol.monitor import PlanMode
from paraagent.types import JsonObject, Policy

if TYPE_CHECKING:
    from paraagent.agent.policies.model import Guidance, LocalConfig
    from paraagent.agent.settings import Settings
    from paraagent.agent.toolboxes.opening import RealTools
    from paraagent.evaluate.arena import PolicyFor


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides what a run does; printed into every trace."""

    policy: str = "rules"
    model: str | None = None
    base_url: str | None = None
    model_dir: str | None = None
    adapter: str | None = None
    guide: str | None = None
    split: str = "test-unseen"
    kind: str = "all"
    limit: int = 70
    seed: int = 0
    difficulty: float | None = None
    width: int | None = None
    depth: int | None = None
    distractors: int | None = None
    fault_rate: float | None = None
    writes: float | None = None
    plan: str = "advise"
    turns: int = 15
    searches: int = 60
    calls: int = 100
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_money: float | None = None
    prices: str | None = None
    top_k: int = 5
    temperature: float | None = None
    hostile_rate: float = 0.0
    mcp: tuple[str, ...] = ()
    openapi: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    auth: tuple[str, ...] = ()
    effect: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()
    allow_writes: bool = False
    allow_write: tuple[str, ...] = ()
    ask: bool = False
    allow_private: bool = False
    with_catalog: bool = False

    def __post_init__(self) -> None:
        for text in self.auth:
            if "${" not in text:
                raise UsageError("--auth takes SCHEME=${VARIABLE}: a secret belongs into the environment")
        if self.max_tokens is not None:
            refuse_tokens(self.policy, "--max-tokens")
        if (self.max_money is not None or self.prices is not None) and self.policy != "http":
            option = "--max-money" if self.max_money is not None else "--prices"
            raise UsageError(f"{option} is about what an endpoint charges, and {self.policy} is none: name a --model")

    def to_json(self) -> JsonObject:
        return cast(JsonObject, msgspec.json.decode(msgspec.json.encode(self))) | weights_record(self)

    @classmethod
    def from_json(cls, record: JsonObject) -> RunConfig:
        """Read the config of a trace back.

        Raises:
            UsageError: it is not one of this version.
        """
        try:
            return msgspec.convert(record, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"the trace was not made by this version's `paraagent run` ({error})") from error

    def real_tools(self) -> RealTools:
        """Return which real tools to use; falsy if none."""
        from paraagent.agent.toolboxes.opening import RealTools

        return RealTools(
            mcp=tuple(map(Path, self.mcp)),
            openapi=self.openapi,
            functions=tuple(map(Path, self.functions)),
            auth=self.auth,
            effects=self.effect,
            trust=self.trust,
            allow_writes=self.allow_writes,
            allow_write=self.allow_write,
            ask=self.ask,
            allow_private=self.allow_private,
        )

    def settings(self) -> Settings:
        """Return how simulated episodes are run."""
        from paraagent.agent.budget import Budget
        from paraagent.agent.prices import read_prices
        from paraagent.agent.settings import Settings

        price = read_prices(Path(self.prices)).of(self.model) if self.prices and self.model else None
        budget = Budget(
            turns=self.turns,
            searches=self.searches,
            calls=self.calls,
            tokens=self.max_tokens,
            seconds=self.max_seconds,
            money=self.max_money,
            price=price,
        )
        return Settings(budget=budget, plan=cast(PlanMode, self.plan), durable=False)


class PolicyOptions(Protocol):
    """What the configs of all commands say about who plays."""

    @property
    def policy(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def model_dir(self) -> str | None: ...
    @property
    def adapter(self) -> str | None: ...
    @property
    def guide(self) -> str | None: ...
    @property
    def temperature(self) -> float | None: ...


@contextlib.asynccontextmanager
async def open_policy(
    options: PolicyOptions, api_key_env: str, *, slots: int = 1
) -> AsyncIterator[tuple[PolicyFor, list[str]]]:
    """Yield the chooser of policies and the secrets that must not be recorded; fail early if a model is not there.

    Args:
        slots: episodes that a model on this machine holds in memory.
    """
    from paraagent.evaluate.arena import oracle, same_policy

    if options.policy == "http":
        from paraagent.agent.policies.http import HttpConfig, HttpPolicy

        assert options.model is not None
        settings = HttpConfig(
            model=options.model, base_url=options.base_url, api_key_env=api_key_env, temperature=options.temperature
        )
        async with HttpPolicy(settings) as policy:
            await policy.check()
            yield same_policy(policy), list(policy.secrets)
    elif options.policy == "local":
        from paraagent.agent.policies.local import LocalPolicy
        from paraagent.agent.policies.model import LocalModel

        local: Policy = LocalPolicy(LocalModel.open(local_config(options, slots)))
        yield same_policy(local), []
    elif options.policy == "oracle":
        yield oracle, []
    else:
        from paraagent.agent.policies.rules import RulesPolicy

        rules: Policy = RulesPolicy()
        yield same_policy(rules), []


def local_config(options: PolicyOptions, slots: int) -> LocalConfig:
    """Return how a model on this machine is asked; what it writes in tags is longer, and so are its episodes."""
    from paraagent.agent.engine.smollm2 import NAME
    from paraagent.agent.policies.model import LocalConfig

    dialect = dialect_of(options)
    if dialect == "tags" and options.guide not in (None, "off"):
        raise UsageError(f"--guide {options.guide} is for models of the compact dialect, and this one writes tags")
    return LocalConfig(
        model=options.model_dir or NAME,
        adapter=options.adapter,
        dialect=dialect,
        guide=cast("Guidance", options.guide or "checked"),
        temperature=options.temperature or 0.0,
        max_tokens=1_024 if dialect == "tags" else 400,
        max_length=16_384 if dialect == "tags" else 4_096,
        slots=slots,
    )


def weights_of(options: PolicyOptions) -> str | None:
    """Return the digest of what a model on this machine has learned; None for another policy.

    Raises:
        UsageError: there is no such model.
        EnvironmentFault: a package or the default model's download is missing.
    """
    if options.policy != "local":
        return None
    from paraagent.agent.engine.load import resolve_adapter, resolve_folder, weights_digest
    from paraagent.agent.engine.smollm2 import NAME

    model = options.model_dir or NAME
    return weights_digest(resolve_folder(model), resolve_adapter(model, options.adapter))


def weights_record(options: PolicyOptions) -> JsonObject:
    """Return what the record of a run says beyond its options."""
    found = weights_of(options)
    return {} if found is None else {"weights": found}


def dialect_of(options: PolicyOptions) -> Literal["tags", "compact"]:
    """Return what a model on this machine writes: what `paraagent.json` beside its weights says, if there is one.

    Else a model with an adapter, or the embedded one, was trained for the compact dialect; any other reads prompts.

    Raises:
        UsageError: the file is not one that `train` writes.
    """
    from paraagent.agent.engine.smollm2 import NAME

    for folder in filter(None, (options.adapter, options.model_dir)):
        path = Path(folder) / "paraagent.json"
        if path.is_file():
            try:
                return msgspec.json.decode(path.read_bytes(), type=_Trained).dialect
            except (OSError, msgspec.DecodeError) as error:
                raise UsageError(f"{path} does not say in which dialect the model was trained ({error})") from error
    return "compact" if options.model_dir in (None, NAME) or options.adapter not in (None, "none") else "tags"


def is_general(options: PolicyOptions) -> bool:
    """Return whether a general language model plays, which is told by a prompt how to work."""
    return options.policy == "http" or (options.policy == "local" and dialect_of(options) == "tags")


def refuse_tokens(policy: str, option: str) -> None:
    """Raise UsageError if a policy takes no tokens that `option` could limit."""
    if policy not in ("http", "local"):
        raise UsageError(f"{option} limits what a model reads and writes, and {policy} is none: leave it out")


class _Trained(msgspec.Struct):
    """What training keeps beside its result."""

    dialect: Literal["tags", "compact"] = "compact"
