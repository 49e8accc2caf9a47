"""Finds tool definitions that try to steer the model which reads them.

Place in the flow: layer 1. A definition is text that a model obeys, and it comes from strangers: `screen` looks for
characters that cannot be seen, look-alike letters and names, text that gives orders instead of describing a tool,
encoded text, links that collect data, and secrets. It judges definitions as their source wrote them, before anything
is cleaned. What is hidden is taken out first, so that it hides nothing.
Limits: see `screening.phrases`; a finding is a reason to look, and no finding is no proof.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from paraagent.catalog.screening.cues import CUES
from paraagent.catalog.screening.data import data, encoded
from paraagent.catalog.screening.hidden import hidden, visible
from paraagent.catalog.screening.mark import Mark, Rule, Severity
from paraagent.catalog.screening.names import mixed_script, plain, twins
from paraagent.catalog.screening.phrases import Phrase, find
from paraagent.catalog.screening.steering import STEERING
from paraagent.catalog.screening.taking import TAKING
from paraagent.types import JsonObject, JsonValue, Tool

PHRASES = STEERING + TAKING + CUES
_AROUND = 40
_SKIPPED = frozenset(("type", "$ref", "$schema"))
"""Keywords whose values say nothing to a model."""
_BRACKETED = re.compile(r"\[[A-Z ]*\b(?:ADMIN|SYSTEM|OVERRIDE|URGENT|DEVELOPER)\b[A-Z ]*\]")
_DECORATION = re.compile(r"[*`]+")


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its source describes it."""

    name: str
    source: str
    """Whose tool it is: a provider, a server, a document."""
    body: JsonObject
    """All that a model may be shown: descriptions, schemas, examples."""
    bare: str = ""
    """The name that its source gives it, if not the same."""
    is_tool: bool = True
    """False for a part that several tools share."""

    @classmethod
    def of(cls, tool: Tool) -> Definition:
        """Return a tool of a catalog or toolbox as a definition."""
        body: JsonObject = {"description": tool.description, "parameters": tool.parameters, "returns": tool.returns}
        return cls(tool.name, tool.provider, body)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something suspicious in a tool."""

    rule: Rule
    severity: Severity
    tool: str
    source: str
    place: str
    """Where in the definition, as `parameters.properties.note.description`."""
    excerpt: str
    """The text around it, in ASCII."""


@dataclass(slots=True)
class Screen:
    """Looks at one definition after the other; texts that are the same as before cost nothing."""

    seen: int = 0
    """How many definitions were looked at."""
    sources: set[str] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    _bare: dict[str, str] = field(default_factory=dict)
    _clean: set[int] = field(default_factory=set)
    """Hashes of texts in which nothing was found."""

    def look(self, definition: Definition) -> list[Finding]:
        """Return what is suspicious in a definition, the worst first, once for each rule and place."""
        self.seen += 1
        self.sources.add(definition.source)
        bare = definition.bare or definition.name
        if definition.is_tool:
            self._names[definition.name], self._bare[definition.name] = definition.source, bare
        found = [_finding(definition, "name", bare, mark) for mark in _unseen(bare, name=True)]
        new = [text for text in _strings(definition.body) if hash(text) not in self._clean]
        dirty = _dirty(new)
        self._clean.update(hash(text) for text in new if text not in dirty)
        if dirty:
            found += _inside(definition, dirty)
        found.sort(key=lambda finding: _ORDER[finding.severity])
        worst: dict[tuple[Rule, str], Finding] = {}
        for finding in found:
            worst.setdefault((finding.rule, finding.place), finding)
        return list(worst.values())

    def compare(self) -> list[Finding]:
        """Return the names among all definitions so far that are easily taken for those of another source."""
        return [
            Finding(
                twin.rule,
                twin.severity,
                twin.name,
                self._names[twin.name],
                "name",
                _ascii(f"{self._bare[twin.name]} is like {twin.other} of {self._names[twin.other]}"),
            )
            for twin in twins(self._names, self._bare)
        ]


_ORDER: dict[Severity, int] = {"high": 0, "medium": 1, "low": 2}


def screen(definitions: Iterable[Definition]) -> list[Finding]:
    """Return all that is suspicious in some definitions, alone and beside each other."""
    looker = Screen()
    found = [finding for definition in definitions for finding in looker.look(definition)]
    return found + looker.compare()


def _strings(body: JsonObject) -> Iterator[str]:
    """Yield every text in a definition, names of parameters and fields included."""
    open_values: list[JsonValue] = [body]
    while open_values:
        value = open_values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            open_values += value
        elif isinstance(value, dict):
            open_values += [
                child for key, child in value.items() if key not in _SKIPPED or not isinstance(child, str)
            ]
            if isinstance(properties := value.get("properties"), dict):
                yield from properties


def _places(body: JsonValue, place: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield every text in a definition with its place; True for names of parameters and fields."""
    if isinstance(body, str):
        yield place, body, False
    elif isinstance(body, list):
        for index, item in enumerate(body):
            yield from _places(item, f"{place}[{index}]")
    elif isinstance(body, dict):
        for key, value in body.items():
            if key in _SKIPPED and isinstance(value, str):
                continue
            if place.endswith("properties"):
                yield place, key, True
            yield from _places(value, f"{place}.{key}" if place else key)


