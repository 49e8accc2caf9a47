"""The train commands: one line when something is missing, a finished adapter and one JSON object when nothing is."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paraagent.cli.train import app
from paraagent.demos.demo import Demo
from paraagent.demos.formats import line
from paraagent.protocol.render import render_turn
from paraagent.types import Message

HAS_TRL = importlib.util.find_spec("trl") is not None


@pytest.mark.skipif(HAS_TRL, reason="the training libraries are installed")
@pytest.mark.parametrize("command", [["sft", "demos.jsonl"], ["rl"]])
def test_missing_libraries_are_named(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")])
    assert result.exit_code == 3
    assert "pip install 'paraagent[train]'" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["sft", "rl"])
def test_help_needs_no_libraries(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "--resume" in result.stdout


@pytest.mark.skipif(not HAS_TRL, reason="needs the training libraries")
@pytest.mark.filterwarnings("ignore")
def test_a_model_is_trained_from_the_command_line(tmp_path: Path) -> None:
    import tiny_model

    model = tiny_model.folder(tmp_path / "model")
    turn = render_turn("I know.", answer="It is 4.")
    demo = Demo("t", (Message("user", "What is 2 + 2?"), Message("assistant", turn)), (False, True))
    data = tmp_path / "demos.jsonl"
    data.write_bytes((line(demo, "chat") or b"") * 8)
    out = tmp_path / "run"
    arguments = [
        "sft",
        str(data),
        "--out",
        str(out),
        "--model",
        str(model),
        "--batch",
        "4",
        "--threads",
        "1",
        "--json",
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["steps"] == 2
    assert (Path(found["final"]) / "adapter_model.safetensors").is_file()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 2
    assert "--resume" in again.stderr
