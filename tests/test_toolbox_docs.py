"""The examples in docs/TOOLS.md work."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import orjson
import pytest

from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.functions import FunctionToolbox
from paraagent.agent.toolboxes.mcp.config import mcp_servers
from paraagent.agent.toolboxes.openapi.config import openapi_sources
from paraagent.agent.toolboxes.python_file import public_functions
from paraagent.types import Effects

PAGE = Path(__file__).parent.parent / "docs" / "TOOLS.md"
ENVIRON = {"HOME": "/home/ann", "TRACKER_TOKEN": "tok-123456", "SHOP_TOKEN": "tok-654321"}


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_tools_files_can_be_read() -> None:
    servers, sources = (orjson.loads(text) for text in examples("json"))
    files, tracker = mcp_servers(servers, "tools.json", ENVIRON)
    assert (files.args[-1], files.trusted) == ("/home/ann/documents", True)
    assert tracker.headers["Authorization"] == "Bearer tok-123456"
    shop, intranet = openapi_sources(sources, PAGE, ENVIRON, Bounds(), allow_private=False)
    assert (shop.document, shop.auth) == (str(PAGE.parent / "shop.json"), {"bearer": "tok-654321"})
    assert (shop.allow_private, intranet.allow_private) == (False, True)


def test_the_functions_become_tools(tmp_path: Path) -> None:
    path = tmp_path / "tricks.py"
    path.write_text(examples("python")[0])
    box = FunctionToolbox(public_functions(path), path.stem)
    assert [tool.name for tool in box.tools] == ["tricks.in_stock", "tricks.restock"]
    look, fill = box.tools
    assert asyncio.run(box.call(fill, {"article": "lamp", "pieces": 2})) == {"lamp": 5}
    assert asyncio.run(box.call(look, {"article": "lamp"})) == 5
    assert box.effects(look, {"article": "lamp"}) == Effects(reads=frozenset({"tricks/stock/lamp"}))


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(examples("python")[1], "TOOLS.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == "units.convert 68.0\n"
