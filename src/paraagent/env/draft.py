"""Chooses the tools of a task and fills in their arguments: goals that are not yet run, asked about, or put in words.

Place in the flow: layer 3, between `repertoire` and `tasks`. Goals are drawn provider by provider, each provider as
likely as any other, so that three clouds with half of all tools do not make half of all tasks. Chains follow the
mined edges backwards from the goal's last tool. Limits: a chain is a line, not a tree; one provider serves one goal
of a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from paraagent.catalog.graph import Edge
from paraagent.env.fill import Filler
from paraagent.env.identity import identity
from paraagent.env.labels import said, thing_named
from paraagent.env.literals import Literals
from paraagent.env.repertoire import Part, Repertoire
from paraagent.env.schemas import properties
from paraagent.env.service import service_name
from paraagent.env.shapes import Dials, Goal, Link, Step
from paraagent.env.splits import may_be_goal
from paraagent.env.task import Entity
from paraagent.env.unanswerable import Missing, lacking
from paraagent.types import Split, Tool

DRAWS = 24
"""How often another provider is drawn before a goal is given up."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Goals with everything but facts, and what must exist in the world for them."""

    goals: tuple[Goal, ...]
    entities: tuple[Entity, ...]
    asides: tuple[str, ...] = ()
    """Remarks about things to leave alone."""


class Drafter:
    """Draws drafts from one repertoire."""

    def __init__(self, repertoire: Repertoire) -> None:
        self._repertoire = repertoire
        self._literals = Literals()

    def draft(
        self, split: Split, lengths: Sequence[int], dials: Dials, rng: Random, *, replaceable: bool = False
    ) -> Draft | None:
        """Return goals of these chain lengths, each at another provider, or None if not all could be found.

        `replaceable` makes the first goal one call of a tool that has an equivalent, if there is any.
        """
        self._literals.seed(rng.getrandbits(32))
        providers = list(self._repertoire.providers(split))
        rng.shuffle(providers)
        goals: list[Goal] = []
        entities: list[Entity] = []
        for length in lengths:
            filler = Filler(self._literals, rng)
            first = 1 + sum(len(goal.steps) for goal in goals)
            special = replaceable and not goals
            steps = self._replaceable(split, dials.writes > 0, rng, filler) if special else None
            steps = steps or self._steps(providers, split, length, dials, rng, filler, first)
            if steps is None:
                return None
            goals.append(Goal(steps))
            entities += filler.entities.values()
        asides = [found for _ in range(dials.distractors) if (found := self._aside(providers, rng))]
        entities += [entity for _, entity in asides]
        return Draft(tuple(goals), tuple(entities), tuple(text for text, _ in asides))

    def _steps(
        self, providers: list[str], split: Split, length: int, dials: Dials, rng: Random, filler: Filler, first: int
    ) -> tuple[Step, ...] | None:
        """Return one goal's steps, numbered from `first`; the providers that were tried are used up."""
        effect_is_write = rng.random() < dials.writes
        for _ in range(DRAWS):
            if not providers:  # a small catalog: providers must serve more than one goal
                providers += rng.sample(everyone := self._repertoire.providers(split), len(everyone))
            if not providers:
                return None
            provider = providers.pop()
            part = self._repertoire.part(provider, rng.choice(self._repertoire.apis(provider)))
            chain = _chain(part, split, length, effect_is_write, dials.writes > 0, rng)
            steps = chain and self._filled(part, chain, filler, first)
            if steps:
                return steps
            filler.shared.clear()
            filler.entities.clear()
        return None

    def _replaceable(self, split: Split, writes: bool, rng: Random, filler: Filler) -> tuple[Step, ...] | None:
        """Return one step whose tool has an equivalent."""
        names = self._repertoire.replaceable(split)
        for name in rng.sample(names, min(DRAWS, len(names))):
            tool = self._repertoire.catalog.get(name)
            part = tool and self._repertoire.part(tool.provider, tool.api)
            if tool and part and name in part.tools and (writes or tool.effect == "read"):
                steps = self._filled(part, [(tool, None)], filler, 1) if may_be_goal(tool, split) else None
                if steps:
                    return steps
                filler.shared.clear()
                filler.entities.clear()
        return None

    def _filled(
        self, part: Part, chain: list[tuple[Tool, Edge | None]], filler: Filler, first: int
    ) -> tuple[Step, ...] | None:
        steps: list[Step] = []
        for place, (tool, edge) in enumerate(chain):
            literals = filler.fill(tool, edge.parameter if edge else None)
            if literals is None:
                return None
            link = Link(edge.parameter, f"c{first + place - 1}", edge.path, edge.kind) if edge else None
            steps.append(Step(f"c{first + place}", tool, part.wordings[tool.name], literals, link))
        return tuple(steps)

    def gap(self, tool: Tool, provider_tools: Sequence[Tool], rng: Random) -> Missing | None:
        """Return a request to change the thing that a tool reads, if the provider has no tool for that."""
        self._literals.seed(rng.getrandbits(32))
        thing = self._thing(tool) if tool.effect == "read" else None
        return thing and lacking(tool, thing[0], thing[1], provider_tools, rng)

    def _thing(self, tool: Tool) -> tuple[str, str] | None:
        """Return the noun and an invented identifier of the thing that a tool works on, as a request writes them."""
        own = identity(tool).own
        noun = thing_named(tool, own.parameter) if own and own.checked else None
        value = self._literals.identifier(properties(tool.parameters)[own.parameter], noun) if own and noun else None
        return (" ".join(noun), said(value)) if noun and value is not None else None

    def _aside(self, providers: list[str], rng: Random) -> tuple[str, Entity] | None:
        """Return a remark about a thing that must be left alone, and the thing."""
        for _ in range(min(DRAWS, len(providers))):
            provider = providers.pop()
            part = self._repertoire.part(provider, rng.choice(self._repertoire.apis(provider)))
            names = [name for name, tool in part.tools.items() if tool.effect in ("update", "delete", "action")]
            if not names:
                continue
            tool = part.tools[rng.choice(names)]
            thing, own = self._thing(tool), identity(tool).own
            if thing and own:
                text = rng.choice(_ASIDES).format(noun=thing[0], id=thing[1], service=service_name(tool))
                return text, Entity(identity(tool).api, own.noun, thing[1], {})
        return None


