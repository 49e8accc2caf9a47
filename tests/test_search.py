"""Searching a few hand-written tools and the fixture catalog."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paraagent.catalog.store import Catalog
from paraagent.search.search import SURE, SearchIndex
from paraagent.types import EffectKind, Found, Search, Tool


def make(
    name: str,
    description: str = "",
    *,
    service: str = "",
    operation: str = "",
    effect: EffectKind = "read",
    properties: tuple[str, ...] = (),
) -> Tool:
    parameters = {"type": "object", "properties": {key: {"type": "string"} for key in properties}}
    return Tool(name, description, parameters, {}, effect, provider=service, api_title=service, operation=operation)


TOOLS = [
    make(
        "fx_convert", "Convert an amount from one currency to another.", service="Coinly", properties=("from", "to")
    ),
    make("fx_rates", "List today's exchange rates.", service="Coinly"),
    make("meteo_forecast", "Get the weather forecast of a city.", service="CloudMeteo", properties=("city",)),
    make("shop_get_order", "Get one order.", service="pinecart.example", operation="getOrder"),
    make(
        "shop_delete_order", "Delete one order.", service="pinecart.example", operation="deleteOrder", effect="delete"
    ),
    make("shop_list_orders", "List all orders.", service="pinecart.example", operation="listOrders"),
    make("mail_send", "Send an e-mail to a list of recipients.", service="PostPigeon", effect="action"),
    make("ja_weather", "都市の天気予報を取得する。", service="天気"),
    make("ru_weather", "Получить прогноз погоды для города.", service="Погода"),
    make("ar_weather", "احصل على توقعات الطقس لمدينة.", service="طقس"),
    make("fr_rendez_vous", "Réserver un créneau chez le médecin.", service="Santé"),
    make("el_bus", "Δρομολόγια λεωφορείων ανά στάση.", service="Λεωφορεία"),
]
TOOLBOX = SearchIndex.build_in_memory(TOOLS)


def ask(query: str, *, slot: str = "", index: SearchIndex = TOOLBOX, k: int = 5) -> Found:
    return index.search([Search(slot, query)], k)[0]


def names(found: Found) -> list[str]:
    return [hit.tool.name for hit in found.hits]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("convert 100 euros to another currency", "fx_convert"),
        ("converting currencies", "fx_convert"),
        ("what will the weather be in my city", "meteo_forecast"),
        ("deleteOrder", "shop_delete_order"),
        ("remove an order", "shop_delete_order"),
        ("show me every order in a list", "shop_list_orders"),
        ("send an email", "mail_send"),
        ("東京の天気予報", "ja_weather"),
        ("прогноз погоды в Москве", "ru_weather"),
        ("توقعات الطقس", "ar_weather"),
        ("reserver un creneau medecin", "fr_rendez_vous"),
        ("δρομολογια λεωφορειων", "el_bus"),
    ],
)
def test_the_right_tool_comes_first(query: str, best: str) -> None:
    found = ask(query)
    assert names(found)[0] == best
    assert not found.nothing_fits


@pytest.mark.parametrize(
    "query",
    ["tune the cathedral organ", "fold my laundry", "", "   ", "?!…", "the of and", "🎉🎉", "zzqx17", "\x00\ud800"],
)
def test_nothing_fits_is_said(query: str) -> None:
    found = ask(query)
    assert found.nothing_fits
    assert found.hits == ()
    assert found.total == len(TOOLS)


def test_a_service_name_in_the_query_counts() -> None:
    twins = [make(f"{name}_orders", "List orders.", service=name) for name in ("alpha", "beta", "gamma")]
    assert names(ask("list orders in beta", index=SearchIndex.build_in_memory(twins)))[0] == "beta_orders"


def test_slot_and_query_are_both_used() -> None:
    assert names(ask("from USD to EUR", slot="currency conversion"))[0] == "fx_convert"
    assert names(ask("the city of Lyon", slot="weather forecast"))[0] == "meteo_forecast"


def test_a_change_is_not_served_by_a_reading_tool() -> None:
    reading = SearchIndex.build_in_memory([tool for tool in TOOLS if tool.effect == "read"])
    assert names(ask("get an order", index=reading))[0] == "shop_get_order"
    assert ask("archive an order", index=reading).nothing_fits
    assert names(ask("erase an order"))[0] == "shop_delete_order"


def test_a_shared_verb_alone_is_no_answer() -> None:
    assert ask("delete a passport").nothing_fits
    assert ask("list the planets").nothing_fits


def test_another_ending_is_found() -> None:
    assert names(ask("forecasters"))[0] == "meteo_forecast"


def test_an_exact_name_comes_first_and_is_sure() -> None:
    for query in ("mail_send", "call `mail_send` for the weather in the city"):
        found = ask(query)
        assert names(found)[0] == "mail_send"
        assert found.hits[0].score == SURE
        assert names(found).count("mail_send") == 1


def test_scores_are_probabilities_that_fall() -> None:
    scores = [hit.score for hit in ask("list the orders and delete one order of a city").hits]
    assert len(scores) > 2
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)


def test_reasons_name_the_words_under_their_fields() -> None:
    hit = ask("converting an amount in Coinly").hits[0]
    assert hit.reason == "name: converting; service: coinly; summary: amount"


def test_equal_tools_come_in_order_of_name() -> None:
    twins = [make(name, "Get the tide table of a harbour.") for name in ("tide_c", "tide_a", "tide_b")]
    for tools in (twins, twins[::-1]):
        assert names(ask("tide table", index=SearchIndex.build_in_memory(tools))) == ["tide_a", "tide_b", "tide_c"]


def test_k_limits_the_hits() -> None:
    assert len(ask("order", k=2).hits) == 2
    assert names(ask("order", k=100)) == names(ask("order", k=12))
    assert ask("order", k=0).hits == ()


def test_answers_come_in_the_order_of_searches() -> None:
    searches = [Search("a", "weather forecast of a city"), Search("b", "laundry"), Search("c", "send an email")]
    found = TOOLBOX.search(searches)
    assert [answer.search for answer in found] == searches
    assert [answer.nothing_fits for answer in found] == [False, True, False]
    assert TOOLBOX.search([]) == []


def test_a_huge_query_is_answered() -> None:
    assert names(ask("weather forecast of a city " * 5000))[0] == "meteo_forecast"
    assert ask(" ".join(f"{a}{b}xq{c}v" for a in "bdfgkl" for b in "aeiou" for c in "mnprst") * 50).nothing_fits


def test_hidden_tools_are_not_found_nor_counted() -> None:
    index = TOOLBOX.without(["meteo_forecast", "no_such_tool"])
    assert ask("weather forecast of a city", index=index).nothing_fits
    assert ask("meteo_forecast", index=index).nothing_fits
    assert ask("list orders", index=index).total == len(index) == len(TOOLS) - 1
    assert names(ask("list orders", index=index.without(["shop_list_orders"])))[0] != "shop_list_orders"
    assert names(ask("weather forecast of a city"))[0] == "meteo_forecast"


def test_an_empty_toolbox_has_nothing() -> None:
    found = ask("anything", index=SearchIndex.build_in_memory([]))
    assert (found.nothing_fits, found.hits, found.total) == (True, (), 0)


def test_a_single_tool_is_found_and_only_for_what_it_does() -> None:
    index = SearchIndex.build_in_memory(TOOLS[2:3])
    assert names(ask("weather forecast for a city", index=index)) == ["meteo_forecast"]
    assert ask("refund a payment", index=index).nothing_fits


def test_odd_schemas_do_no_harm() -> None:
    odd = replace(TOOLS[0], name="odd", parameters={"properties": {"a": True, "b": {"description": 3}}})
    assert names(ask("convert currency", index=SearchIndex.build_in_memory([odd]))) == ["odd"]
    assert SearchIndex.build_in_memory([replace(odd, parameters={"properties": [1]})])


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TOOLS), st.lists(st.text("qxzjv", min_size=4, max_size=9), min_size=1, max_size=12))
def test_an_irrelevant_tool_takes_nothing_away(target: Tool, words: list[str]) -> None:
    query = target.description
    added = make("irrelevant", " ".join(words), service=words[0], operation=words[-1], effect="action")
    before, after = ask(query), ask(query, index=SearchIndex.build_in_memory([*TOOLS, added]))
    assert target.name in names(before)
    assert set(names(before)) <= set(names(after)) | {"irrelevant"}
    assert names(after)[0] == names(before)[0]


@given(st.text(max_size=200), st.text(max_size=30))
def test_any_query_is_answered(query: str, slot: str) -> None:
    found = ask(query, slot=slot)
    assert found.nothing_fits == (found.hits == ())
    assert all(hit.reason for hit in found.hits)


def test_threads_share_an_index() -> None:
    expected, answers = TOOLBOX.search([Search("", tool.description) for tool in TOOLS]), []

    def work() -> None:
        answers.append(TOOLBOX.search([Search("", tool.description) for tool in TOOLS]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 4


def test_the_fixture_catalog_is_found_by_its_own_summaries(catalog: Catalog, index: SearchIndex) -> None:
    tools = [tool for tool in catalog if len(tool.description.split()) >= 4]
    searches = [Search("", f"{tool.api_title}: {tool.description.split('.')[0]}") for tool in tools]
    found = index.search(searches, 5)
    hits = [tool.name in names(answer) for tool, answer in zip(tools, found, strict=True)]
    assert sum(hits) / len(hits) > 0.95
    assert all(answer.total == len(catalog) for answer in found)
