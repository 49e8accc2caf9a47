"""Assembles the commands and catches what none of them foresaw.

Place in the flow: layer 7. Command modules import the heavy parts inside their functions: `--help` is instant.
"""

from __future__ import annotations

from typing import Annotated

import typer

from paraagent.cli import catalog, demos, report, reward, run, scale, serve, tasks, train, view
from paraagent.cli import eval as evaluation

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Agents that explore and execute in parallel in an open world of tools.",
    epilog="Start with `paraagent catalog build`, then `paraagent run --limit 20`. Every command takes --json.",
)
app.add_typer(catalog.app, name="catalog")
app.command()(catalog.search)
app.add_typer(tasks.app, name="tasks")
app.command()(run.run)
app.command()(run.resume)
app.command()(view.view)
app.command(name="eval")(evaluation.evaluate)
app.command()(scale.scale)
app.command()(report.report)
app.add_typer(reward.app, name="reward")
app.add_typer(demos.app, name="demos")
app.add_typer(train.app, name="train")
app.add_typer(serve.app, name="serve")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"paraagent {installed('paraagent')}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
