"""Counts over a set of demonstrations, for its card and for `paraagent demos inspect`.

Place in the flow: layer 5. Figures come from a demonstration's `meta`; where that is missing, as in published sets,
its turns are parsed: then width is the largest number of actions in one turn, and depth is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from paraagent.demos.demo import CHARACTERS_PER_TOKEN, Demo
from paraagent.protocol.grammar import Turn, parse
from paraagent.types import JsonObject, JsonValue

NAMES = ("kind", "split", "dataset", "width", "depth", "turns", "searches", "calls", "recovery", "experts")
"""What is counted value by value, in the order it is shown."""


@dataclass(slots=True)
class Statistics:
    """Grows with every demonstration that is added."""

    total: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in NAMES})
    providers: Counter[str] = field(default_factory=Counter)
    tools: set[str] = field(default_factory=set)
    tokens: list[int] = field(default_factory=list)
    """Estimated, one entry per demonstration."""
    learned_tokens: int = 0
    assistant_turns: int = 0
    unlearned_turns: int = 0
    linked: int = 0
    """Demonstrations with linked calls."""
    faulty_turns: int = 0
    """Turns that break the grammar; counted by `inspect` only."""
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, demo: Demo) -> None:
        self.total += 1
        figures = demo.meta if "turns" in demo.meta else profile(demo)
        for name, value in {"kind": demo.kind, "split": demo.split, "dataset": demo.dataset, **figures}.items():
            if name in self.counts:
                self.counts[name].update(str(one) for one in (value if isinstance(value, list) else [value]))
        self.providers.update(_texts(figures.get("providers")))
        self.tools.update(_texts(figures.get("tools")))
        self.tokens.append(demo.tokens)
        self.learned_tokens += round(sum(len(m.content) for m in demo.learned()) / CHARACTERS_PER_TOKEN)
        spoken = sum(message.role == "assistant" for message in demo.messages)
        self.assistant_turns += spoken
        self.unlearned_turns += spoken - sum(demo.loss)
        self.linked += bool(figures.get("links"))

    def inspect(self, demo: Demo) -> None:
        """Add a demonstration and count where its learned turns break the grammar."""
        self.add(demo)
        for message in demo.learned():
            faults = parse(message.content).faults
            self.faulty_turns += bool(faults)
            self.faults.update(fault.kind for fault in faults)

    def token_quantiles(self) -> Mapping[str, int]:
        """Return mean, median, 90th percentile and largest of the estimated tokens; empty if there are none."""
        if not self.tokens:
            return {}
        ordered = sorted(self.tokens)
        last = len(ordered) - 1
        return {
            "mean": round(sum(ordered) / len(ordered)),
            "median": ordered[last // 2],
            "p90": ordered[last * 9 // 10],
            "max": ordered[-1],
        }

    def to_json(self) -> JsonObject:
        counts: JsonObject = {name: {**ordered(counter)} for name, counter in self.counts.items() if counter}
        return {
            "demonstrations": self.total,
            **counts,
            "providers": len(self.providers),
            "tools": len(self.tools),
            "tokens": {**self.token_quantiles()},
            "tokens_total": sum(self.tokens),
            "learned_tokens": self.learned_tokens,
            "assistant_turns": self.assistant_turns,
            "unlearned_turns": self.unlearned_turns,
            "with_linked_calls": self.linked,
            "faulty_turns": self.faulty_turns,
            "faults": {**ordered(self.faults)},
        }


def profile(demo: Demo) -> JsonObject:
    """Return what can be told of a demonstration from its turns alone."""
    turns = [parse(message.content) for message in demo.messages if message.role == "assistant"]
    names = {call.name for turn in turns for call in turn.calls if call.name}
    return {
        "turns": len(turns),
        "searches": sum(len(turn.searches) for turn in turns),
        "calls": sum(len(turn.calls) for turn in turns),
        "width": max((_actions(turn) for turn in turns), default=0),
        "tools": [*sorted(names)],
    }


def ordered(counter: Mapping[str, int]) -> dict[str, int]:
    """Return counts with numbers in numeric order, or else the most frequent first."""
    numeric = all(name.isdecimal() for name in counter)
    return dict(sorted(counter.items(), key=(lambda i: (int(i[0]), "")) if numeric else (lambda i: (-i[1], i[0]))))


def gather(demos: Iterable[Demo]) -> Statistics:
    """Return the statistics of demonstrations that were read, grammar included."""
    statistics = Statistics()
    for demo in demos:
        statistics.inspect(demo)
    return statistics


def _actions(turn: Turn) -> int:
    return len(turn.searches) + len(turn.calls)


def _texts(value: JsonValue) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
