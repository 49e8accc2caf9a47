"""OpenAPI operations as tools, against a real HTTP server on the loopback interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from http_api import HttpApi, document
from paraagent.agent.limits import Limits
from paraagent.agent.schedule import run_group
from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.openapi.toolbox import OpenApiSource, OpenApiToolbox
from paraagent.clock import WallClock
from paraagent.errors import EnvironmentFault, ToolFailure, UsageError
from paraagent.types import Call, Effects, JsonObject, JsonValue, Result

CANARY = "tok-canary-7f3a91"


@pytest.fixture(scope="module")
def api() -> Iterator[HttpApi]:
    with HttpApi() as server:
        yield server


@pytest.fixture
def spec(api: HttpApi, tmp_path: Path) -> str:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(document(api.url)))
    return str(path)


def shop(spec: str, **more: Any) -> OpenApiToolbox:
    return OpenApiToolbox(OpenApiSource(spec, name="shop", **{"allow_private": True, **more}))


def call(box: OpenApiToolbox, name: str, arguments: JsonObject | None = None) -> JsonValue:
    """Open the toolbox, make one call, close it."""

    async def run() -> JsonValue:
        async with box:
            tool = box.tool(f"shop.{name}")
            assert tool is not None, [tool.name for tool in box.tools]
            return await box.call(tool, arguments or {})

    return asyncio.run(run())


def group(box: OpenApiToolbox, calls: list[tuple[str, JsonObject]], *, attempts: int = 1) -> list[Result]:
    async def run() -> list[Result]:
        async with box:
            wanted = [Call(f"shop.{name}", arguments) for name, arguments in calls]
            return await run_group(
                wanted, box, WallClock(), limits=Limits(timeout=None, attempts=attempts, backoff=0)
            )

    return asyncio.run(run())


def failure(box: OpenApiToolbox, name: str, arguments: JsonObject | None = None) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        call(box, name, arguments)
    return caught.value


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_document_becomes_tools_that_call_its_server(api: HttpApi, tmp_path: Path, version: str) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(document(api.url, version)))
    assert call(shop(str(path)), "get_order", {"order_id": "A1"}) == {"id": "A1", "status": "sent"}
    made = call(shop(str(path)), "create_order", {"status": "new"})
    assert isinstance(made, dict)
    assert call(shop(str(path)), "delete_order", {"order_id": made["id"]}) == {"order_id": made["id"], "status": "ok"}
    assert made["id"] not in api.orders


def test_a_document_may_come_from_an_address_and_name_its_api(api: HttpApi) -> None:
    async def run() -> set[str]:
        async with OpenApiToolbox(OpenApiSource(f"{api.url}/openapi.json", allow_private=True)) as box:
            return {tool.name for tool in box.tools}

    assert {"order_shop.get_order", "order_shop.list_orders"} <= asyncio.run(run())


def test_every_argument_goes_where_the_document_says(api: HttpApi, spec: str) -> None:
    arguments: JsonObject = {
        "order_id": "a/../b?c",
        "tags": ["x", "y"],
        "ids": ["1", "2"],
        "filter": {"a": "z"},
        "flag": True,
        "X-Trace": "t1",
        "note": "in the query",
        "status": "new",
        "body_note": "in the body",
    }
    call(shop(spec), "echo_all", arguments)
    seen = api.requests[-1]
    assert seen.path.startswith("/echo/a%2F..%2Fb%3Fc?")
    expected = [("tags", "x"), ("tags", "y"), ("ids", "1,2"), ("filter[a]", "z"), ("flag", "true")]
    assert sorted(seen.query) == sorted([*expected, ("note", "in the query")])
    assert seen.headers["x-trace"] == "t1"
    assert json.loads(seen.body) == {"status": "new", "note": "in the body"}
    assert seen.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "body"),
    [
        ("send_form", {"status": "a b", "note": "é"}, "application/x-www-form-urlencoded", "status=a+b&note=%C3%A9"),
        ("send_list", {"body": ["a", "b"]}, "application/json", '["a","b"]'),
        ("send_parts", {"status": "new"}, "multipart/form-data", 'name="status"\r\n\r\nnew'),
    ],
)
def test_bodies_are_sent_as_the_document_says(
    api: HttpApi, spec: str, name: str, arguments: JsonObject, kind: str, body: str
) -> None:
    call(shop(spec), name, arguments)
    assert api.requests[-1].headers["content-type"].startswith(kind)
    assert body in api.requests[-1].body.decode()


def test_what_cannot_be_sent_is_refused_before_anything_is_sent(api: HttpApi, spec: str) -> None:
    before = len(api.requests)
    assert failure(shop(spec), "get_order", {}).kind == "invalid_args"
    assert "order_id" in str(failure(shop(spec), "get_order", {}))
    assert "must not be '..'" in str(failure(shop(spec), "get_order", {"order_id": ".."}))
    assert "must not be ''" in str(failure(shop(spec), "get_order", {"order_id": ""}))
    injected = {"order_id": "1", "status": "s", "X-Trace": "a\r\nEvil: 1"}
    assert "one line" in str(failure(shop(spec), "echo_all", injected))
    assert "image/png" in str(failure(shop(spec), "send_binary", {"body": "x"}))
    assert len(api.requests) == before


@pytest.mark.parametrize(
    ("scheme", "value", "tool", "shown"),
    [
        ("token", CANARY, "with_token", f"Bearer {CANARY}"),
        ("login", "ann:pa55word", "with_login", "Basic YW5uOnBhNTV3b3Jk"),
    ],
)
def test_credentials_go_where_the_scheme_says(
    api: HttpApi, spec: str, scheme: str, value: str, tool: str, shown: str
) -> None:
    box = shop(spec, auth={scheme: value})
    call(box, tool)
    assert api.requests[-1].headers["authorization"] == shown
    assert value in box.secrets
    assert shown.split()[1] in box.secrets
    call(box := shop(spec, auth={scheme: value}), "open_to_all")
    assert "authorization" not in api.requests[-1].headers


def test_a_key_may_go_into_the_query(api: HttpApi, spec: str) -> None:
    call(shop(spec, auth={"key": CANARY}), "with_key")
    assert api.requests[-1].query == [("api_key", CANARY)]


def test_credentials_for_an_unknown_scheme_are_a_usage_error(spec: str) -> None:
    with pytest.raises(UsageError, match="no security scheme 'tokn'; it has: token, login, key"):
        call(shop(spec, auth={"tokn": "x"}), "get_order", {"order_id": "A1"})


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "invalid_args"), (401, "permission"), (403, "permission"), (404, "not_found"), (409, "conflict"),
        (422, "invalid_args"), (429, "rate_limited"), (418, "tool_error"), (500, "unavailable"), (503, "unavailable"),
    ],
)  # fmt: skip
def test_statuses_become_kinds_of_failure(spec: str, code: int, kind: str) -> None:
    found = failure(shop(spec), "status", {"code": code})
    assert found.kind == kind
    assert f"HTTP {code}" in str(found)
    assert "as you wished" in str(found)


def test_a_missing_credential_is_named_with_the_flag_that_gives_it(spec: str) -> None:
    assert "--auth token='${VARIABLE}'" in str(failure(shop(spec), "status", {"code": 401}))


def test_a_wait_may_be_seconds_or_a_date(spec: str) -> None:
    assert failure(shop(spec), "status", {"code": 429, "wait": "7"}).retry_after == 7.0
    assert failure(shop(spec), "status", {"code": 429, "wait": "soon"}).retry_after is None
    later = formatdate(usegmt=True, timeval=__import__("time").time() + 30)
    wait = failure(shop(spec), "status", {"code": 503, "wait": later}).retry_after
    assert wait is not None
    assert 25 < wait <= 30


def test_a_write_whose_end_is_not_known_says_so(spec: str) -> None:
    assert failure(shop(spec), "write_status", {"code": 504}).kind == "outcome_unknown"
    assert failure(shop(spec), "cut_write").kind == "outcome_unknown"
    assert failure(shop(spec), "cut").kind == "unavailable"
    hung = group(shop(spec, bounds=Bounds(timeout=0.2)), [("hang_write", {})])[0]
    assert hung.error is not None
    assert hung.error.kind == "outcome_unknown"


BAD = [
    ("hang", "timeout", "no answer within 1.5 s"),
    ("flood", "tool_error", "more than the 100,000 bytes allowed"),
    ("utf8", "tool_error", "claims to be application/json and is not"),
    ("html", "tool_error", "it starts with '<html>Please log in"),
    ("zipped", "tool_error", "compressed"),
    ("cut", "unavailable", "broke off"),
    ("loop", "tool_error", "redirects more than 5 times"),
]


def test_misbehaving_operations_say_what_is_wrong_and_their_siblings_keep_their_results(spec: str) -> None:
    box = shop(spec, bounds=Bounds(timeout=1.5, size=100_000))
    good: list[tuple[str, JsonObject]] = [("get_order", {"order_id": "A1"}), ("slow", {})]
    results = group(box, [*((name, {}) for name, _, _ in BAD), *good])
    for (_, kind, message), result in zip(BAD, results, strict=False):
        assert result.error is not None
        assert (result.error.kind, message in result.error.message) == (kind, True), result
    assert [result.value for result in results[len(BAD) :]] == [{"id": "A1", "status": "sent"}, {"at": "last"}]


def test_answers_that_are_not_json_are_text_or_described(spec: str) -> None:
    assert call(shop(spec), "text") == "naïve"
    assert call(shop(spec), "picture") == {"media_type": "image/png", "bytes": 8}


def test_a_dead_server_is_unavailable(tmp_path: Path) -> None:
    with HttpApi() as gone:
        pass
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(document(gone.url)))
    found = failure(shop(str(path)), "create_order", {"status": "new"})
    assert found.kind == "unavailable"  # it was never sent, so even a write is certain
    assert "127.0.0.1 cannot be reached" in str(found)


def test_a_rate_limited_write_is_repeated_since_it_did_not_run(api: HttpApi, spec: str) -> None:
    before = len(api.requests)
    result = group(shop(spec), [("write_status", {"code": 429})], attempts=2)[0]
    assert result.attempts == 2
    assert len(api.requests) - before == 2


def test_private_addresses_are_refused_unless_allowed(api: HttpApi, spec: str) -> None:
    before = len(api.requests)
    found = failure(shop(spec, allow_private=False), "get_order", {"order_id": "A1"})
    assert found.kind == "permission"
    assert "--allow-private" in str(found)
    with pytest.raises(EnvironmentFault, match="--allow-private"):
        call(OpenApiToolbox(OpenApiSource(f"{api.url}/openapi.json")), "get_order")
    assert len(api.requests) == before


def test_redirects_stay_within_reach_and_never_carry_credentials_elsewhere(api: HttpApi, spec: str) -> None:
    with HttpApi() as other:
        box = dict(auth={"token": CANARY})
        api.redirect_to = "/orders/A1"
        assert call(shop(spec, **box), "redirect") == {"id": "A1", "status": "sent"}
        assert api.requests[-1].headers["authorization"] == f"Bearer {CANARY}"
        api.redirect_to = f"{other.url}/echo"
        call(shop(spec, **box), "redirect")
        assert CANARY not in str(other.requests[-1])
        found = failure(shop(spec, **box), "redirect_write", {"code": 307})
        assert found.kind == "permission"
        assert len(other.requests) == 1


def test_effects_come_from_methods_and_the_things_in_paths(spec: str) -> None:
    async def run() -> Mapping[str, Effects]:
        async with OpenApiToolbox(
            OpenApiSource(spec, name="shop", allow_private=True, rules={"send_form": "read"})
        ) as box:

            def effects(name: str, **arguments: JsonValue) -> Effects:
                tool = box.tool(f"shop.{name}")
                assert tool is not None
                return box.effects(tool, arguments)

            return {
                "get": effects("get_order", order_id="A/1"),
                "get?": effects("get_order"),
                "list": effects("list_orders"),
                "create": effects("create_order", status="new"),
                "delete": effects("delete_order", order_id="A1"),
                "search": effects("search_orders", q="x"),
                "form": effects("send_form", status="x"),
            }

    found = asyncio.run(run())
    assert found["get"] == Effects(reads=frozenset({"shop/order/A%2F1"}))
    assert found["get?"] == found["list"] == Effects(reads=frozenset({"shop/order"}))
    assert found["create"] == Effects(writes=frozenset({"shop/order"}))
    assert found["delete"] == Effects(writes=frozenset({"shop/order/A1"}))
    assert found["search"].writes, "a POST is not harmless because of its name"
    assert found["form"].read_only, "unless the user says so"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ('{"swagger": "2.0", "paths": {"/a": {}}}', "OpenAPI 3 is needed"),
        ('{"openapi": "3.0.0", "paths": {"/a": {"get": {}}}}', "does not say where its server is"),
    ],
)
def test_a_wrong_document_is_a_usage_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        call(shop(str(path)), "x")


def test_a_missing_document_is_an_environment_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="give an OpenAPI file"):
        call(shop(str(tmp_path / "none.json")), "x")
