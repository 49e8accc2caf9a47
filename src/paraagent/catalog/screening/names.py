"""Letters and names that look like others.

Place in the flow: layer 1, used by `screen`. `plain` folds look-alike letters for reading, `skeleton` folds names
harder, so that names which a person confuses become equal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from paraagent.catalog.screening.mark import Mark, Rule, Severity

_LETTERS = str.maketrans(
    "аɑсԁеһіıјкӏǀмпорԛѕтѵѡхуαβγεηικνορτυχωϲϳոսցզօհᴀᴄᴇɢɪᴋᴏᴘʀꜱᴛᴜᴠᴡᴢᎪᏴᏟᎬᏀᎻᎫᏦᏞᎷᏢᏚᎢᏙᏔᏃ‐‑‒–—―−⁄∕",
    "aacdehiijkllmnopqstvwxyabyeniknoptuxwcjnugqohacegikoprstuvwzabceghjklmpstvwz-------//",
)
_FOREIGN = re.compile(r"[Ͱ-ϿЀ-ԯ԰-֏Ꭰ-᏿ᴀ-ᴥꭰ-ꮿ]")
"""Letters of the scripts from which look-alikes of Latin ones come."""
_WORD = re.compile(r"[^\W\d_]+")
_SHORTEST = 6
"""Shorter names differ in one letter by chance."""


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    return unicodedata.normalize("NFKD", char).casefold().translate(_LETTERS)


def plain(text: str) -> str:
    """Return text in lower case with look-alike letters, ligatures and accents folded into plain ones."""
    if text.isascii():
        return text.lower()
    folded = "".join(map(_plain, text))
    return "".join(char for char in folded if unicodedata.category(char) not in ("Mn", "Me"))


def skeleton(name: str) -> str:
    """Return what is left of a name when everything that is easily confused is made equal."""
    text = re.sub(r"[\s_.\-/]+", "", plain(name))
    return text.replace("rn", "m").replace("vv", "w").translate(str.maketrans("015", "ols")).replace("i", "l")


def mixed_script(text: str, severity: Severity) -> Iterator[Mark]:
    """Mark words that mix Latin letters with others that look like them."""
    if text.isascii() or not _FOREIGN.search(text):
        return
    for match in _WORD.finditer(text):
        word = match[0]
        foreign = [char for char in word if _FOREIGN.match(char)]
        latin = sum(char.isascii() for char in word)
        if foreign and latin >= 2 and all(plain(char).isascii() for char in foreign):
            yield Mark("mixed-script", severity, *match.span(), shown=f"{word} reads as {plain(word)}")


@dataclass(frozen=True, slots=True)
class Twin:
    """A tool whose name is easily taken for another's."""

    rule: Rule
    severity: Severity
    name: str
    other: str


def twins(names: Mapping[str, str], bare: Mapping[str, str]) -> Iterator[Twin]:
    """Yield pairs of tools of different sources with confusable names, each pair once.

    Args:
        names: source of each tool by its full name.
        bare: the name that its source gives it, by full name.
    """
    by_skeleton: dict[str, list[str]] = {}
    for name in sorted(names):
        by_skeleton.setdefault(skeleton(bare[name]), []).append(name)
    for group in by_skeleton.values():
        first = group[0]
        for name in group[1:]:
            if names[name] != names[first]:
                yield _twin(first, name, bare)
    for one, other in _near(by_skeleton):
        first, second = by_skeleton[one][0], by_skeleton[other][0]
        if names[first] != names[second]:
            yield Twin("look-alike", "medium", second, first)


def _twin(first: str, name: str, bare: Mapping[str, str]) -> Twin:
    a, b = bare[first], bare[name]
    if a == b:
        return Twin("same-name", "low", name, first)
    if a.isascii() and b.isascii():
        spelled = re.sub(r"[\s_.\-/]+", "", a).lower() == re.sub(r"[\s_.\-/]+", "", b).lower()
        return Twin("look-alike", "low" if spelled else "high", name, first)
    return Twin("look-alike", "high", *((name, first) if not b.isascii() else (first, name)))


def _near(skeletons: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs that differ in a letter or in the order of two neighbours: both share a deletion of one letter."""
    by_length: dict[int, list[str]] = {}
    for text in skeletons:
        if len(text) >= _SHORTEST:
            by_length.setdefault(len(text), []).append(text)
    for length in sorted(by_length):
        shorter = {text: [text] for text in by_length.get(length - 1, ())}
        seen: dict[str, list[str]] = {}
        for text in by_length[length]:
            found: set[str] = set()
            for cut in {text[:i] + text[i + 1 :] for i in range(length)}:
                found.update(shorter.get(cut, ()))
                found.update(seen.get(cut, ()))
                seen.setdefault(cut, []).append(text)
            yield from ((other, text) for other in sorted(found) if _is_slip(other, text))


def _is_slip(a: str, b: str) -> bool:
    """Tell whether two texts that share a deletion differ by one slip of letters; digits count versions."""
    if len(a) != len(b):
        i = next((i for i, char in enumerate(a) if char != b[i]), len(a))
        return b[i].isalpha() and not (i == len(a) and b[i] == "s")
    places = [i for i in range(len(a)) if a[i] != b[i]]
    if len(places) == 1:
        return a[places[0]].isalpha() and b[places[0]].isalpha()
    swapped = len(places) == 2 and places[1] == places[0] + 1
    return swapped and a[places[0]] == b[places[1]] and a[places[1]] == b[places[0]]
