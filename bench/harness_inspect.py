"""The peer's side of `harness.py`: the same scripted episodes on inspect_ai with its mock model, its log on disk.

Run by `harness.py` in a virtual environment of its own: `harness_inspect.py EPISODES TURNS CALLS LOG_DIR`; prints one
JSON object. The tokenizer, which would be downloaded, is replaced by one that counts four characters a token.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys
import time

import tiktoken


class _Tokens:
    """Stands in for a downloaded encoding."""

    def encode(self, text: str, **_: object) -> list[int]:
        return [0] * (len(text) // 4 + 1)

    def encode_ordinary(self, text: str) -> list[int]:
        return self.encode(text)


tiktoken.get_encoding = lambda name: _Tokens()
tiktoken.encoding_for_model = lambda name: _Tokens()

from inspect_ai import Task, eval  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import ChatMessageAssistant, ModelOutput, get_model  # noqa: E402
from inspect_ai.model._model_output import ChatCompletionChoice  # noqa: E402
from inspect_ai.scorer import includes  # noqa: E402
from inspect_ai.solver import generate, use_tools  # noqa: E402
from inspect_ai.tool import ToolCall, tool  # noqa: E402

EPISODES, TURNS, CALLS = map(int, sys.argv[1:4])


@tool
def get_part():
    async def execute(order_id: str, part: int) -> str:
        """Get one part of an order.

        Args:
            order_id: As on the invoice.
            part: Number of the part.
        """
        return json.dumps({"id": order_id, "part": part, "status": "shipped"})

    return execute


def script(messages, tools, tool_choice, config):
    """Call four parts of an order in each turn, then answer."""
    turn = sum(message.role == "assistant" for message in messages)
    if turn == TURNS:
        return ModelOutput.from_content("mockllm", "The status is shipped.")
    calls = [
        ToolCall(id=f"t{turn}c{part}", function="get_part", arguments={"order_id": f"A{turn}", "part": part})
        for part in range(CALLS)
    ]
    message = ChatMessageAssistant(content="I get the parts.", tool_calls=calls)
    return ModelOutput(model="mockllm", choices=[ChatCompletionChoice(message=message, stop_reason="tool_calls")])


def main() -> None:
    samples = [Sample(input=f"What is the status of order B{n}?", target="shipped") for n in range(EPISODES)]
    task = Task(dataset=samples, solver=[use_tools(get_part()), generate()], scorer=includes())
    model = get_model("mockllm/model", custom_outputs=script)
    started = time.perf_counter()
    log = eval(task, model=model, log_dir=sys.argv[4], display="none")[0]
    seconds = time.perf_counter() - started
    calls = sum(message.role == "tool" for sample in log.samples or () for message in sample.messages)
    print(json.dumps({"seconds": seconds, "status": log.status, "calls": calls}))


if __name__ == "__main__":
    main()
