"""The card of a set of demonstrations: what is in it, how it was made, what was left out and why; in Markdown.

Place in the flow: layer 5; `paraagent demos make` writes it beside the data. It holds no time and no path but the
file's name, so the same recipe gives the same card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paraagent.demos.recipe import Recipe
from paraagent.demos.statistics import Statistics, ordered

SHOWN_PROVIDERS = 20


@dataclass(frozen=True, slots=True)
class Origin:
    """What a set was made from and with."""

    experts: str
    """`builtin`, or the model that played roles."""
    catalog: str
    """Digest."""
    tools: int
    """In the catalog."""
    version: str
    """Of this package."""
    command: str


def card(
    name: str, sha256: str, statistics: Statistics, refused: Mapping[str, int], recipe: Recipe, origin: Origin
) -> str:
    """Return the whole card.

    Args:
        name: the data file's name.
        sha256: of the data file.
        refused: how often something was not kept, by reason.
    """
    return "\n".join(_lines(name, sha256, statistics, refused, recipe, origin)) + "\n"


def _lines(
    name: str, sha256: str, statistics: Statistics, refused: Mapping[str, int], recipe: Recipe, origin: Origin
) -> Iterator[str]:
    tokens = statistics.token_quantiles()
    yield f"# {name}\n"
    yield f"{statistics.total:,} demonstrations of agents that explore and execute in parallel, played for real in a"
    yield "simulated tool world. Each was verified by a program, keeps to the protocol and does nothing in vain.\n"
    yield f"- experts: {origin.experts}"
    yield f"- catalog: {origin.tools:,} tools, digest `{origin.catalog}`"
    yield f"- split: {recipe.split}; seed: {recipe.seed}; paraagent {origin.version}"
    yield f"- sha256 of the data: `{sha256}`"
    yield f"- made by: `{origin.command}`\n"
    yield "## Contents\n"
    yield f"- {len(statistics.tools):,} tools of {len(statistics.providers):,} providers"
    yield f"- {statistics.linked:,} with linked calls in one turn"
    yield f"- {statistics.assistant_turns:,} assistant turns, of which {statistics.unlearned_turns:,} are shown but"
    yield "  not to be learned (mistakes that the next turn mends)"
    if tokens:
        yield f"- tokens, estimated at four characters each: {sum(statistics.tokens):,} in all, of which"
        yield f"  {statistics.learned_tokens:,} to learn; per demonstration mean {tokens['mean']:,},"
        yield f"  median {tokens['median']:,}, p90 {tokens['p90']:,}, largest {tokens['max']:,}\n"
    for title, counter in statistics.counts.items():
        if len(counter) > 1:
            yield from _table(title, "demonstrations", ordered(counter), statistics.total)
    frequent = dict(statistics.providers.most_common(SHOWN_PROVIDERS))
    yield from _table("most frequent providers", "demonstrations", frequent)
    yield "## Left out\n"
    yield "Tasks and episodes that were tried and not kept. Reasons that begin with `task:` are the task sampler's.\n"
    yield from _table("reason", "times", ordered(refused) or {"none": 0})
    yield "## Recipe\n"
    yield from (f"- {key}: {value}" for key, value in recipe.to_json().items())


def _table(title: str, what: str, counts: Mapping[str, int], total: int | None = None) -> Iterator[str]:
    if not counts:
        return
    yield f"| {title} | {what} |" + (" share |" if total else "")
    yield "|---|---:|" + ("---:|" if total else "")
    for key, count in counts.items():
        yield f"| {key or '(unknown)'} | {count:,} |" + (f" {count / total:.1%} |" if total else "")
    yield ""
