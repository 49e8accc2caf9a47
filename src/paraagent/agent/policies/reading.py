"""Reads a request without a model: which parts it has, in which steps each is done, and what it wants to know.

Place in the flow: layer 3, used by the `rules` policy. A *part* is what is asked of one service; its *steps* depend
on each other; its *facts* are what the answer must state. Limits: English, imperative requests; no coreference beyond
"that", "the new", "the first", no negation except sentences that say to leave something alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_QUOTED = r'"[^"]*"'
_SENTENCE_END = re.compile(rf"({_QUOTED})|(?<=[.?!])\s+(?=[A-Z\"])")
_SERVICE = re.compile(
    r"(?:^|(?<=\s))(?:(?i:on|in|using|from|via|through|at|use)\s+|(?i:with)\s+(?=[A-Z][a-z]))"
    r"((?:[A-Z][\w.&'+-]*|[a-z]+[A-Z]\w*|(?:\w+\.)+(?:com|io|org|net|co|uk|de|eu|ai|gov|app|dev)\b[\w.]*)"
    r"(?:\s+(?:(?:of|for|and|the)\s+)?[A-Z0-9][\w.&'+-]*)*)"
)
_AT_START = re.compile(
    r"(?i:on|in|with|using)\s+([^\s,]+(?:\s[^\s,]+){0,5}?)(?=,\s)|"
    r"(?i:with)\s+([A-Z][\w.&'+-]*(?:\s+(?:(?:of|for|and|the)\s+)?[A-Z0-9][\w.&'+-]*)*)"
)
_AT_END = re.compile(r"\s(?:on|in|using|with)\s+([a-z][a-z]{3,})[.?!]?$")
_ASK = re.compile(
    r"(?:,?\s*\b(?:and|then|also|please)\b\s*)*,?\s*\b(?:tell me|give me|let me know|report(?: back)?|"
    r"i(?:'d like| need| want) to know|(?:what|all) i (?:need|want)(?: from it)? is|find out)\s+"
    r"((?:the|its|their|what|which|whether|how|if)\b.+)$",
    re.IGNORECASE | re.DOTALL,
)
_WHAT_IS = re.compile(r"^\W*what(?:'s| is| are| was)\s+(?:its|their|the)\s+(.+)$", re.IGNORECASE)
_CHAIN = re.compile(r"(?:[;,]|\band\b)?\s*\b(?:and then|then|after that|afterwards|next)\b,?\s+", re.IGNORECASE)
_GOES_ON = re.compile(r"^(?:and )?(?:then|after that|afterwards|next|finally)\b", re.IGNORECASE)
_LEAD = re.compile(
    r"^(?:(?:also|next|then|and|separately|besides|please|first|in addition|could you|can you|would you|kindly|"
    r"i'd like you to|i want you to|i need you to|there is one more thing|it)\b[,:]?\s*)+",
    re.IGNORECASE,
)
_LEAVE_ALONE = re.compile(r"\b(?:leave|do not|don't|ignore|no need|without touching|never mind|already)\b", re.I)
_OPENER = re.compile(r"\b(?:things?|jobs?|tasks?|errands?|favou?rs?)\b", re.IGNORECASE)
_LISTED = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+")
_ARTICLE = re.compile(r"^(?:the|its|their|an?)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """What is asked of one service."""

    text: str
    service: str
    """As the request calls it; empty if none is named."""
    steps: tuple[str, ...]
    """What to do, in order, one clause each, without the asking for facts."""
    facts: tuple[str, ...]
    """What to state, without articles."""


@lru_cache(maxsize=4096)
def read_request(request: str) -> tuple[Part, ...]:
    """Return the parts of a request in order; never empty for a request that says something."""
    groups: list[list[str]] = []
    for sentence in _sentences(request):
        if not groups or not _continues(sentence):
            if _is_noise(sentence):
                continue
            groups.append([sentence])
        elif not _is_noise(sentence):
            groups[-1].append(sentence)
    return tuple(_part(group) for group in groups)


def service_in(text: str) -> str:
    """Return the service that a sentence names, or nothing.

    That is a capitalised name after on, in, with, using...: at the sentence's start, or else the last one.
    """
    body = _unquoted(text)
    lead = _LEAD.match(body)
    start = lead.end() if lead else 0
    if at_start := _AT_START.match(body, start):
        return (at_start[1] or at_start[2]).strip(" .,'")
    found = [match for match in _SERVICE.finditer(body) if not re.fullmatch(r"[A-Z]?\d[\w-]*", match[1])]
    if not found:
        last = _AT_END.search(body)
        return last[1] if last else ""
    chosen = found[0] if found[0].start() <= start + 1 else found[-1]
    return chosen[1].strip(" .,'")


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match[1] is None:
            yield text[start : match.start()].strip()
            start = match.end()
    yield text[start:].strip()


def _continues(sentence: str) -> bool:
    """Tell whether a sentence goes on with the part before it: it names no service, and follows up or asks."""
    follows = _GOES_ON.match(sentence) or _ASK.match(sentence) or _WHAT_IS.match(sentence)
    return not service_in(sentence) and follows is not None


def _is_noise(sentence: str) -> bool:
    """Tell whether a sentence asks for nothing: an opener, or something to leave alone."""
    if not sentence:
        return True
    if service_in(sentence):
        return False
    opener = len(sentence) < 60 and _OPENER.search(sentence) is not None and re.search(r"\d", sentence) is None
    return opener or (_LEAVE_ALONE.search(sentence) is not None and not _GOES_ON.match(sentence))


def _part(sentences: list[str]) -> Part:
    steps: list[str] = []
    facts: list[str] = []
    service = service_in(sentences[0])
    for sentence in sentences:
        body, asked = _split_facts(sentence)
        facts += asked
        for clause in _CHAIN.split(_GOES_ON.sub("", body)):
            cleaned = _clean(clause, service)
            if cleaned:
                steps.append(cleaned)
    return Part(" ".join(sentences), service, tuple(steps), tuple(dict.fromkeys(facts)))


def _split_facts(sentence: str) -> tuple[str, list[str]]:
    """Return what is to be done and what is to be told."""
    bare = sentence.rstrip(" .?!")
    if match := _WHAT_IS.match(bare):
        return "", _facts(match[1])
    match = _ASK.search(_masked(bare))
    if match is None:
        return bare, []
    return bare[: match.start()].rstrip(" ,;"), _facts(bare[match.start(1) :])


def _facts(text: str) -> list[str]:
    return [_ARTICLE.sub("", fact.strip(" .?!")) for fact in _LISTED.split(text) if fact.strip(" .?!")]


def _clean(clause: str, service: str) -> str:
    """Return a clause without politeness, connectives and the service's name."""
    text = clause.strip(" .?!;,:")
    if service:
        named = re.compile(rf"\s*\b(?:on|in|with|using|from|via|through|at|use)\s+{re.escape(service)}\b,?", re.I)
        text = named.sub(" ", text, count=1).strip(" ,;:")
    text = _LEAD.sub("", text).strip(" ,;:")
    return re.sub(r"\s+", " ", re.sub(r"^to\s+", "", text))


def _masked(text: str) -> str:
    """Return the text with quoted parts blanked at equal length, so that positions hold."""
    return re.sub(_QUOTED, lambda match: '"' + "_" * (len(match[0]) - 2) + '"', text)


def _unquoted(text: str) -> str:
    return re.sub(_QUOTED, '""', text)
