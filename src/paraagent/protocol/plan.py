"""The two plans an agent may write: which capabilities it misses, and in which order it runs its tools.

Place in the flow: layer 2; `grammar` reads plans out of a turn, `render` writes them, `graph` turns a call plan into
its dependency graph, `monitor` follows it. A plan here is valid in *form*; whether its dependencies make sense is
the graph's question.
"""

from __future__ import annotations

from dataclasses import dataclass

from paraagent.types import JsonObject, JsonValue


class PlanError(ValueError):
    """A plan that cannot be used; the message says which part to change and how."""


@dataclass(frozen=True, slots=True)
class Subgoal:
    """One part of the task, as the agent sees it."""

    id: str
    subgoal: str

    def to_json(self) -> JsonObject:
        return {"id": self.id, "subgoal": self.subgoal}


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Exploration: the capabilities to look for."""

    capacity_slots: tuple[str, ...]
    """Names of the missing capabilities; a name that stands twice may be searched twice in one turn."""
    subgoals: tuple[Subgoal, ...] = ()

    def to_json(self) -> JsonObject:
        plan: JsonObject = {"capacity_slots": [*self.capacity_slots]}
        return plan | _subgoals_json(self.subgoals)


@dataclass(frozen=True, slots=True)
class Dependency:
    """`target` runs after all of `sources`; each is a tool name, or `tool#n` for the n-th time a tool is used."""

    sources: tuple[str, ...]
    target: str

    def to_json(self) -> JsonObject:
        return {"from": [*self.sources], "to": self.target}


@dataclass(frozen=True, slots=True)
class CallPlan:
    """Execution: the chosen tools and the order they run in."""

    available_tools: tuple[str, ...]
    dependencies: tuple[Dependency, ...]
    execution_flow: tuple[tuple[str, ...], ...]
    """Tool names by step; the tools of one step run in parallel, and a name may stand more than once."""
    subgoals: tuple[Subgoal, ...] = ()

    def to_json(self) -> JsonObject:
        flow: list[JsonValue] = [
            {"step": number, "parallel": [*tools]} for number, tools in enumerate(self.execution_flow, 1)
        ]
        plan: JsonObject = {
            "available_tools": [*self.available_tools],
            "dependencies": [dependency.to_json() for dependency in self.dependencies],
            "execution_flow": flow,
        }
        return plan | _subgoals_json(self.subgoals)


Plan = SearchPlan | CallPlan


def plan_from_json(value: JsonValue) -> Plan:
    """Read a plan out of parsed JSON.

    Raises:
        PlanError: the value does not have the form of a plan.
    """
    if not isinstance(value, dict):
        raise PlanError("a plan is a JSON object")
    if "capacity_slots" in value:
        _only_keys(value, "the plan", {"capacity_slots"}, {"subgoals"})
        return SearchPlan(_names(value["capacity_slots"], "capacity_slots"), _subgoals(value))
    if value.keys() & {"available_tools", "dependencies", "execution_flow"}:
        _only_keys(value, "the plan", {"available_tools", "dependencies", "execution_flow"}, {"subgoals"})
        return CallPlan(
            _names(value["available_tools"], "available_tools"),
            _dependencies(value["dependencies"]),
            _flow(value["execution_flow"]),
            _subgoals(value),
        )
    raise PlanError("a plan needs capacity_slots, or available_tools, dependencies and execution_flow")


def _flow(value: JsonValue) -> tuple[tuple[str, ...], ...]:
    steps = _objects(value, "execution_flow", {"step", "parallel"})
    for number, step in enumerate(steps, 1):
        if type(step["step"]) is not int or step["step"] != number:
            raise PlanError(f"execution_flow: the steps are numbered 1, 2, 3...; entry {number} has another number")
    if not steps:
        raise PlanError("execution_flow needs at least one step")
    return tuple(_names(step["parallel"], f"step {number}") for number, step in enumerate(steps, 1))


def _dependencies(value: JsonValue) -> tuple[Dependency, ...]:
    edges = _objects(value, "dependencies", {"from", "to"})
    return tuple(Dependency(_names(edge["from"], "from"), _name(edge["to"], "to of a dependency")) for edge in edges)


def _subgoals(plan: JsonObject) -> tuple[Subgoal, ...]:
    if "subgoals" not in plan:
        return ()
    entries = _objects(plan["subgoals"], "subgoals", {"id", "subgoal"})
    if not entries:
        raise PlanError("subgoals must not be empty; leave the key out")
    return tuple(Subgoal(_name(entry["id"], "id"), _name(entry["subgoal"], "subgoal")) for entry in entries)


def _subgoals_json(subgoals: tuple[Subgoal, ...]) -> JsonObject:
    return {"subgoals": [subgoal.to_json() for subgoal in subgoals]} if subgoals else {}


def _objects(value: JsonValue, where: str, keys: set[str]) -> list[JsonObject]:
    if not isinstance(value, list):
        raise PlanError(f"{where} must be a list of objects")
    found: list[JsonObject] = []
    for entry in value:
        if not isinstance(entry, dict):
            raise PlanError(f"{where} must be a list of objects")
        _only_keys(entry, f"an entry of {where}", keys, set())
        found.append(entry)
    return found


def _only_keys(value: JsonObject, where: str, required: set[str], optional: set[str]) -> None:
    if missing := sorted(required - value.keys()):
        raise PlanError(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(value.keys() - required - optional):
        raise PlanError(f"{where} has a key it may not have: {unknown[0][:60]}")


def _names(value: JsonValue, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise PlanError(f"{where} must be a non-empty list of strings")
    return tuple(_name(entry, where) for entry in value)


def _name(value: JsonValue, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise PlanError(f"{where} must hold non-empty strings")
    return value.strip()
