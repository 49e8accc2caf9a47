"""Reads members of wheels and npm tarballs into memory: nothing is unpacked to disk, imported or run.

Place in the flow: layer 1, between `fetch` and the sources. Archives are hostile until their hash is checked, and
read with care after: only regular files, only names asked for, only up to a size; links and devices are skipped.
"""

from __future__ import annotations

import contextlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from paraagent.errors import CatalogError
from paraagent.types import JsonObject

LARGEST = 128 * 2**20
"""Most bytes of one member."""

Wanted = Callable[[str], bool]
Members = Callable[[Path, Wanted], Iterator[tuple[str, bytes]]]


def zip_members(path: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the wanted members of a wheel, sorted by name."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if not info.is_dir() and _safe(info.filename) and wanted(info.filename):
                with archive.open(info) as member:
                    yield info.filename, _limited(path, info.filename, member.read(LARGEST + 1))


def tar_members(path: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the wanted members of a gzipped tarball, sorted by name.

    A tarball is a stream in an order of its own, so its members are kept in memory until the end, lightly packed.
    """
    packed: dict[str, bytes] = {}
    with _readable(path), tarfile.open(path, "r|gz") as archive:
        for info in archive:
            if info.isreg() and _safe(info.name) and wanted(info.name):
                member = archive.extractfile(info)
                if member is not None:
                    packed[info.name] = zlib.compress(_limited(path, info.name, member.read(LARGEST + 1)), 1)
    for name in sorted(packed):
        yield name, zlib.decompress(packed.pop(name))


def gunzip(data: bytes, name: str) -> bytes:
    """Return the content of one gzipped member."""
    try:
        unpacked = zlib.decompressobj(wbits=31).decompress(data, LARGEST + 1)
    except zlib.error as error:
        raise CatalogError(
            f"{name} in a source archive is damaged ({error}); delete the archive and build again"
        ) from None
    return _limited(Path(name), name, unpacked)


def parsed(name: str, data: bytes) -> JsonObject:
    """Return a member's JSON object."""
    try:
        value = orjson.loads(data)
    except ValueError as error:
        raise CatalogError(
            f"{name} in a source archive is no JSON ({error}); delete the archive and build again"
        ) from None
    if not isinstance(value, dict):
        raise CatalogError(f"{name} in a source archive is no JSON object; delete the archive and build again")
    return value


def _safe(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


def _limited(path: Path, name: str, data: bytes) -> bytes:
    if len(data) > LARGEST:
        raise CatalogError(f"{name} in {path.name} is larger than {LARGEST >> 20} MiB: not a source archive")
    return data


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, NotImplementedError) as error:
        raise CatalogError(f"cannot read {path} ({error}); delete it and build again") from None
