"""Requests that no tool in the catalog serves: invented services, and real services that lack the operation.

Place in the flow: layer 3, called by `tasks` for the kind `unanswerable`. An invented service bears a name that no
provider has. A missing operation is a change to a kind of thing that the provider only lets one read: no writing tool
of the provider speaks of that thing. Limits: absence is judged by words in names, paths and descriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from paraagent.catalog.names import noun, singular, words
from paraagent.env.service import service_name
from paraagent.types import Tool

_SYLLABLES = (
    "zor",
    "quan",
    "vex",
    "lumo",
    "brix",
    "nori",
    "tavo",
    "pluv",
    "kero",
    "dax",
    "wimb",
    "oza",
    "fenn",
    "gry",
)
_ENDINGS = ("ly", "ix", "ana", "ora", "ex", "ium", "ster", "ova")
_WISHES = (
    ("teleport", "parcel", "to the {place} depot"),
    ("recalibrate", "gravity damper", "in the {place} greenhouse"),
    ("repaint", "drone", "in {colour} before the show in {place}"),
    ("tune", "cathedral organ", "in {place} to 442 hertz"),
    ("hatch", "dragon egg", "kept in the {place} vault"),
    ("defrost", "ice sculpture", "standing in {place}"),
    ("re-thread", "loom", "at the {place} mill with {colour} yarn"),
    ("water", "bonsai tree", "on the {place} balcony"),
    ("polish", "telescope mirror", "at the {place} observatory"),
    ("knit", "scarf", "in {colour} for the {place} team"),
    ("exorcise", "vending machine", "in the {place} lobby"),
    ("rewind", "grandfather clock", "in the {place} hall"),
    ("juggle", "lantern", "in {colour} at the {place} fair"),
    ("carve", "chess queen", "from {colour} wood for the {place} club"),
    ("inflate", "balloon", "in {colour} over {place}"),
    ("braid", "rope", "for the {place} lighthouse"),
    ("hypnotise", "parrot", "at the {place} zoo"),
    ("sharpen", "skates", "for the {place} rink"),
    ("ferment", "cabbage", "in the {place} cellar"),
    ("gild", "picture frame", "for the {place} museum"),
)
_CHANGES = ("delete", "rename", "archive", "duplicate", "restore")
_PLACES = ("Lisbon", "Oslo", "Nairobi", "Quito", "Hanoi", "Dublin", "Osaka", "Lyon", "Porto", "Graz")
_COLOURS = ("blue", "amber", "green", "violet", "crimson", "silver")


@dataclass(frozen=True, slots=True)
class Missing:
    """A request nobody can serve and the search a sensible agent would try."""

    request: str
    query: str
    slot: str


def invented(rng: Random, providers: Iterable[str]) -> Missing:
    """Return a request to a service that does not exist; its name is part of no provider's domain."""
    taken = " ".join(providers).lower()
    name = _service(rng)
    while name.lower() in taken:
        name = _service(rng)
    verb, thing, where = rng.choice(_WISHES)
    number = f"{thing[0].upper()}{rng.randrange(1000, 9999)}"
    detail = where.format(place=rng.choice(_PLACES), colour=rng.choice(_COLOURS))
    frame = rng.choice(
        (
            "Please {verb} the {thing} {number} {detail} with {name} and tell me the confirmation number.",
            "On {name}, {verb} the {thing} {number} {detail}. What is its status afterwards?",
            "Could you use {name} to {verb} the {thing} {number} {detail}?",
        )
    )
    text = frame.format(verb=verb, thing=thing, number=number, detail=detail, name=name)
    return Missing(text, f"{name}: {verb} a {thing}", f"{verb} {thing}")


def lacking(tool: Tool, thing: str, identifier: str, provider_tools: Sequence[Tool], rng: Random) -> Missing | None:
    """Return a request to change a thing that the provider only lets one read, or None if it has a tool for that.

    Args:
        tool: a reading tool of the provider.
        thing: the noun that it reads, as `tax rate`.
        identifier: which one is meant.
        provider_tools: all tools of the provider.
    """
    wanted = {singular(word) for word in thing.split()}
    writers = (other for other in provider_tools if other.effect != "read")
    if not wanted or any(wanted <= _vocabulary(other) for other in writers):
        return None
    change, service = rng.choice(_CHANGES), service_name(tool)
    frame = rng.choice(
        (
            "Please {change} the {thing} {identifier} on {service} and confirm when it is done.",
            "On {service}, {change} the {thing} {identifier}. Tell me its new status.",
            "I'd like you to {change} the {thing} {identifier} in {service}.",
        )
    )
    text = frame.format(change=change, thing=thing, identifier=identifier, service=service)
    return Missing(text, f"{service}: {change} a {thing}", f"{change} {thing}")


def _vocabulary(tool: Tool) -> set[str]:
    text = f"{tool.resource} {tool.operation} {tool.path} {tool.description}"
    return {singular(word) for word in words(text)} | set(noun(tool.resource))


def _service(rng: Random) -> str:
    return (rng.choice(_SYLLABLES) + rng.choice(_SYLLABLES) + rng.choice(_ENDINGS)).capitalize()
