"""Small made-up files in the formats of public benchmarks, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

APIS: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "FindShip": ("Finds the ship of a captain.", {"captain": "str"}, {"ship_id": "str"}),
    "ShipPosition": ("Tells where a ship is.", {"ship_id": "str", "depth": "float"}, {"place": "str"}),
    "AddBerth": ("Books a berth in a harbour.", {"harbour": "str", "crew": "list(str)"}, {"status": "str"}),
}


def apibank(folder: Path) -> Path:
    """Write three tasks of five calls in API-Bank's form and return the folder."""
    position = (
        "ShipPosition",
        {"ship_id": "S1", "depth": "40.50"},
        {"ship_id": "S1", "depth": 40.5},
        {"place": "Bergen"},
    )
    berth = ("AddBerth", {"harbour": "Oslo", "crew": ["Ann"]}, {"harbour": "Oslo", "crew": ["Ann"]}, "success")
    ship = ("FindShip", {"captain": "Ann"}, {"captain": "Ann"}, {"ship_id": "S1"})
    records = [
        _record("Where is captain Ann's ship at depth 40.50?", [ship, position]),
        _record("Book a berth in Oslo for Ann, twice.", [berth, berth]),
        _record("Which ship does Ann sail?", [ship]),
    ]
    path = folder / "apibank" / "level-3.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(records))
    return folder


def _record(request: str, calls: list[tuple[str, Any, Any, Any]]) -> dict[str, Any]:
    found = [_searched(name) for name in dict.fromkeys(name for name, *_ in calls)]
    made = [
        {
            "api_name": name,
            "input": given,
            "output": {"api_name": name, "input": read, "output": output, "exception": None},
        }
        for name, given, read, output in calls
    ]
    return {"requirement": request, "response": "Done.", "apis": found + made}


def _searched(name: str) -> dict[str, Any]:
    description, inputs, outputs = APIS[name]
    shown = {
        "name": name,
        "description": description,
        "input_parameters": {key: {"type": kind, "description": key} for key, kind in inputs.items()},
        "output_parameters": {key: {"type": kind, "description": key} for key, kind in outputs.items()},
    }
    given = {"keywords": name}
    output = {"api_name": "ToolSearcher", "input": given, "output": shown, "exception": None}
    return {"api_name": "ToolSearcher", "input": given, "output": output}


SPLITS = ("G1_instruction", "G1_category", "G1_tool", "G2_instruction", "G2_category", "G3_instruction")


def toolbench(folder: Path) -> Path:
    """Write one request per split over four APIs in ToolBench's form and return the folder."""
    apis = [
        _api(
            "Tide Times",
            "GetTides",
            "Tide tables of a harbour",
            {"harbour": "STRING"},
            {"high": "str", "metres": "float"},
        ),
        _api(
            "Tide Times",
            "ListHarbours",
            "All harbours",
            {},
            {"harbours": ["list of str with length 9"], "_list_length": 1},
        ),
        _api(
            "Star Maps", "FindStar", "Position of a star", {"star": "STRING", "year": "NUMBER"}, '{"x": "int", "y": '
        ),
        _api("Star Maps", "DrawMap", "Draws a star map", {"wide": "BOOLEAN"}, None, method="POST"),
    ]
    target = folder / "stabletoolbench"
    target.mkdir(parents=True)
    wanted = [[0], [0, 2], [1], [2, 3], [3], [0, 3]]
    for number, (split, places) in enumerate(zip(SPLITS, wanted, strict=True)):
        relevant = [[apis[place]["tool_name"], apis[place]["api_name"]] for place in places]
        text = " and ".join(apis[place]["api_description"].lower() for place in places)
        record = {"query": f"I need {text}.", "query_id": 7 + number, "api_list": apis, "relevant APIs": relevant}
        (target / f"{split}.json").write_text(json.dumps([record]))
    return folder


