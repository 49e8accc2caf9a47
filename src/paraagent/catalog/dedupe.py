"""Which operations are the same: keys before normalising, fingerprints after, and classes of interchangeable tools.

Place in the flow: layer 1, used by the sources (keys) and the build (the rest). Three rules keep one tool of several:
`same_operation` (other versions and packages of the same provider), `same_content` (the same API hosted elsewhere),
`same_interface` (what nobody could tell apart inside one provider). The first to arrive stays.

Tools that stay but do the same are grouped by `classes`: an operation in several versions of one API, or twins of one
API that differ in optional parameters only. A verifier may accept any member for another.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable

from paraagent.catalog.classify import COMPONENT, is_version
from paraagent.catalog.names import words
from paraagent.catalog.spec import Operation, Rejected
from paraagent.types import Tool

_HOSTLESS = frozenset({"github.com"})
"""Providers whose editions answer on the customer's own hosts."""
_DISTINCT = 20
"""Shortest description that tells operations apart."""

AWS, GOOGLE = "amazonaws.com", "googleapis.com"
"""Providers whose operations have names of their own, the same in every package."""
_DATED = re.compile(r"\d{4}_\d{2}_\d{2}$")

Key = tuple[str, ...]


def http_key(provider: str, api: str, base: str, method: str, path: str, operation: str) -> Key:
    """Return what identifies an operation over HTTP, whatever the version: provider, place and method."""
    if provider == AWS and operation:
        return aws_key(api, re.sub(r"^(GET|POST)_", "", operation))
    if provider == GOOGLE and operation:
        return google_key(operation)
    host = "" if provider in _HOSTLESS else _unversioned(base)
    return (provider, method, host, blank(path))


def aws_key(service: str, operation: str) -> Key:
    """Return the key of an operation of an AWS service."""
    return (AWS, re.sub(r"[^a-z0-9]", "", service.lower()), _DATED.sub("", operation).lower())


def google_key(method_id: str) -> Key:
    """Return the key of a Google method; its id, as `calendar.events.get`, holds no version."""
    return (GOOGLE, method_id.lower())


def blank(path: str) -> str:
    """Return a path with its parameters' names left out."""
    return re.sub(r"\{[^{}]*\}", "{}", path).rstrip("/").lower()


def _unversioned(url: str) -> str:
    parts = blank(url.split("//")[-1]).split("/")
    return "/".join(part for part in parts if not is_version(part) and part != "beta")


class Seen:
    """Remembers what was kept, and refuses what repeats it."""

    def __init__(self) -> None:
        self._operations: set[Key] = set()
        self._aliases: set[Key] = set()
        self._contents: set[int] = set()
        self._interfaces: set[int] = set()

    def check(self, operation: Operation) -> None:
        """Raise `Rejected` if the operation was kept from another version or package.

        Aliases are for other packages only: services of one package may share one.
        """
        if operation.key in self._operations or (not operation.aliases and operation.key in self._aliases):
            raise Rejected("same_operation")

    def admit(self, operation: Operation, tool: Tool) -> None:
        """Raise `Rejected` if an equal tool was kept, else remember this one."""
        text = words_of(tool.description)
        names = ",".join(sorted(_properties(tool)))
        content = _hash(" ".join(_unversioned_words(tool.operation)), text, names)
        interface = _hash(tool.provider, text, names)
        if interface in self._interfaces:
            raise Rejected("same_interface")
        if len(text) >= _DISTINCT and content in self._contents:
            raise Rejected("same_content")
        self._contents.add(content)
        self._interfaces.add(interface)
        self._operations.add(operation.key)
        self._aliases.update(operation.aliases)


def _hash(*parts: str) -> int:
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _properties(tool: Tool) -> Iterable[str]:
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, dict) else ()


def _unversioned_words(operation: str) -> list[str]:
    return [word for word in words(operation) if not is_version(word)]


class Classes:
    """Groups tools by what they do."""

    def __init__(self) -> None:
        self._members: dict[int, list[str]] = defaultdict(list)

    def add(self, tool: Tool) -> None:
        for key in _kin_keys(tool):
            self._members[key].append(tool.name)

    def numbered(self) -> dict[str, int]:
        """Return the class number of every tool that has an equivalent; classes are numbered by their first name."""
        leader: dict[str, str] = {}

        def root(name: str) -> str:
            while leader.get(name, name) != name:
                name = leader[name]
            return name

        for members in self._members.values():
            for name in members[1:]:
                first, second = sorted((root(members[0]), root(name)))
                leader[second] = first
        joined = {name for members in self._members.values() if len(members) > 1 for name in members}
        roots = {first: number for number, first in enumerate(sorted({root(name) for name in joined}))}
        return {name: roots[root(name)] for name in sorted(joined)}


def _kin_keys(tool: Tool) -> list[int]:
    """Return up to two keys; tools that share one are interchangeable.

    Versions have the same path and name but for the version. Twins of one API say the same, are named by the same
    verb and answer with the same fields: nothing an agent sees tells them apart.
    """
    required = tool.parameters.get("required")
    needs = ",".join(sorted(str(name) for name in required)) if isinstance(required, list) else ""
    api = " ".join(word for word in _unversioned_words(tool.api) if word not in ("beta", "preview"))
    same = (tool.provider, tool.effect, tool.resource, needs)
    place = f"{tool.method} {_unversioned(tool.path)}"
    operation = " ".join(_unversioned_words(tool.operation))
    keys = [_hash("versions", *same, api, place, operation)]
    fields = tool.returns.get("properties")
    if isinstance(fields, dict) and " " not in tool.operation:
        verb = " ".join(_unversioned_words(COMPONENT.split(tool.operation)[-1]))
        keys.append(_hash("twins", *same, tool.api, words_of(tool.description), verb, ",".join(sorted(fields))))
    return keys


def words_of(text: str) -> str:
    """Return a text's words, lower case, one space between: what two spellings of a description share."""
    return " ".join(words(text))