_ASIDES = (
    "Leave the {noun} {id} on {service} as it is.",
    "Don't touch the {noun} {id} in {service}; that one is already settled.",
    "There is nothing to do about the {noun} {id} on {service}.",
)


def _chain(
    part: Part, split: Split, length: int, write: bool, may_create: bool, rng: Random
) -> list[tuple[Tool, Edge | None]] | None:
    """Return tools in calling order, each with the edge into it, or None if the API has no such chain."""
    names = [
        name
        for name, tool in part.tools.items()
        if (tool.effect != "read") == write and may_be_goal(tool, split) and (length == 1 or part.edges.get(name))
    ]
    if not names:
        return None
    chain: list[tuple[Tool, Edge | None]] = []
    name = rng.choice(names)
    for _ in range(length - 1):
        edge = _edge(part, name, [tool.name for tool, _ in chain], may_create, rng)
        if edge is None:
            return None
        chain.insert(0, (part.tools[name], edge))
        name = edge.producer
    return [(part.tools[name], None), *chain]


def _edge(part: Part, consumer: str, used: Sequence[str], may_create: bool, rng: Random) -> Edge | None:
    """Return an edge into a tool, each kind of edge as likely as any other."""
    edges = [edge for edge in part.edges.get(consumer, ()) if edge.producer not in used]
    kinds = sorted({edge.kind for edge in edges if may_create or edge.kind != "create"})
    if not kinds:
        return None
    kind = rng.choice(kinds)
    return rng.choice([edge for edge in edges if edge.kind == kind])