def _dirty(texts: list[str]) -> set[str]:
    """Return the texts in which there is something; all are looked at as one first, since mostly there is nothing."""
    together = " .!\n".join(texts)
    dirty = {text for text in texts if any(_unseen(text, name=True))} if not _is_plain(together) else set()
    for check in (data, _encoded, _bracketed):
        if any(check(together)):
            dirty |= {text for text in texts if any(check(text))}
    read = [_readable(text) for text in texts]
    return dirty | {texts[index] for index, _, _ in find(PHRASES, read)}


def _inside(definition: Definition, dirty: set[str]) -> Iterator[Finding]:
    """Yield what is suspicious in the texts of a definition that are known not to be clean."""
    texts = [(place, text, name) for place, text, name in _places(definition.body) if text in dirty]
    for place, text, name in texts:
        for mark in (*_unseen(text, name=name), *data(text), *_encoded(text), *_bracketed(text)):
            yield _finding(definition, place, text, mark)
    for place, text, mark in _phrases([(place, text) for place, text, _ in texts]):
        yield _finding(definition, place, text, mark)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.replace("\n", "").isprintable()


def _unseen(text: str, *, name: bool) -> Iterator[Mark]:
    yield from hidden(text, name=name)
    yield from mixed_script(text, "high" if name else "medium")


def _bracketed(text: str) -> Iterator[Mark]:
    for match in _BRACKETED.finditer(text):
        yield Mark("addressing", "high", *match.span())


def _phrases(texts: list[tuple[str, str]]) -> Iterator[tuple[str, str, Mark]]:
    """Yield the suspicious phrases of one tool; two different medium ones make each other high."""
    read = [_readable(text) for _, text in texts]
    found = [(texts[index][0], read[index], phrase, mark) for index, phrase, mark in find(PHRASES, read)]
    medium = [(place, phrase, mark) for place, _, phrase, mark in found if mark.severity == "medium"]
    together = any(_differ(one, other) for one in medium for other in medium)
    for place, text, _, mark in found:
        yield place, text, replace(mark, severity="high") if together and mark.severity == "medium" else mark


def _differ(one: tuple[str, Phrase, Mark], other: tuple[str, Phrase, Mark]) -> bool:
    """Tell whether two phrases are two reasons and not the same words seen twice."""
    apart = one[0] != other[0] or one[2].end <= other[2].start or other[2].end <= one[2].start
    return one[1] is not other[1] and apart


def _encoded(text: str) -> Iterator[Mark]:
    for mark, said in encoded(text):
        orders = next(find(PHRASES, [_readable(said)]), None)
        yield mark if orders is None else replace(mark, severity="high")


def _readable(text: str) -> str:
    """Return a text as phrases are looked for in it."""
    text = plain(visible(text)).replace("’", "'")
    if "&" in text:
        text = html.unescape(text)
    return " ".join(_DECORATION.sub("", text).split())


def _finding(definition: Definition, place: str, text: str, mark: Mark) -> Finding:
    excerpt = mark.shown or text[max(0, mark.start - _AROUND) : mark.end + _AROUND]
    return Finding(
        mark.rule, mark.severity, _ascii(definition.name), definition.source, _ascii(place), _ascii(excerpt)
    )


def _ascii(text: str) -> str:
    return " ".join(text.split()).encode("ascii", "backslashreplace").decode()[:240]
