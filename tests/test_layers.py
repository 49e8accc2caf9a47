"""The shape of the code base: imports point down, modules stay small, the package imports lightly."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "paraagent"
LAYERS = {
    "errors": 0,
    "types": 0,
    "clock": 0,
    "catalog": 1,
    "trace": 1,
    "search": 2,
    "protocol": 2,
    "env": 3,
    "agent": 3,
    "reward": 4,
    "demos": 5,
    "evaluate": 5,
    "train": 6,
    "serve": 7,
    "cli": 7,
}
MODULES = sorted(SOURCE.rglob("*.py"))
LONGER: dict[str, str] = {}
"""Modules that may have up to 400 lines, with the reason."""


def imported(path: Path) -> set[str]:
    """Return the first name under `paraagent` of everything a module imports at run time."""
    tree = ast.parse(path.read_text())
    at_run_time = [node for node in tree.body if not ast.unparse(node).startswith("if TYPE_CHECKING")]
    tree.body = at_run_time
    found = set()
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found.update(name.split(".")[1] for name in names if name.startswith("paraagent.") and "." in name)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_to_the_same_or_a_lower_layer(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    own = LAYERS[part]
    higher = {name for name in imported(path) if LAYERS[name] > own}
    assert not higher, f"{path.name} (layer {own}) imports {higher}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_stay_small(path: Path) -> None:
    limit = 400 if str(path.relative_to(SOURCE)) in LONGER else 300
    assert len(path.read_text().splitlines()) <= limit


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_say_what_they_are(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not tree.body or ast.get_docstring(tree)


def test_functions_stay_short() -> None:
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    )
    assert lengths[len(lengths) // 2] <= 10
    assert lengths[int(len(lengths) * 0.95)] <= 45


def test_the_package_imports_lightly() -> None:
    heavy = ("torch", "openai", "httpx", "pandas", "faker", "rich", "typer", "numpy")
    code = f"import sys, paraagent; print([name for name in {heavy!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
