"""What an operation does, to which noun, and how it is named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.catalog.classify import Layout, effect_of, noun_of, resource_of, verb_effect
from paraagent.catalog.naming import LONGEST, Names, brand, propose
from paraagent.catalog.text import clean

SHOP = Layout.of(
    {
        "/orders": {"get": {}, "post": {}},
        "/orders/{id}": {"get": {}},
        "/orders/{id}/items": {"get": {}},
        "/orders/{id}/invoice": {"get": {}},
        "/basket/{id}": {"get": {}},
    }
)


@pytest.mark.parametrize(
    ("method", "path", "operation", "effect", "resource"),
    [
        ("get", "/orders", "listOrders", "read", "order"),
        ("post", "/orders", "", "create", "order"),
        ("get", "/orders/{id}", "getOrder", "read", "order"),
        ("put", "/orders/{id}", "replaceOrder", "update", "order"),
        ("delete", "/orders/{id}", "cancelOrder", "delete", "order"),
        ("post", "/orders/{id}", "PostOrdersOrder", "update", "order"),
        ("post", "/orders/{id}/cancel", "cancelOrder", "action", "order"),
        ("post", "/orders/{id}/expedite", "", "action", "order"),
        ("post", "/orders/{id}/invoice", "", "action", "invoice"),
        ("post", "/orders/{id}:archive", "", "action", "order"),
        ("post", "/orders/search", "searchOrders", "read", "order"),
        ("post", "/orders/{id}/notes", "", "create", "note"),
        ("post", "/basket", "", "create", "basket"),
        ("post", "/login", "login", "action", ""),
        ("get", "/v2/order-items.json", "", "read", "order_item"),
        ("get", "/api/v1.1/statuses/{id}", "", "read", "status"),
        ("get", "/getUser", "getUser", "read", "user"),
        ("get", "/deleteUser", "deleteUser", "delete", "user"),
        ("get", "/chat.postMessage", "", "read", "chat"),
        ("post", "/chat.postMessage", "chat_postMessage", "action", "chat"),
        ("post", "/users/{id}/microsoft.graph.assignLicense", "users.assignLicense", "action", "user"),
        ("put", "/things/{name}", "Things_CreateOrUpdate", "create", "thing"),
    ],
)
def test_http_operations(method: str, path: str, operation: str, effect: str, resource: str) -> None:
    assert effect_of(method, path, operation, SHOP) == effect
    assert resource_of(method, path, "" if not resource else operation, SHOP) == resource


@pytest.mark.parametrize(
    ("operation", "effect", "noun"),
    [
        ("DescribeInstances", "read", "instance"),
        ("BatchGetItem", "read", "item"),
        ("CreateDBCluster", "create", "db_cluster"),
        ("TerminateInstances", "delete", "instance"),
        ("ListTagsForResource", "read", "tag"),
        ("UntagResource", None, "tag"),
        ("ListObjectsV2", "read", "object"),
        ("StartJobRun", "action", "job_run"),
        ("drives.list.CreateColumns", "create", "drive"),
    ],
)
def test_named_operations(operation: str, effect: str | None, noun: str) -> None:
    assert verb_effect(operation) == effect
    if "." not in operation:
        assert noun_of(operation) == noun


@pytest.mark.parametrize(
    ("provider", "api", "operation", "name"),
    [
        ("stripe.com", "", "GetCustomersCustomer", "stripe_get_customers_customer"),
        ("amazonaws.com", "ec2", "DescribeInstances", "aws_ec2_describe_instances"),
        ("googleapis.com", "calendar", "calendar.events.get", "google_calendar_events_get"),
        ("api.data.gov.uk", "", "get /areas/{id}", "data_get_areas_id"),
        ("github.com", "api.github.com", "repos/create-for-org", "github_repos_create_for_org"),
        ("1forge.com", "", "quotes", "1forge_quotes"),
        ("пример.рф", "", "Ü", "tool"),
    ],
)
def test_names_are_readable(provider: str, api: str, operation: str, name: str) -> None:
    assert propose(provider, api, operation) == name


def test_a_long_name_keeps_its_ends_and_a_taken_one_gets_a_digest() -> None:
    names = Names()
    long = propose(
        "googleapis.com", "discoveryengine", "projects.locations.collections.engines.widgets.checkPolicy.get"
    )
    first = names.unique(long, "abcdef123456")
    assert len(first) <= LONGEST
    assert first.startswith("google_discoveryengine_")
    assert first.endswith("_check_policy_get")
    assert names.unique("a_b", "abcdef123456") == "a_b"
    assert names.unique("a_b", "abcdef123456") == "a_b_abcd"
    assert names.unique("a_b", "abcdef123456") == "a_b_abcdef"


@given(st.lists(st.tuples(st.text(max_size=90), st.text("0123456789abcdef", min_size=32, max_size=32)), max_size=20))
def test_names_are_valid_and_unique(operations: list[tuple[str, str]]) -> None:
    names = Names()
    given_names = []
    for place, (operation, digest) in enumerate(operations):
        given_names.append(names.unique(propose("shop.example", "", operation), f"{place:02x}{digest}"))
    assert len(set(given_names)) == len(given_names)
    assert all(re.fullmatch(r"[a-z0-9_]{1,64}", name) for name in given_names)


@pytest.mark.parametrize(
    ("provider", "short"),
    [("api.stripe.com", "stripe"), ("bbc.co.uk", "bbc"), ("vtex.local", "vtex"), ("host", "host")],
)
def test_brands(provider: str, short: str) -> None:
    assert brand(provider) == short


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<p>Lists <code>user</code>s.</p>\n<ul><li>One</li></ul>", "Lists users. One"),
        ("## Head\nSee [the docs](https://x.example/a) **now** &amp; then", "Head See the docs now & then"),
        ("```\ncode\n```\nAfter", "After"),
        ("a < b and c > d", "a < b and c > d"),
        ("zero\u200bwidth\x00", "zero width"),
        (None, ""),
        (17, ""),
    ],
)
def test_descriptions_lose_their_markup(text: object, plain: str) -> None:
    assert clean(text, 100) == plain


@given(st.text(max_size=400), st.integers(20, 80))
def test_cleaned_text_is_one_short_printable_line(text: str, limit: int) -> None:
    found = clean(text, limit)
    assert len(found) <= limit
    assert found.isprintable()


def test_text_is_cut_after_a_sentence_or_a_word() -> None:
    assert clean("First sentence here. Second one is longer", 30) == "First sentence here."
    assert clean("only one very long sentence that goes on", 20) == "only one very..."
