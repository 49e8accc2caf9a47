"""The grammar of a turn lets through what the dialect says of the tools that were shown, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiny_model
from paraagent.protocol import compact
from paraagent.protocol.lark import Shown, turn_grammar
from paraagent.protocol.links import resolve
from paraagent.types import Call, JsonObject, JsonValue, Tool

llguidance = pytest.importorskip("llguidance")
pytestmark = [pytest.mark.filterwarnings(warning) for warning in tiny_model.WARNINGS]


def tool(name: str, properties: JsonObject, required: Sequence[str] = ()) -> Tool:
    parameters: JsonObject = {"type": "object", "properties": properties, "required": [*required]}
    return Tool(name, "", parameters, {}, "read")


ORDER = tool(
    "get_order",
    {
        "order_id": {"type": "string"},
        "limit": {"type": "integer"},
        "state": {"enum": ["open", 'ti"cked']},
        "page[size]": {"type": ["integer", "null"]},
        "odd name": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
    },
    ["order_id"],
)
LIST = tool("list_orders", {})
BOTH = tool("move", {"source": {"type": "string"}, "target": {"type": "string"}}, ["source", "target"])
SHOWN = [Shown("an order: by id", (ORDER, LIST)), Shown("move it", (BOTH,)), Shown("nothing", ())]
_TOKENIZER = None


def fits(text: str, shown: Sequence[Shown] = SHOWN, *, begins: bool = False, **how: object) -> bool:
    """Whether a turn is within the grammar, or begins one that is."""
    global _TOKENIZER
    from llguidance.hf import from_tokenizer

    tokenizer = tiny_model.tokenizer()
    _TOKENIZER = _TOKENIZER or from_tokenizer(tokenizer)
    matcher = llguidance.LLMatcher(_TOKENIZER, turn_grammar(shown, **how))  # type: ignore[arg-type]
    assert not matcher.is_error(), matcher.get_error()
    ids = tokenizer.encode(text, add_special_tokens=False)
    return bool(matcher.try_consume_tokens(ids) == len(ids)) and (begins or bool(matcher.is_accepting()))


@pytest.mark.parametrize(
    "turn",
    [
        "find\nget an order by its id",
        "find more\norder: get it\nparcel: track: it",
        'run\nc1 = get_order(order_id="A7")',
        'run\nan order: by id: c1 = get_order(order_id="a: b = \\"c\\"", limit=-3)\nc2 = list_orders()',
        "run more\nc1 = list_orders()\nc2 = get_order(limit=$c1.0.n, order_id=$c1.items[0].id, state=$c1)",
        'run\nc1 = get_order(order_id="x", state="ti\\"cked", page[size]=null, "odd name"=true)',
        'run\nmove it: c1 = move(source="a", target="b")',
        'run\nc1 = get_order(order_id="$$5")\nc2 = get_order(order_id="")',
        "say\nDone: x.\n\nAll of it.",
    ],
)
def test_what_the_dialect_says_is_within(turn: str) -> None:
    assert fits(turn)


@pytest.mark.parametrize(
    "turn",
    [
        "Sure! find\nx",
        "find",
        "find\n",
        "run\nc1 = get_orders(order_id=1)",
        'run\nc1 = get_order(id="A7")',
        "run\nc1 = get_order(order_id=7)",
        "run\nc1 = get_order()",
        'run\nc1 = get_order(order_id="x", state="shut")',
        'run\nc1 = get_order(order_id="x", limit=1.5)',
        'run\nc1 = move(source="a")',
        'run\nc1 = move(source="a", source="b")',
        'run\nc1 = get_order(limit=1, state="open")',
        "run\nc1 = get_order(" + "limit=1, " * 9 + 'order_id="A7")',
        "run\nc1 = list_orders(limit=1)",
        'run\nget_order(order_id="A7")',
        'run\nmove it: c1 = get_order(order_id="A7")',
        'run\nelsewhere: c1 = get_order(order_id="A7")',
        'run\nmy_order = get_order(order_id="A7")',
        'run\nc1 = get_order(order_id="$c1.id")',
        "run\nc1 = get_order(order_id=$c9.id)",
        'run\nc1 = get_order(order_id="A7"',
        f'run\nc1 = get_order(order_id="{"she/" * 80}")',
        "say\n",
        "say\n \n",
        "# a thought\nfind\nx",
    ],
)
def test_what_could_only_fail_is_not(turn: str) -> None:
    assert not fits(turn)


def test_without_tools_nothing_can_be_run() -> None:
    assert fits("find\nx", [])
    assert fits("say\nx", [])
    assert not fits("run\nc1 = list_orders()", [])


def test_the_last_turn_is_an_answer() -> None:
    assert fits("say\nIt is open.", last=True)
    assert not fits("find\nx", last=True)
    assert not fits("run\nc1 = list_orders()", last=True)


def test_links_lead_to_calls_that_there_are() -> None:
    turn = "run\nc4 = get_order(order_id=$c2.id)"
    there: JsonObject = {"id": 1}
    assert fits(turn, known={"c2": there}, free=["c4", "c5"])
    assert not fits(turn, known={"c1": there}, free=["c4", "c5"])
    assert not fits(turn, known={"c2": there}, free=["c3", "c4"])
    odd = dict.fromkeys(["c2", "a/b", "*", 'q"'], there)  # ids are a model's words
    assert fits(turn, known=odd, free=["c4", "x/"])


@pytest.mark.parametrize(
    ("lines", "within"),
    [
        (["c1 = list_orders()", "c2 = get_order(order_id=$c1.id)", "c3 = get_order(order_id=$c2.id)"], True),
        (["c1 = list_orders()"] + [f"c{n} = get_order(order_id=$c{n - 1}.id)" for n in range(2, 9)], True),
        (["c1 = get_order(order_id=$c1.id)"], False),
        (["c1 = get_order(order_id=$c2.id)", "c2 = list_orders()"], False),
        (["c1 = list_orders()", "c2 = get_order(order_id=$c3.id)"], False),
        (["c1 = list_orders()", "c2 = get_order(order_id=$c2.id)"], False),
        (["c2 = list_orders()", "c1 = list_orders()"], False),
        (["c1 = list_orders()", "c1 = list_orders()"], False),
        ([f"c{n} = list_orders()" for n in range(1, 10)], False),
    ],
)
def test_calls_link_to_earlier_lines(lines: list[str], within: bool) -> None:
    assert fits("\n".join(["run", *lines])) == within


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_there_may_be_few_ids(count: int) -> None:
    free = [f"c{n}" for n in range(count)]
    lines = [f"{name} = list_orders()" for name in free]
    assert fits("\n".join(["run", *lines]), free=free)
    assert not fits("run\nx = list_orders()", free=free)


RESULT: JsonObject = {
    "id": 7,
    "orders": [{"sku": "a", "@odata.etag": None}, {"no": True}],
    "[x]": 1,
    "none": [],
    "o": {},
}


@pytest.mark.parametrize("path", [".id", ".orders.0.sku", ".orders[0].sku", ".orders.0.@odata.etag", ".orders.1.no"])
def test_links_lead_to_values_in_results(path: str) -> None:
    assert fits(f'run\nc2 = move(source=$c1{path}, target="b")', known={"c1": RESULT}, free=["c2"])


@pytest.mark.parametrize(
    "path", ["", ".ids", ".orders", ".orders.0", ".orders.0.no", ".orders.2.sku", ".none.0", ".[x]"]
)
def test_links_lead_nowhere_else(path: str) -> None:
    assert not fits(f'run\nc2 = move(source=$c1{path}, target="b")', known={"c1": RESULT}, free=["c2"])


@pytest.mark.parametrize(
    ("argument", "link", "within"),
    [
        ("orderId", "$c1.order.id", True),
        ("orderId", "$c1.items.0.order_id", True),
        ("orderId", "$c1.order.total", False),
        ("orderId", "$c1.order.paid", False),
        ("id", "$c1.items[0].order_id", True),
        ("projectIdOrKey", "$c1.order.id", True),
        ("total", "$c1.order.total", True),
        ("amount", "$c1.order.total", True),  # nothing is called so, and it has to come from somewhere
        ("amount", "$c1.order.id", True),
        ("note", "$c1.order.total", False),  # optional
        ("order", "$c1.order.id", True),  # what is called so is no single value
    ],
)
def test_a_link_leads_to_what_is_called_like_the_argument(argument: str, link: str, within: bool) -> None:
    result: JsonObject = {"order": {"id": 7, "total": 12, "paid": True}, "items": [{"order_id": "A7"}]}
    text: JsonObject = {"type": "string"}
    shown = replace(tool("act", {argument: text}, [argument] * (argument != "note")), returns={"type": "boolean"})
    how = {"known": {"c1": result}, "free": ["c2"]}
    assert fits(f"run\nc2 = act({argument}={link})", [Shown("x", (shown,))], **how) is within
    again = replace(tool("make", {}), returns={"type": "array", "items": _schema_of(result)})
    later = link.replace("$c1", "$c1.0")
    assert fits(f"run\nc1 = make()\nc2 = act({argument}={later})", [Shown("x", (again, shown))]) is within


@pytest.mark.parametrize(
    ("argument", "path", "within"),
    [
        ("jurisdiction_id", ".jurisdiction.id", True),
        ("jurisdiction_id", ".id", False),
        ("jurisdiction_id", ".people.0.id", False),
        ("event_id", ".id", True),  # of the tool's resource
        ("event_id", ".people.0.id", False),
        ("id", ".people.0.id", True),  # of the path
        ("id", ".id", False),
        ("place_id", ".id", True),  # nothing else is called so
        ("place_id", ".people.0.id", True),
    ],
)
def test_of_several_ids_the_one_of_the_same_thing_is_linked(argument: str, path: str, within: bool) -> None:
    text: JsonObject = {"type": "string"}
    event = {"id": "e1", "jurisdiction": {"id": "j2"}, "people": [{"id": "p3"}]}
    maker = replace(tool("get_event", {}), resource="event", returns=_schema_of(event))
    other = replace(tool("get_place", {}), resource="place", returns=_schema_of([{"id": "p"}]))
    taker = replace(tool("take", {argument: text}, [argument]), path="/people/{id}", returns={"type": "null"})
    shown = [Shown("x", (maker, other, taker))]
    line = f"take({argument}=$c1{path})"
    assert fits(f"run\nc2 = {line}", shown, known={"c1": event}, made_by={"c1": maker}, free=["c2"]) is within
    assert fits(f"c2 = {line}", shown, made_by={"c1": maker}, begun=1, free=["c2", "c3"]) is within


@pytest.mark.parametrize(
    ("argument", "result", "path"),
    [
        ("customer", {"id": "cus_1"}, ".id"),  # made by a tool whose resource is a customer
        ("url", {"url": "a", "html_url": "b"}, ".html_url"),
        ("due", {"due_date": "a"}, ".due_date"),
        ("cursor", {"meta": {"nextCursor": "a"}}, ".meta.nextCursor"),
        ("body", {"result": "a"}, ".result"),
        ("body", "a", ""),
    ],
)
def test_optional_arguments_may_be_linked_to_what_fits(argument: str, result: JsonValue, path: str) -> None:
    maker = replace(tool("get", {}), resource="customer")
    taker = tool("send", {argument: {"type": "string"}})
    turn = f"run\nc2 = send({argument}=$c1{path})"
    assert fits(turn, [Shown("x", (maker, taker))], known={"c1": result}, made_by={"c1": maker}, free=["c2"])


def test_an_argument_that_a_result_repeats_is_no_better_evidence() -> None:
    customer, invoice = tool("create_customer", {}), tool("create_invoice", {"customer_id": {}}, ["customer_id"])
    known: dict[str, JsonValue] = {"c1": {"id": "a"}, "c2": {"id": "i", "customer_id": "a"}, "c3": {"id": "b"}}
    made_by = {"c1": customer, "c2": invoice, "c3": customer}
    shown = [Shown("x", (customer, invoice))]
    for link in ("$c3.id", "$c2.customer_id"):
        turn = f"run\nc4 = create_invoice(customer_id={link})"
        assert fits(turn, shown, known=known, made_by=made_by, free=["c4"])


def test_a_turn_that_has_begun_goes_on_with_lines() -> None:
    assert fits('c2 = get_order(order_id="A7")', begun=1, free=["c2"])
    assert fits('c2 = get_order(order_id="A7")\nc3 = list_orders()', begun=1, free=["c2", "c3"])
    assert not fits("find\nan order", begun=1)
    assert not fits("", begun=1)
    assert fits("\n".join(f"c{n} = list_orders()" for n in range(3, 9)), begun=2, free=[f"c{n}" for n in range(3, 9)])
    assert not fits("\n".join(["c3 = list_orders()"] * 7), begun=2, free=["c3"])


def test_no_link_begins_that_leads_nowhere() -> None:
    maker = replace(tool("make", {}), returns={"type": "object", "properties": {"id": {"type": "string"}}})
    taker = replace(tool("take", {"note": {"type": "integer"}, "id": {"type": "integer"}}), returns=maker.returns)
    shown = [Shown("x", (maker, taker))]
    assert fits("run\nc1 = make()\nc2 = take(id=$c1", shown, begins=True)
    assert not fits("run\nc1 = make()\nc2 = take(note=$", shown, begins=True)
    assert not fits("run\nc2 = take(note=$", shown, begins=True, known={"c1": {"id": 1}}, free=["c2"])


def test_a_number_can_be_given_where_none_is_to_be_quoted() -> None:
    for kind in ("integer", "number"):
        shown = [Shown("x", (replace(tool("take", {"page": {"type": kind}}), returns={"type": "null"}),))]
        assert fits("run\nc1 = take(page=1)", shown, quoted="Show it.")
        assert not fits("run\nc1 = take(page=1)", shown, quoted="Show 2 of it.")


def _schema_of(value: JsonValue) -> JsonObject:
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: _schema_of(inner) for key, inner in value.items()}}
    return {"type": "array", "items": _schema_of(value[0])} if isinstance(value, list) else {"type": "string"}


def test_a_list_or_an_object_may_be_linked_where_one_is_wanted() -> None:
    many = [Shown("x", (tool("count", {"of": {"type": "array"}, "any": {}}),))]
    assert fits("run\nc2 = count(of=$c1.orders, any=$c1.orders.0)", many, known={"c1": RESULT}, free=["c2"])


def test_links_to_calls_of_the_turn_lead_to_what_the_tools_return() -> None:
    def links(path: str, *returns: JsonObject) -> bool:
        makers = tuple(replace(tool(f"make_{n}", {}), returns=schema) for n, schema in enumerate(returns))
        return fits(f'run\nc1 = make_0()\nc2 = move(source=$c1{path}, target="b")', [Shown("x", (*makers, known))])

    known = replace(BOTH, returns={"type": "boolean"})
    text: JsonObject = {"type": "string"}
    order: JsonObject = {"type": "object", "properties": {"id": text, "lines": {"type": "array", "items": text}}}
    assert links(".id", order)
    assert links(".lines.12", order)
    assert links("", order)  # of a flag, by the other tool
    assert not links(".name", order)
    assert not links(".lines", order)
    assert links(".name", order, {"type": "object", "properties": {"name": text}})
    assert links(".name", order, {"type": "object"})  # who knows


@given(
    st.recursive(
        st.none() | st.integers(0, 9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b.c", "@d", "e f"]), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_every_value_of_a_result_can_be_linked(value: JsonValue) -> None:
    ways = [*_ways(value, "")]
    for way in ways:
        assert fits(f'run\nc2 = move(source=$c1{way}, target="b")', known={"c1": value}, free=["c2"]), way
        resolve(f"$c1{way}", {"c1": value})
    assert fits('run\nc2 = move(source=$c1.zzz, target="b")', known={"c1": value}, free=["c2"]) is False


def _ways(value: JsonValue, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if " " not in key:
                yield from _ways(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _ways(inner, f"{path}.{place}")
    else:
        yield path


def test_a_result_of_any_size_can_be_linked() -> None:
    large: JsonValue = [{f"k{place}": {"x": [place, {f"y{place}": 1}]}} for place in range(20)] * 100
    larger: JsonValue = {f"k{place}": {f"m{place}": {f"n{place}": 1}} for place in range(3000)}
    deep: JsonValue = 1
    for _ in range(50):
        deep = [deep]
    results = {"c1": large, "c2": larger, "c3": deep}
    for link in ("$c1.19.k19.x.1.y19", "$c2.k2999.m2999.n2999", "$c3" + ".0" * 50):
        assert fits(f"run\nc4 = get_order(order_id={link})", known=results, free=["c4"]), link


READ = 'Get the "big one" for eve_b7 from 22237306-f761, at most 12 of 3.5, on C:\\temp.'


@pytest.mark.parametrize("value", ['"eve_b7"', '"22237306-f761"', '"\\"big one\\""', '"C:\\\\temp"', "$c9.id"])
def test_quoted_values_stand_in_what_was_read(value: str) -> None:
    assert fits(f"run\nc1 = get_order(order_id={value})", quoted=READ, known={"c9": {"id": 1}})


@pytest.mark.parametrize(
    "arguments", ['order_id="evl_b7"', 'order_id="ev"', 'order_id="eve_b7", limit=13', 'order_id="x"']
)
def test_other_values_are_no_quotes(arguments: str) -> None:
    assert not fits(f"run\nc1 = get_order({arguments})", quoted=READ)


def test_quoted_numbers() -> None:
    assert fits('run\nc1 = get_order(order_id="eve_b7", limit=12)', quoted=READ)
    assert not fits('run\nc1 = get_order(order_id="eve", limit=4)', quoted="eve with 5")


def one(schema: JsonObject, value: str, quoted: str | None = None) -> bool:
    """Whether an argument of this schema may have a value, as it is written."""
    there: JsonObject = {"c9": {"größe": 1}}
    shown = [Shown("s", (tool("f", {"a": schema}, ["a"]),))]
    return fits(f"run\nc1 = f(a={value})", shown, quoted=quoted, known=there)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "1234567890123456789"),
        ({"type": "integer"}, "-0"),
        ({"type": "number"}, "1e5"),
        ({"type": ["string", "null"]}, "null"),
        ({"type": "string", "nullable": True}, "null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "7"),
        ({"enum": ["$count", 1, None]}, '"$$count"'),
        ({"enum": [*range(1000)], "type": "integer"}, "999"),
        ({"type": "string"}, '"$5.00"'),
        ({"type": "string"}, '"$"'),
        ({"type": "string"}, "$c9.größe"),
        ({"type": "array"}, '[1, {"a": 2}]'),
        ({}, '{"a": [1,2]}'),
    ],
)
def test_values_that_a_schema_has(schema: JsonObject, value: str) -> None:
    assert one(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "007"),
        ({"type": "string"}, "null"),
        ({"type": ["string", "null"]}, "true"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "true"),
        ({"enum": ["$count"]}, '"$count"'),
        ({"type": "string"}, '"$c9.x"'),
        ({"type": "array"}, "[\n1]"),
        ({"type": "object"}, '{"a":\n1}'),
        ({}, '{"a":\n1}'),
    ],
)
def test_values_that_it_has_not(schema: JsonObject, value: str) -> None:
    assert not one(schema, value)


@pytest.mark.parametrize(
    ("text", "kind", "value", "within"),
    [
        ("Go to\nLondon\tnow", "string", '"London"', True),
        ("Go to\nLondon\tnow", "string", '"to London"', True),
        ("agent 007", "number", "007", False),
        ("agent 007 on 8", "number", "7", False),
        ("agent \u0663", "number", "\u0663", False),
        ("pay 1,000 now", "integer", "1000", True),
        (" ".join(map(str, range(1000, 1300))), "integer", "1299", True),
        ("no number", "integer", "5", True),
        ("since 2026-10-25, 7 of them", "integer", "10", False),
        ("pages 3-5", "integer", "3", True),
        ("x", "null", "null", True),
        ("half a pair \ud800 and more", "string", '"and more"', True),
    ],
)
def test_what_can_be_quoted(text: str, kind: str, value: str, within: bool) -> None:
    assert one({"type": [kind, "null"]}, value, text) is within


def test_a_tool_may_have_many_arguments_in_any_order() -> None:
    names = [f"a{n}" for n in range(9)]
    many = tool("many", {name: {"type": "integer"} for name in names}, names[:7])
    few = tool("few", {name: {"type": "integer"} for name in names}, names[8:])
    arguments = ", ".join(f"{name}=1" for name in reversed(names))
    shown = [Shown("s", (many, few))]
    assert fits(f"run\nc1 = many({arguments})", shown)
    assert fits(f"run\nc1 = few({', '.join(f'{name}=1' for name in names)})", shown)
    assert not fits("run\nc1 = few(a0=1)", shown)


def test_what_strangers_name_does_no_harm() -> None:
    rogue = [tool(name, {"a\ud800": {"type": "string"}}) for name in ("a b", "-b", "a\nb", "a\ud800", 'a"', "a/")]
    shown = [Shown('x" | "y\n\ud800', (*rogue, LIST))]
    assert fits("run\nc1 = list_orders()", shown)
    assert not fits("run\nc1 = a b()", shown)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
KINDS: dict[str, st.SearchStrategy[JsonValue]] = {
    "string": st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=10),
    "integer": st.integers(-(10**15), 10**15),
    "boolean": st.booleans(),
    "array": st.lists(st.integers(0, 9), max_size=3),
    "object": st.dictionaries(st.sampled_from("ab"), st.integers(0, 9), max_size=2),
}


@st.composite
def calls(draw: st.DrawFn) -> tuple[Tool, Call]:
    """A tool with parameters of any names, and a valid call of it."""
    kinds = draw(st.dictionaries(NAMES, st.sampled_from([*KINDS]), max_size=8))
    required = draw(st.lists(st.sampled_from([*kinds]), unique=True)) if kinds else []
    given_names = [name for name in draw(st.permutations([*kinds])) if name in required or draw(st.booleans())]
    linked: dict[bool, st.SearchStrategy[JsonValue]] = {True: st.just("$c1.id"), False: st.nothing()}
    arguments = {name: draw(KINDS[kinds[name]] | linked[name in required]) for name in given_names}
    shown = tool("the_tool", {name: {"type": kind} for name, kind in kinds.items()}, required)
    return shown, Call("the_tool", arguments, "c2")


@given(calls())
def test_every_valid_call_is_within(made: tuple[Tool, Call]) -> None:
    shown, call = made
    line = compact.call_line(call, {"the_tool": "find it: now"})
    assert fits(f"run\n{line}", [Shown("find it: now", (LIST, shown))], known={"c1": {"id": 1}}, free=["c2"]), line
    assert compact.parse(f"run\n{line}").calls == (call,)
