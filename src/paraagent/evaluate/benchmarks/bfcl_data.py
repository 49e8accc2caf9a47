"""BFCL's multi-turn entries as the package `bfcl-eval` ships them: dialogues, functions, gold calls, classes.

Place in the flow: layer 5, read by `bfcl`. Reading imports the package's executable classes, which simulate a file
system, a trading account and others in memory. Nothing else of it is imported, so most of what it depends on is not
needed.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from paraagent.errors import EnvironmentFault
from paraagent.types import JsonObject, JsonValue, Tool

PACKAGE = "bfcl_eval"
PINNED = "bfcl-eval==2026.3.23"
HOW = f"run `pip install --no-deps --target DIR {PINNED} mpmath` and pass DIR as --data"
Category = Literal["base", "miss_func", "miss_param", "long_context"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
MORE_TOOLS = "More tools can be found now. Please go on with what was not possible before."
"""What the user says when functions that were held out become available."""
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


class _Message(msgspec.Struct):
    content: str


class _Entry(msgspec.Struct):
    id: str
    question: list[list[_Message]]
    initial_config: dict[str, dict[str, Any]]
    involved_classes: list[str]
    missed_function: dict[str, list[str]] = {}


class _Solution(msgspec.Struct):
    id: str
    ground_truth: list[list[str]]


class _Function(msgspec.Struct):
    name: str
    description: str
    parameters: JsonObject
    response: JsonObject = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the solution."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One entry: what the user says, turn by turn, and what the solution calls in each."""

    id: str
    category: Category
    says: tuple[str, ...]
    gold: tuple[tuple[Step, ...], ...]
    classes: tuple[str, ...]
    config: dict[str, dict[str, Any]]
    held_out: dict[int, tuple[str, ...]]
    """Functions that can be found only from this user turn on; none that the solution itself uses earlier."""


@dataclass(frozen=True, slots=True)
class Bfcl:
    """The multi-turn part of the package."""

    dialogues: Sequence[Dialogue]
    functions: dict[str, tuple[Tool, ...]]
    """By class."""
    classes: dict[str, type[Any]]


def read(data: Path | None, categories: Sequence[Category] = CATEGORIES) -> Bfcl:
    """Read categories from the installed package, or from the one in a folder.

    Raises:
        EnvironmentFault: the package is not there, or is not what it should be.
    """
    folder = _locate(data)
    try:
        entries = [(kind, entry) for kind in categories for entry in _entries(folder, kind)]
        names = sorted({name for _, (entry, _) in entries for name in entry.involved_classes})
        where = importlib.import_module(f"{PACKAGE}.constants.executable_backend_config")
        classes = {
            name: getattr(importlib.import_module(where.CLASS_FILE_PATH_MAPPING[name]), name) for name in names
        }
        documents = {
            name: folder / "multi_turn_func_doc" / where.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name] for name in names
        }
        functions = {name: tuple(_tools(path, name)) for name, path in documents.items()}
        dialogues = [_dialogue(kind, entry, solution, classes) for kind, (entry, solution) in entries]
    except (OSError, ImportError, AttributeError, LookupError, SyntaxError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        raise EnvironmentFault(f"{folder.parent} is not {PINNED}, or lacks what it needs ({said}); {HOW}") from error
    return Bfcl(dialogues, functions, classes)


def _locate(data: Path | None) -> Path:
    """Return the package's data folder, and make the package importable."""
    if data is not None:
        if not (data / PACKAGE / "data").is_dir():
            raise EnvironmentFault(f"BFCL is missing: expected the package {PACKAGE} in {data}; {HOW}")
        if str(data.resolve()) not in sys.path:
            sys.path.insert(0, str(data.resolve()))
        return data / PACKAGE / "data"
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFault(f"BFCL is missing: the package {PACKAGE} is not installed; {HOW}")
    return Path(spec.submodule_search_locations[0]) / "data"


def _entries(folder: Path, category: Category) -> Iterator[tuple[_Entry, _Solution]]:
    name = f"BFCL_v4_multi_turn_{category}.json"
    solutions = msgspec.json.Decoder(_Solution).decode_lines((folder / "possible_answer" / name).read_bytes())
    by_id = {solution.id: solution for solution in solutions}
    for entry in msgspec.json.Decoder(_Entry).decode_lines((folder / name).read_bytes()):
        yield entry, by_id[entry.id]


def _dialogue(category: Category, entry: _Entry, solution: _Solution, classes: dict[str, type[Any]]) -> Dialogue:
    methods = {
        name: method
        for owner in entry.involved_classes
        for name, method in inspect.getmembers(classes[owner], inspect.isfunction)
        if not name.startswith("_")
    }
    gold = tuple(tuple(_step(text, methods) for text in turn) for turn in solution.ground_truth)
    held_out = {
        int(turn): tuple(name for name in names if not _uses(gold[: int(turn)], name))
        for turn, names in entry.missed_function.items()
    }
    return Dialogue(
        id=entry.id,
        category=category,
        says=tuple("\n".join(message.content for message in turn) or MORE_TOOLS for turn in entry.question),
        gold=gold,
        classes=tuple(entry.involved_classes),
        config=entry.initial_config,
        held_out=held_out,
    )


def _uses(turns: Sequence[Sequence[Step]], name: str) -> bool:
    return any(step.name == name for steps in turns for step in steps)


def _step(text: str, methods: dict[str, Any]) -> Step:
    """Read one call as the solution writes it, `cd(folder='a')`; its arguments are literals.

    Raises:
        ValueError: it is no such call of a known method.
    """
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in methods:
        raise ValueError(f"{text!r} is no call of a method of these classes")
    keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    positional = [ast.literal_eval(value) for value in call.args]
    bound = inspect.signature(methods[call.func.id]).bind(None, *positional, **keywords)
    own = next(iter(bound.arguments))  # self
    arguments: JsonObject = {name: _plain(value) for name, value in bound.arguments.items() if name != own}
    return Step(call.func.id, arguments)


def _plain(value: object) -> JsonValue:
    """Return a Python literal as JSON; a tuple is a list."""
    return msgspec.json.decode(msgspec.json.encode(value))  # type: ignore[no-any-return]


def _tools(path: Path, owner: str) -> Iterator[Tool]:
    for function in msgspec.json.Decoder(_Function).decode_lines(path.read_bytes()):
        parameters, returns = _schema(function.parameters), _schema(function.response)
        assert isinstance(parameters, dict)
        yield Tool(
            name=function.name,
            description=function.description.rpartition("Tool description:")[2].strip(),
            parameters=parameters,
            returns=returns if isinstance(returns, dict) else {},
            effect="action",
            provider=owner,
            api=owner,
            source=PINNED,
            operation=function.name,
        )


def _schema(value: JsonValue) -> JsonValue:
    """Return a schema with the names JSON Schema has for types."""
    if isinstance(value, list):
        return [_schema(child) for child in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    fixed = {name: _schema(child) for name, child in value.items() if name not in ("type", "optional")}
    if not isinstance(kind, str):
        return {**fixed, **({"type": _schema(kind)} if kind is not None else {})}
    return fixed if kind == "any" else {"type": _TYPES.get(kind, kind), **fixed}
