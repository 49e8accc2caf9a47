"""Makes demonstrations one lot at a time: sample a task, let the cast play it, look at it, keep it or try another.

Place in the flow: layer 5; `produce` runs a `Maker` in every process. A lot is a pure function of the catalog, the
recipe and its number as long as the built-in experts play.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from paraagent.catalog.store import Catalog
from paraagent.demos.demo import Demo, from_view
from paraagent.demos.experts import builtin
from paraagent.demos.recipe import Recipe
from paraagent.demos.roles import Cast
from paraagent.demos.screen import refusal
from paraagent.demos.style import Style, draw
from paraagent.demos.weaver import Weaver
from paraagent.env.labels import said
from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.evaluate.arena import Arena
from paraagent.protocol.links import upstream
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject

CastFor = Callable[[Task, Style], Cast]
_SEEDS = 1 << 40


@dataclass(frozen=True, slots=True)
class Made:
    """What came of one lot."""

    number: int
    demo: Demo | None
    key: str = ""
    """Equal for demonstrations that are too alike to keep both."""
    refused: Counter[str] = field(default_factory=Counter)
    """How often a task or an episode was not good enough, by reason; the sampler's reasons begin with `task:`."""
    trouble: str = ""
    """What a model failed of last, if one did."""


class Maker:
    """Makes any lot of one recipe.

    Args:
        cast_for: who plays a task; the built-in experts if None.
    """

    def __init__(self, catalog: Catalog, index: SearchIndex, recipe: Recipe, cast_for: CastFor | None = None) -> None:
        recipe.check()
        self.recipe = recipe
        self._catalog = catalog
        self._sampler = TaskSampler(catalog, index)
        self._arena = Arena(catalog, index, top_k=recipe.top_k)
        self._cast_for = cast_for or (lambda task, style: builtin(task, catalog.get, style))

    async def make(self, number: int) -> Made:
        """Make one lot; it stays empty if none of its tries is good enough."""
        recipe, refused, trouble = self.recipe, Counter[str](), ""
        rng = recipe.lot(number)
        kind = recipe.kind(rng)
        for _ in range(recipe.tries):
            dials, seed = recipe.dials(rng), rng.randrange(_SEEDS)
            style = draw(rng, recipe.linked, recipe.vague, recipe.mistakes)
            task = self._sampler.sample(recipe.split, kind, seed, dials)
            if not isinstance(task, Task):
                refused[f"task:{task.reason}"] += 1
                continue
            demo, reason, view = await self.play(task, style)
            trouble = (view.end.failure_kind if view.end else None) or trouble
            if reason is None:
                return Made(number, self._described(demo, seed, dials), key(task, demo), refused, trouble)
            refused[reason] += 1
        return Made(number, None, refused=refused, trouble=trouble)

    async def play(self, task: Task, style: Style) -> tuple[Demo, str | None, EpisodeView]:
        """Have one task played; return the demonstration, the reason not to keep it or None, and the episode."""
        cast = self._cast_for(task, style)
        weaver = Weaver(cast, linked=style.linked)
        recorder = Recorder()
        await self._arena.play(task, weaver, recorder, run="demos")
        view = EpisodeView(recorder.events)
        demo = from_view(view, task, experts=cast.name)
        if weaver.refused is not None:
            return demo, "not_accepted", view
        return demo, refusal(view, task, demo, self.recipe.max_tokens), view

    def _described(self, demo: Demo, seed: int, dials: Dials) -> Demo:
        """Add what is needed to sample the task again, and whose tools were used."""
        names = demo.meta["tools"]
        tools = [self._catalog.get(str(name)) for name in (names if isinstance(names, list) else [])]
        sample: JsonObject = {"seed": seed, **{name: getattr(dials, name) for name in dials.__dataclass_fields__}}
        providers = sorted({tool.provider for tool in tools if tool})
        return replace(demo, meta={**demo.meta, "providers": [*providers], "sample": sample})


def key(task: Task, demo: Demo) -> str:
    """Return what makes a demonstration one of its kind: the request without its values, and the tools.

    Without tools, only the exact request tells two demonstrations apart.
    """
    tools = demo.meta["tools"]
    text = f"{shape(task)} {tools}" if tools else demo.request
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def shape(task: Task) -> str:
    """Return the request with every value in it replaced by `#`."""
    values = {said(v) for call in task.calls for v in call.arguments.values() if not upstream(v)}
    text = task.request
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "#")
    return re.sub(r'"[^"]*"|\S*[\d@_]\S*', "#", text)
