"""The part of a list that a call asks for.

Place in the flow: layer 3, used by `behave`. Lists are short and answers hold no next-page token, so a cursor is not
followed: everything is on the first page.
"""

from __future__ import annotations

from collections.abc import Mapping

from paraagent.env.shown import same
from paraagent.types import JsonValue

_LIMITS = frozenset(
    {
        "limit",
        "perpage",
        "pagesize",
        "maxresults",
        "maxitems",
        "pagelimit",
        "first",
        "top",
        "take",
        "count",
        "size",
        "rows",
    }
)
_OFFSETS = frozenset({"offset", "skip", "start", "startindex", "pageoffset"})
_PAGES = frozenset({"page", "pagenumber", "pageno", "pageindex"})


def page(items: list[JsonValue], arguments: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the items on the page that the arguments ask for."""
    limit = _number(arguments, _LIMITS)
    offset = _number(arguments, _OFFSETS) or 0
    number = _number(arguments, _PAGES)
    if number is not None and number > 1:
        offset += (number - 1) * (limit or len(items))
    return items[offset : None if not limit else offset + limit]


def _number(arguments: Mapping[str, JsonValue], names: frozenset[str]) -> int | None:
    for name, value in arguments.items():
        if same(name) in names and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
