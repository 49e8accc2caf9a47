"""Parameter and field names as a person would say them, and values as a person would write them.

Place in the flow: layer 3, under `phrasing` and `facts`. Limits: a name that is an abbreviation nobody would say
(`cht`, `p_qid`) has no label, and what needs it is not used.
"""

from __future__ import annotations

import re

from paraagent.catalog.names import BARE_WORDS, in_path, is_bare, noun, path_noun, words
from paraagent.env.identity import identity
from paraagent.types import JsonValue, Tool

_SPOKEN = frozenset(
    """
    id url uri ip vat sku iso isin iban bic uuid html css sms dns ssl cpu ram gb mb kb tv gps api os ssh usd eur
    pdf csv rss utc crm seo ean upc isbn imei mac vpc vm db hr qr mms cdn faq ttl vin ssn kyc aml esg nft
    """.split()
)
_NOUNS = {
    "created": "creation time",
    "created at": "creation time",
    "created on": "creation time",
    "updated": "time of the last update",
    "updated at": "time of the last update",
    "modified": "time of the last change",
    "modified at": "time of the last change",
    "starts at": "start time",
    "ends at": "end time",
    "expires at": "expiry time",
    "published at": "publication time",
}
_PREPOSITIONS = frozenset("at on by to from for in of with is has was".split())
_UPPER = _SPOKEN - {"gb", "mb", "kb"}
_SHORT = frozenset("to of in on by at is no or x y z us go up".split())


def label(name: str) -> str | None:
    """Return a name as words, `deliveryStatus` as `delivery status`, or None if nobody would say it."""
    parts = [part for part in words(name) if part]
    parts = [part for place, part in enumerate(parts) if place == 0 or part != parts[place - 1]]
    if not parts or len(parts) > 5 or not all(map(_sayable, parts)):
        return None
    return " ".join(part.upper() if part in _UPPER else part for part in parts)


def field_label(name: str) -> str | None:
    """Return what to call the value of a field, `confirmedAt` as `time it was confirmed`, or None if nothing fits."""
    text = label(name)
    if text is None or text in _NOUNS:
        return text and _NOUNS[text]
    parts = text.split()
    if len(parts) == 2 and parts[1] in ("at", "on") and parts[0].endswith("ed"):
        return f"time it was {parts[0]}"
    loose = not _PREPOSITIONS.isdisjoint(parts) or parts[-1].endswith("ed")
    return None if loose else text


def _sayable(word: str) -> bool:
    if word in _SPOKEN or word in _SHORT:
        return True
    return len(word) > 2 and word.isalpha() and re.search(r"[aeiouy]", word) is not None and len(word) < 15


def said(value: JsonValue) -> str:
    """Return a literal as a request writes it: text with spaces in quotes, everything else bare."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return " and ".join(map(said, value))
    text = str(value)
    return f'"{text}"' if re.search(r"[^\w.@:/+-]", text) else text


def thing_named(tool: Tool, parameter: str) -> tuple[str, ...] | None:
    """Return the noun of the thing that a parameter names, or None if the parameter is a plain value."""
    parts = noun(parameter)
    if not parts or not names_thing(tool, parameter):
        return None
    chosen = tool.effect == "create" and not in_path(tool.path, parameter)
    if chosen and parameter_noun(tool, parameter) == noun(tool.resource):
        return None
    parts = parameter_noun(tool, parameter)
    return parts if parts and parts[-1] not in BARE_WORDS and all(map(_sayable, parts)) else None


def parameter_noun(tool: Tool, parameter: str) -> tuple[str, ...]:
    """Return the noun in a parameter's name, or the one before it in the path, or the tool's resource."""
    parts = noun(parameter)
    before = path_noun(tool.path, parameter) or noun(tool.resource)
    if is_bare(parts):
        return before
    return parts[:-1] if parts[-1] in BARE_WORDS else parts


def names_thing(tool: Tool, parameter: str) -> bool:
    """Tell whether a parameter says which thing a tool works on, as opposed to a value it works with."""
    found = identity(tool)
    references = [*found.parents, *([found.own] if found.own else [])]
    strong = noun(parameter)[-1:] and noun(parameter)[-1] in BARE_WORDS and in_path(tool.path, parameter)
    return bool(strong) or any(ref.parameter == parameter and ref.checked for ref in references)