def _api(
    tool: str, name: str, said: str, parameters: dict[str, str], template: Any, method: str = "GET"
) -> dict[str, Any]:
    required = [{"name": key, "type": kind, "description": key, "default": ""} for key, kind in parameters.items()]
    return {
        "category_name": "Open_Sea",
        "tool_name": tool,
        "api_name": name,
        "api_description": said,
        "required_parameters": required,
        "optional_parameters": [],
        "method": method,
        "template_response": template,
    }


_LAMP = """
class Lamp:
    def __init__(self):
        self._api_description = "A lamp."

    def _load_scenario(self, scenario, long_context=False):
        self.level = scenario.get("level", 0)
        self.log = []

    def turn_up(self, steps, note=""):
        self.level += steps
        self.log.append(note)
        return {"level": self.level}

    def read_level(self):
        return {"level": self.level}

    def break_down(self):
        raise RuntimeError("out of light")
"""
_MATH = """
class MathAPI:
    def double(self, number):
        return {"result": 2 * number}
"""
_WHERE = """
MULTI_TURN_FUNC_DOC_FILE_MAPPING = {"Lamp": "lamp.json", "MathAPI": "math_api.json"}
CLASS_FILE_PATH_MAPPING = {"Lamp": "bfcl_eval.classes.lamp", "MathAPI": "bfcl_eval.classes.math_api"}
"""


def bfcl(folder: Path) -> Path:
    """Write a package of BFCL's shape with two classes and three dialogues, and return the folder it lies in."""
    package = folder / "bfcl_eval"
    for name in ("classes", "constants", "data/multi_turn_func_doc", "data/possible_answer"):
        (package / name).mkdir(parents=True)
    for name in ("", "classes/", "constants/"):
        (package / f"{name}__init__.py").write_text("")
    (package / "classes" / "lamp.py").write_text(_LAMP)
    (package / "classes" / "math_api.py").write_text(_MATH)
    (package / "constants" / "executable_backend_config.py").write_text(_WHERE)
    said = "This tool belongs to a house. Tool description: "
    lamp = [
        _function("turn_up", f"{said}Turn the lamp up.", {"steps": "integer", "note": "string"}, ["steps"]),
        _function("read_level", f"{said}Read the lamp's level.", {}, []),
        _function("break_down", f"{said}Break the lamp.", {}, []),
    ]
    _lines(package / "data/multi_turn_func_doc/lamp.json", lamp)
    doubling = [_function("double", f"{said}Double a number.", {"number": "float"}, ["number"])]
    _lines(package / "data/multi_turn_func_doc/math_api.json", doubling)
    for category in ("base", "miss_func", "miss_param", "long_context"):
        entries, solutions = _dialogues(category)
        _lines(package / f"data/BFCL_v4_multi_turn_{category}.json", entries)
        _lines(package / f"data/possible_answer/BFCL_v4_multi_turn_{category}.json", solutions)
    return folder


def _function(name: str, said: str, properties: dict[str, str], required: list[str]) -> dict[str, Any]:
    fields = {key: {"type": kind, "description": key} for key, kind in properties.items()}
    parameters = {"type": "dict", "properties": fields, "required": required}
    return {
        "name": name,
        "description": said,
        "parameters": parameters,
        "response": {"type": "dict", "properties": {}},
    }


def _dialogues(category: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    says: list[list[dict[str, str]]] = [
        [{"role": "user", "content": "Turn the lamp up by two, twice."}],
        [{"role": "user", "content": "Double its level."}],
    ]
    gold = [["turn_up(2, note='$5.x')", "turn_up(2, note='$5.x')"], ["read_level()", "double(number=4)"]]
    entry: dict[str, Any] = {
        "id": f"multi_turn_{category}_0",
        "question": says,
        "initial_config": {"Lamp": {"level": 0}},
        "involved_classes": ["Lamp", "MathAPI"],
    }
    if category == "miss_func":
        entry["question"] = [says[0], [], says[1]]
        entry["missed_function"] = {"1": ["turn_up"], "2": ["double"]}
        gold = [[], gold[0], gold[1]]
    return [entry], [{"id": entry["id"], "ground_truth": gold}]


def _lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
