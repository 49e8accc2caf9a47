"""What a run was asked to do: the frozen config of `paraagent run`, and the policy and tools that follow from it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from paraagent.errors import UsageError
from paraagent.protocol.monitor import PlanMode
from paraagent.types import JsonObject, Policy

if TYPE_CHECKING:
    from paraagent.agent.settings import Settings
    from paraagent.agent.toolboxes.opening import RealTools
    from paraagent.evaluate.arena import PolicyFor


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides what a run does; printed into every trace."""

    policy: str = "rules"
    model: str | None = None
    base_url: str | None = None
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

    def to_json(self) -> JsonObject:
        return cast(JsonObject, msgspec.json.decode(msgspec.json.encode(self)))

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

        if self.prices is not None and self.model is None:
            raise UsageError("--prices is a table of what models cost: name one with --model")
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


@contextlib.asynccontextmanager
async def open_policy(config: RunConfig, api_key_env: str) -> AsyncIterator[tuple[PolicyFor, list[str]]]:
    """Yield the chooser of policies and the secrets that must not be recorded; fail early if a model is not there."""
    from paraagent.evaluate.arena import oracle, same_policy

    if config.policy == "http":
        from paraagent.agent.policies.http import HttpConfig, HttpPolicy

        assert config.model is not None
        settings = HttpConfig(
            model=config.model, base_url=config.base_url, api_key_env=api_key_env, temperature=config.temperature
        )
        async with HttpPolicy(settings) as policy:
            await policy.check()
            yield same_policy(policy), list(policy.secrets)
    elif config.policy == "oracle":
        yield oracle, []
    else:
        from paraagent.agent.policies.rules import RulesPolicy

        rules: Policy = RulesPolicy()
        yield same_policy(rules), []
