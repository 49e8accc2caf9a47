"""What is in a catalog, in numbers.

Place in the flow: layer 1; the store counts while it writes and keeps the counts in the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from paraagent.types import JsonObject, Tool


@dataclass(frozen=True, slots=True)
class CatalogInfo:
    """What is in a catalog; counts are of tools unless they say otherwise, each table largest first."""

    path: str
    tools: int
    providers: int
    apis: int
    bytes: int
    digest: str
    inputs: str
    """Digest of what it was built from: the lock file, the added files, the version of the rules."""
    synthetic: int
    """Tools whose answer is our acknowledgement."""
    equivalent: int
    """Tools that have an equivalent."""
    by_source: dict[str, int] = field(default_factory=dict)
    by_provider: dict[str, int] = field(default_factory=dict)
    by_category: dict[str, int] = field(default_factory=dict)
    by_effect: dict[str, int] = field(default_factory=dict)
    by_licence: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """Operations that each rule left out."""
    dropped_by_source: dict[str, dict[str, int]] = field(default_factory=dict)


class Tally:
    """Counts tools as they are written."""

    def __init__(self) -> None:
        self.tools = 0
        self.synthetic = 0
        self.apis: set[tuple[str, str]] = set()
        self.source: Counter[str] = Counter()
        self.provider: Counter[str] = Counter()
        self.category: Counter[str] = Counter()
        self.effect: Counter[str] = Counter()
        self.licence: Counter[str] = Counter()

    def add(self, tool: Tool) -> None:
        self.tools += 1
        self.synthetic += tool.synthetic_returns
        self.apis.add((tool.provider, tool.api))
        self.source[tool.source] += 1
        self.provider[tool.provider] += 1
        self.category[tool.category or "none"] += 1
        self.effect[tool.effect] += 1
        self.licence[tool.licence or "not stated"] += 1

    def fields(self, dropped: Mapping[str, Mapping[str, int]]) -> JsonObject:
        """Return the counted fields of `CatalogInfo`; `dropped` is source -> rule -> operations."""
        total: Counter[str] = Counter()
        for rules in dropped.values():
            total.update(rules)
        return {
            "tools": self.tools,
            "providers": len(self.provider),
            "apis": len(self.apis),
            "synthetic": self.synthetic,
            "by_source": _sorted(self.source),
            "by_provider": _sorted(self.provider),
            "by_category": _sorted(self.category),
            "by_effect": _sorted(self.effect),
            "by_licence": _sorted(self.licence),
            "dropped": _sorted(total),
            "dropped_by_source": {source: _sorted(rules) for source, rules in sorted(dropped.items())},
        }


def _sorted(counts: Mapping[str, int]) -> JsonObject:
    order = sorted(counts, key=lambda name: (-counts[name], name))
    return {name: counts[name] for name in order}
