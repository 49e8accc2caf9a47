"""Python functions as tools: signatures become schemas, arguments become types, results become JSON."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from paraagent.agent.limits import Limits
from paraagent.agent.schedule import run_group
from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.functions import FunctionToolbox, declare
from paraagent.agent.toolboxes.python_file import public_functions
from paraagent.clock import WallClock
from paraagent.errors import EnvironmentFault, ToolFailure, UsageError
from paraagent.types import Call, Effects, JsonObject, JsonValue


class Size(enum.Enum):
    SMALL = "small"
    BIG = "big"


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


@declare("create", writes=["order"])
def place_order(
    lines: Annotated[list[Line], "What to send."],
    day: datetime.date,
    size: Size = Size.SMALL,
    mode: Literal["air", "sea"] = "sea",
    *,
    note: str | None = None,
) -> dict[str, Any]:
    """Place an order for
    some things.

    Nothing below the first paragraph is shown.
    """
    assert isinstance(day, datetime.date)
    assert isinstance(size, Size)
    return {"lines": [dataclasses.asdict(line) for line in lines], "day": day, "size": size, "note": note}


@declare("read", reads=["order/{order_id}"])
def get_order(order_id: str) -> Line:
    return Line(order_id, 3)


async def later(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "late"


def box(*functions: Callable[..., Any], **more: Any) -> FunctionToolbox:
    return FunctionToolbox(functions, "shop", **more)


def call(toolbox: FunctionToolbox, name: str, arguments: JsonObject | None = None) -> JsonValue:
    async def run() -> JsonValue:
        async with toolbox:
            tool = toolbox.tool(name)
            assert tool is not None
            return await toolbox.call(tool, arguments or {})

    return asyncio.run(run())


def failure(toolbox: FunctionToolbox, name: str, arguments: JsonObject | None = None) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        call(toolbox, name, arguments)
    return caught.value


def test_a_signature_becomes_an_interface() -> None:
    tool = box(place_order).tool("shop.place_order")
    assert tool is not None
    assert tool.description == "Place an order for some things."
    assert tool.parameters["required"] == ["lines", "day"]
    properties = tool.parameters["properties"]
    assert isinstance(properties, dict)
    lines = properties["lines"]
    assert isinstance(lines, dict)
    assert (lines["type"], lines["description"]) == ("array", "What to send.")
    items = lines["items"]
    assert isinstance(items, dict)
    assert items["properties"] == {"sku": {"type": "string"}, "count": {"type": "integer", "default": 1}}
    assert items["required"] == ["sku"]
    assert properties["day"] == {"type": "string", "format": "date"}
    assert properties["size"] == {"type": "string", "enum": ["small", "big"]}
    assert box(get_order).tools[0].returns["required"] == ["sku"]


def test_arguments_reach_the_function_as_its_types_and_results_come_back_as_json() -> None:
    arguments: JsonObject = {"lines": [{"sku": "a"}], "day": "2024-05-06", "size": "big"}
    expected = {"lines": [{"sku": "a", "count": 1}], "day": "2024-05-06", "size": "big", "note": None}
    assert call(box(place_order), "shop.place_order", arguments) == expected
    assert call(box(get_order), "shop.get_order", {"order_id": "A1"}) == {"sku": "A1", "count": 3}
    assert call(box(later), "shop.later", {"seconds": 0}) == "late"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"day": "2024-05-06"}, '"lines" is missing'),
        ({"lines": [], "day": "2024-05-06", "mode": "rail"}, '"mode" must be one of'),
        ({"lines": [], "day": "2024-05-06", "nota": "x"}, 'did you mean "note"'),
        ({"lines": [], "day": "yesterday"}, '"day"'),
    ],
)
def test_wrong_arguments_never_reach_the_function(arguments: JsonObject, message: str) -> None:
    found = failure(box(place_order), "shop.place_order", arguments)
    assert found.kind == "invalid_args"
    assert message in str(found)


def test_a_function_that_raises_says_what() -> None:
    def broken() -> None:
        raise ValueError("out of paper")

    def refused() -> None:
        raise ToolFailure("not_found", "no such order")

    def leaves() -> None:
        raise SystemExit(3)

    assert str(failure(box(broken), "shop.broken")) == "ValueError: out of paper"
    assert failure(box(refused), "shop.refused").kind == "not_found"
    assert "SystemExit" in str(failure(box(leaves), "shop.leaves"))


def test_what_is_not_json_or_too_long_is_refused() -> None:
    def strange() -> object:
        return threading.Lock()

    def endless() -> str:
        return "x" * 2_000

    assert "is not JSON" in str(failure(box(strange), "shop.strange"))
    assert "2,002 bytes" in str(failure(box(endless, bounds=Bounds(size=1_000)), "shop.endless"))


def test_a_hung_function_times_out_and_its_siblings_keep_their_results() -> None:
    released = threading.Event()

    @declare("read", reads=["a"])
    def hang() -> None:
        released.wait()

    @declare("read", reads=["b"])
    def fine() -> str:
        return "fine"

    @declare("read", reads=["c"])
    async def sleeps() -> None:
        await asyncio.sleep(60)

    async def run() -> list[Any]:
        toolbox = box(hang, fine, sleeps, bounds=Bounds(timeout=0.1))
        calls = [Call("shop.hang", {}), Call("shop.fine", {}), Call("shop.sleeps", {})]
        return await run_group(calls, toolbox, WallClock(), limits=Limits(timeout=None, attempts=1))

    started = time.monotonic()
    results = asyncio.run(run())
    released.set()
    assert time.monotonic() - started < 5, "a thread that hangs must not keep the program from ending"
    assert [result.error.kind if result.error else result.value for result in results] == [
        "timeout",
        "fine",
        "timeout",
    ]


def test_functions_run_at_the_same_time_if_their_effects_allow_it() -> None:
    meeting = threading.Barrier(4, timeout=10.0)

    @declare("read", reads=["thing/{id}"])
    def meet(id: str) -> int:
        return meeting.wait()

    calls = [Call("shop.meet", {"id": str(i)}) for i in range(4)]
    results = asyncio.run(run_group(calls, box(meet), WallClock(), limits=Limits(timeout=None)))
    assert sorted(str(result.value) for result in results) == ["0", "1", "2", "3"]


def test_functions_that_declare_nothing_run_one_after_the_other() -> None:
    running: list[str] = []

    def use(id: str) -> list[str]:
        running.append(id)
        time.sleep(0.01)
        seen = list(running)
        running.remove(id)
        return seen

    calls = [Call("shop.use", {"id": str(i)}) for i in range(4)]
    results = asyncio.run(run_group(calls, box(use), WallClock(), limits=Limits(timeout=None)))
    assert [result.value for result in results] == [["0"], ["1"], ["2"], ["3"]]


def test_effects_come_from_declarations_and_rules() -> None:
    def plain(id: str) -> None: ...

    def effects(toolbox: FunctionToolbox, name: str, **arguments: JsonValue) -> Effects:
        tool = toolbox.tool(name)
        assert tool is not None
        return toolbox.effects(tool, arguments)

    both = box(get_order, place_order, plain)
    assert effects(both, "shop.get_order", order_id="a/b") == Effects(reads=frozenset({"shop/order/a%2Fb"}))
    assert effects(both, "shop.get_order") == Effects(reads=frozenset({"shop/order"}))
    assert effects(both, "shop.place_order") == Effects(writes=frozenset({"shop/order"}))
    assert effects(both, "shop.plain") == Effects(exclusive=True)
    ruled = box(plain, rules={"shop.pl*": "read"})
    assert effects(ruled, "shop.plain") == Effects(reads=frozenset({"shop"}))


def test_functions_without_usable_types_are_a_usage_error() -> None:
    def untyped(a) -> None: ...  # type: ignore[no-untyped-def]

    def variadic(*things: str) -> None: ...

    def odd(lock: Callable[[int], threading.Lock], other: Undefined) -> None: ...  # type: ignore[name-defined] # noqa: F821

    for function, message in (
        (untyped, "give the parameter 'a' a type"),
        (variadic, "variadic"),
        (odd, "cannot be a tool"),
    ):
        with pytest.raises(UsageError, match=message):
            box(function)
    with pytest.raises(UsageError, match=r"two functions are called shop\.get_order"):
        box(get_order, get_order)


def test_the_public_functions_of_a_file_are_tools(tmp_path: Path) -> None:
    path = tmp_path / "tricks.py"
    path.write_text(
        "from __future__ import annotations\nfrom os.path import join\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Card:\n    suit: str\n"
        "def draw(card: Card) -> str:\n    '''Draw a card.'''\n    return card.suit\n"
        "def _shuffle() -> None: ...\n"
    )
    functions = public_functions(path)
    assert [function.__name__ for function in functions] == ["draw"]
    assert call(FunctionToolbox(functions, path.stem), "tricks.draw", {"card": {"suit": "spades"}}) == "spades"


def test_a_file_without_tools_says_so(tmp_path: Path) -> None:
    empty, broken = tmp_path / "empty.py", tmp_path / "broken.py"
    empty.write_text("x = 1")
    broken.write_text("1/0")
    with pytest.raises(UsageError, match="no public function"):
        public_functions(empty)
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        public_functions(broken)
    with pytest.raises(EnvironmentFault, match="no such file"):
        public_functions(tmp_path / "none.py")
