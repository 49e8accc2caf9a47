"""The catalog as one SQLite file: written once, then only read.

Place in the flow: layer 1; `build` writes it, everything else opens it. One row a tool, its record as compressed
JSON; counts, digest and provenance in a small table. The file is never changed in place: a new build replaces it
whole, and a catalog that is open keeps reading the old file.

Limits: needs a local file system; one open catalog may be shared by threads.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import sqlite3
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import orjson

from paraagent.catalog.info import CatalogInfo, Tally
from paraagent.catalog.names import singular
from paraagent.catalog.spec import asdict_shallow, tool_digest
from paraagent.errors import CatalogError
from paraagent.types import JsonObject, Tool

FORMAT = 1
"""Version of the file's layout."""
_LAYOUT = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE tool (id INTEGER PRIMARY KEY, name TEXT NOT NULL, provider TEXT NOT NULL, api TEXT NOT NULL,
                   kin INTEGER, record BLOB NOT NULL);
"""
_INDEXES = (
    "CREATE UNIQUE INDEX tool_name ON tool (name)",
    "CREATE INDEX tool_api ON tool (provider, api, name)",
    "CREATE INDEX tool_kin ON tool (kin) WHERE kin IS NOT NULL",
)
UNFINISHED = ".unfinished"
_BUILD = "build it with `paraagent catalog build`"


def default_path() -> Path:
    """Return where the catalog lies unless told otherwise: the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "paraagent" / "catalog.sqlite"


class Catalog:
    """A set of tools, read from one file; tools come in the order of their names."""

    def __init__(self, path: Path, connection: sqlite3.Connection, meta: JsonObject) -> None:
        self.path = path
        self._db = connection
        self._meta = meta
        self.digest = str(meta["digest"])
        self._bytes = path.stat().st_size

    @classmethod
    def open(cls, path: Path | None = None) -> Catalog:
        """Open a catalog for reading.

        Raises:
            CatalogError: there is none, or it is no catalog of this version, or it is cut short.
        """
        path = default_path() if path is None else path
        if not path.is_file():
            raise CatalogError(f"no catalog at {path}: {_BUILD}")
        try:
            db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
            meta = {key: orjson.loads(value) for key, value in db.execute("SELECT key, value FROM meta")}
            pages, size = db.execute("PRAGMA page_count").fetchone()[0], db.execute("PRAGMA page_size").fetchone()[0]
        except (sqlite3.Error, ValueError) as error:
            raise CatalogError(f"{path} is not a readable catalog ({error}): {_BUILD} --force") from None
        if meta.get("format") != FORMAT:
            raise CatalogError(f"{path} has another version's layout: {_BUILD}")
        if path.stat().st_size < pages * size:
            raise CatalogError(f"{path} is cut short: {_BUILD} --force")
        return cls(path, db, meta)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.info().tools

    def __iter__(self) -> Iterator[Tool]:
        return (_tool(name, record) for name, record in self._rows("SELECT name, record FROM tool ORDER BY name"))

    def __contains__(self, name: object) -> bool:
        return any(self._rows("SELECT 1, 1 FROM tool WHERE name = ?", name))

    def get(self, name: str) -> Tool | None:
        """Return the tool of this exact name, or None."""
        for found, record in self._rows("SELECT name, record FROM tool WHERE name = ?", name):
            return _tool(found, record)
        return None

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return [name for name, _ in self._rows("SELECT name, 0 FROM tool ORDER BY name")]

    def apis(self) -> list[tuple[str, str]]:
        """Return every (provider, api), sorted."""
        return list(self._rows("SELECT DISTINCT provider, api FROM tool ORDER BY provider, api"))

    def by_api(self, provider: str, api: str) -> list[Tool]:
        """Return the tools of one API in the order of their names."""
        query = "SELECT name, record FROM tool WHERE provider = ? AND api = ? ORDER BY name"
        return [_tool(name, record) for name, record in self._rows(query, provider, api)]

    def providers(self) -> dict[str, int]:
        """Return how many tools each provider has, in the order of provider names."""
        return dict(self._rows("SELECT provider, count(*) FROM tool GROUP BY provider ORDER BY provider"))

    def equivalents(self, name: str) -> tuple[str, ...]:
        """Return the tools that do the same as this one, itself included, sorted; () for an unknown name."""
        for _, kin in self._rows("SELECT name, kin FROM tool WHERE name = ?", name):
            if kin is None:
                return (name,)
            return tuple(
                found for found, _ in self._rows("SELECT name, 0 FROM tool WHERE kin = ? ORDER BY name", kin)
            )
        return ()

    def families(self) -> list[tuple[str, ...]]:
        """Return every set of tools that do the same, each sorted, in the order of their first names."""
        found: dict[int, list[str]] = defaultdict(list)
        for name, kin in self._rows("SELECT name, kin FROM tool WHERE kin IS NOT NULL ORDER BY name"):
            found[kin].append(name)
        return [tuple(names) for names in found.values()]

    def suggestions(self, name: str) -> list[str]:
        """Return up to three existing names that share the most telling words with an unknown one, best first."""
        name = name.lower()[:200]
        weights: Counter[int] = Counter()
        for word in list(dict.fromkeys(map(singular, name.split("_"))))[:16]:
            places = self._by_word.get(word, [])
            for place in places:
                weights[place] += 1_000_000 // (100 + len(places))
        best = sorted(weights, key=lambda place: (-weights[place], place))[:50]

        def closeness(place: int) -> tuple[int, float, int]:
            return -weights[place], -difflib.SequenceMatcher(None, name, self._names[place]).ratio(), place

        return [self._names[place] for place in sorted(best, key=closeness)[:3]]

    def info(self) -> CatalogInfo:
        """Return what the catalog holds and what was left out."""
        return msgspec.convert({**self._meta, "path": str(self.path), "bytes": self._bytes}, CatalogInfo)

    @cached_property
    def _names(self) -> list[str]:
        return self.names()

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(self._names):
            for part in set(map(singular, name.split("_"))):
                found[part].append(place)
        return found

    def _rows(self, query: str, *values: object) -> Iterator[Any]:
        try:
            yield from self._db.execute(query, values)
        except sqlite3.Error as error:
            raise CatalogError(f"{self.path} cannot be read ({error}): {_BUILD} --force") from None


