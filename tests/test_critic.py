"""What speaks against a turn: values from nowhere, values left out, things done before; nothing against the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from paraagent.agent.context import Context, Exchange
from paraagent.agent.policies.critic import ANSWER, Objection, objections, weight
from paraagent.protocol import compact
from paraagent.types import Call, ErrorKind, Found, Hit, JsonValue, Result, Search, Tool, ToolError

SCHEMAS: dict[str, JsonValue] = {
    "id": {"type": "string"},
    "number": {"type": "integer"},
    "price": {"type": "number"},
    "owner": {"type": "string"},
    "pretty_print": {"type": "boolean"},
    "unit": {"enum": ["metric", "imperial"]},
    "tags": {},
    "query": {},
}
GET = Tool("get_order", "", {"properties": SCHEMAS, "required": ["id"]}, {}, "read", api_title="Orders 2.0")
LIST = Tool("list_orders", "", {"properties": {"unit": SCHEMAS["unit"]}, "required": ["unit"]}, {}, "read")
BOOK = Found(Search("book", "book"), (Hit(Tool("book", "", {}, {}, "create"), 1.0, ""),), 1, False)
FOUND = Found(Search("orders", "orders"), (Hit(GET, 1.0, ""), Hit(LIST, 0.5, "")), 2, False)


def context(request: str, *results: Result) -> Context:
    begun = Context(request)
    begun.exchanges.append(Exchange(compact.parse("find\norders"), (FOUND,)))
    if results:
        lines = [compact.call_line(result.call, {}) for result in results]
        begun.exchanges.append(Exchange(compact.parse("\n".join(["run", *lines])), results=results))
    return begun


def against(request: str, *calls: str, results: Sequence[Result] = ()) -> list[tuple[str, str, str | None]]:
    turn = compact.parse("run\n" + "\n".join(calls))
    assert len(turn.calls) == len(calls)
    return [(one.reason, one.tool, one.argument) for one in objections(turn, context(request, *results))]


def result(value: JsonValue = None, error: ErrorKind | None = None, **arguments: JsonValue) -> Result:
    call = Call("get_order", arguments, "c1")
    return Result(call, arguments, value, error and ToolError(error, ""))


def test_nothing_speaks_against_what_the_request_says() -> None:
    said = 'Get order "A-7" of Ann, number 1,200 at 3.5, in METRIC units with pretty print on.'
    call = 'c1 = get_order(id="A-7", owner="Ann", number=1200, price=3.5, unit="metric", pretty_print=true)'
    assert against(said, call) == []


def test_nothing_speaks_against_what_a_result_says_and_what_links_lead_to() -> None:
    found = result({"orders": [{"id": "B_9", "owner": {"name": "Ann Lee"}}]}, id="all")
    assert against("Get the first order.", 'c2 = get_order(id="B_9", owner="Ann Lee")', results=[found]) == []
    assert against("Get the first order.", "c2 = get_order(id=$c1.orders.0.id)", results=[found]) == []


@pytest.mark.parametrize("part", ["10", "25", "2026"])
def test_part_of_a_date_is_no_number_of_the_request(part: str) -> None:
    call = f'c1 = get_order(id="A7", number={part})'
    invented = ("invented", "get_order", "number")
    assert invented in against("Get order A7 of 2026-10-25.", call)
    assert invented not in against(f"Get order A7 of 2026-10-25, number {part}.", call)
    assert invented not in against(f"Get order A7 of 2026-10-25, {part}/page.", call)
    assert invented not in against(f"Get order A7, 7-{part} of it.", call)


def test_a_date_is_a_value_of_the_request() -> None:
    found = against("Get A7 of 2026-10-25/2026-10-27.", 'c1 = get_order(id="A7", owner="2026-10-25")')
    assert ("invented", "get_order", "owner") not in found


@pytest.mark.parametrize(
    ("given", "argument"),
    [('owner="guest"', "owner"), ("number=3", "number"), ("pretty_print=false", "pretty_print")],
)
def test_an_optional_argument_from_nowhere_is_objected_to(given: str, argument: str) -> None:
    assert against("Get order A7.", f'c1 = get_order(id="A7", {given})') == [("invented", "get_order", argument)]


def test_a_choice_is_invented_only_where_none_had_to_be_made() -> None:
    assert against("Get order A7.", 'c1 = get_order(id="A7", unit="metric")') == [("invented", "get_order", "unit")]
    assert against("List the orders.", 'c1 = list_orders(unit="metric")') == []


def test_a_required_value_from_nowhere_speaks_against_the_tool() -> None:
    assert against("Get the order.", 'c1 = get_order(id="A7")') == [("invented", "get_order", None)]


@pytest.mark.parametrize(
    ("said", "written"),
    [("12.50", "12.5"), ("3", "3.0"), ("3.0", "3"), ("1,200.50", "1200.5"), ("-4.0", "-4"), ("0.10", "0.1")],
)
def test_a_number_is_the_same_in_any_spelling(said: str, written: str) -> None:
    assert against(f"Get order A7 at {said}.", f'c1 = get_order(id="A7", price={written})') == []


def test_commas_part_thousands_or_values() -> None:
    assert against("Get orders 1001,1002.", 'c1 = get_order(id="1001")', 'c2 = get_order(id="1002")') == []
    assert against("Get orders 101,102.", 'c1 = get_order(id="101")', 'c2 = get_order(id="102")') == []
    assert against("Get order 101,102.", "c1 = get_order(id=101102)") == []


def test_letters_are_the_same_in_any_spelling() -> None:
    said = 'Get order A7 of "CAFE\u0301 Stra\u00dfe".'
    assert against(said, 'c1 = get_order(id="A7", owner="Caf\u00e9 STRASSE")') == []


def test_part_of_a_word_or_number_is_not_the_value() -> None:
    for value in ('"order"', '"A"', '"7"'):
        assert ("invented", "get_order", None) in against(
            "Get my orders: A7, 77 and 7.5.", f"c1 = get_order(id={value})"
        )


def test_one_value_for_two_arguments_is_objected_to_unless_it_is_said_twice() -> None:
    call = 'c1 = get_order(id="A7", owner="A7")'
    assert against("Get order A7.", call) == [("twice", "get_order", "owner")]
    assert against("Get order A7 of owner A7.", call) == []


def test_what_the_request_says_and_no_call_takes_up_speaks_against_every_call() -> None:
    turn = compact.parse('run\nc1 = list_orders(unit="metric")\nc2 = get_order(id="A7")')
    found = objections(turn, context("List the orders and get order A7 and order B8 with Orders 2.0."))
    assert found == [Objection("left_out", "B8", "list_orders"), Objection("left_out", "B8", "get_order")]
    assert weight(found) == 1
    assert against("Get orders A7 and B8.", 'c2 = get_order(id="B8")', results=[result({}, id="A7")]) == []


def test_one_truth_for_two_questions_is_no_objection() -> None:
    flags = {"number": {"type": "boolean"}, "price": {"type": "boolean"}}
    tool = Tool("ask", "", {"properties": flags}, {}, "read")
    begun = Context("Is the number right and the price true?")
    found = Found(Search("ask", "ask"), (Hit(tool, 1.0, ""),), 1, False)
    begun.exchanges.append(Exchange(compact.parse("find\nask"), (found,)))
    assert objections(compact.parse("run\nc1 = ask(number=true, price=true)"), begun) == []


def test_nothing_is_done_for_good_once_something_was_changed_or_asked_anew() -> None:
    again = compact.parse('run\nc2 = get_order(id="A7")')
    done = Objection("done", "get_order", "get_order")
    begun = context("Get A7, then R5.", result({}, id="A7"))
    assert objections(again, begun)[0] == done
    booked = Result(Call("book", {}, "c9"), {"id": "R5"}, {})
    begun.exchanges.append(Exchange(compact.parse('run\nc9 = book(id="R5")'), results=(booked,)))
    assert done not in objections(again, begun)
    assert Objection("done", "book", "book") in objections(
        compact.parse('run\nc3 = book(id="R5")'), begun_with_book(begun)
    )
    begun.exchanges.append(Exchange(compact.parse("say\nDone."), reply="Again."))
    assert objections(compact.parse('run\nc3 = book(id="R5")'), begun) == []


def begun_with_book(begun: Context) -> Context:
    """Return the same episode, in which a search has shown how to book."""
    begun.exchanges.insert(0, Exchange(compact.parse("find\nbook"), (BOOK,)))
    begun._read = 0
    return begun


def test_a_call_that_could_not_be_read_was_not_done() -> None:
    begun = Context("List the orders.")
    begun.exchanges.append(Exchange(compact.parse("find\norders"), (FOUND,)))
    broken = compact.parse('run\nc1 = list_orders(unit="metric", unit="imperial")')
    failed = Result(Call("list_orders", {}, None), {}, None, ToolError("invalid_args", ""))
    begun.exchanges.append(Exchange(broken, results=(failed,)))
    assert objections(compact.parse("run\nc1 = list_orders()"), begun) == []


def test_links_are_trusted_wherever_they_stand_and_take_values_up() -> None:
    found = result({"orders": [{"id": "A7", "tag": "red"}]}, number=5)
    call = 'c2 = get_order(id=$c1.orders.0.id, tags=["$c1.orders.0.tag"])'
    assert against("Get the orders with number 5, then order A7.", call, results=[found]) == []


def test_doing_the_same_again_is_objected_to_unless_it_may_help() -> None:
    again = 'c2 = get_order(id="A7")'
    assert against("Get A7.", again, results=[result({}, id="A7")]) == [("done", "get_order", None)]
    assert against("Get A7.", again, results=[result(error="not_found", id="A7")]) == [("done", "get_order", None)]
    assert against("Get A7.", again, results=[result(error="timeout", id="A7")]) == []
    linked = "c2 = get_order(id=$c1.id)"
    assert against("Get A7.", linked, results=[result({"id": "A7"}, id="A7")]) == [("done", "get_order", None)]


def test_values_in_lists_and_objects_are_looked_up_too() -> None:
    assert against("Get order A7 with tags red.", 'c1 = get_order(id="A7", tags=["red"])') == []
    for given in ('["red", "blue"]', '{"color": "blue"}', "[]", '""', "null"):
        found = against("Get order A7 with tags red.", f'c1 = get_order(id="A7", tags={given})')
        assert found == [("invented", "get_order", "tags")]


def test_a_call_that_cannot_be_read_is_worse_than_any_other() -> None:
    turn = compact.parse('run\norders: c1 = get_order(id="A7", owner="Ann", owner="Bob")')
    found = objections(turn, context("Get order A7."))
    assert [(one.reason, one.argument) for one in found] == [("unreadable", "owner"), ("unreadable", None)]
    readable = compact.parse('run\nc1 = get_order(id="B8", owner="Ann", number=3)')
    assert weight(found) > weight(objections(readable, context("Get order A7."))) > 0


def test_a_call_of_an_unknown_tool_that_cannot_be_read_weighs_as_much() -> None:
    for line in ('c1 = unheard_of(id="A7"', 'c1 = list_orders(unit="metric"); more'):
        assert weight(objections(compact.parse(f"run\n{line}"), context("Get order A7."))) >= 9
    double = compact.parse('run\nc1 = get_order(id="A7")\nc1 = get_order(id="B8")')
    assert weight(objections(double, context("Get A7 and B8."))) >= 9


def test_what_the_user_says_later_counts_as_said() -> None:
    begun = context("Get order A7.")
    begun.exchanges.append(Exchange(compact.parse("say\nDone."), reply="And B8."))
    turn = compact.parse('run\nc1 = get_order(id="B8")\nc2 = get_order(id="A7")')
    assert objections(turn, begun) == []


def test_an_optional_word_counts_as_said_only_where_it_is_meant() -> None:
    said = "Find the owner of a text, order A7, for ann."
    assert against(said, 'c1 = get_order(id="A7", tags="text")') == [("invented", "get_order", "tags")]
    assert against(said, 'c1 = get_order(id="A7", owner="text")') == []
    assert against(said, 'c1 = get_order(id="A7", tags="ann")') == []
    assert against(said, 'c1 = get_order(id="A7", query="text")') == []


def test_an_answer_comes_too_early_while_a_search_is_unserved_and_a_value_left_out() -> None:
    turn = compact.parse("say\nDone.")
    begun = context("List the orders and book R5.", Result(Call("list_orders", {}, "c1"), {}, {}))
    assert objections(turn, begun) == []  # there is nothing else to try
    begun.exchanges.insert(0, Exchange(compact.parse("find\nbook"), (BOOK,)))
    assert objections(turn, begun) == [Objection("left_out", "R5", ANSWER)]
    begun.turns_left = 1
    assert objections(turn, begun) == []
    begun.turns_left = 5
    begun.exchanges.append(Exchange(compact.parse("run"), results=(Result(Call("book", {"id": "R5"}), {}, {}),)))
    assert objections(turn, begun) == []


def test_an_answer_that_nothing_was_possible_is_no_objection() -> None:
    begun = context("Get order A7.", result(error="forbidden", id="9"))
    begun.exchanges.insert(0, Exchange(compact.parse("find\nbook"), (BOOK,)))
    assert objections(compact.parse("say\nNo tool can."), begun) == []


def test_nothing_speaks_against_searches_answers_and_unknown_tools() -> None:
    for text in ("find\norder B8", "say\nIt is 12.", "?"):
        assert objections(compact.parse(text), context("Get order A7.")) == []
    assert against("Get it.", "c1 = unheard_of(id=5)") == []
