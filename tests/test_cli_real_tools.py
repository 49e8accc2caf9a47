"""`paraagent run` with real tools, and `paraagent resume`, as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chat_server import KEY, MODEL, Answer, ChatServer
from paraagent.protocol.render import render_turn
from paraagent.trace.reader import load
from paraagent.types import Call, Search
from test_cli import complaint, paraagent

TOOLS = '''
from pathlib import Path
import time

LEDGER = Path("ledger.txt")

def stock(sku: str) -> dict:
    """Say how many pieces of an article are in stock."""
    return {"sku": sku, "pieces": 7}

def order(sku: str, pieces: int) -> dict:
    """Order pieces of an article."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{sku} {pieces}\\n")
    return {"order": "A1"}

def stuck(sku: str) -> dict:
    """Wait for a delivery of an article."""
    while not Path("go").exists():
        time.sleep(0.05)
    return {"arrived": sku}
'''
SEARCH = render_turn("look", searches=[Search("shop", "stock and order an article")])
CALLS = render_turn(
    "do", calls=[Call("shop.stock", {"sku": "X"}, "s"), Call("shop.order", {"sku": "X", "pieces": "$s.pieces"})]
)
WAIT = render_turn("wait", calls=[Call("shop.stuck", {"sku": "X"})])
ANSWER = render_turn("done", answer="Ordered.")
HELLO = Answer(".")


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "shop.py").write_text(TOOLS)
    return tmp_path


def run(server: ChatServer, *more: str) -> list[str]:
    return ["run", "Order some X.", "--model", MODEL, "--base-url", server.base_url, "--functions", "shop.py", *more]


def test_writes_are_refused_unless_they_are_allowed(shop: Path) -> None:
    for flags, written in ((("--out", "a"), 0), (("--out", "b", "--allow-write", "shop.order"), 1)):
        with ChatServer([HELLO, Answer(SEARCH), Answer(CALLS), Answer(ANSWER)], key=KEY) as server:
            effects = ("--effect", "shop.stock=read", "--effect", "shop.order=create")
            result = paraagent(*run(server, *effects, *flags))
            assert result.exit_code == 0, result.output
            assert "Ordered." in result.output
            observation = server.requests[-1]["messages"][-1]["content"]
        ledger = shop / "ledger.txt"
        assert len(ledger.read_text().splitlines() if ledger.exists() else []) == written
        assert ("--allow-write" in observation) == (written == 0)
    trace = load(shop / "b" / "traces" / "request.jsonl")
    assert [call.ok for call in trace.calls] == [True, True]
    assert "tools" in trace.start.software


def test_a_killed_request_goes_on_without_writing_twice(shop: Path) -> None:
    answers = [HELLO, Answer(SEARCH), Answer(CALLS), Answer(WAIT)]
    with ChatServer(answers, default=Answer(ANSWER), key=KEY) as server:
        flags = ("--allow-writes", "--out", "out", "--effect", "shop.stock=read", "--effect", "shop.stuck=read")
        command = [sys.executable, "-m", "paraagent.cli.main", *run(server, *flags)]
        process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        trace, deadline = shop / "out" / "traces" / "request.jsonl", time.monotonic() + 30
        while time.monotonic() < deadline and "shop.stuck" not in (trace.read_text() if trace.exists() else ""):
            time.sleep(0.02)
        while time.monotonic() < deadline and '"call_start","turn":2' not in trace.read_text():
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        (shop / "go").touch()
        result = paraagent("resume", str(trace), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["answer"] == "Ordered."
    assert (shop / "ledger.txt").read_text() == "X 7\n"
    view = load(trace)
    assert [(call.name, call.ok) for call in view.calls] == [
        ("shop.stock", True),
        ("shop.order", True),
        ("shop.stuck", True),
    ]
    assert "nothing to resume" in complaint(paraagent("resume", str(trace)), 3)


def test_tools_without_a_request_and_secrets_on_the_command_line_are_refused() -> None:
    assert "need a request" in complaint(paraagent("run", "--functions", "shop.py"), 2)
    said = complaint(paraagent("run", "x", "--openapi", "a.yaml", "--auth", "key=canary-secret"), 2)
    assert "${VARIABLE}" in said
    assert "canary-secret" not in said


def test_a_missing_tools_file_gets_one_line() -> None:
    assert "nowhere.json" in complaint(paraagent("run", "x", "--mcp", "nowhere.json"), 3)
