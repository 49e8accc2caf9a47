"""The grammar of a turn lets through what the dialect says of the tools that were shown, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiny_model
from paraagent.protocol import compact
from paraagent.protocol.lark import Shown, turn_grammar
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


def fits(text: str, shown: Sequence[Shown] = SHOWN, **how: object) -> bool:
    """Whether a turn is within the grammar."""
    global _TOKENIZER
    from llguidance.hf import from_tokenizer

    tokenizer = tiny_model.tokenizer()
    _TOKENIZER = _TOKENIZER or from_tokenizer(tokenizer)
    matcher = llguidance.LLMatcher(_TOKENIZER, turn_grammar(shown, **how))  # type: ignore[arg-type]
    assert not matcher.is_error(), matcher.get_error()
    ids = tokenizer.encode(text, add_special_tokens=False)
    return bool(matcher.try_consume_tokens(ids) == len(ids)) and bool(matcher.is_accepting())


@pytest.mark.parametrize(
    "turn",
    [
        "find\nget an order by its id",
        "find more\norder: get it\nparcel: track: it",
        'run\nc1 = get_order(order_id="A7")',
        'run\nan order: by id: c1 = get_order(order_id="a: b = \\"c\\"", limit=-3)\nc2 = list_orders()',
        "run more\nc2 = get_order(limit=$c1.0.n, order_id=$c1.items[0].id, state=$c3)",
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
    assert fits(turn, known=["c2"], free=["c3", "c4"])
    assert not fits(turn, known=["c1"], free=["c3", "c4"])
    assert not fits(turn, known=["c2", "c4"], free=["c3"])
    assert fits(turn, known=["c2", "a/b", "*", 'q"'], free=["c4", "x/"])  # ids are a model's words


READ = 'Get the "big one" for eve_b7 from 22237306-f761, at most 12 of 3.5, on C:\\temp.'


@pytest.mark.parametrize("value", ['"eve_b7"', '"22237306-f761"', '"\\"big one\\""', '"C:\\\\temp"', "$c1.id"])
def test_quoted_values_stand_in_what_was_read(value: str) -> None:
    assert fits(f"run\nc1 = get_order(order_id={value})", quoted=READ)


@pytest.mark.parametrize(
    "arguments", ['order_id="evl_b7"', 'order_id="ev"', 'order_id="eve_b7", limit=13', 'order_id="x"']
)
def test_other_values_are_no_quotes(arguments: str) -> None:
    assert not fits(f"run\nc1 = get_order({arguments})", quoted=READ)


def test_quoted_numbers() -> None:
    assert fits('run\nc1 = get_order(order_id="eve_b7", limit=12)', quoted=READ)
    assert not fits('run\nc1 = get_order(order_id="eve", limit=4)', quoted="eve without numbers")


def one(schema: JsonObject, value: str, quoted: str | None = None) -> bool:
    """Whether an argument of this schema may have a value, as it is written."""
    return fits(f"run\nc1 = f(a={value})", [Shown("s", (tool("f", {"a": schema}),))], quoted=quoted)


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
        ({"type": "string"}, "$c1.größe"),
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
        ("agent 007", "number", "7", False),
        ("agent \u0663", "number", "\u0663", False),
        ("pay 1,000 now", "integer", "1000", True),
        (" ".join(map(str, range(1000, 1300))), "integer", "1299", True),
        ("no number", "integer", "5", False),
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
    arguments = {name: draw(KINDS[kinds[name]] | st.just("$c1.id")) for name in given_names}
    shown = tool("the_tool", {name: {"type": kind} for name, kind in kinds.items()}, required)
    return shown, Call("the_tool", arguments, "c2")


@given(calls())
def test_every_valid_call_is_within(made: tuple[Tool, Call]) -> None:
    shown, call = made
    line = compact.call_line(call, {"the_tool": "find it: now"})
    assert fits(f"run\n{line}", [Shown("find it: now", (LIST, shown))]), line
    assert compact.parse(f"run\n{line}").calls == (call,)
