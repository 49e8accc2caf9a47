"""Agents that explore and execute in parallel in an open world of tools.

The names below are the public API; each is loaded on first use, so that `import paraagent` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paraagent.agent.loop import Loop
    from paraagent.agent.policies.http import HttpConfig, HttpPolicy
    from paraagent.agent.policies.oracle import OraclePolicy
    from paraagent.agent.policies.rules import RulesPolicy
    from paraagent.agent.settings import Settings
    from paraagent.catalog.build import BuildConfig
    from paraagent.catalog.store import Catalog
    from paraagent.env.task import Task
    from paraagent.env.tasks import TaskSampler
    from paraagent.env.toolenv import ToolEnv
    from paraagent.evaluate.arena import Arena
    from paraagent.search.search import SearchIndex
    from paraagent.trace.recorder import Recorder
    from paraagent.trace.view import EpisodeView

_HOME = {
    "Arena": "evaluate.arena",
    "BuildConfig": "catalog.build",
    "Catalog": "catalog.store",
    "EpisodeView": "trace.view",
    "HttpConfig": "agent.policies.http",
    "HttpPolicy": "agent.policies.http",
    "Loop": "agent.loop",
    "OraclePolicy": "agent.policies.oracle",
    "Recorder": "trace.recorder",
    "RulesPolicy": "agent.policies.rules",
    "SearchIndex": "search.search",
    "Settings": "agent.settings",
    "Task": "env.task",
    "TaskSampler": "env.tasks",
    "ToolEnv": "env.toolenv",
}

__all__ = [
    "Arena",
    "BuildConfig",
    "Catalog",
    "EpisodeView",
    "HttpConfig",
    "HttpPolicy",
    "Loop",
    "OraclePolicy",
    "Recorder",
    "RulesPolicy",
    "SearchIndex",
    "Settings",
    "Task",
    "TaskSampler",
    "ToolEnv",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'paraagent' has no attribute {name!r}")
    return getattr(import_module(f"paraagent.{_HOME[name]}"), name)
