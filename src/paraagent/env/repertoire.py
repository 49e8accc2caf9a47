"""The tools that tasks can be made of, API by API, loaded when first drawn.

Place in the flow: layer 3, between the catalog and `tasks`. A tool is usable if it can be put in words (`wording`)
and every required parameter can be stated by a person or linked. Limits: the parts drawn last are kept, `KEPT` tools
in all.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from paraagent.catalog.graph import Edge, mine
from paraagent.catalog.store import Catalog
from paraagent.env.labels import label, thing_named
from paraagent.env.schemas import properties
from paraagent.env.splits import serves
from paraagent.env.wording import Wording, wording
from paraagent.types import Split, Tool

KEPT = 30_000
MAX_REQUIRED = 5


@dataclass(frozen=True)
class Part:
    """One API: its usable tools and the edges between them."""

    provider: str
    tools: Mapping[str, Tool]
    """Usable ones, by name."""
    wordings: Mapping[str, Wording]

    @cached_property
    def edges(self) -> Mapping[str, Sequence[Edge]]:
        """Edges among usable tools, by consumer."""
        found: dict[str, list[Edge]] = defaultdict(list)
        for edge in mine(list(self.tools.values())):
            found[edge.consumer].append(edge)
        return found


class Repertoire:
    """Parts of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._apis: dict[str, list[str]] = defaultdict(list)
        for provider, api in catalog.apis():
            self._apis[provider].append(api)
        self._providers: dict[Split, tuple[str, ...]] = {}
        self._replaceable: dict[Split, list[str]] = {}
        self._parts: OrderedDict[tuple[str, str], Part] = OrderedDict()

    def providers(self, split: Split) -> tuple[str, ...]:
        """Return the providers that tasks of a split may use, sorted."""
        if split not in self._providers:
            self._providers[split] = tuple(provider for provider in sorted(self._apis) if serves(provider, split))
        return self._providers[split]

    def replaceable(self, split: Split) -> list[str]:
        """Return the names of tools of a split's providers that have an equivalent, sorted."""
        if split not in self._replaceable:
            names = (name for family in self.catalog.families() for name in family)
            tools = (tool for name in sorted(names) if (tool := self.catalog.get(name)))
            self._replaceable[split] = [tool.name for tool in tools if serves(tool.provider, split)]
        return self._replaceable[split]

    def apis(self, provider: str) -> Sequence[str]:
        return self._apis[provider]

    def part(self, provider: str, api: str) -> Part:
        """Return one API's part, from memory if it was drawn lately."""
        key = provider, api
        if key not in self._parts:
            self._parts[key] = self._load(provider, api)
            while sum(len(part.tools) for part in self._parts.values()) > KEPT and len(self._parts) > 1:
                self._parts.popitem(last=False)
        self._parts.move_to_end(key)
        return self._parts[key]

    def _load(self, provider: str, api: str) -> Part:
        tools = self.catalog.by_api(provider, api)
        worded = {tool.name: found for tool in tools if statable(tool) and (found := wording(tool))}
        return Part(provider, {tool.name: tool for tool in tools if tool.name in worded}, worded)


def required(tool: Tool) -> list[str]:
    """Return the names of a tool's required parameters."""
    names = tool.parameters.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def statable(tool: Tool) -> bool:
    """Tell whether a person could state every required parameter: few of them, each with a name one would say."""
    names, schemas = required(tool), properties(tool.parameters)
    return len(names) <= MAX_REQUIRED and all(
        name in schemas and schemas[name].get("type") != "object" and (label(name) or thing_named(tool, name))
        for name in names
    )
