"""How fast training episodes are played: our engine against TRL's own loop (`environment_factory`).

Same model, tasks, tools, batch and thread. What the model samples is forced to the solution of each task (every
token is still computed), so both sides play complete episodes of equal content whatever the weights know. TRL speaks
its native tool-call JSON, ours the tag grammar with the same searches, calls and answers.

    python bench/rollout.py [--json] [--episodes 16] [--model smollm2] [--catalog PATH]

Keys (per second of processor time, one thread):
    tokens_per_s       sampled tokens, ours
    trl_tokens_per_s   sampled tokens, TRL
    ratio              of the two
    episodes_per_s, trl_episodes_per_s
    compact_episodes_per_s   ours in the compact dialect, which needs fewer tokens for the same episode
    seconds, trl_seconds     wall clock, for comparison on a quiet machine
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from datasets import Dataset
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase

from paraagent.agent.engine.engine import Engine
from paraagent.agent.engine.load import load_model, load_tokenizer, resolve_folder
from paraagent.agent.engine.streams import Stream
from paraagent.agent.policies.model import Dialect, EpisodePolicy, LocalConfig, LocalModel
from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.env.toolenv import ToolEnv
from paraagent.evaluate.arena import Arena, oracle
from paraagent.protocol import compact
from paraagent.protocol.grammar import parse
from paraagent.protocol.observe import render_found, render_result
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Result, Search

KINDS = ("single", "parallel", "chain", "single")


class Forced(Engine):
    """An engine that takes given tokens in place of the ones it has chosen."""

    scripts: dict[int, list[int]]

    def _take(self, request, token, logprob):  # type: ignore[no-untyped-def]
        return super()._take(request, self.scripts[id(request.stream)].pop(0), logprob)


def solutions(arena: Arena, tasks: Sequence[Task]) -> list[list[str]]:
    """Return the turns that solve each task."""

    async def solve(task: Task) -> list[str]:
        recorder = Recorder()
        await arena.play(task, oracle(task), recorder)
        return [turn.text for turn in EpisodeView(recorder.events).turns]

    return [asyncio.run(solve(task)) for task in tasks]


def play_ours(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    arena: Arena,
    tasks: Sequence[Task],
    scripts: Sequence[Sequence[str]],
    dialect: Dialect,
) -> int:
    """Play all episodes; return how many tokens were sampled."""
    policy = LocalModel.over(
        model, tokenizer, LocalConfig(dialect=dialect, guide="off", slots=len(tasks)), timed=False
    )
    engine = policy.engine
    engine.__class__ = Forced
    engine.scripts = {}  # type: ignore[attr-defined]

    async def one(task: Task, turns: Sequence[str]) -> EpisodePolicy:
        own = policy.episode(task.id)
        said = [compact.render(parse(turn)) if dialect == "compact" else turn for turn in turns]
        forced = [token for text in said for token in policy.chat.turn(text)]
        stream: Stream = own._stream
        engine.scripts[id(stream)] = forced  # type: ignore[attr-defined]
        await arena.play(task, own, Recorder())
        own.close()
        return own

    async def everything() -> list[EpisodePolicy]:
        return await asyncio.gather(*(one(task, turns) for task, turns in zip(tasks, scripts, strict=True)))

    episodes = asyncio.run(everything())
    assert all(own.finished for own in episodes)
    return sum(sum(own.transcript.mask) for own in episodes)


class Desk:
    """ToolEnv as TRL wants an environment: public methods are tools."""

    world: tuple[Catalog, SearchIndex]
    tasks: dict[str, Task]

    def reset(self, prompt: object = None, task: str = "", **_: object) -> None:
        self._env = ToolEnv(*self.world)
        asyncio.run(self._env.reset(self.tasks[task]))

    def search_tools(self, searches: list) -> str:  # type: ignore[type-arg]
        """Search for tools.

        Args:
            searches: objects with slot and query.
        """
        found, *_ = asyncio.run(self._env.step([Search(s["slot"], s["query"]) for s in searches]))
        return "\n".join(render_found(one) for one in found)  # type: ignore[arg-type]

    def call_tools(self, calls: list) -> str:  # type: ignore[type-arg]
        """Call tools.

        Args:
            calls: objects with id, name and arguments.
        """
        results, *_ = asyncio.run(self._env.step([Call(c["name"], c["arguments"], c["id"]) for c in calls]))
        return "\n".join(render_result(one) for one in results if isinstance(one, Result))


def native(turn: str) -> str:
    """Write a turn as TRL's template wants it."""
    read = parse(turn)
    if read.answer is not None:
        return read.answer
    if read.searches:
        searches = [{"slot": search.slot, "query": search.query} for search in read.searches]
        body = {"name": "search_tools", "arguments": {"searches": searches}}
    else:
        calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in read.calls if isinstance(c, Call)]
        body = {"name": "call_tools", "arguments": {"calls": calls}}
    return f"<tool_call>\n{json.dumps(body)}\n</tool_call>"


