"""The catalog file: what it answers, and what happens when it is missing, damaged or cannot be written."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import jsonschema_rs
import pytest

from paraagent.catalog.spec import tool_digest
from paraagent.catalog.store import Catalog, default_path, write_catalog
from paraagent.errors import CatalogError
from paraagent.types import Tool


def tool(name: str, **fields: str) -> Tool:
    parameters = {"type": "object", "properties": {"id": {"type": "string"}}}
    base = {"description": "Does something useful.", "effect": "read", "provider": "p.example", "api": "main"}
    return Tool(name=name, parameters=parameters, returns={"type": "string"}, **(base | fields))  # type: ignore[arg-type]


def test_the_fixture_holds_good_tools_only(catalog: Catalog) -> None:
    tools = list(catalog)
    assert len(catalog) == len(tools) == 157
    assert [each.name for each in tools] == catalog.names() == sorted(catalog.names())
    for each in tools:
        assert re.fullmatch(r"[a-z0-9_]{1,64}", each.name)
        assert len(each.description) >= 10
        assert each.resource
        jsonschema_rs.Draft202012Validator(each.parameters)
        jsonschema_rs.Draft202012Validator(each.returns)


def test_look_ups(catalog: Catalog) -> None:
    order = catalog.get("pinecart_get_order")
    assert order is not None
    assert (order.effect, order.resource, order.method, order.path) == ("read", "order", "GET", "/orders/{order_id}")
    assert order.parameters["required"] == ["order_id"]
    assert order.returns["properties"]["status"]["enum"][0] == "pending"
    assert catalog.get("pinecart_get_orders") is None
    assert "pinecart_get_order" in catalog
    assert "nothing" not in catalog
    assert ("pinecart.example", "pinecart") in catalog.apis()
    assert order in catalog.by_api("pinecart.example", "pinecart")
    assert sum(catalog.providers().values()) == len(catalog)


def test_an_operation_without_an_answer_is_acknowledged(catalog: Catalog) -> None:
    delete = catalog.get("pinecart_delete_product")
    assert delete is not None
    assert delete.synthetic_returns
    assert delete.returns["required"] == ["status", "product_id"]


def test_credentials_are_no_parameters(catalog: Catalog) -> None:
    current = catalog.get("cloudmeteo_get_current")
    assert current is not None
    assert list(current.parameters["properties"]) == ["lat", "lon", "units"]


def test_suggestions_are_close_names(catalog: Catalog) -> None:
    assert catalog.suggestions("pinecart_orders_get")[0] == "pinecart_get_order"
    assert "pinecart_create_customer" in catalog.suggestions("create_customer")
    assert catalog.suggestions("zzz") == []
    assert len(catalog.suggestions("get" * 5000)) <= 3


def test_info_counts(catalog: Catalog) -> None:
    info = catalog.info()
    assert info.tools == 157
    assert info.providers == 10
    assert info.bytes == catalog.path.stat().st_size
    assert info.digest == catalog.digest
    assert info.synthetic == sum(each.synthetic_returns for each in catalog)
    for counts in (info.by_source, info.by_provider, info.by_category, info.by_effect, info.by_licence):
        assert sum(counts.values()) == 157
    assert next(iter(info.by_provider)) == "pinecart.example"


def test_equivalents(tmp_path: Path) -> None:
    write_catalog(tmp_path / "c.sqlite", [tool("b"), tool("a"), tool("c")], kin={"b": 0, "c": 0})
    with Catalog.open(tmp_path / "c.sqlite") as catalog:
        assert catalog.equivalents("b") == ("b", "c")
        assert catalog.equivalents("a") == ("a",)
        assert catalog.equivalents("x") == ()


def test_threads_may_share_a_catalog(catalog: Catalog) -> None:
    found: list[Tool | None] = []
    threads = [threading.Thread(target=lambda: found.append(catalog.get("deskly_tickets_show"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(each is not None and each.resource == "ticket" for each in found)


def test_a_digest_covers_everything_but_the_name() -> None:
    assert tool_digest(tool("a")) == tool_digest(tool("b"))
    for field in ("description", "effect", "api", "licence"):
        assert tool_digest(tool("a")) != tool_digest(tool("a", **{field: "create"}))


def test_the_order_of_writing_does_not_change_the_digest(tmp_path: Path) -> None:
    tools = [tool(name) for name in "abc"]
    write_catalog(tmp_path / "1.sqlite", tools)
    write_catalog(tmp_path / "2.sqlite", reversed(tools))
    with Catalog.open(tmp_path / "1.sqlite") as one, Catalog.open(tmp_path / "2.sqlite") as two:
        assert one.digest == two.digest
        assert list(one) == list(two)


def test_a_missing_catalog_says_how_to_build_one(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="paraagent catalog build"):
        Catalog.open(tmp_path / "none.sqlite")


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to have a header of one" * 10])
def test_another_file_is_no_catalog(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(content)
    with pytest.raises(CatalogError, match="paraagent catalog build"):
        Catalog.open(path)


def test_a_cut_or_foreign_or_newer_catalog_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    write_catalog(path, [tool(f"t{n}") for n in range(300)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CatalogError, match="--force"):
        Catalog.open(path)
    path.write_bytes(whole)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    db.close()
    with pytest.raises(CatalogError, match="layout"):
        Catalog.open(path)


def test_damage_inside_a_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    write_catalog(path, [tool("a"), tool("b")])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE tool SET record = x'00' WHERE name = 'b'")
    db.close()
    with Catalog.open(path) as catalog:
        assert catalog.get("a") == tool("a")
        with pytest.raises(CatalogError, match="record of b is damaged"):
            catalog.get("b")


def test_a_failed_write_leaves_the_old_catalog(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    write_catalog(path, [tool("a")])
    before = path.read_bytes()
    with pytest.raises(CatalogError, match="two tools are named b"):
        write_catalog(path, [tool("b"), tool("b")])
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["c.sqlite"]


def test_an_open_catalog_survives_its_replacement(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    write_catalog(path, [tool("old")])
    with Catalog.open(path) as old:
        write_catalog(path, [tool("new")])
        assert old.names() == ["old"]
        with Catalog.open(path) as new:
            assert new.names() == ["new"]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from paraagent.catalog.store import write_catalog
from paraagent.errors import CatalogError
from paraagent.types import Tool
import random
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
text = random.Random(0)
tools = (Tool(f"t{n}", text.randbytes(3000).hex(), {"properties": {}}, {}, "read") for n in range(1000))
try:
    write_catalog(Path(sys.argv[1]), tools)
except CatalogError as error:
    print(error)
"""


def test_a_full_disk_is_one_clear_line_and_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    write_catalog(path, [tool("a")])
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True)
    assert re.fullmatch(
        r"cannot write the catalog at .*; free some space there or choose another path\n", done.stdout
    )
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["c.sqlite"]


def test_the_default_path_follows_the_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "paraagent" / "catalog.sqlite"
