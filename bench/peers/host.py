"""Runs the runtimes that ParaAgent is compared with, each in a process of its own, in an environment apart.

`--setup` of a bench makes that environment under ~/.cache/paraagent/bench-peers with the versions pinned in
`requirements.txt`. ParaAgent itself runs in the interpreter that runs the bench, in a process like the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOME = Path.home() / ".cache" / "paraagent" / "bench-peers"
PYTHON = HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
SETUP = "the runtimes to compare with are not there: run this bench once with --setup"


@dataclass(frozen=True, slots=True)
class Runtime:
    """One runtime in one way of use."""

    name: str
    script: str
    options: tuple[str, ...] = ()
    ours: bool = False


OURS = Runtime("paraagent", "run_paraagent.py", ours=True)
PEERS = (
    Runtime("langgraph", "run_langgraph.py"),
    Runtime("pydantic-ai", "run_pydantic_ai.py"),
    Runtime("openai-agents", "run_openai_agents.py"),
    Runtime("smolagents", "run_smolagents.py"),
)
"""As their documentation starts them."""
CHECKPOINTED = Runtime("langgraph, checkpointer", "run_langgraph.py", ("--checkpoints",))
AGENT_CHECKPOINTED = Runtime("langgraph agent, checkpointer", "run_langgraph.py", ("--react", "--checkpoints"))
TOOL_FAILED = Runtime("pydantic-ai, ToolFailed", "run_pydantic_ai.py", ("--tool-failed",))
QUIET = (
    Runtime("openai-agents, no tracing", "run_openai_agents.py", ("--quiet",)),
    Runtime("smolagents, no log", "run_smolagents.py", ("--quiet",)),
)


def setup() -> None:
    """Make the environment of the peers."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], check=True)


def ready() -> bool:
    return PYTHON.exists()


def versions() -> list[str]:
    """Return the pinned peers, as `name==version`."""
    return (HERE / "requirements.txt").read_text().split()


class Process:
    """A runtime at work; ask it one thing at a time."""

    def __init__(self, runtime: Runtime) -> None:
        python = sys.executable if runtime.ours else str(PYTHON)
        self._process = subprocess.Popen(
            [python, str(HERE / runtime.script), *runtime.options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; `{"error": ...}` if there is none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError as problem:
            return {"error": str(problem)}
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
