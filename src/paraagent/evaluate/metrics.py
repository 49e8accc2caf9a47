"""The figures of one episode, each a pure function of its trace, and those of many with their 95 % intervals.

Place in the flow: layer 5; `compare`, `scaling` and `report` show what is computed here. A figure that does not apply
to an episode is None and enters no mean: the recall of gold calls where nothing was to be called, the recovery where
nothing failed. docs/METRICS.md defines each. An episode that broke outside the agent (`mask_sample`), or that has no
end, has no figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from paraagent.env.matching import match
from paraagent.env.verify import declines
from paraagent.evaluate.hindsight import Hindsight, failed_by_agent, failed_by_fate, look_back, same_call, writes
from paraagent.evaluate.intervals import Interval, mean, pass_all_k, pass_at_k, share
from paraagent.evaluate.summary import kind_of
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject

Sense = Literal["more", "less", "neither"]
"""Which direction is better."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What a figure is called and how to read it."""

    name: str
    title: str
    better: Sense
    share: bool = False
    """It lies between 0 and 1."""


METRICS = (
    Metric("success", "success", "more", True),
    Metric("gold_recall", "gold calls done", "more", True),
    Metric("gold_precision", "calls that were gold", "more", True),
    Metric("search_recall_1", "search recall@1", "more", True),
    Metric("search_recall_3", "search recall@3", "more", True),
    Metric("search_recall_5", "search recall@5", "more", True),
    Metric("turns", "turns", "less"),
    Metric("model_calls", "model calls", "less"),
    Metric("searches", "searches", "less"),
    Metric("calls", "calls", "less"),
    Metric("input_tokens", "input tokens", "less"),
    Metric("output_tokens", "output tokens", "less"),
    Metric("money", "money", "less"),
    Metric("width", "parallel width", "more"),
    Metric("makespan", "makespan, s", "less"),
    Metric("critical_path", "critical path, s", "less"),
    Metric("makespan_ratio", "actions / critical path", "less"),
    Metric("phase_switches", "phase switches", "neither"),
    Metric("recovery", "recovered faults", "more", True),
    Metric("repeated", "repeated actions", "less", True),
    Metric("wasted", "wasted actions", "less", True),
    Metric("protocol_valid", "turns without protocol fault", "more", True),
    Metric("plan_followed", "turns that follow the plan", "more", True),
    Metric("answered_unanswerable", "answered what cannot be", "less", True),
    Metric("refused_answerable", "refused what can be", "less", True),
    Metric("side_effect", "side-effect errors", "less", True),
)
_SHARES = frozenset(metric.name for metric in METRICS if metric.share)


@dataclass(frozen=True, slots=True)
class EpisodeMetrics:
    """One episode in figures; None where one does not apply. Shares are 0 to 1, times seconds on its clock."""

    episode: str
    kind: str
    success: float | None
    gold_recall: float | None
    gold_precision: float | None
    search_recall_1: float | None
    search_recall_3: float | None
    search_recall_5: float | None
    turns: float
    model_calls: float
    searches: float
    calls: float
    input_tokens: float
    output_tokens: float
    money: float | None
    width: float | None
    makespan: float
    critical_path: float
    makespan_ratio: float | None
    phase_switches: float
    recovery: float | None
    repeated: float | None
    wasted: float | None
    protocol_valid: float | None
    plan_followed: float | None
    answered_unanswerable: float | None
    refused_answerable: float | None
    side_effect: float | None

    @property
    def judged(self) -> bool:
        return self.success is not None

    def value(self, metric: str) -> float | None:
        """Return a figure by its name in `METRICS`."""
        found: float | None = getattr(self, metric)
        return found


def episode_metrics(view: EpisodeView) -> EpisodeMetrics | None:
    """Return the figures of an episode; None if it is masked or did not end.

    Raises:
        TraceError: the task record in the trace cannot be read.
    """
    if view.end is None or view.end.mask_sample:
        return None
    seen, measures = look_back(view), view.measures
    return EpisodeMetrics(
        episode=view.start.episode,
        kind=kind_of(view),
        success=None if view.success is None else float(view.success),
        gold_recall=_gold_recall(seen),
        gold_precision=_gold_precision(seen),
        search_recall_1=search_recall(seen, 1),
        search_recall_3=search_recall(seen, 3),
        search_recall_5=search_recall(seen, 5),
        turns=measures.turns,
        model_calls=_model_calls(view),
        searches=measures.searches,
        calls=measures.calls,
        input_tokens=measures.input_tokens,
        output_tokens=measures.output_tokens,
        money=_money(view),
        width=measures.mean_width or None,
        makespan=measures.makespan,
        critical_path=measures.critical_path,
        makespan_ratio=measures.makespan_ratio,
        phase_switches=_phase_switches(view),
        recovery=_recovery(seen),
        repeated=_share(sum(turn.repeats for turn in seen.played), sum(len(turn.actions) for turn in seen.played)),
        wasted=_wasted(seen),
        protocol_valid=_turns_without(view, "protocol"),
        plan_followed=_turns_without(view, "plan"),
        answered_unanswerable=_answered_unanswerable(seen),
        refused_answerable=_refused_answerable(seen),
        side_effect=_side_effect(seen),
    )


def over(metric: str, episodes: Iterable[EpisodeMetrics]) -> Interval | None:
    """Return the mean of a figure over the episodes that it applies to; None if there are none."""
    values = [value for one in episodes if (value := one.value(metric)) is not None]
    return share(values) if metric in _SHARES else mean(values)


