"""What an evaluation was asked to do: the frozen config of `paraagent eval`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from paraagent.cli.config import weights_record
from paraagent.errors import UsageError
from paraagent.types import JsonObject

if TYPE_CHECKING:
    from paraagent.agent.settings import Settings
    from paraagent.evaluate.baselines.paradigm import Paradigm
    from paraagent.evaluate.benchmarks.base import Item

BenchmarkName = Literal["toolenv", "apibank", "toolbench", "bfcl"]
S = TypeVar("S", bound=str)


@dataclass(frozen=True, slots=True)
class EvalConfig:
    """Everything that decides what an evaluation finds; printed into every trace."""

    benchmark: BenchmarkName
    policy: str = "rules"
    model: str | None = None
    base_url: str | None = None
    model_dir: str | None = None
    adapter: str | None = None
    guide: str | None = None
    temperature: float | None = None
    paradigm: str = "paraact"
    split: str | None = None
    limit: int | None = None
    seed: int = 0
    turns: int = 15
    searches: int = 60
    calls: int = 100
    top_k: int = 5
    mixed: bool = False
    kind: str = "all"
    difficulty: float | None = None
    width: int | None = None
    depth: int | None = None
    distractors: int | None = None
    fault_rate: float | None = None
    writes: float | None = None
    backend: str | None = None
    backend_url: str | None = None

    def check(self, *, search_only: bool, judged: bool) -> None:
        """Raise UsageError for an option that this benchmark does not have, or an unknown paradigm."""
        _ = self.way
        wrong = {
            "--mixed": self.mixed and self.benchmark not in ("apibank", "toolbench"),
            "--search-only": search_only and self.benchmark != "toolbench",
            "--judge": judged and self.benchmark != "toolbench",
            "--backend": self.backend is not None and self.benchmark != "toolbench",
            "--kind": self.kind != "all" and self.benchmark != "toolenv",
        }
        for option, is_wrong in wrong.items():
            if is_wrong:
                raise UsageError(f"{option} means nothing to {self.benchmark}: leave it out")

    def to_json(self) -> JsonObject:
        return dataclasses.asdict(self) | weights_record(self)

    @property
    def way(self) -> Paradigm:
        """The paradigm; raises UsageError if there is none of this name."""
        from paraagent.evaluate.baselines.paradigm import paradigm

        return paradigm(self.paradigm)

    def settings(self) -> Settings:
        """Return how episodes are run under the paradigm."""
        from paraagent.agent.budget import Budget
        from paraagent.agent.settings import Settings

        budget = Budget(turns=self.turns, searches=self.searches, calls=self.calls)
        return self.way.settings(Settings(budget=budget, durable=False))

    @property
    def hits(self) -> int:
        """Tools shown per search under the paradigm."""
        return self.way.hits(self.top_k)

    def splits(self, known: Sequence[S]) -> list[S]:
        """Return the wanted ones of a benchmark's splits; all unless some are named.

        Raises:
            UsageError: there is no split of a name.
        """
        if self.split in (None, "all"):
            return list(known)
        names = [name.strip() for name in str(self.split).split(",") if name.strip()]
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            wrong = unknown[0] if unknown else self.split
            raise UsageError(f"{self.benchmark} has no split {wrong!r}: use {', '.join(known)} or all")
        return [name for name in known if name in names]

    def limited(self, items: Iterable[Item]) -> list[Item]:
        """Return at most `limit` items of each group."""
        counts: Counter[str] = Counter()
        kept = []
        for item in items:
            counts[item.group] += 1
            if self.limit is None or counts[item.group] <= self.limit:
                kept.append(item)
        return kept
