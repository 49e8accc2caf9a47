"""The index file beside the catalog: built once, rebuilt when it does not fit, safe to build twice at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paraagent.catalog.store import Catalog, write_catalog
from paraagent.errors import CatalogError
from paraagent.search import indexfile
from paraagent.search import search as module
from paraagent.search.fields import Weights
from paraagent.search.search import SearchIndex
from paraagent.types import Search, Tool

TOOLS = [
    Tool(name, text, {"type": "object"}, {}, "read")
    for name, text in (("a_tide", "Get the tide table of a harbour."), ("b_moon", "Get the phase of the moon."))
]
QUERY = [Search("", "tide table of a harbour")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "tools.sqlite"
    write_catalog(path, TOOLS)
    return path


def best(index: SearchIndex) -> str:
    return index.search(QUERY)[0].hits[0].tool.name


def file_of(store: Path) -> Path:
    return store.with_suffix(".search")


def test_the_file_is_written_once_and_gives_the_same_answers(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalog.open(store) as catalog:
        in_memory = SearchIndex.build_in_memory(TOOLS).search(QUERY)
        built = SearchIndex.open(catalog).search(QUERY)
        monkeypatch.setattr(module, "_index", None)
        assert SearchIndex.open(catalog).search(QUERY) == built == in_memory
    assert [path.name for path in store.parent.iterdir() if path.suffix not in (".sqlite", ".search")] == []


def test_a_new_catalog_gets_a_new_index(store: Path) -> None:
    with Catalog.open(store) as catalog:
        assert best(SearchIndex.open(catalog)) == "a_tide"
    write_catalog(store, [Tool("c_tide", TOOLS[0].description, {}, {}, "read")])
    with Catalog.open(store) as catalog:
        assert best(SearchIndex.open(catalog)) == "c_tide"


def test_other_code_or_constants_give_another_index(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalog.open(store) as catalog:
        SearchIndex.open(catalog)
        before = file_of(store).read_bytes()
        monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
        assert best(SearchIndex.open(catalog)) == "a_tide"
        middle = file_of(store).read_bytes()
        monkeypatch.setattr(module, "WEIGHTS", Weights(gist=1.0))
        assert best(SearchIndex.open(catalog)) == "a_tide"
    assert len({before, middle, file_of(store).read_bytes()}) == 3


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "header", "flipped", "short header"])
def test_a_damaged_file_is_rebuilt(store: Path, damage: str) -> None:
    with Catalog.open(store) as catalog:
        SearchIndex.open(catalog)
        good = file_of(store).read_bytes()
        start = 16 + int.from_bytes(good[8:16], "little")
        bad = {
            "empty": b"",
            "cut": good[:-70],
            "garbage": b"\xff" * 300,
            "header": good.replace(b'"arrays"', b'"errors"', 1),
            "flipped": good[:start] + bytes([good[start] ^ 1]) + good[start + 1 :],
            "short header": good[:12],
        }[damage]
        file_of(store).write_bytes(bad)
        assert best(SearchIndex.open(catalog)) == "a_tide"
    assert file_of(store).read_bytes() == good


def test_a_place_that_cannot_be_written_is_named(store: Path) -> None:
    file_of(store).mkdir()
    with Catalog.open(store) as catalog, pytest.raises(CatalogError, match=r"tools\.search"):
        SearchIndex.open(catalog)


def test_two_processes_may_build_at_once(store: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from paraagent.catalog.store import Catalog\n"
        "from paraagent.search.search import SearchIndex; from paraagent.types import Search\n"
        "index = SearchIndex.open(Catalog.open(Path(sys.argv[1])))\n"
        "print(index.search([Search('', 'tide table of a harbour')])[0].hits[0].tool.name)"
    )
    command = [sys.executable, "-c", code, str(store)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == ["a_tide", "a_tide"]
    assert sorted(path.name for path in store.parent.iterdir()) == ["tools.search", "tools.sqlite"]


def test_an_open_index_outlives_its_file(store: Path) -> None:
    with Catalog.open(store) as catalog:
        index = SearchIndex.open(catalog)
        file_of(store).unlink()
        assert best(index) == "a_tide"


def test_arrays_keep_type_and_shape_and_cannot_be_written(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.int64).reshape(2, 3),
        "b": np.zeros(0, np.float32),
        "c": np.ones(1, np.uint8),
    }
    indexfile.save(tmp_path / "x", {"k": "1"}, arrays)
    loaded = indexfile.load(tmp_path / "x", {"k": "1"})
    assert loaded is not None
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        assert np.array_equal(loaded[name], array)
    with pytest.raises(ValueError, match="read-only"):
        loaded["a"][0, 0] = 1
    assert indexfile.load(tmp_path / "x", {"k": "2"}) is None
    assert indexfile.load(tmp_path / "absent", {"k": "1"}) is None
