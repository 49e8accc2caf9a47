"""Finds asked facts in results and writes them as sentences, without a model.

Place in the flow: layer 3, used by the `rules` policy. A fact is the scalar whose field names cover the fact's words
best, the nearest to the top first. Limits: of a list only its first item is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paraagent.catalog.names import noun, words
from paraagent.types import JsonValue

_FILLER = frozenset("the of first one listed entry new its their a an resulting current".split())


def state_facts(facts: Sequence[str], value: JsonValue) -> list[str]:
    """Return one sentence per fact; one that the result does not hold is said to be missing."""
    fields = list(_scalars(value, ()))
    sentences = []
    for fact in facts:
        found = _best(fact, fields)
        sentences.append(f"The {fact} is {_said(found)}." if found is not None else f"The {fact} was not reported.")
    return sentences


def _best(fact: str, fields: Sequence[tuple[tuple[str, ...], JsonValue]]) -> JsonValue:
    wanted = [word for word in words(fact) if word not in _FILLER]
    ranked = sorted(((_match(wanted, path), -len(path), -i) for i, (path, _) in enumerate(fields)), reverse=True)
    if not ranked or ranked[0][0] <= 0:
        return None
    return fields[-ranked[0][2]][1]


def _match(wanted: Sequence[str], path: tuple[str, ...]) -> float:
    """Score a path: the share of the fact's words in it, most of them in its last name, and few others there."""
    own = {*words(path[-1]), *noun(path[-1])}
    above = {word for name in path[:-1] for word in (*words(name), *noun(name))}
    in_own = sum(any(_alike(word, name) for name in own) for word in wanted)
    found = sum(any(_alike(word, name) for name in own | above) for word in wanted)
    if not in_own or found < (len(wanted) + 1) // 2:
        return 0.0
    others = sum(not any(_alike(word, name) for word in wanted) for name in words(path[-1]))
    return 2.0 * found / len(wanted) + in_own / len(wanted) - 0.1 * others


def _alike(word: str, name: str) -> bool:
    """Tell whether two words are the same but for their endings, as `creation` and `created`."""
    return word == name or (min(len(word), len(name)) > 5 and word[:5] == name[:5])


def _scalars(value: JsonValue, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _scalars(child, (*path, name))
    elif isinstance(value, list):
        if value:
            yield from _scalars(value[0], path)
    elif path and value is not None:
        yield path, value


def _said(value: JsonValue) -> str:
    return "true" if value is True else "false" if value is False else str(value)
