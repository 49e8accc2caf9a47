"""Finds the functions of a Python file that are meant as tools.

Place in the flow: layer 3, between the command line and `functions`. The file is run, as importing it would: only
give files that you trust. Its public functions become tools: those in `__all__`, else those defined there without an
underscore.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paraagent.errors import EnvironmentFault, UsageError


def public_functions(path: Path) -> list[Callable[..., Any]]:
    """Run a file and return its public functions in the order of their definition.

    Raises:
        EnvironmentFault: there is no such file.
        UsageError: it cannot be run, or has no public function.
    """
    if not path.is_file():
        raise EnvironmentFault(f"{path}: no such file; give a Python file with functions")
    name = f"paraagent_tools_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[name]
        raise UsageError(f"{path}: cannot be run: {type(problem).__name__}: {problem}") from problem
    listed = getattr(module, "__all__", None)
    names = [name for name in vars(module) if not name.startswith("_")] if listed is None else list(listed)
    found = [getattr(module, name, None) for name in names]
    functions: list[Callable[..., Any]] = [
        function
        for function in found
        if inspect.isfunction(function) and (listed is not None or function.__module__ == module.__name__)
    ]
    if not functions:
        raise UsageError(f"{path}: has no public function; define one without a leading underscore")
    return functions
