"""Reads OpenAPI sources from the `openapi` part of a tools file.

Place in the flow: layer 3, before `toolbox`. Keys of an entry: `document` (a file beside the tools file, or an
address), `baseUrl`, `auth` (values by security scheme), `effects`, `allowPrivate`, `disabled`. `${VARIABLE}` is
replaced in every text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.listed import effect_rules
from paraagent.agent.toolboxes.openapi.toolbox import OpenApiSource
from paraagent.agent.toolboxes.secrets import expand
from paraagent.errors import UsageError
from paraagent.types import JsonObject, JsonValue


def openapi_sources(
    content: JsonObject, path: Path, environ: Mapping[str, str], bounds: Bounds, *, allow_private: bool
) -> list[OpenApiSource]:
    """Return the entries under `toolbox` that are not disabled.

    Raises:
        UsageError: an entry is wrong, or needs a variable that is not set; the message names file and entry.
    """
    entries = content.get("openapi", {})
    if not isinstance(entries, dict):
        raise UsageError(f"{path}: `openapi` must be an object with one entry for each document")
    sources: list[OpenApiSource] = []
    for name, entry in entries.items():
        where = f"{path}: {name}"
        if not isinstance(entry, dict) or not isinstance(entry.get("document"), str):
            raise UsageError(f"{where}: the entry must be an object with `document`, a file or an address")
        if entry.get("disabled") is True:
            continue
        document, secrets = expand(str(entry["document"]), environ, where)
        base, more = expand(str(entry.get("baseUrl", "")), environ, where)
        auth, values = _auth(entry.get("auth", {}), environ, where)
        sources.append(
            OpenApiSource(
                document=document if "://" in document else str(path.parent / document),
                name=name,
                base_url=base,
                auth=auth,
                rules=effect_rules(entry.get("effects", {}), where),
                allow_private=allow_private or entry.get("allowPrivate") is True,
                bounds=bounds,
                secrets=frozenset(secrets | more | values),
            )
        )
    return sources


def _auth(raw: JsonValue, environ: Mapping[str, str], where: str) -> tuple[dict[str, str], set[str]]:
    if not isinstance(raw, dict):
        raise UsageError(f"{where}: `auth` must map security schemes to values")
    auth: dict[str, str] = {}
    secrets: set[str] = set()
    for scheme, value in raw.items():
        auth[scheme], found = expand(str(value), environ, f"{where}: auth {scheme}")
        secrets |= found
    return auth, secrets
