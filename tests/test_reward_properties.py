"""What must hold for the rewards of any episode: bounds, and that repeating oneself never pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paraagent.agent.settings import Settings
from paraagent.protocol.plan import Plan, SearchPlan
from paraagent.protocol.render import render_call, render_search
from paraagent.reward.replay import replay
from paraagent.reward.rules import DEFAULT, REFERENCE
from paraagent.reward.score import score
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Search
from reward_play import CUSTOMER, NAMES, NEEDED, ORDERS, PERFECT, PLAN, TASK, WEATHER, flow, play, render_turn, say

names = st.sampled_from(NAMES)
few_names = st.lists(names, min_size=1, max_size=3)
searches = st.builds(Search, few_names.map(", ".join), few_names.map(", ".join))
calls = st.one_of(
    st.sampled_from([CUSTOMER, ORDERS, WEATHER]),
    st.builds(Call, names, st.sampled_from([{}, {"n": 1}, {"customer": "$c1.id"}, {"city": "Oslo"}])),
)
call_plans = st.one_of(
    st.just(PLAN),
    st.builds(
        lambda steps, edges, extra: flow(*steps, edges=edges, extra=extra),
        st.lists(few_names, min_size=1, max_size=3),
        st.lists(st.tuples(names, names), max_size=2),
        st.lists(names, max_size=1),
    ),
)
search_plans = few_names.map(lambda slots: SearchPlan(tuple(slots)))


def _without_think(text: str) -> str:
    return text.replace("<think>t</think>\n", "")


@st.composite
def turns(draw: st.DrawFn) -> str:
    """Draw a turn that searches or calls, or nonsense; its form and plan may be anything."""
    plans: st.SearchStrategy[Plan | None] = st.one_of(st.none(), search_plans, call_plans)
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["hm", "<think>t</think>", "<plan>{", PERFECT[0] + PERFECT[1]]))
    if draw(st.booleans()):
        text = render_turn("t", plan=draw(plans), searches=draw(st.lists(searches, min_size=1, max_size=3)))
    else:
        text = render_turn("t", plan=draw(plans), calls=draw(st.lists(calls, min_size=1, max_size=3)))
    return draw(st.sampled_from([text, text, _without_think(text)]))


answers = st.sampled_from([say(), say("no idea"), _without_think(say())])
scripts = st.one_of(
    st.tuples(st.lists(turns(), max_size=6), answers).map(lambda parts: [*parts[0], parts[1]]),
    st.just(list(PERFECT)),
)


def perform(lines: Sequence[str]) -> EpisodeView:
    return play(lines, TASK, settings=Settings(invalid_turns=99))


@settings(max_examples=80)
@given(scripts)
def test_every_term_and_level_stays_in_its_range(lines: list[str]) -> None:
    view = perform(lines)
    for rules, low, high in ((DEFAULT, -0.35, 1.5), (REFERENCE, -0.85, 2.0)):
        reward = score(view, rules)
        assert not reward.masked
        assert all(0.0 <= turn.reward <= 1.0 for turn in reward.turns)
        assert all(phase.reward is None or 0.0 <= phase.reward <= 1 + 1e-9 for phase in reward.phases)
        windows = [window for phase in reward.phases for window in phase.windows]
        terms = [term for part in (*reward.turns, *reward.phases, *windows) for term in part.terms]
        assert all(0.0 <= term.value <= 1.0 for term in terms)
        assert all(window.work >= 1 and 0.0 <= window.reward <= 1 + 1e-9 for window in windows)
        assert reward.levels.phase is not None
        assert 0.0 <= reward.levels.phase <= rules.phase_scale + 1e-9
        assert reward.levels.trajectory is not None
        assert low - 1e-9 <= reward.levels.trajectory <= high + 1e-9
        assert reward.total is not None
        assert (rules is DEFAULT) or -1.0 <= reward.total <= 3.0
        assert reward.total <= score(play(PERFECT), rules).total + 1e-9  # type: ignore[operator]


@settings(max_examples=25)
@given(scripts)
def test_a_reward_depends_on_the_trace_alone(lines: list[str]) -> None:
    view = perform(lines)
    assert score(view) == score(EpisodeView(view.events))


@dataclass(frozen=True)
class Spam:
    """Where earlier actions are done again: which action, after how many turns, in a turn of its own or not."""

    pick: int
    place: int
    own_turn: bool
    plan: Plan | None


spam = st.lists(
    st.builds(
        Spam, st.integers(0, 20), st.integers(0, 20), st.booleans(), st.one_of(st.none(), search_plans, call_plans)
    ),
    min_size=1,
    max_size=3,
)


def add_repeat(lines: list[str], one: Spam) -> list[str]:
    """Return the script with one action of it done once more, later."""
    played = replay(perform(lines), DEFAULT)
    actions: list[tuple[int, Search | Call]] = [(p.position, s.search) for p in played for s in p.searches]
    actions += [
        (p.position, Call(c.call.name, c.view.arguments))
        for p in played
        for c in p.calls
        if isinstance(c.call, Call) and c.view is not None
    ]
    assume(actions)
    position, action = actions[one.pick % len(actions)]
    later = range(position + 1, len(played))
    place = later[one.place % len(later)]
    block = render_search(action) if isinstance(action, Search) else render_call(action)
    if one.own_turn:
        kind = {"searches": [action]} if isinstance(action, Search) else {"calls": [action]}
        return [*lines[:place], render_turn("again", plan=one.plan, **kind), *lines[place:]]  # type: ignore[arg-type]
    same = "exploration" if isinstance(action, Search) else "execution"
    place = next((p.position for p in played[position:] if p.kind == same and p.position >= place), position)
    return [*lines[:place], f"{lines[place]}\n{block}", *lines[place + 1 :]]


@settings(max_examples=120)
@given(scripts, spam)
def test_repeating_earlier_actions_never_raises_any_level(lines: list[str], extra: list[Spam]) -> None:
    plain = perform(lines)
    for one in extra:
        lines = add_repeat(lines, one)
    spammed = perform(lines)
    count = [sum(played.repeats for played in replay(view, DEFAULT)) for view in (plain, spammed)]
    assume(count[1] == count[0] + len(extra))  # else a write in between has made it worth doing again
    assume(spammed.success == plain.success)
    before, after = score(plain), score(spammed)
    assert after.levels.step <= before.levels.step + 1e-9
    assert after.levels.phase is not None
    assert before.levels.phase is not None
    assert after.levels.phase <= before.levels.phase + 1e-9
    assert after.levels.trajectory < before.levels.trajectory + 1e-9  # type: ignore[operator]
    assert after.total < before.total + 1e-9  # type: ignore[operator]


def test_a_repeat_that_paid_as_published_costs_by_default() -> None:
    """A well-formed turn that does nothing new lifts the step mean of a clumsy episode."""
    search = Search("all", " ".join(NEEDED))
    clumsy = [_without_think(render_turn("t", searches=[search])), *PERFECT[1:]]
    spammed = [clumsy[0], render_turn("t", plan=SearchPlan(("all",)), searches=[search]), *clumsy[1:]]
    assert score(perform(spammed), REFERENCE).levels.step > score(perform(clumsy), REFERENCE).levels.step
    assert score(perform(spammed)).levels.step < score(perform(clumsy)).levels.step
