"""The `paraagent` command: one module per group of sub-commands, assembled here."""

from __future__ import annotations

from paraagent.cli.main import main

__all__ = ["main"]
