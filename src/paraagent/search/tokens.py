"""Text to index terms, in any script.

Place in the flow: layer 2, the first step of both indexing and searching, so that both see the same terms. Latin text
is freed of accents, split at case changes, underscores and digits, and stemmed as English; Cyrillic is stemmed as
Russian; scripts without spaces between words become overlapping pairs of characters.
Limits: no other language is stemmed, and names in two scripts are not matched with each other.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import Stemmer

STOP_WORDS = frozenset(
    "a about additionally all also am an and any are as at be been being but by can could did do does for from "
    "furthermore had has have he her him his how i if in into is it its just let like may me moreover my need no "
    "not of on or our out please s shall she should so some such t than that the their them then there these they "
    "this those to via want was we were what when where which while who will wish with would you your".split()
)
MAX_CHARACTERS = 4000
"""Longer text is cut: what comes after is data, not a description."""
STEMMER = Stemmer.version()
"""Version of the stemming rules."""
COMPOUND = 16
"""Longest word that counts as one name written in two parts, as `PayPal`."""

_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(
    r"(?:[A-Z]?[a-z]{1,2}|[A-Z]{1,3}|[iI][pP]v)\d{1,3}(?![A-Za-z0-9])"  # s3, mp3, ipv4 are one name
    r"|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
)
_COMPOUND = re.compile(r"[A-Za-z]+[A-Z][A-Za-z]*")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_RUN = re.compile(rf"[{_UNSPACED}]+|\d+|[^\s\d{_UNSPACED}]+")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_HYPHENATED = re.compile(r"\b([eE])-(?=[a-z])")


def tokens(text: str) -> list[str]:
    """Return the terms of a text in order, stop words and single digits left out."""
    return [stem(part) for part in parts(text) if telling(part)]


def compounds(text: str) -> list[str]:
    """Return, in lower case, the names in a text that are one word of two parts, as `paypal` for `PayPal`."""
    return [
        word.lower()
        for word in _WORD.findall(text[:MAX_CHARACTERS])
        if len(word) <= COMPOUND and _COMPOUND.fullmatch(word) and len(_PART.findall(word)) == 2
    ]


def telling(word: str) -> bool:
    """Tell whether a lower-case word says anything about what a tool does."""
    return word not in STOP_WORDS and (len(word) > 1 or not word.isdigit())


def parts(text: str) -> list[str]:
    """Return the words of a text in lower case, compound names taken apart, unspaced scripts as character pairs."""
    text = text[:MAX_CHARACTERS]
    if "-" in text:
        text = _HYPHENATED.sub(r"\1", text)
    found: list[str] = []
    for word in _WORD.findall(text) if text.isascii() else _fold(text).split():
        if word.isascii():
            found += [word] if word.isalpha() and word.islower() else map(str.lower, _PART.findall(word))
        else:
            for run in _RUN.findall(word.casefold()):
                found += _pairs(run) if re.match(f"[{_UNSPACED}]", run) else [run]
    return found


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of one lower-case word."""
    stemmed: str = _stemmer("russian" if _CYRILLIC.match(word) else "english").stemWord(word)
    return stemmed


@lru_cache(maxsize=2)
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


def _fold(text: str) -> str:
    """Return compatible, accent-free characters with one space for everything that is part of no word."""
    kept = (
        char if char.isalnum() or unicodedata.category(char)[0] == "M" else " "
        for char in unicodedata.normalize("NFKD", text)
        if not unicodedata.combining(char)
    )
    return unicodedata.normalize("NFC", "".join(kept))


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]
