"""Chooses tools for the steps of one part of a request, with their arguments and links.

Place in the flow: layer 3, used by the `rules` policy. Every combination of the best-ranked tools is scored by what
speaks for it (`Evidence`): search score, the named service, the verb's effect, literals placed, required arguments
filled from the clause or from an earlier step's answer, and fields that the asked facts name; `WEIGHTS` says how much
each counts. Limits: at most `WIDTH` candidates a step; a step links only to steps before it in the same part.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from paraagent.agent.policies.filling import Filled, fill
from paraagent.agent.policies.reading import Part
from paraagent.catalog.graph import Leaf, leaves
from paraagent.catalog.names import BARE_WORDS, noun, parameter_identity, words
from paraagent.types import Call, EffectKind, Hit, JsonObject, Tool

WIDTH = 5
WEIGHTS: Mapping[str, float] = {
    "search": 2.0,  # the search's score
    "verb": 1.0,  # whether the tool does what the clause's verb says, from -2 to 1
    "service": 3.0,  # share of the service's name that is the tool's, less a half
    "words": 2.0,  # share of the clause's words that the tool has
    "facts": 1.5,  # share of the asked facts that its answer has fields for
    "placed": 0.8,  # arguments filled from the clause
    "unplaced": -0.6,  # literals of the clause that fill none
    "guessed": -0.6,  # required arguments that took a literal only because it was left over
    "links": 1.0,  # trust in the links to earlier answers
    "unfilled": -3.0,  # required arguments that nothing fills
    "unlinked": -1.0,  # steps after the first that take nothing from an earlier one
    "apart": -3.0,  # tools are of several interfaces
}
"""How much each kind of evidence counts; of several steps the evidence is added up."""
_VERBS: dict[str, EffectKind] = {
    **dict.fromkeys("get list show find fetch retrieve look check search read view query see lookup".split(), "read"),
    **dict.fromkeys("create add make new register post insert open schedule book place submit".split(), "create"),
    **dict.fromkeys("update change edit set modify rename replace patch".split(), "update"),
    **dict.fromkeys("delete remove destroy erase drop cancel discard".split(), "delete"),
}
_STOP = frozenset("a an the of for to in on with and or its their that this new first given there id by from".split())


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run for one part."""

    calls: tuple[Call, ...]
    tools: tuple[Tool, ...]
    evidence: Mapping[str, float]
    """What speaks for it, under the names of `WEIGHTS`; what is missing is 0."""

    @property
    def complete(self) -> bool:
        """Whether every required argument has a value or a link."""
        return not self.evidence["unfilled"]

    @property
    def score(self) -> float:
        return sum(WEIGHTS[name] * value for name, value in self.evidence.items())


@dataclass(frozen=True, slots=True)
class Link:
    """Where a parameter's value comes from."""

    step: int
    path: str
    trust: float
    """What the link adds to a choice: names that agree speak for it, a mere `id` against it."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One candidate for one step, scored alone."""

    tool: Tool
    filled: Filled
    evidence: Mapping[str, float]


def choose(
    part: Part, name: str, hits: Sequence[Sequence[Hit]], barred: frozenset[str] = frozenset()
) -> Choice | None:
    """Return the best of all `choices`, or None if a step has no candidate."""
    return max(choices(part, name, hits, barred), key=lambda choice: choice.score, default=None)


def choices(
    part: Part, name: str, hits: Sequence[Sequence[Hit]], barred: frozenset[str] = frozenset()
) -> Iterator[Choice]:
    """Yield every combination of tools for a part, those that the searches ranked first before others.

    Args:
        name: a letter for the part; its calls get the ids `a1`, `a2`...
        hits: for each step what its search found, best first.
        barred: tools that are known not to work.
    """
    options = [
        [_option(part, clause, hit) for hit in found[:WIDTH] if hit.tool.name not in barred]
        for clause, found in zip(part.steps, hits, strict=True)
    ]
    if options:
        yield from (_combine(part, name, combination) for combination in product(*options))


