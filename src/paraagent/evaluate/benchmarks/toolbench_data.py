"""ToolBench's files as tools and labelled requests: StableToolBench's 765 solvable queries in six splits.

Place in the flow: layer 5, read by `toolbench`. An API becomes a tool whose result schema comes from its response
template, where it has one. Tools are numbered in order of first appearance, so names are the same for everyone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
import orjson

from paraagent.errors import EnvironmentFault
from paraagent.evaluate.benchmarks.base import missing
from paraagent.types import EffectKind, JsonObject, JsonValue, Tool

SPLITS = ("G1_instruction", "G1_category", "G1_tool", "G2_instruction", "G2_category", "G3_instruction")
SOURCE = "the repository THUNLP-MT/StableToolBench, solvable_queries/test_instruction (Apache-2.0)"
_FOLDERS = ("stabletoolbench", "test_instruction", "solvable_queries/test_instruction", ".")
_PARAMETER_TYPES = {"NUMBER": "number", "BOOLEAN": "boolean"}
_EFFECTS: dict[str, EffectKind] = {"GET": "read", "DELETE": "delete", "PUT": "update"}
_TEMPLATE_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "NoneType": "null"}
_LIST = re.compile(r"list of (\w+)")
_ANYTHING: JsonObject = {"type": "object"}
_DEEPEST = 12


class _Parameter(msgspec.Struct):
    name: str
    type: str
    description: str | None = ""


class _Api(msgspec.Struct):
    category_name: str
    tool_name: str
    api_name: str
    method: str
    api_description: str | None = ""
    required_parameters: list[_Parameter] = []
    optional_parameters: list[_Parameter] = []
    template_response: JsonValue = None


class _Record(msgspec.Struct):
    query: str
    query_id: int
    api_list: list[_Api]
    relevant: list[tuple[str, str]] = msgspec.field(name="relevant APIs")


@dataclass(frozen=True, slots=True)
class Request:
    """One query with the names of the tools that are relevant to it."""

    id: int
    split: str
    text: str
    relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Data:
    """All of the benchmark."""

    tools: dict[str, Tool]
    """By name."""
    requests: Sequence[Request]


def read(data: Path) -> Data:
    """Read all six splits from a folder or the places below it where they usually lie.

    Raises:
        EnvironmentFault: a file is not there or is not ToolBench's.
    """
    folder = next((data / name for name in _FOLDERS if (data / name / f"{SPLITS[0]}.json").is_file()), None)
    if folder is None:
        raise missing("ToolBench", [str(data / name / f"{SPLITS[0]}.json") for name in _FOLDERS[:1]], SOURCE)
    tools: dict[tuple[str, str], Tool] = {}
    requests = []
    for split in SPLITS:
        for record in _records(folder / f"{split}.json"):
            for api in record.api_list:
                if (api.tool_name, api.api_name) not in tools:
                    tools[api.tool_name, api.api_name] = _tool(api, len(tools))
            relevant = (tools[label].name for label in record.relevant if label in tools)
            requests.append(Request(record.query_id, split, record.query, tuple(dict.fromkeys(relevant))))
    return Data({tool.name: tool for tool in tools.values()}, requests)


def _records(path: Path) -> list[_Record]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[_Record])
    except FileNotFoundError:
        raise missing("a split of ToolBench", [str(path)], SOURCE) from None
    except (OSError, msgspec.DecodeError) as error:
        raise EnvironmentFault(f"{path} is not ToolBench's: {error}; get it from {SOURCE}") from error


def _tool(api: _Api, number: int) -> Tool:
    required: list[JsonValue] = [parameter.name for parameter in api.required_parameters]
    properties: JsonObject = {
        parameter.name: {
            "type": _PARAMETER_TYPES.get(parameter.type.upper(), "string"),
            "description": parameter.description or "",
        }
        for parameter in (*api.required_parameters, *api.optional_parameters)
    }
    return Tool(
        name=f"toolbench_{number}_{_slug(api.tool_name)[:22]}_{_slug(api.api_name)[:22]}",
        description=api.api_description or "",
        parameters={"type": "object", "properties": properties, "required": required},
        returns=_returns(api.template_response),
        effect=_EFFECTS.get(api.method, "action"),
        provider=api.tool_name,
        api=api.tool_name,
        api_title=api.tool_name,
        category=api.category_name.replace("_", " "),
        source="ToolBench",
        operation=api.api_name,
        method=api.method,
    )


def _returns(template: JsonValue) -> JsonObject:
    """Return the schema behind a response template; a template cut short says nothing."""
    if isinstance(template, str):
        try:
            template = cast(JsonValue, orjson.loads(template))
        except orjson.JSONDecodeError:
            return _ANYTHING
    found = _schema(template)
    return found if found.get("type") in ("object", "array") else _ANYTHING


def _schema(template: JsonValue, depth: int = 0) -> JsonObject:
    if isinstance(template, dict) and depth < _DEEPEST:
        kept = {name: value for name, value in template.items() if name != "_list_length"}
        return {"type": "object", "properties": {name: _schema(value, depth + 1) for name, value in kept.items()}}
    if isinstance(template, list):
        item = template[0] if template else None
        named = _LIST.match(item) if isinstance(item, str) else None
        return {"type": "array", "items": _schema(named[1] if named else item, depth + 1)}
    kind = _TEMPLATE_TYPES.get(template) if isinstance(template, str) else None
    return {"type": kind} if kind else {}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
