"""What of a tool is searched, and how much each part counts.

Place in the flow: layer 2, between `tokens` and `lexical`. A tool has eight searched fields; their weights, length
norms and typical lengths are fixed here, so that a tool's score does not depend on how long other tools' texts are.
The effect is searched too: verbs of a query say whether it wants to read, create, update or delete.
Limits: verbs are English. The weights come from `bench/search_fit.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from paraagent.search.tokens import compounds, stem, tokens
from paraagent.types import EffectKind, JsonObject, Tool

Field = Literal["name", "service", "summary", "description", "parameters", "notes", "context", "effect"]
FIELDS: tuple[Field, ...] = get_args(Field)
"""Bit i of a posting's mask says that the term stands in field i."""
LEAD = 200
"""The summary is at most this many characters of the description's first sentence."""
NOTE = 120
"""Characters of each parameter's own description that are searched."""
MAX_PARAMETERS = 40

_SENTENCE = re.compile(r"(.{12,}?)(?:[.!?:](?=\s)|\n|$)", re.DOTALL)
_INTENTS: dict[EffectKind, str] = {
    "read": "get list fetch retrieve show find view read look check describe see query download lookup browse",
    "create": "create add make new register insert generate",
    "update": "update change modify edit set rename patch replace adjust",
    "delete": "delete remove erase destroy drop purge",
}
_CHANGES = frozenset(
    "approve archive cancel clone deactivate delete destroy disable duplicate enable erase merge move purge reject "
    "remove rename restore revoke suspend terminate transfer unarchive".split()
)
_INTENT: dict[str, EffectKind] = {verb: effect for effect, verbs in _INTENTS.items() for verb in verbs.split()}


@dataclass(frozen=True, slots=True)
class Weight:
    """How one field counts in BM25F."""

    weight: float
    norm: float
    """0 to 1: how strongly a field longer than typical counts less (`b`)."""
    typical: float
    """Typical length in terms."""


@dataclass(frozen=True, slots=True)
class Weights:
    """All constants of a tool's lexical score."""

    fields: tuple[Weight, ...] = (
        Weight(3.0, 0.9, 4),
        Weight(4.0, 0.9, 5),
        Weight(4.0, 0.2, 8),
        Weight(0.5, 0.6, 24),
        Weight(1.0, 0.8, 8),
        Weight(0.3, 0.9, 50),
        Weight(0.8, 0.2, 12),
        Weight(2.0, 0.0, 1),
    )
    """In the order of `FIELDS`."""
    saturation: float = 1.2
    """`k1`: how soon more occurrences stop to count."""
    coverage: tuple[float, ...] = (2.0, 6.0, 12.0)
    """Bonus for the share of a name, of a service, of a summary that the query covers."""
    head: float = 4.0
    """Bonus for the covered share of name and service together."""
    gist: float = 10.0
    """Bonus for the covered share of name, service, summary and description together."""
    slack: float = 5.0
    """Added to the mass that is covered, in units of idf: short texts are not covered by one word alone."""
    repeat: float = 0.3
    """A term that stands n times in a query counts n ** repeat."""
    intent: float = 1.5
    """An effect that a query's verbs ask for counts as much as this many words."""
    verb: float = 0.5
    """A plain verb as `get` or `delete` counts as much as this many words: its effect counts beside it."""
    opposed: float = 0.4
    """Factor for the score of a reading tool when the query asks for a change."""


def texts(tool: Tool) -> tuple[list[str], ...]:
    """Return the terms of every field, in the order of `FIELDS`."""
    summary, rest = lead(tool.description)
    properties = _properties(tool.parameters)
    notes = (str(schema.get("description", ""))[:NOTE] for schema in properties.values() if isinstance(schema, dict))
    service = " ".join(dict.fromkeys((tool.provider, tool.api_title, tool.api)))
    return (
        tokens(tool.operation or tool.name),
        _prose(service),
        _prose(summary),
        _prose(rest),
        tokens(" ".join(properties)),
        tokens(" ".join(notes)),
        tokens(" ".join((tool.name, tool.path, tool.category, tool.resource))),
        [effect_term(tool.effect)],
    )


def lead(description: str) -> tuple[str, str]:
    """Split a description into its first sentence and the rest."""
    match = _SENTENCE.match(description)
    end = min(match.end(1) if match else len(description), LEAD)
    return description[:end], description[end:]


def effect_term(effect: EffectKind) -> str:
    """Return the index term of an effect; no word of a text can be equal to it."""
    return f"={effect}"


def intents(words: Iterable[str]) -> list[str]:
    """Return the effect terms that the verbs among a query's words ask for, each once, in order."""
    return [effect_term(effect) for effect in dict.fromkeys(_INTENT[word] for word in words if word in _INTENT)]


def plain_verb(word: str) -> bool:
    """Tell whether a lower-case word is one of the verbs that only say which effect is wanted."""
    return word in _INTENT


def changes(words: Iterable[str]) -> bool:
    """Tell whether the verbs among a query's words only ask for a change, which no reading tool can make."""
    asked = set(words)
    return not asked.isdisjoint(_CHANGES) and "read" not in map(_INTENT.get, asked)


def _prose(text: str) -> list[str]:
    return tokens(text) + [stem(name) for name in compounds(text)]


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return dict(list(found.items())[:MAX_PARAMETERS]) if isinstance(found, dict) else {}
