"""Everything the simulator derives from a tool's interface, made when first needed and kept.

Place in the flow: layer 3; one `Interfaces` is shared by all episodes of a process, since nothing in it depends on an
episode. Limits: the `KEPT` tools used last are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache

import jsonschema_rs
import orjson

from paraagent.catalog.names import is_bare, noun, words
from paraagent.env.identity import Identity, identity
from paraagent.env.ids import mix
from paraagent.env.paging import Role, roles
from paraagent.env.respond import Answers
from paraagent.env.schemas import properties, same
from paraagent.env.shown import Width
from paraagent.env.validate import Arguments
from paraagent.types import JsonObject, JsonValue, Tool

KEPT = 2048
WIDTHS: tuple[Width, ...] = ((24, 6, 4, 3), (12, 3, 2, 1), (8, 2, 1, 1))
"""How much of things to show, by depth: the next is tried where an answer is too long or not valid; if none is, only
what is required is shown."""
LONGEST = 2_500
"""Bytes of JSON that an answer should not pass."""
_TRIALS = 3
_PARAMETER = re.compile(r"\{[^{}]*\}")
_SHORTEST_VERB = 4


class Interface:
    """One tool and what was compiled from it."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @cached_property
    def identity(self) -> Identity:
        return identity(self.tool)

    @cached_property
    def kind(self) -> tuple[str, str]:
        """API and noun of the things it works on; a noun of its own if none was found."""
        return self.identity.api, self.identity.noun or self.tool.name

    @cached_property
    def place(self) -> str:
        """What stands for the id of a thing that has none, as the settings of an account: where it lies."""
        if self.identity.remote:
            return "" if self.tool.effect != "delete" else self.tool.name
        return _PARAMETER.sub("{}", self.tool.path)

    @cached_property
    def spellings(self) -> dict[str, str]:
        """Parameters by the spelling in which they are compared to fields: an artist's `id` is the `artistid`."""
        found = {name: same(name) for name in properties(self.tool.parameters)}
        for parent in self.identity.parents:
            if is_bare(noun(parent.parameter)):
                found[parent.parameter] = parent.noun + found[parent.parameter]
        return found

    @cached_property
    def arguments(self) -> Arguments:
        return Arguments(self.tool.parameters)

    @cached_property
    def returns(self) -> jsonschema_rs.Draft202012Validator:
        """Tells whether an answer is one that the tool could give."""
        return jsonschema_rs.Draft202012Validator(self.tool.returns)

    @cached_property
    def answers(self) -> Answers:
        """How the tool answers: as widely as is valid and not too long."""
        valid: list[Answers] = []
        for width in WIDTHS:
            answers = Answers(self.tool, self.identity, width)
            if self._holds(answers):
                valid.append(answers)
                if len(orjson.dumps(answers.sample(0))) <= LONGEST:
                    break
        return valid[-1] if valid else Answers(self.tool, self.identity)

    def _holds(self, answers: Answers) -> bool:
        return all(self.returns.is_valid(answers.sample(mix(trial, trial))) for trial in range(_TRIALS))

    @cached_property
    def _defaults(self) -> JsonObject:
        schemas = properties(self.tool.parameters).items()
        return {name: schema["default"] for name, schema in schemas if schema.get("default") is not None}

    @cached_property
    def roles(self) -> dict[str, Role]:
        """The parameters that page or search a list."""
        return roles(properties(self.tool.parameters))

    @cached_property
    def implied(self) -> JsonObject:
        """What an action makes of a thing's status: `cancel` makes it `cancelled` if the schema has that."""
        shown = self.answers.shown
        verb = (words(self.tool.path.rpartition("/")[2]) or words(self.tool.operation) or ("",))[0]
        if self.tool.effect != "action" or shown is None or len(verb) < _SHORTEST_VERB:
            return {}
        return {
            spelling: value
            for spelling in ("status", "state")
            for value in shown.choices_of(spelling)
            if isinstance(value, str) and value.lower().startswith(verb[:-1])
        }

    def meaning(self, arguments: JsonObject) -> JsonObject:
        """Return arguments without those that only repeat a default, whole numbers as integers.

        Two calls that mean the same leave the world in the same state.
        """
        settled = {name: _whole(value) for name, value in arguments.items()}
        for name, default in self._defaults.items():
            if name in settled and settled[name] == default and (settled[name] is True) == (default is True):
                del settled[name]
        return settled


class Interfaces:
    """Interfaces by tool name."""

    def __init__(self, find: Callable[[str], Tool | None]) -> None:
        @lru_cache(maxsize=KEPT)
        def get(name: str) -> Interface | None:
            tool = find(name)
            return None if tool is None else Interface(tool)

        self.get: Callable[[str], Interface | None] = get
        """Return the interface of the tool of this exact name, or None."""


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {name: _whole(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_whole(child) for child in value]
    return value
