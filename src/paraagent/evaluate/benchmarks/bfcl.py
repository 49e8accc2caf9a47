"""BFCL multi-turn: a user asks one thing after another of Python classes that keep state between the calls.

Place in the flow: layer 5, a `Benchmark`. The functions of the classes involved must be found by search; the classes
run in this process. A user turn is passed if, at its end, every instance has the state that the solution leaves and
every result of the solution was seen so far. An item is solved if all turns are passed; a unit is a passed turn in
which the solution calls something, up to the first failure.
Limits: calls of one class run in order, not in parallel, since nobody declares what they touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from paraagent.agent.settings import Settings
from paraagent.clock import VirtualClock
from paraagent.env.task import Task
from paraagent.evaluate.benchmarks import base
from paraagent.evaluate.benchmarks.base import Item, OnEvent, Points, Spoilt, Stage
from paraagent.evaluate.benchmarks.bfcl_data import Bfcl, Dialogue
from paraagent.evaluate.benchmarks.bfcl_talk import ClassToolbox, Instances, Script, Talk
from paraagent.search.search import SearchIndex
from paraagent.trace.events import EpisodeEnd
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy, Tool


class BfclBenchmark:
    """Implements `Benchmark`.

    Args:
        k: hits per search.
    """

    name = "bfcl"
    unit = "turns"

    def __init__(self, bfcl: Bfcl, k: int = 5) -> None:
        self._bfcl = bfcl
        self._k = k
        self._dialogues = {dialogue.id: dialogue for dialogue in bfcl.dialogues}
        self._indexes: dict[tuple[str, ...], tuple[dict[str, Tool], SearchIndex]] = {}
        self.items: Sequence[Item] = [_item(number, dialogue) for number, dialogue in enumerate(bfcl.dialogues)]

    async def play(
        self,
        item: Item,
        policy: Policy,
        recorder: Recorder,
        settings: Settings,
        *,
        run: str = "run",
        config: JsonObject | None = None,
        on_event: OnEvent | None = None,
    ) -> EpisodeEnd:
        """Play one dialogue; the budget of turns, searches and calls is per user turn."""
        dialogue = self.dialogue(item)
        tools, index = self._found(dialogue.classes)
        toolbox = ClassToolbox(self._instances(dialogue), tools, index, dialogue.held_out, self._k)
        talk = Talk(dialogue, toolbox, self._instances(dialogue))
        stage = Stage(toolbox, VirtualClock(), lambda results, answer: talk.verdict(), talk.reply)
        return await base.play(
            stage,
            item.task,
            policy,
            recorder,
            _times(settings, len(dialogue.says)),
            run=run,
            config=config,
            on_event=on_event,
        )

    def gold(self, item: Item) -> Policy:
        return Script(self.dialogue(item).gold)

    def spoil(self, item: Item, rng: Random) -> Spoilt:
        """Leave out all calls of one user turn."""
        gold = self.dialogue(item).gold
        asked = [turn for turn, steps in enumerate(gold) if steps]
        victim = rng.choice(asked)
        script = [() if turn == victim else steps for turn, steps in enumerate(gold)]
        return Spoilt(Script(script), Points(1, 0, asked.index(victim), len(asked)))

    def points(self, item: Item, view: EpisodeView) -> Points:
        gold = self.dialogue(item).gold
        checks = view.end.checks if view.end else {}
        passed = sum(checks.get(f"turn {turn}") is True for turn, steps in enumerate(gold, 1) if steps)
        return Points(1, int(bool(view.success)), passed, sum(map(bool, gold)))

    def dialogue(self, item: Item) -> Dialogue:
        """Return what is said and solved in an item."""
        return self._dialogues[item.task.id]

    def _instances(self, dialogue: Dialogue) -> Instances:
        return Instances(self._bfcl.classes, dialogue)

    def _found(self, classes: Iterable[str]) -> tuple[dict[str, Tool], SearchIndex]:
        """Return the functions of some classes by name, and their index; each set of classes is indexed once."""
        names = tuple(sorted(classes))
        if names not in self._indexes:
            tools = {tool.name: tool for name in names for tool in self._bfcl.functions[name]}
            self._indexes[names] = tools, SearchIndex.build_in_memory(tools.values())
        return self._indexes[names]


def _item(number: int, dialogue: Dialogue) -> Item:
    task = Task(dialogue.id, "mixed", "test-unseen", number, dialogue.says[0])
    return Item(task, dialogue.category)


def _times(settings: Settings, turns: int) -> Settings:
    budget = settings.budget
    return replace(
        settings,
        budget=replace(
            budget,
            turns=budget.turns * turns,
            searches=None if budget.searches is None else budget.searches * turns,
            calls=None if budget.calls is None else budget.calls * turns,
        ),
    )
