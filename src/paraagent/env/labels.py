"""Parameter and field names as a person would say them, and values as a person would write them.

Place in the flow: layer 3, under `phrasing` and `facts`. Limits: a name that is an abbreviation nobody would say
(`cht`, `p_qid`) has no label, and what needs it is not used.
"""

from __future__ import annotations

import re

from paraagent.catalog.names import BARE_WORDS, in_path, is_bare, is_container, noun, path_noun, words
from paraagent.env.identity import identity
from paraagent.types import JsonValue, Tool

_SPOKEN = frozenset(
    "id url uri ip vat sku iso isin iban bic uuid html css sms dns ssl cpu ram gb mb kb tv gps api os ssh usd eur pdf csv "
    "rss utc crm seo ean upc isbn imei mac vpc vm db hr qr mms cdn faq ttl vin ssn kyc aml esg nft".split()
)
_UPPER = _SPOKEN - {"gb", "mb", "kb"}
_SHORT = frozenset("to of in on by at is no or x y z us go up".split())


def label(name: str) -> str | None:
    """Return a name as words, `deliveryStatus` as `delivery status`, or None if nobody would say it."""
    parts = [part for part in words(name) if part]
    if not parts or len(parts) > 5 or not all(map(_sayable, parts)):
        return None
    return " ".join(part.upper() if part in _UPPER else part for part in parts)


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
    if tool.effect == "create" and parameter_noun(tool, parameter) == noun(tool.resource):
        return None
    parts = parameter_noun(tool, parameter)
    return parts if parts and parts[-1] not in BARE_WORDS and all(map(_sayable, parts)) else None


def parameter_noun(tool: Tool, parameter: str) -> tuple[str, ...]:
    """Return the noun in a parameter's name, or the one before it in the path, or the tool's resource."""
    parts = noun(parameter)
    before = path_noun(tool.path, parameter) or noun(tool.resource)
    if is_bare(parts):
        parts = before
    elif parts[-1] in BARE_WORDS:
        parts = parts[:-1]
    return tuple(part for part in parts if not is_container(part)) or parts


def names_thing(tool: Tool, parameter: str) -> bool:
    """Tell whether a parameter says which thing a tool works on, as opposed to a value it works with."""
    found = identity(tool)
    references = [*found.parents, *([found.own] if found.own else [])]
    strong = noun(parameter)[-1:] and noun(parameter)[-1] in BARE_WORDS and in_path(tool.path, parameter)
    return bool(strong) or any(ref.parameter == parameter and ref.checked for ref in references)