def _tool(name: str, record: bytes) -> Tool:
    try:
        return Tool(name=name, **orjson.loads(zlib.decompress(record)))
    except (zlib.error, ValueError, TypeError) as error:
        raise CatalogError(f"the catalog's record of {name} is damaged ({error}): {_BUILD} --force") from None


class Writer:
    """Writes a new catalog beside the old one and puts it in its place at the end; nothing changes before `finish`.

    Use it in a `with` block, which removes the unfinished file after any failure.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tally = Tally()
        self._digests: dict[str, str] = {}
        with _disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=UNFINISHED, dir=path.parent)
            os.close(handle)
            self._unfinished = Path(name)
            self._db = sqlite3.connect(name, isolation_level=None)
            self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _LAYOUT + "BEGIN;")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._unfinished.unlink(missing_ok=True)

    def add(self, tool: Tool, digest: str | None = None) -> None:
        """Write one tool, whose `tool_digest` may be known already; names must differ."""
        if tool.name in self._digests:
            raise CatalogError(f"two tools are named {tool.name}")
        fields = asdict_shallow(tool)
        del fields["name"]
        row = (tool.name, tool.provider, tool.api, zlib.compress(orjson.dumps(fields), 6))
        with _disk(self.path):
            self._db.execute("INSERT INTO tool (name, provider, api, record) VALUES (?, ?, ?, ?)", row)
        self._tally.add(tool)
        self._digests[tool.name] = digest or tool_digest(tool)

    def finish(self, kin: Mapping[str, int], inputs: str, dropped: Mapping[str, Mapping[str, int]]) -> None:
        """Complete the file and replace the old catalog by it.

        `kin` maps names to the number of their equivalence class; a tool without equivalent has none.
        """
        lines = [f"{name} {digest} {kin.get(name, '')}\n" for name, digest in sorted(self._digests.items())]
        digest = hashlib.sha256("".join(lines).encode()).hexdigest()
        meta = {
            **self._tally.fields(dropped),
            "format": FORMAT,
            "digest": digest,
            "inputs": inputs,
            "equivalent": len(kin),
        }
        with _disk(self.path):
            for statement in _INDEXES:
                self._db.execute(statement)
            self._db.executemany(
                "UPDATE tool SET kin = ? WHERE name = ?", ((number, name) for name, number in kin.items())
            )
            rows = ((key, orjson.dumps(value)) for key, value in meta.items())
            self._db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            self._db.execute("COMMIT")
            self._db.close()
            _sync(self._unfinished)
            os.replace(self._unfinished, self.path)
            _sync(self.path.parent)


def write_catalog(path: Path, tools: Iterable[Tool], kin: Mapping[str, int] | None = None) -> None:
    """Write these tools as the catalog at `path`, replacing what is there only once all is written."""
    with Writer(path) as writer:
        for tool in tools:
            writer.add(tool)
        writer.finish(kin or {}, "", {})


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Turn what a full or read-only disk does into one clear error."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"cannot write the catalog at {path}: {reason}; free some space there or choose another path"
        raise CatalogError(message) from None


def _sync(path: Path) -> None:
    """Make sure that a file's content, or a directory's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
