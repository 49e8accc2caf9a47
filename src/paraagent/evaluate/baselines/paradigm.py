"""The ways of working that are compared: ParaAct, its ablations, and the baselines, all on one loop with one policy.

Place in the flow: layer 5. A paradigm is what a turn may hold, when tools may be searched for, and for a model the
dialect it speaks. Budget, search, scheduler, verifier and trace are the same for all. `Settings` enforces what a turn
may hold; `adapt` gives a policy the paradigm's habits: a built-in policy is `restricted`, a model gets a prompt of
equal care in the paradigm's own dialect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from paraagent.agent.settings import Settings
from paraagent.errors import UsageError
from paraagent.types import Policy

Exploring = Literal["free", "first", "retrieved"]
"""When tools may be searched for: at any time; before the first call only; never, since one retrieval with the whole
request was made for the agent."""
Dialect = Literal["paraact", "react", "native", "planner"]

RETRIEVED = 20
"""Tools of the one retrieval: as many as four searches show."""


@dataclass(frozen=True, slots=True)
class Paradigm:
    """One way of working."""

    name: str
    title: str
    """For tables."""
    plans: bool = True
    actions: int | None = None
    """Searches or calls that a turn may hold."""
    links: bool = True
    exploring: Exploring = "free"
    dialect: Dialect = "paraact"
    executions: int | None = None
    """Turns that may call tools."""

    def settings(self, base: Settings) -> Settings:
        """Return settings under which turns are held to this paradigm; the budget stays as it is."""
        return replace(base, plan=base.plan if self.plans else "off", actions=self.actions, links=self.links)

    def hits(self, k: int) -> int:
        """Return how many tools a search shows where it would show k."""
        return max(k, RETRIEVED) if self.exploring == "retrieved" else k


PARADIGMS: tuple[Paradigm, ...] = (
    Paradigm("paraact", "ParaAct"),
    Paradigm("no-plans", "ParaAct without plans", plans=False),
    Paradigm("no-links", "ParaAct without linked calls", links=False),
    Paradigm("no-parallel", "ParaAct without parallelism", actions=1),
    Paradigm("plan-execute", "plan, then execute", plans=False, exploring="first", dialect="planner", executions=2),
    Paradigm("native", "native function calling", plans=False, links=False, dialect="native"),
    Paradigm("react-eae", "ReAct EaE", plans=False, actions=1, links=False, dialect="react"),
    Paradigm("react-ete", "ReAct ETE", plans=False, actions=1, links=False, exploring="retrieved", dialect="react"),
)


def paradigm(name: str) -> Paradigm:
    """Return the paradigm of a name.

    Raises:
        UsageError: there is none; the message lists them.
    """
    found = next((one for one in PARADIGMS if one.name == name), None)
    if found is None:
        raise UsageError(f"no paradigm is named {name!r}: use {', '.join(one.name for one in PARADIGMS)}")
    return found


def adapt(policy: Policy, way: Paradigm, *, model: bool) -> Policy:
    """Return the policy with the habits of a paradigm.

    Args:
        model: whether it is a general language model, which can work in any dialect; else it speaks ParaAct only, as
            the built-in policies and a model trained for it do, and is restricted.

    Raises:
        UsageError: the policy cannot work in this paradigm.
    """
    if not model:
        from paraagent.evaluate.baselines.restricted import RestrictedPolicy

        return policy if way.name == "paraact" else RestrictedPolicy(policy, way)
    if way.dialect == "react":
        from paraagent.evaluate.baselines.react import ReactPolicy

        return ReactPolicy(policy, retrieved=way.exploring == "retrieved")
    if way.dialect == "planner":
        from paraagent.evaluate.baselines.planner import PlannerPolicy

        return PlannerPolicy(policy)
    if way.dialect == "native":
        from paraagent.evaluate.baselines.native import Chat, NativePolicy

        if not isinstance(policy, Chat):
            raise UsageError(
                f"{policy.name} has no function calling of its own: use another paradigm, or an endpoint"
            )
        return NativePolicy(policy)
    return policy
