"""What an operation does and to which noun: effect and resource from method, path and verb.

Place in the flow: layer 1, used by the sources. Heuristics over English API names; the same path always gives the
same resource, so `POST /orders`, `GET /orders/{id}` and `POST /orders/{id}/cancel` all work on `order`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from paraagent.catalog.names import singular, words
from paraagent.types import EffectKind, JsonValue


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READ = _set(
    "get list describe search query find lookup fetch read retrieve scan select show browse filter head view "
    "autocomplete suggest estimate calculate preview discover count detect predict"
)
_CREATE = _set("create insert new register allocate import copy clone provision upload add issue")
_UPDATE = _set("update modify set patch put edit change replace rename upsert save")
_DELETE = _set("delete remove destroy deregister unregister terminate release purge erase")
_OTHER = _set(
    "cancel start stop run execute send enable disable activate deactivate approve reject confirm verify validate "
    "check test login logout refresh reset restart resume pause publish unpublish archive unarchive restore attach "
    "detach associate disassociate accept decline move merge sync trigger submit complete close open reopen lock "
    "unlock assign unassign follow unfollow subscribe unsubscribe invite export generate transfer capture refund "
    "void rotate revoke grant deploy rollback retry promote invoke process apply"
    " assume connect disconnect reboot initiate respond resolve renew return resend rerun link unlink bind unbind"
)
_EFFECTS: tuple[tuple[frozenset[str], EffectKind], ...] = (
    (_READ, "read"),
    (_CREATE, "create"),
    (_UPDATE, "update"),
    (_DELETE, "delete"),
)
_NOUNS_TOO = _set(
    "issue view head count filter scan copy set change release save show select import check test run process export "
    "transfer lock void sync order refund capture"
)
"""Verbs that say nothing at the end of a name, where they are more often nouns."""
_STRONG = frozenset({"create", "update", "delete", "get", "list", "insert", "remove", "search"})
_VERBS = _READ | _CREATE | _UPDATE | _DELETE | _OTHER
_DOTTED = _VERBS | {"post", "info", "me"}
COMPONENT = re.compile(r"[./]|_(?=[A-Z])")
"""What separates a name's parts: `users.list`, `repos/create`, `Jobs_Cancel`."""
_SKIP = frozenset({"batch", "bulk", "admin", "async", "api"})
_JOINTS = frozenset({"by", "for", "from", "to", "in", "with", "of", "on", "and", "or", "as", "into", "at", "using"})
_VERSION = re.compile(r"^v?\d+(\.\d+)*((alpha|beta|preview)\d*)?$|^\d{4}-\d{2}(-\d{2})?$")
_BOUND = "microsoft.graph."
"""Before the functions and actions that OData binds to a thing."""
_PREFIXES = frozenset({"api", "rest", "public", "beta", "services", "rpc", "json", "xml"})


def is_version(segment: str) -> bool:
    """Tell whether a path segment is only a version, as `v2`, `1.0`, `v1beta1` or `2020-03-01`."""
    return bool(_VERSION.match(segment.lower()))


@lru_cache(maxsize=4096)
def verb_effect(operation: str) -> EffectKind | None:
    """Return the effect that an operation's name states (`DescribeInstances`, `customers.create`), or None."""
    parts = [part for part in words(operation) if part not in _SKIP]
    own = [part for part in words(COMPONENT.split(operation)[-1]) if part not in _SKIP]
    strong = [part for part in parts[1:-1] if part in _STRONG]
    last = [part for part in parts[-1:] if part not in _NOUNS_TOO]
    for candidate in (*own[:1], *parts[:1], *last, *strong):
        if candidate in _OTHER:
            return "action"
        for verbs, effect in _EFFECTS:
            if candidate in verbs:
                return effect
    return None


def noun_of(operation: str) -> str:
    """Return the noun of a verb-first operation name: `BatchGetItemsByOwner` gives `item`; "" if there is none."""
    parts = [part for part in words(operation) if not _VERSION.match(part)]
    if parts[-1:] == ["resource"] and parts[0] in ("tag", "untag"):
        return "tag"
    while parts and (parts[0] in _SKIP or parts[0] in _VERBS):
        parts.pop(0)
    for place, part in enumerate(parts):
        if part in _JOINTS and place:
            parts = parts[:place]
            break
    return _noun(tuple(parts))


def _noun(parts: tuple[str, ...]) -> str:
    return "_".join((*parts[:-1], singular(parts[-1]))) if parts else ""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the other paths of an API say about one of its paths."""

    collections: frozenset[str] = frozenset()
    """Paths that hold members: they exist with a further `/{parameter}`."""
    readable: frozenset[str] = frozenset()
    """Paths that can be read, so what they end on is a thing and no verb."""

    @classmethod
    def of(cls, paths: Mapping[str, JsonValue]) -> Layout:
        """Read it from an OpenAPI document's `paths`."""
        parents = [_parent(path) for path in paths if _is_parameter(path.rstrip("/").rsplit("/", 1)[-1])]
        readable = [_blank(path) for path, item in paths.items() if isinstance(item, dict) and "get" in item]
        return cls(frozenset(parents), frozenset(readable))