class Script(LogitsProcessor):
    """Lets `generate` choose nothing but the next token of each row's turn."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, turns: dict[str, list[list[int]]]) -> None:
        self._tokenizer = tokenizer
        self._turns = turns
        self._rows: list[list[int]] = []
        self._start = 0

    def begin(self, input_ids: torch.Tensor) -> None:
        self._start = input_ids.shape[1]
        self._rows = []
        for ids in input_ids:
            text = self._tokenizer.decode(ids)
            name = text.partition("[task ")[2].partition("]")[0]
            turn = text.count("<|im_start|>assistant") - 1
            self._rows.append(self._turns[name][turn])

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        place = input_ids.shape[1] - self._start
        forced = torch.full_like(scores, float("-inf"))
        for row, tokens in enumerate(self._rows):
            forced[row, tokens[min(place, len(tokens) - 1)]] = 0.0
        return forced


def play_trl(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    world: tuple[Catalog, SearchIndex],
    tasks: Sequence[Task],
    scripts: Sequence[Sequence[str]],
) -> tuple[int, float, float]:
    """Play all episodes in TRL's loop; return sampled tokens, processor seconds and wall seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import trl
        from trl import GRPOConfig, GRPOTrainer

        template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
        tokenizer.chat_template = template.read_text()
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        turns = {
            str(n): [[*tokenizer.encode(native(turn), add_special_tokens=False), end] for turn in script]
            for n, script in enumerate(scripts)
        }
        Desk.world, Desk.tasks = world, {str(n): task for n, task in enumerate(tasks)}
        rows = [
            {"prompt": [{"role": "user", "content": f"[task {n}] {task.request}"}], "task": str(n)}
            for n, task in enumerate(tasks)
        ]
        with tempfile.TemporaryDirectory() as folder:
            arguments = GRPOConfig(
                folder,
                per_device_train_batch_size=len(rows),
                num_generations=2,
                max_completion_length=8000,
                use_cpu=not torch.cuda.is_available(),
                bf16=False,
                report_to=[],
                gradient_checkpointing=False,
            )
            trainer = GRPOTrainer(
                model,
                lambda completions, **_: [0.0] * len(completions),
                arguments,
                Dataset.from_list(rows),
                processing_class=tokenizer,
                environment_factory=Desk,
            )
        script = Script(tokenizer, turns)
        generate = model.generate

        def forced(*args: object, **kwargs: object) -> object:
            ids = kwargs.get("input_ids", args[0] if args else None)
            assert isinstance(ids, torch.Tensor)
            script.begin(ids)
            return generate(*args, **kwargs, logits_processor=LogitsProcessorList([script]))

        model.generate = forced  # type: ignore[method-assign]
        model.eval()
        began, wall = time.process_time(), time.perf_counter()
        seen: list[list[int]] = []
        trainer._calculate_rewards = _stop  # type: ignore[method-assign]
        collect = trainer._generate

        def generate_and_keep(prompts: list[object]) -> object:
            found = collect(prompts)
            seen.extend(found[2])
            return found

        trainer._generate = generate_and_keep  # type: ignore[method-assign]
        with contextlib.suppress(_Enough):
            trainer._generate_and_score_completions(rows)
        return sum(map(sum, seen)), time.process_time() - began, time.perf_counter() - wall


class _Enough(Exception):
    pass


def _stop(*_: object) -> None:
    """End TRL's step once the episodes are there: scoring them is not measured."""
    raise _Enough


def measure(model_name: str, episodes: int, catalog: Path | None) -> dict[str, float]:
    torch.set_num_threads(1)
    opened = Catalog.open(catalog)
    index = SearchIndex.open(opened)
    sampler = TaskSampler(opened, index)
    tasks: list[Task] = []
    seed = 0
    while len(tasks) < episodes:
        found = sampler.sample("train", KINDS[len(tasks) % len(KINDS)], seed, None)  # type: ignore[arg-type]
        tasks += [found] if isinstance(found, Task) else []
        seed += 1
    arena = Arena(opened, index, Settings(durable=False))
    scripts = solutions(arena, tasks)
    folder = resolve_folder(model_name)
    tokenizer = load_tokenizer(folder)
    model = load_model(folder)
    figures: dict[str, float] = {"episodes": float(episodes)}
    for dialect in ("tags", "compact"):
        began, wall = time.process_time(), time.perf_counter()
        tokens = play_ours(model, tokenizer, arena, tasks, scripts, dialect)  # type: ignore[arg-type]
        seconds = time.process_time() - began
        if dialect == "compact":
            figures["compact_episodes_per_s"] = episodes / seconds
        else:
            figures["seconds"] = time.perf_counter() - wall
            figures["tokens_per_s"], figures["episodes_per_s"] = tokens / seconds, episodes / seconds
    tokens, seconds, wall = play_trl(model, tokenizer, (opened, index), tasks, scripts)
    figures |= {"trl_tokens_per_s": tokens / seconds, "trl_episodes_per_s": episodes / seconds, "trl_seconds": wall}
    figures["ratio"] = figures["tokens_per_s"] / figures["trl_tokens_per_s"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how fast training episodes are played.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--episodes", type=int, default=16, help="episodes played at once (default 16)")
    parser.add_argument("--model", default="smollm2", help="folder of a model (default smollm2)")
    parser.add_argument("--catalog", type=Path, help="catalog to play in")
    options = parser.parse_args()
    figures = measure(options.model, options.episodes, options.catalog)
    if options.json:
        print(json.dumps({key: round(value, 3) for key, value in figures.items()}))
        return
    for key, value in figures.items():
        print(f"{key:24} {value:10,.2f}")


if __name__ == "__main__":
    main()
