"""Chooses what a request asks to be told: scalars of an answer that are worth asking and cannot be confused.

Place in the flow: layer 3; `tasks` calls it with what the gold calls returned. A fact has a label that a person would
use and that fits no other field of the answer; its value is not in the request, is long enough not to be met by
accident, and differs from the other facts. Limits: no booleans, no links, no free text beyond `LONGEST` characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from paraagent.catalog.names import is_container, noun, words
from paraagent.env.labels import field_label, label
from paraagent.env.states import states
from paraagent.env.task import Fact
from paraagent.types import JsonValue

LONGEST = 60
_DEPTH = 4
_WANTED = frozenset(
    """
    status state total amount price balance cost name title email city country currency count score rating phone
    type category version level priority quantity weight size duration role plan stage language timezone address
    company temperature speed distance capacity stock owner author brand model color rate fee tax population
    number reason created updated date deadline due expires starts ends published description summary message
    subject
    """.split()
)
_UNWANTED = frozenset(
    """
    url uri href link links self etag hash token secret key password cursor next previous page offset limit
    object kind checksum signature raw html xml json base64 image icon thumbnail avatar logo photo picture path
    file schema class namespace meta metadata debug paging pagination pager trace request odata extension
    callback template binary code reserved unknown deprecated sha md5 blob data value id uuid guid uid arn sid
    error errors warning success ok
    """.split()
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scalar of an answer that may be asked for."""

    path: str
    value: JsonValue
    label: str
    score: int


def choose(
    call: str, value: JsonValue, request: str, rng: Random, count: int, taken: Sequence[Fact] = ()
) -> list[Fact]:
    """Return up to `count` facts about one answer, best ones more often; none if nothing is worth asking.

    Args:
        call: id of the gold call that returned `value`.
        request: the request's text so far; what it states is not asked.
        taken: facts of other goals, whose values must differ.
    """
    known = {str(fact.value).casefold() for fact in taken}
    found = [one for one in candidates(value) if not states(request, one.value)]
    rng.shuffle(found)
    found.sort(key=lambda one: -one.score)
    chosen: list[Fact] = []
    for one in found[: 2 + 2 * count]:
        text = str(one.value).casefold()
        if len(chosen) < count and text not in known and (not chosen or rng.random() < 0.8):
            known.add(text)
            chosen.append(Fact(call, one.path, one.value, one.label))
    return chosen


def candidates(value: JsonValue) -> list[Candidate]:
    """Return the scalars of an answer that can be asked for by an unmistakable label."""
    leaves = list(_leaves(value, (), ()))
    spoken = Counter(words(path[-1]) for path, _, _ in leaves if path[-1] != "0")
    found = []
    for path, above, scalar in leaves:
        name = _label(path, above, spoken[words(path[-1])] == 1)
        if name and _worth(path, scalar):
            found.append(Candidate(".".join(path), scalar, name, _score(path)))
    labels = Counter(one.label for one in found)
    return [one for one in found if labels[one.label] == 1]


def _leaves(
    value: JsonValue, path: tuple[str, ...], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], JsonValue]]:
    """Yield path, the names above that say whose field it is, and the scalar; of lists only the first item."""
    if isinstance(value, dict) and len(path) < _DEPTH:
        for name, child in value.items():
            if isinstance(child, dict | list):
                outer = above if is_container(name) or isinstance(child, list) else (*above, name)
                yield from _leaves(child, (*path, name), outer)
            elif "." not in name and not name.isdigit():
                yield (*path, name), above, child
    elif isinstance(value, list) and value and isinstance(value[0], dict) and "0" not in path:
        yield from _leaves(value[0], (*path, "0"), above)


def _label(path: tuple[str, ...], above: tuple[str, ...], alone: bool) -> str | None:
    """Return what to call a leaf: its own name, after the field around it where that is what it belongs to."""
    own = field_label(path[-1])
    if own is None or len(own) < 3 or len(above) > 1 or (not above and not alone):
        return None
    outer = " ".join(noun(above[0])) if above else ""
    if above and (not _UNWANTED.isdisjoint(words(above[0])) or label(above[0]) is None or len(outer.split()) > 2):
        return None
    text = own if not outer or own.startswith(outer) else f"{outer} {own}"
    return f"{text} of the first one" if "0" in path and not above else None if "0" in path else text


def _worth(path: tuple[str, ...], value: JsonValue) -> bool:
    if isinstance(value, bool) or value is None or not _UNWANTED.isdisjoint(words(path[-1])):
        return False
    text = str(value)
    if isinstance(value, int | float):
        return len(text) > 1 and abs(value) < 1e12
    return 2 < len(text) <= LONGEST and re.search(r"[<>{}\[\]\\\n\r\t|$\"]|https?:|^[0-9a-f]{16,}$", text) is None


def _score(path: tuple[str, ...]) -> int:
    """Return how natural it is to ask for a leaf: well-known words first, near the top, few words."""
    parts = words(path[-1])
    return 2 * (not _WANTED.isdisjoint(parts)) + (len(parts) <= 2) - (len(path) > 2)