def _parent(path: str) -> str:
    return _blank(path.rstrip("/").rsplit("/", 1)[0])


def _blank(path: str) -> str:
    return re.sub(r"\{[^{}]*\}", "{}", path.rstrip("/"))


def _is_parameter(segment: str) -> bool:
    return segment.startswith(("{", ":", "@{", "${")) and "(" not in segment


class Place:
    """Where an operation's path ends: on a parameter, on a collection, or on a verb; and the noun it is about."""

    def __init__(self, method: str, path: str, layout: Layout) -> None:
        path = path.split("?")[0].split("#")[0].rstrip("/")
        segments = [segment for segment in path.split("/") if segment]
        blank = _blank(path)
        self.collection = blank in layout.collections
        self.member = bool(segments) and _is_parameter(segments[-1])
        self.verb = ""
        self.resource = ""
        self._thing = self.collection or (blank in layout.readable and method != "GET")
        self._post = method == "POST"
        self._read(segments)

    def _read(self, segments: list[str]) -> None:
        """Walk back from the end: the first static segment that is no verb is the noun, verbs after it are kept."""
        for place in range(len(segments) - 1, -1, -1):
            segment = segments[place]
            if _is_parameter(segment):
                _, colon, custom = segment.partition("}:")
                self.verb = self.verb or (custom if colon else "")
                continue
            parts = self._parts(segment)
            if not parts or is_version("".join(parts)) or parts[0] in _PREFIXES:
                continue
            before = segments[place - 1] if place else ""
            if segment.startswith(_BOUND):
                self.verb = self.verb or segment
                continue
            if place == len(segments) - 1 and self._is_verb(parts, before):
                self.verb = self.verb or "_".join(parts)
                rest = parts[1:] if parts[0] in _VERBS else ()
                if rest and rest[0] not in _JOINTS and not _is_parameter(before):
                    self.resource = _noun(rest)
                    return
                continue
            self.resource = _noun(parts)
            return

    def _parts(self, segment: str) -> tuple[str, ...]:
        """Return a static segment's words, without file types and with a verb after a dot or colon set aside."""
        segment = segment.split("(")[0].split(";")[0]
        head, colon, custom = segment.partition(":")
        if colon and custom:
            self.verb = self.verb or custom
        head = re.sub(r"\.(json|xml|php|do|aspx?|html?)$", "", head)
        stem, dot, tail = head.rpartition(".")
        if dot and words(tail) and words(tail)[0] in _DOTTED:
            self.verb, head = self.verb or tail, stem
        return words(re.sub(r"\{[^{}]*\}", "", head))

    def _is_verb(self, parts: tuple[str, ...], before: str) -> bool:
        """Tell whether the last segment is what is done: a known verb, or under POST a singular after a thing."""
        if self._thing:
            return False
        single = singular(parts[-1]) == parts[-1]
        if parts[0] in _VERBS and (single or len(parts) > 1):
            return True
        after = words(before)
        follows = _is_parameter(before) or (bool(after) and singular(after[-1]) != after[-1])
        return self._post and single and len(parts) == 1 and follows


def effect_of(method: str, path: str, operation: str, layout: Layout = Layout()) -> EffectKind:
    """Return what an HTTP operation does to the world.

    `layout` is that of the API: a POST to a collection creates, unless the operation's name says otherwise.
    """
    stated = verb_effect(operation) if operation else None
    method = method.upper()
    if method in ("GET", "HEAD", "OPTIONS"):
        first = words(operation)[:1]
        return stated if stated in ("create", "update", "delete") and first and first[0] in _STRONG else "read"
    if method == "DELETE":
        return "delete"
    if method in ("PUT", "PATCH"):
        return stated if stated in ("create", "delete") else "update"
    place = Place(method, path, layout)
    if place.verb:
        return verb_effect(place.verb) or stated or "action"
    return stated or _post(path, place)


def _post(path: str, place: Place) -> EffectKind:
    """Judge a POST whose name has no verb by where it goes: to a member, to a collection, or to neither."""
    if place.member:
        return "update"
    last = words(path.rstrip("/").rsplit("/", 1)[-1])
    return "create" if place.collection or (last and singular(last[-1]) != last[-1]) else "action"


def resource_of(method: str, path: str, operation: str, layout: Layout = Layout()) -> str:
    """Return the singular noun an HTTP operation works on, from its path, else from its name; "" if neither says."""
    return Place(method.upper(), path, layout).resource[:64] or noun_of(operation)[:64]


def resource_of_id(identifier: str) -> str:
    """Return the noun that stands before the verb in an identifier like Google's `calendar.events.get`: `event`."""
    parts = identifier.split(".")
    return noun_of(parts[-2] if len(parts) > 2 else parts[-1])[:64]
