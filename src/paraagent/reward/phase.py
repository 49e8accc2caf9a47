"""The phase level: did exploration find what was missing, was execution planned well and run in parallel.

Place in the flow: layer 4. Exploration, in [0, 1]: F1 of *found* (of the capabilities that were missing when the
phase began, the share that it found a tool for) and *precise* (of its searches, the share that found one, each search
counted for another capability: a maximum matching). A capability that no tool has is served by any one search of the
first exploration phase, since asking is how one learns that. A tool that failed for good makes its capability
missing again. Execution, in [0, 1]: the mean over `window`s, weighted by the work each had left. As published,
exploration has no score, and one window with a tool that was not found makes its whole phase worth 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from paraagent.env.matching import match
from paraagent.reward.needs import Needs
from paraagent.reward.record import PhaseReward, Term
from paraagent.reward.replay import Played
from paraagent.reward.rules import Rules
from paraagent.reward.window import reward_windows


def reward_phases(turns: Sequence[Played], needs: Needs, rules: Rules) -> tuple[PhaseReward, ...]:
    """Return what every phase earned, in order; turns that belong to none are left out."""
    phases: dict[int, list[Played]] = {}
    for played in turns:
        if played.phase:
            phases.setdefault(played.phase, []).append(played)
    rewards: list[PhaseReward] = []
    for number, phase in phases.items():
        positions = tuple(played.position for played in phase)
        kind = phase[0].kind
        if kind == "execution":
            windows = reward_windows(phase, needs, rules)
            weight = sum(window.work for window in windows)
            reward = sum(window.reward * window.work for window in windows) / weight
            void = rules.published and any(_ungrounded(window.terms) for window in windows)
            rewards.append(PhaseReward(kind, number, positions, 0.0 if void else reward, windows=windows))
        elif kind == "exploration" and needs.known and not rules.published:
            first = not any(earlier.kind == "exploration" for earlier in rewards)
            reward, terms = _explored(phase, needs, needs.absent if first else 0)
            rewards.append(PhaseReward(kind, number, positions, reward, terms))
        else:
            rewards.append(PhaseReward(kind, number, positions, None))
    return tuple(rewards)


def phase_level(phases: Sequence[PhaseReward], needs: Needs, rules: Rules) -> float | None:
    """Return the mean over the phases that have a score, scaled.

    By default an episode without any is worth 1 if nothing was needed, and has no score if that is not known.
    """
    rewards = [phase.reward for phase in phases if phase.reward is not None]
    if rewards:
        return rules.phase_scale * sum(rewards) / len(rewards)
    if rules.published:
        return 0.0
    return rules.phase_scale * float(not needs.classes and not needs.absent) if needs.known else None


def _ungrounded(terms: Sequence[Term]) -> bool:
    return any(term.name == "grounded" and not term.value for term in terms)


def _explored(phase: Sequence[Played], needs: Needs, absent: int) -> tuple[float, tuple[Term, Term]]:
    known = phase[0].surfaced
    usable = known - phase[0].given_up
    missing = {index for index, tools in enumerate(needs.classes) if not tools & usable}
    searches = [search for played in phase for search in played.searches]
    gains = [
        set() if search.repeat else {i for tool in set(search.shown) - known for i in needs.serving(tool)} & missing
        for search in searches
    ]
    asked = [[] if search.repeat else range(len(needs.classes), len(needs.classes) + absent) for search in searches]
    matched = match([[*sorted(own), *other] for own, other in zip(gains, asked, strict=True)])
    found = len(set().union(*gains)) + sum(right is not None and right >= len(needs.classes) for right in matched)
    wanted, hits = len(missing) + absent, sum(right is not None for right in matched)
    recall = found / wanted if wanted else 0.0
    precision = hits / len(searches) if searches else 0.0
    reason = f"{found} of {wanted} missing capabilities" if wanted else "nothing was missing"
    terms = (
        Term("found", recall, 0.5, reason),
        Term("precise", precision, 0.5, f"{hits} of {len(searches)} searches found what was missing"),
    )
    return (2 * recall * precision / (recall + precision) if recall + precision else 0.0), terms
