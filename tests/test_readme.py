"""What the README tells a user to do works: commands parse and run, the Python example runs, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from paraagent.catalog.store import Catalog
from paraagent.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNABLE = ("catalog info", "search", "tasks sample", "tasks check", "run --limit")


def commands(page: Path) -> list[str]:
    """Return the `paraagent ...` lines of a page's code blocks, comments off, continued lines joined."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    found = [line.split("  #")[0].strip() for line in lines]
    return [line for line in found if line.startswith("paraagent ")]


def parse(arguments: list[str]) -> None:
    """Let the command line read the arguments without running the command."""
    command: click.Command = typer.main.get_command(app)
    context = click.Context(command, info_name="paraagent")
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, f"no command {name}"
        command = found
    command.make_context("paraagent", list(arguments), parent=context)


@pytest.mark.parametrize("line", [line for page in PAGES for line in commands(page)])
def test_every_documented_command_line_is_understood(line: str) -> None:
    plain = re.sub(r"\s(?:\.\.\.|\|.*|>.*)$", "", line)
    parse(shlex.split(re.sub(r"<[a-z]+>", "x", plain))[1:])


@pytest.fixture
def installed(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture catalog where a user's catalog is."""
    place = tmp_path / "cache" / "paraagent" / "catalog.sqlite"
    place.parent.mkdir(parents=True)
    shutil.copy(catalog.path, place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("installed")
def test_the_commands_that_need_nothing_else_run() -> None:
    ran = 0
    for line in commands(ROOT / "README.md"):
        arguments = shlex.split(line)[1:]
        if " ".join(arguments).startswith(RUNNABLE) and "--model" not in arguments:
            arguments += ["--split", "train"] if arguments[0] in ("tasks", "run") else []
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, (line, result.output)
            ran += 1
    assert ran >= 4


@pytest.mark.usefixtures("installed")
def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)[0]
    exec(compile(example.replace("test-unseen", "train"), "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_public_names_are_what_the_package_exports() -> None:
    import paraagent

    assert sorted(paraagent.__all__) == paraagent.__all__
    for name in paraagent.__all__:
        assert getattr(paraagent, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = paraagent.nothing_here  # type: ignore[attr-defined]
