"""Where a command's words go: human text, or with `--json` one JSON object on stdout and the text on stderr.

Place in the flow: layer 7, used by every command module. It also maps the package's errors to exit codes:
0 done, 1 tasks failed under `--fail-under`, 2 usage, 3 environment, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, ParamSpec

import orjson
import typer
from rich.console import Console

from paraagent.errors import EnvironmentFault, ParaAgentError, UsageError
from paraagent.types import JsonObject

P = ParamSpec("P")

EXIT_FAILED, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_INTERRUPTED = 1, 2, 3, 130

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; text goes to stderr.")]


class Output:
    """One command's output: `text` for people, `finish` for the JSON object."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.text = Console(stderr=as_json, highlight=False)

    def finish(self, record: JsonObject) -> None:
        """Print the command's JSON object, if one was asked for."""
        if self.as_json:
            sys.stdout.write(orjson.dumps(record, option=orjson.OPT_INDENT_2).decode() + "\n")
            sys.stdout.flush()


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the package's errors into one line on stderr and an exit code; any other exception is our bug."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            _complain("interrupted; what was done is kept")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            # The reader (`| head`) has gone: say nothing, and keep the interpreter from complaining at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(EXIT_FAILED) from None
        except ParaAgentError as error:
            _complain(str(error))
            raise typer.Exit(exit_code(error)) from None

    return run


def exit_code(error: ParaAgentError) -> int:
    """Return the exit code of an error: 2 for usage, 3 for the environment."""
    if isinstance(error, UsageError):
        return EXIT_USAGE
    return EXIT_ENVIRONMENT if isinstance(error, EnvironmentFault) else EXIT_FAILED


def _complain(message: str) -> None:
    Console(stderr=True, highlight=False).print("error:", style="bold red", end=" ")
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(message)