def link(parameter: str, consumer: Tool, producers: Sequence[Tool]) -> Link | None:
    """Return which earlier step's answer holds a parameter's value; the nearest step first."""
    identity = parameter_identity(consumer, parameter)
    tail = noun(parameter)[-1:]
    wanted = _type(consumer, parameter)
    for position in range(len(producers) - 1, -1, -1):
        found = [
            leaf
            for leaf in leaves(producers[position].returns, noun(producers[position].resource))
            if wanted in (None, leaf.type) or (wanted, leaf.type) == ("number", "integer")
        ]
        exact = [leaf for leaf in found if leaf.identity == identity]
        near = [leaf for leaf in found if identity.endswith(leaf.identity) or leaf.identity.endswith(identity)]
        bare = [leaf for leaf in found if tail and tail[0] in BARE_WORDS and words(leaf.path)[-1:] == tail]
        for group, trust in ((exact, 0.5), (near, 0.2), (bare, -0.5)):
            if group:
                return Link(position, min(group, key=_depth).path, trust)
    return None


def _type(tool: Tool, parameter: str) -> str | None:
    properties = tool.parameters.get("properties")
    schema = properties.get(parameter) if isinstance(properties, dict) else None
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else None


def _depth(leaf: Leaf) -> tuple[int, int]:
    return leaf.path.count("."), len(leaf.path)


def _option(part: Part, clause: str, hit: Hit) -> _Option:
    filled = fill(hit.tool, clause)
    evidence = {
        "search": hit.score,
        "verb": _verb_fit(clause, hit.tool),
        "service": _service_fit(part.service, hit.tool),
        "words": _word_fit(clause, hit.tool),
        "placed": len(filled.arguments),
        "unplaced": filled.unused,
        "guessed": filled.guessed,
    }
    return _Option(hit.tool, filled, evidence)


def _combine(part: Part, name: str, options: Sequence[_Option]) -> Choice:
    tools = [option.tool for option in options]
    evidence: dict[str, float] = defaultdict(float)
    calls: list[Call] = []
    for position, option in enumerate(options):
        links = {missing: link(missing, option.tool, tools[:position]) for missing in option.filled.missing}
        arguments: JsonObject = dict(option.filled.arguments)
        for parameter, found in links.items():
            if found is not None:
                arguments[parameter] = f"${name}{found.step + 1}.{found.path}"
                evidence["links"] += found.trust
        evidence["unfilled"] += sum(found is None for found in links.values())
        evidence["unlinked"] += bool(position) and not any(links.values())
        for kind, value in option.evidence.items():
            evidence[kind] += value
        calls.append(Call(option.tool.name, arguments, f"{name}{position + 1}"))
    evidence["facts"] = _fact_fit(part.facts, tools[-1])
    evidence["apart"] = len({(tool.provider, tool.api) for tool in tools}) > 1
    return Choice(tuple(calls), tuple(tools), evidence)


def _verb_fit(clause: str, tool: Tool) -> float:
    first = words(clause)[:1]
    wanted = _VERBS.get(first[0]) if first else None
    if wanted is None:
        return 0.0 if tool.effect == "read" else -1.5
    if wanted == tool.effect:
        return 1.0
    return -2.0 if "read" in (wanted, tool.effect) else -1.0


def _service_fit(service: str, tool: Tool) -> float:
    """Return the share of the service's name that is the tool's, less a half; 0 if no service is named."""
    wanted = {word for word in words(service) if len(word) > 1}
    if not wanted:
        return 0.0
    have = set(words(f"{tool.api_title} {tool.provider} {tool.api}"))
    flat = re.sub(r"[^a-z0-9]", "", f"{tool.provider} {tool.api_title}".lower())
    share = sum(1 for word in wanted if word in have or word in flat) / len(wanted)
    return share - 0.5


def _word_fit(clause: str, tool: Tool) -> float:
    """Return the share of the clause's words that the tool's name, path and description hold."""
    wanted = {word for word in words(re.sub(r'"[^"]*"', " ", clause)) if word.isalpha() and word not in _STOP}
    have = set(words(f"{tool.operation} {tool.path} {tool.description} {tool.resource}"))
    return len(wanted & have) / len(wanted) if wanted else 0.0


def _fact_fit(facts: Sequence[str], tool: Tool) -> float:
    if not facts:
        return 0.0
    have = set(_field_words(tool.returns))
    return sum(set(words(fact)) - _STOP <= have for fact in facts) / len(facts)


def _field_words(schema: object, depth: int = 0) -> Iterator[str]:
    if not isinstance(schema, dict) or depth > 5:
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, child in properties.items():
            yield from words(name)
            yield from noun(name)
            yield from _field_words(child, depth + 1)
    yield from _field_words(schema.get("items"), depth + 1)
