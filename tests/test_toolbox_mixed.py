"""Several sources as one toolbox: search over all, writes guarded, secrets kept out of prompts and traces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from http_api import HttpApi, document
from paraagent.agent.context import Context
from paraagent.agent.limits import Limits
from paraagent.agent.loop import Loop
from paraagent.agent.schedule import run_group
from paraagent.agent.settings import Settings
from paraagent.agent.toolboxes.functions import FunctionToolbox, declare
from paraagent.agent.toolboxes.mixed import MixedToolbox
from paraagent.agent.toolboxes.openapi.toolbox import OpenApiSource, OpenApiToolbox
from paraagent.agent.toolboxes.secrets import Redactor, expand, spellings
from paraagent.agent.toolboxes.writes import WritePolicy
from paraagent.clock import WallClock
from paraagent.errors import EnvironmentFault, ToolFailure, UsageError
from paraagent.protocol.render import render_turn
from paraagent.trace.events import EpisodeStart
from paraagent.trace.recorder import Recorder, redactor
from paraagent.types import Call, Effects, Found, Hit, JsonObject, JsonValue, Message, Reply, Result, Search, Tool

CANARY = 'tok-"canary"/7f3a91+x'
WORLD = Tool("fly_home", "Book a flight home for a traveller.", {"type": "object", "properties": {}}, {}, "create")


@declare("read")
def find_note(words: str) -> str:
    """Find a note in the notebook by its words."""
    return f"found {words}"


@declare("create")
def write_note(text: str) -> str:
    """Write a new note into the notebook."""
    written.append(text)
    return "written"


def murmur(text: str) -> str:
    """Say something to nobody."""
    written.append(text)
    return text


written: list[str] = []


def notebook(name: str = "notebook") -> FunctionToolbox:
    return FunctionToolbox([find_note, write_note, murmur], name)


def calls(box: MixedToolbox, *wanted: tuple[str, JsonObject]) -> list[Result]:
    written.clear()

    async def run() -> list[Result]:
        async with box:
            made = [Call(name, arguments) for name, arguments in wanted]
            return await run_group(made, box, WallClock(), limits=Limits(timeout=None, attempts=1))

    return asyncio.run(run())


def search(box: MixedToolbox, query: str) -> Found:
    async def run() -> Found:
        async with box:
            return (await box.search([Search("s", query)]))[0]

    return asyncio.run(run())


NOTE: tuple[str, JsonObject] = ("notebook.write_note", {"text": "milk"})
MURMUR: tuple[str, JsonObject] = ("notebook.murmur", {"text": "hm"})
FIND: tuple[str, JsonObject] = ("notebook.find_note", {"words": "milk"})


def test_a_write_is_refused_by_default_with_the_flag_that_allows_it() -> None:
    note, find, murmured = calls(MixedToolbox([notebook()]), NOTE, FIND, MURMUR)
    assert note.error is not None
    assert note.error.kind == "permission"
    assert "creates something" in note.error.message
    assert "nothing was done" in note.error.message
    assert "--allow-writes or --allow-write notebook.write_note" in note.error.message
    assert find.value == "found milk"
    assert murmured.error is not None
    assert "does not say whether it changes anything" in murmured.error.message
    assert "--effect notebook.murmur=read" in murmured.error.message
    assert written == []


@pytest.mark.parametrize(
    ("allow", "expected"),
    [(("*",), ["milk", "hm"]), (("notebook.write_*",), ["milk"]), (("other.*",), [])],
)
def test_writes_are_allowed_for_all_tools_or_by_name(allow: tuple[str, ...], expected: list[str]) -> None:
    calls(MixedToolbox([notebook()], writes=WritePolicy(allow)), NOTE, MURMUR)
    assert written == expected


def test_the_user_may_be_asked_one_call_at_a_time() -> None:
    asked: list[tuple[str, JsonObject]] = []
    asking: list[int] = [0]

    async def ask(tool: Tool, arguments: JsonObject) -> bool:
        asking[0] += 1
        assert asking[0] == 1
        asked.append((tool.name, arguments))
        await asyncio.sleep(0.01)
        asking[0] -= 1
        return arguments != {"text": "hm"}

    invalid: tuple[str, JsonObject] = ("notebook.write_note", {"txt": "milk"})
    results = calls(MixedToolbox([notebook()], ask=ask), NOTE, MURMUR, FIND, invalid)
    assert asked == [NOTE, MURMUR], "reading needs no permission, and a call that cannot work is not asked about"
    assert written == ["milk"]
    assert results[1].error is not None
    assert "the user did not allow this call" in results[1].error.message
    assert results[3].error is not None
    assert results[3].error.kind == "invalid_args"


class World:
    """A simulated world with one tool."""

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        return [Found(search, (Hit(WORLD, 0.0, "x"),), 7, False) for search in searches]

    def tool(self, name: str) -> Tool | None:
        return WORLD if name == WORLD.name else None

    def suggestions(self, name: str) -> list[str]:
        return [WORLD.name]

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        return Effects(writes=frozenset({"air"}))

    def server(self, tool: Tool) -> str:
        return "air"

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        return "booked"


def test_a_simulated_world_can_be_mixed_in_and_needs_no_permission() -> None:
    found = search(MixedToolbox([notebook()], world=World()), "write a note")
    assert found.hits[0].tool.name == "notebook.write_note"
    assert WORLD in [hit.tool for hit in found.hits]
    assert found.total == 10
    assert calls(MixedToolbox([notebook()], world=World()), (WORLD.name, {}))[0].value == "booked"


def test_names_that_clash_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="two sources are called 'notebook'"):
        search(MixedToolbox([notebook(), notebook()]), "x")

    def twin() -> None: ...

    twin.__name__ = "a.find_note"
    with pytest.raises(UsageError, match=r"two tools are called 'a\.find_note'"):
        search(MixedToolbox([notebook("a"), FunctionToolbox([twin])]), "x")


def test_an_unknown_tool_gets_the_names_near_it() -> None:
    result = calls(MixedToolbox([notebook()]), ("find_note", {"words": "x"}))[0]
    assert result.error is not None
    assert "notebook.find_note" in result.error.message


def test_one_source_that_cannot_be_opened_closes_the_others() -> None:
    closed: list[str] = []

    class Watched(FunctionToolbox):
        async def __aexit__(self, *_: object) -> None:
            closed.append(self.name)

    broken = OpenApiToolbox(OpenApiSource("/does/not/exist.json"))
    with pytest.raises(EnvironmentFault, match=r"exist\.json"):
        search(MixedToolbox([Watched([find_note], "w"), broken]), "x")
    assert closed == ["w"]


def test_variables_are_expanded_and_become_secrets() -> None:
    environ = {"TOKEN": CANARY, "HOME": "/home/ann", "EMPTY": ""}
    assert expand("Bearer ${TOKEN}", environ, "x") == (f"Bearer {CANARY}", {CANARY})
    assert expand("${HOME}/bin", environ, "x") == ("/home/ann/bin", set())
    assert expand("${NONE:-plain}", environ, "x") == ("plain", set())
    assert expand("$TOKEN {TOKEN}", environ, "x") == ("$TOKEN {TOKEN}", set())
    with pytest.raises(UsageError, match=r"servers\.json needs the environment variable NONE"):
        expand("${NONE}", environ, "servers.json")


def test_secrets_are_found_in_every_spelling_and_everything_else_is_left_alone() -> None:
    redact = Redactor({CANARY, "short"})
    for spelling in spellings({CANARY}):
        value: JsonValue = {"a": [f"x {spelling} y", 1, None], spelling: True}
        assert not any(form in json.dumps(redact.value(value)) for form in (spelling, json.dumps(spelling)[1:-1]))
    untouched: JsonValue = {"a": ["short", 1.5, {"b": None}]}
    assert redact.value(untouched) is untouched
    assert CANARY not in str(redact.failure(ToolFailure("tool_error", f"bad key {CANARY}")))
    leaky = redact.tool(Tool("t", f"Uses {CANARY}.", {"default": CANARY}, {"description": CANARY}, "read"))
    assert CANARY not in str(leaky)


class Script:
    """Says its lines one after the other and keeps what it was told."""

    name = "script"

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.told: list[Message] = []

    async def act(self, context: Context) -> Reply:
        self.told = list(context.messages)
        return Reply(self.lines.pop(0))


def test_no_canary_reaches_a_prompt_or_a_trace(tmp_path: Path) -> None:
    """A server that echoes its caller's credentials in an answer, in a description and in an error."""
    spec = tmp_path / "shop.json"
    trace = tmp_path / "trace.jsonl"

    @declare("read")
    def leak(loud: bool) -> JsonObject:
        """Show the key of the shop."""
        if loud:
            raise ValueError(f"cannot open with {CANARY}")
        return {CANARY: [CANARY]}

    async def run(api: HttpApi) -> Script:
        shop: dict[str, Any] = document(api.url)
        shop["paths"]["/echo/token"]["get"]["summary"] = f"Read with the token {CANARY}."
        spec.write_text(json.dumps(shop))
        source = OpenApiSource(
            str(spec), name="shop", auth={"token": CANARY}, allow_private=True, secrets=frozenset({CANARY})
        )
        echo, leaks = Call("shop.with_token", {}), [Call("leak", {"loud": loud}) for loud in (True, False)]
        policy = Script(
            [
                render_turn(
                    "t", searches=[Search("a", "read with the token"), Search("b", "show the key of the shop")]
                ),
                render_turn("t", calls=[echo, *leaks]),
                render_turn("t", answer="done"),
            ]
        )
        async with MixedToolbox([OpenApiToolbox(source), FunctionToolbox([leak])]) as box:
            start = EpisodeStart(version=1, run="r", episode="e", request=f"use {CANARY}", policy="script")
            with Recorder(trace, redact=redactor(box.secrets)) as recorder:
                settings = Settings(limits=Limits(timeout=None))
                await Loop(start, policy, box, WallClock(), recorder, settings).run()
        assert api.requests[-1].headers["authorization"] == f"Bearer {CANARY}", "the server itself gets it"
        return policy

    with HttpApi() as api:
        policy = asyncio.run(run(api))
    told = "\n".join(message.content for message in policy.told[2:])
    assert told.count("[secret]") >= 4
    for text in (told, trace.read_text()):
        for spelling in spellings({CANARY}):
            assert spelling not in text
            assert json.dumps(spelling)[1:-1] not in text
