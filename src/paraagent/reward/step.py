"""The step level: is each turn well formed, is its plan as it should be, does it do something new.

Place in the flow: layer 4. Per turn, in [0, 1] (DESIGN: `form` and `plan` weigh 0.5 each):

    reward = (form * well_formed + plan * plan_fits) * (1 - repeat_cost * share of actions that are repeats)

The published score of an episode, one minus the lost halves of both means, is the mean of these with repeat_cost 0.
By default a turn in which nothing can be run earns nothing for having no plan.
"""

from __future__ import annotations

from paraagent.protocol.grammar import PLAN_FAULTS, well_formed
from paraagent.protocol.monitor import Review
from paraagent.reward.record import Term, TurnReward
from paraagent.reward.replay import Played
from paraagent.reward.rules import Rules


def reward_turn(played: Played, rules: Rules) -> TurnReward:
    """Return what one turn earned at the step level."""
    form, plan, repeats = _form(played, rules), _plan(played, rules), _repeats(played, rules)
    return TurnReward(
        turn=played.view.index,
        kind=played.kind,
        reward=max(0.0, (form.points + plan.points) * (1 + repeats.points)),
        terms=(form, plan, repeats),
    )


def _form(played: Played, rules: Rules) -> Term:
    faults = [fault.kind for fault in played.turn.faults if fault.kind not in PLAN_FAULTS]
    reason = ", ".join(kind.replace("_", " ") for kind in faults) or "well formed"
    return Term("form", well_formed(played.turn), rules.form, reason)


def _plan(played: Played, rules: Rules) -> Term:
    review = played.review
    if review is None:
        return Term("plan", 0.0, rules.plan, "not judged: the turn only repeats")
    if played.kind == "invalid" and not rules.published:
        return Term("plan", 0.0, rules.plan, "nothing in this turn can be run")
    return Term("plan", float(review.plan_fits), rules.plan, _told(review))


def _told(review: Review) -> str:
    """Say what was due and what came."""
    given = "none given" if review.outcome == "none" else f"given: {review.outcome}"
    told = [deviation.message for deviation in review.deviations if deviation.index is None]
    return "; ".join([f"{review.requirement}, {given}", *([] if review.plan_fits else told[:1])])


def _repeats(played: Played, rules: Rules) -> Term:
    total, repeats = len(played.actions), played.repeats
    if not repeats:
        return Term("repeats", 0.0, 0.0 - rules.repeat_cost, "nothing repeated")
    reason = f"{repeats} of {total} actions repeat an earlier one"
    return Term("repeats", repeats / total, 0.0 - rules.repeat_cost, reason)
