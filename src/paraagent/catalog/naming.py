"""Names of tools: readable, unique, `[a-z0-9_]`, at most 64 characters, as function calling asks for.

Place in the flow: layer 1; sources propose a name with `propose`, the build makes it unique with `Names`, in the
order in which tools arrive, so that one catalog always gets the same names.
"""

from __future__ import annotations

import re

from paraagent.catalog.names import words

LONGEST = 64
_SECOND_LEVEL = frozenset({"co", "com", "gov", "org", "net", "ac", "edu", "or", "ne"})
_SHORT = {"amazonaws.com": "aws", "googleapis.com": "google"}


def brand(provider: str) -> str:
    """Return a provider's short name: `api.stripe.com` gives `stripe`, `data.gov.uk` gives `data`."""
    if provider in _SHORT:
        return _SHORT[provider]
    labels = [label for label in provider.lower().split(".") if label]
    if len(labels) > 1:
        labels.pop()
    if len(labels) > 1 and labels[-1] in _SECOND_LEVEL:
        labels.pop()
    while len(labels) > 1 and labels[0] in ("api", "www"):
        labels.pop(0)
    return re.sub(r"[^a-z0-9]+", "_", "_".join(labels)).strip("_")


def slug(text: str) -> str:
    """Return text as lower-case ASCII words joined by underscores."""
    return "_".join(words(text))


def propose(provider: str, api: str, operation: str) -> str:
    """Return `brand_api_operation` without repeated words; not yet unique, perhaps too long."""
    parts: list[str] = []
    own = api.removesuffix(provider).strip(".")
    for text in (brand(provider), slug("" if own == "api" else own), slug(operation)):
        new = text.split("_")
        overlap = next((n for n in range(min(len(new), len(parts)), 0, -1) if parts[-n:] == new[:n]), 0)
        parts += [part for part in new[overlap:] if part]
    kept = [part for place, part in enumerate(parts) if place == 0 or part != parts[place - 1]]
    return re.sub(r"[^a-z0-9_]", "", "_".join(kept)) or "tool"


def shorten(name: str, longest: int) -> str:
    """Cut a name to `longest` characters by leaving out words from its middle: its ends say most."""
    parts = name.split("_")
    while len("_".join(parts)) > longest and len(parts) > 3:
        del parts[2]
    return "_".join(parts)[:longest].strip("_")


class Names:
    """Hands out names that nobody else has."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, proposed: str, digest: str) -> str:
        """Return the proposed name; cut if it is too long, with some of the content digest if it is taken."""
        for size in (0, 4, 6, 8, 12, 20, 32):
            name = f"{shorten(proposed, LONGEST - 1 - size)}_{digest[:size]}" if size else shorten(proposed, LONGEST)
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise ValueError(f"two tools have the same content digest {digest}")