def table(episodes: Sequence[EpisodeMetrics]) -> dict[str, Interval]:
    """Return every figure that applies to any of these episodes, by name."""
    found = {metric.name: over(metric.name, episodes) for metric in METRICS}
    return {name: interval for name, interval in found.items() if interval is not None}


def by_kind(episodes: Iterable[EpisodeMetrics]) -> dict[str, list[EpisodeMetrics]]:
    """Sort episodes by task kind."""
    kinds: dict[str, list[EpisodeMetrics]] = defaultdict(list)
    for one in episodes:
        kinds[one.kind].append(one)
    return {kind: kinds[kind] for kind in sorted(kinds)}


@dataclass(frozen=True, slots=True)
class PassK:
    """What `k` samples of each task achieve, averaged over tasks."""

    k: int
    at_least_one: Interval
    """pass@k"""
    all_of_them: Interval
    """pass^k"""

    def to_json(self) -> JsonObject:
        return {"k": self.k, "pass_at_k": self.at_least_one.to_json(), "pass_all_k": self.all_of_them.to_json()}


def pass_k(samples: Mapping[str, Sequence[bool]]) -> list[PassK]:
    """Return pass@k and pass^k of repeated samples by task, for every k that all tasks have samples for."""
    counts = [(len(solved), sum(solved)) for solved in samples.values()]
    found = []
    for k in range(1, min((n for n, _ in counts), default=0) + 1):
        one, every = share([pass_at_k(n, c, k) for n, c in counts]), share([pass_all_k(n, c, k) for n, c in counts])
        assert one is not None
        assert every is not None
        found.append(PassK(k, one, every))
    return found


def search_recall(seen: Hindsight, k: int) -> float | None:
    """Return the share of needed capabilities of which some search showed a tool among its first `k` hits."""
    return _share(len(seen.classes_shown(k)), len(seen.needs.classes))


def _gold_recall(seen: Hindsight) -> float | None:
    return _share(len(seen.matches), len(seen.task.calls)) if seen.task else None


def _gold_precision(seen: Hindsight) -> float | None:
    if seen.task is None or not seen.task.calls:
        return None
    return _share(len(seen.done), sum(call.ok or failed_by_agent(call) for call in seen.calls))


def _model_calls(view: EpisodeView) -> int:
    """Count the turns that a model wrote: built-in policies take no tokens and no time."""
    messages = [turn.message for turn in view.turns]
    return sum(bool(m.input_tokens or m.output_tokens or m.ended > m.started) for m in messages)


def _money(view: EpisodeView) -> float | None:
    costs = [turn.message.cost for turn in view.turns if turn.message.cost is not None]
    return sum(costs) if costs else None


def _phase_switches(view: EpisodeView) -> int:
    return max(0, sum(phase.kind in ("exploration", "execution") for phase in view.phases) - 1)


def _recovery(seen: Hindsight) -> float | None:
    """Return the share of distinct calls that fate spoilt and that the agent got done after all."""
    spoilt: list[int] = []
    for position, call in enumerate(seen.calls):
        if failed_by_fate(call) and not any(same_call(seen.calls[other], call) for other in spoilt):
            spoilt.append(position)
    return _share(sum(_made_good(seen, position) for position in spoilt), len(spoilt))


def _made_good(seen: Hindsight, position: int) -> bool:
    """Tell whether a later call succeeded: the same one, or one of another tool for the same need."""
    failed, classes = seen.calls[position], seen.needs.serving(seen.calls[position].name)
    return any(
        call.ok
        and (same_call(call, failed) or (call.name != failed.name and classes & seen.needs.serving(call.name)))
        for call in seen.calls[position + 1 :]
    )


def _wasted(seen: Hindsight) -> float | None:
    if not seen.needs.known:
        return None
    actions = sum(len(turn.actions) for turn in seen.played)
    calls = sum(position not in seen.done and not failed_by_fate(call) for position, call in enumerate(seen.calls))
    return _share(_useless_searches(seen) + calls, actions)


def _useless_searches(seen: Hindsight) -> int:
    """Count the searches that only repeat, or that show no needed tool that was still missing.

    Each search of a turn counts for another capability, as many as can be; one that no tool has may be looked for
    once.
    """
    missing = frozenset(range(len(seen.needs.classes)))
    useful = 0
    for turn in seen.played:
        fresh = [search.shown for search in turn.searches if not search.repeat]
        new = [frozenset().union(*map(seen.needs.serving, shown)) & missing for shown in fresh]
        useful += sum(one is not None for one in match([sorted(classes) for classes in new]))
        missing = missing.difference(*new)
    searches = [search for turn in seen.played for search in turn.searches]
    vain = len(searches) - useful
    return max(0, vain - min(seen.needs.absent, vain - sum(search.repeat for search in searches)))


def _turns_without(view: EpisodeView, kind: Literal["protocol", "plan"]) -> float | None:
    return _share(sum(all(note.kind != kind for note in turn.notes) for turn in view.turns), len(view.turns))


def _answered_unanswerable(seen: Hindsight) -> float | None:
    if seen.task is None or seen.task.kind != "unanswerable":
        return None
    return float(seen.view.answer is not None and not declines(seen.view.answer))


def _refused_answerable(seen: Hindsight) -> float | None:
    if seen.task is None or seen.task.kind == "unanswerable":
        return None
    return float(not seen.view.success and seen.view.answer is not None and declines(seen.view.answer))


def _side_effect(seen: Hindsight) -> float | None:
    """Return 1 if something was written that no gold call writes and the world shows it."""
    if seen.task is None:
        return None
    stray = any(writes(call) and position not in seen.done for position, call in enumerate(seen.calls))
    return float(stray and seen.check("state") is not True)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
