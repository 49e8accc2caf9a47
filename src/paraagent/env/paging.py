"""Parameters that say which part of a list is wanted, and the part they ask for.

Place in the flow: layer 3, used by `interface` and `behave`. Lists are short and answers hold no next-page token, so
a cursor is not followed: everything is on the first page.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from paraagent.catalog.names import words
from paraagent.env.schemas import same
from paraagent.types import JsonValue

Role = Literal["limit", "offset", "page", "search"]

_NAMES: tuple[tuple[Role, frozenset[str]], ...] = (
    (
        "limit",
        frozenset("limit perpage pagesize maxresults maxitems pagelimit first top take count size rows".split()),
    ),
    ("offset", frozenset({"offset", "skip", "start", "startindex", "pageoffset"})),
    ("page", frozenset({"page", "pagenumber", "pageno", "pageindex"})),
)
_SEARCH_WORDS = frozenset({"q", "query", "search", "keyword", "term", "text", "prefix", "filter", "match"})


def roles(parameters: Collection[str]) -> dict[str, Role]:
    """Return what the parameters of a list do that page it or search it; others are left out."""
    found: dict[str, Role] = {name: "search" for name in parameters if not _SEARCH_WORDS.isdisjoint(words(name))}
    for role, names in _NAMES:
        found.update((name, role) for name in parameters if same(name) in names)
    return found


def page(items: list[JsonValue], arguments: Mapping[str, JsonValue], known: Mapping[str, Role]) -> list[JsonValue]:
    """Return the items on the page that the arguments ask for."""
    asked = {
        role: value
        for name, role in known.items()
        if isinstance(value := arguments.get(name), int) and not isinstance(value, bool) and value >= 0
    }
    if not asked:
        return items
    limit = asked.get("limit") or len(items)
    offset = asked.get("offset", 0) + max(asked.get("page", 1) - 1, 0) * limit
    return items[offset : offset + limit]
