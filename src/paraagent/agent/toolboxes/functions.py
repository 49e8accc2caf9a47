"""Python functions as tools: signature and docstring become the interface.

Place in the flow: layer 3. Type hints give the schemas, in all that pydantic knows (dataclasses, typed dictionaries,
enumerations, models, dates); `Annotated[int, "what it means"]` describes a parameter, the docstring's first paragraph
the tool. Arguments reach the function as the types it asks for. Ordinary functions run in threads, `async` ones in
the event loop.

    @declare("read", reads=["order/{order_id}"])
    def get_order(order_id: Annotated[str, "As on the invoice."]) -> Order: ...

Limits: a thread cannot be stopped, so a function that took too long goes on in the background until it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote

import orjson
import pydantic_core
from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.listed import EffectRules, ListedToolbox
from paraagent.agent.toolboxes.schemas import input_schema, output_schema
from paraagent.catalog.text import clean
from paraagent.errors import ToolFailure, UsageError
from paraagent.types import EffectKind, Effects, JsonObject, JsonValue, Tool

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

_DESCRIPTION = 1_000
_MARK = "__paraagent_effect__"
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a function's author says it touches."""

    effect: EffectKind
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


def declare(effect: EffectKind, *, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> Callable[[F], F]:
    """Say what a function does to the world, so that its calls may run in parallel.

    Args:
        reads: keys of what it looks at, as `order` or `order/{order_id}` with a parameter in braces.
        writes: keys of what it changes. Without any keys a function touches all that its toolbox has.
    """

    def mark(function: F) -> F:
        setattr(function, _MARK, Declared(effect, tuple(reads), tuple(writes)))
        return function

    return mark


class FunctionToolbox(ListedToolbox):
    """Functions as tools, named `name.function`, or just `function` without a name.

    Raises:
        UsageError: a function's parameters have no types that make a schema.
    """

    def __init__(
        self,
        functions: Iterable[Function],
        name: str = "",
        *,
        rules: EffectRules | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        super().__init__(name, rules)
        self._bounds = bounds or Bounds()
        self._functions: dict[str, Function] = {}
        self._async: set[str] = set()
        self._marks: dict[str, Declared] = {}
        for function in functions:
            self._add(function)

    def server(self, tool: Tool) -> str:
        return self.name or "python"

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        mark = self._marks.get(tool.name)
        if mark is None or not (mark.reads or mark.writes):
            return super().effects(tool, arguments)
        reads, writes = (frozenset(self._key(key, arguments) for key in keys) for keys in (mark.reads, mark.writes))
        if tool.effect != "read" and not writes:
            writes = frozenset({self.server(tool)})
        return Effects(reads=reads, writes=writes)

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        self.check(tool, arguments)
        function = self._functions[tool.name]
        limit = asyncio.timeout(self._bounds.timeout)
        try:
            async with limit:
                if tool.name in self._async:
                    value = await function(**arguments)
                else:
                    value = await _in_thread(lambda: function(**arguments))
        except ToolFailure:
            raise
        except ValidationError as problem:
            raise _not_accepted(problem) from None
        except Exception as problem:
            if limit.expired():
                message = f"{tool.name} took more than {self._bounds.timeout:g} s; it may still be running"
                raise ToolFailure("timeout", message) from None
            raise ToolFailure("tool_error", f"{type(problem).__name__}: {problem}") from problem
        return self._json(tool, value)

    def _json(self, tool: Tool, value: object) -> JsonValue:
        try:
            text = pydantic_core.to_json(value)
        except (pydantic_core.PydanticSerializationError, ValueError) as problem:
            raise ToolFailure("tool_error", f"{tool.name} returned what is not JSON: {problem}") from None
        if len(text) > self._bounds.size:
            message = f"{tool.name} returned {len(text):,} bytes, more than the {self._bounds.size:,} allowed"
            raise ToolFailure("tool_error", message)
        answer: JsonValue = orjson.loads(text)
        return answer

    def _add(self, function: Function) -> None:
        title = function.__name__
        name = f"{self.name}.{title}" if self.name else title
        if name in self._functions:
            raise UsageError(f"two functions are called {name}; rename one")
        mark: Declared | None = getattr(function, _MARK, None)
        paragraph = (inspect.getdoc(function) or title.replace("_", " ")).partition("\n\n")[0]
        parameters, returns = _schemas(function)
        if mark is not None:
            self._marks[name] = mark
        self._functions[name] = validate_call(function)
        if inspect.iscoroutinefunction(function):
            self._async.add(name)
        tool = Tool(
            name=name,
            description=clean(paragraph, _DESCRIPTION),
            parameters=parameters,
            returns=returns,
            effect=mark.effect if mark else "action",
            provider=self.name or "python",
            api=self.name or "python",
            source="python",
            operation=title,
        )
        self.offer(tool, declared=mark is not None)

    def _key(self, template: str, arguments: JsonObject) -> str:
        """Fill a key in; it ends before the first argument that is not known yet."""
        parts = [self.name or "python"]
        for part in template.split("/"):
            if part.startswith("{") and part.endswith("}"):
                if part[1:-1] not in arguments:
                    break
                part = str(arguments[part[1:-1]])
                part = part if part.isascii() and part.isalnum() else quote(part, safe="")
            parts.append(part)
        return "/".join(parts)


def _schemas(function: Function) -> tuple[JsonObject, JsonObject]:
    """Return the schemas of parameters and result."""
    where = f"the function {function.__name__}"
    try:
        hints = get_type_hints(function, include_extras=True)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in _KINDS:
                raise UsageError(f"{where} cannot be a tool: {name!r} can only be passed by position or is variadic")
            if name not in hints:
                raise UsageError(f"{where} cannot be a tool: give the parameter {name!r} a type")
        raw = TypeAdapter[Any](function).json_schema(schema_generator=_Untitled)  # type: ignore[arg-type]
        answer = hints.get("return", object)
        returns = {} if answer in (object, Any) else TypeAdapter(answer).json_schema(schema_generator=_Untitled)
    except (PydanticUserError, NameError, TypeError) as problem:
        raise UsageError(f"{where} cannot be a tool: {str(problem).splitlines()[0]}") from None
    for name, description in _descriptions(hints).items():
        if description:
            raw["properties"][name].setdefault("description", description)
    return input_schema(raw), output_schema(returns)


def _descriptions(hints: dict[str, Any]) -> dict[str, str]:
    """Return the texts that annotate parameters."""
    found: dict[str, str] = {}
    for name, hint in hints.items():
        if name != "return" and get_origin(hint) is Annotated:
            texts = (extra for extra in get_args(hint)[1:] if isinstance(extra, str))
            found[name] = next(texts, "")
    return found


class _Untitled(GenerateJsonSchema):
    """Leaves out titles, which only repeat the names."""

    def get_title_from_name(self, name: str) -> str:
        return ""


def _not_accepted(problem: ValidationError) -> ToolFailure:
    first = problem.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "the arguments"
    return ToolFailure("invalid_args", f'"{where}": {first["msg"]}')


async def _in_thread(work: Callable[[], object]) -> object:
    """Run work in a thread of its own, which never keeps the program from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: object, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(work)
        except BaseException as problem:
            error = problem
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, daemon=True, name="paraagent-tool").start()
    value, error = await done
    if error is not None:
        raise error if isinstance(error, Exception) else ToolFailure("tool_error", f"it ended with {error!r}")
    return value
