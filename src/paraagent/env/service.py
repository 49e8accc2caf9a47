"""What a person calls a service: `Stripe` and not `stripe.com`, `Amazon EC2` and not `ec2`.

Place in the flow: layer 3, used by `phrasing` and for search queries. Made from the API's title and the provider's
domain. Limits: capitals follow the title where it holds the brand, else only the first letter is one.
"""

from __future__ import annotations

import re
from functools import lru_cache

from paraagent.catalog.naming import brand
from paraagent.types import Tool

_NOISE = re.compile(
    r"\b(?:(?:open|web|rest|restful|http|public|json|client|developer|partner|core)?[ -]?apis?|rest(?:ful)?|openapi|"
    r"swagger|documentation|docs|reference|specification|spec|interfaces?|definitions?|v?\d+(?:\.\d+)+|v\d+\w*|oas\d?|"
    r"version|beta|alpha|preview|endpoints?|microservice|graphql|sdk|server|the|official|unofficial|for|of|and|&)\b",
    re.IGNORECASE,
)
_HOUSES = {"googleapis.com": "Google", "amazonaws.com": "AWS", "azure.com": "Azure", "microsoft.com": "Microsoft"}
MAX_WORDS = 4


def service_name(tool: Tool) -> str:
    """Return what a person calls the service that a tool belongs to."""
    return _service_name(tool.provider, tool.api_title)


@lru_cache(maxsize=8192)
def _service_name(provider: str, title: str) -> str:
    house = _HOUSES.get(provider) or _brand(provider, title)
    product = _product(title)
    if not product:
        return house
    flat = re.sub(r"[^a-z0-9]", "", house.lower())
    plain = re.sub(r"[^a-z0-9]", "", product.lower())
    shared = any(len(word) > 3 and word.lower() in flat for word in re.findall(r"\w+", product))
    return product if flat in plain or shared or plain.startswith("amazon") else f"{house} {product}"


def _product(title: str) -> str:
    """Return the title without what only says that it is an API, or nothing if it is too long to be a name."""
    title = re.sub(r"\([^)]*\)|\[[^\]]*\]|https?:\S+", " ", title)
    title = re.split(r"\s[-–—|]\s|[:,;/]", re.sub(r"^(\w+) [-–—] (\w+)$", r"\1 \2", title))[0]
    parts = re.sub(r"[^\w .&'+-]", " ", title).split()
    kept = _NOISE.sub(" ", " ".join(parts)).split()
    if not kept or not re.search(r"[A-Za-z]{2}", " ".join(kept)):
        return ""
    spoken = " ".join(parts) if len(kept) > 1 and re.search(r"\b(?:of|for|and|the)\b", title) else " ".join(kept)
    spoken = re.sub(r"(?i)\s*\b(?:rest(?:ful)?\s+)?apis?\b.*$", "", spoken).strip(" -.").removesuffix(
        "'s"
    ) or " ".join(kept)
    spoken = re.sub(r"\s(?:\d+|\W\w?)$", "", spoken)
    good = spoken.isascii() and len(spoken.split()) <= MAX_WORDS
    return spoken if good else ""


def _brand(provider: str, title: str) -> str:
    """Return the provider's name, spelled as the title spells it if the title has it."""
    name = brand(provider).replace("_", " ")
    flat = name.replace(" ", "")
    for size in (1, 2, 3):
        parts = re.findall(r"[\w.&'+-]+", title)
        for start in range(len(parts) - size + 1):
            spelled = " ".join(parts[start : start + size])
            if re.sub(r"[^a-z0-9]", "", spelled.lower()) == flat:
                return spelled
    return " ".join(part.upper() if len(part) <= 3 else part.capitalize() for part in name.split())
