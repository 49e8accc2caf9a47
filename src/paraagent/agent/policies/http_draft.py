"""A model's turn as it arrives from a chat endpoint, whole or in chunks, and its final form as protocol text.

Place in the flow: layer 3; `http` feeds what the client library yields into a `Draft` and takes text and usage out.
Nothing about the shape of the parts is taken for granted: the library does not validate them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paraagent.types import Usage


class UnusableAnswer(Exception):
    """The endpoint answered, but not with a whole chat completion."""


@dataclass(slots=True)
class FunctionCall:
    """One native tool call, in pieces as they arrived."""

    name: str = ""
    arguments: str = ""
    """JSON, if the model kept to it."""


@dataclass(slots=True)
class Draft:
    """One answer in the making."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, FunctionCall] = field(default_factory=dict)
    """Native tool calls by their index in the answer."""
    usage: Usage = field(default_factory=Usage)
    """The last that was reported."""
    begun: bool = False
    """Something that looks like a completion arrived."""
    finished: bool = False
    """The endpoint said that the answer is whole."""

    def take(self, part: object) -> None:
        """Add a whole completion or a chunk of one.

        Raises:
            UnusableAnswer: the part reports an error, or holds something else than text.
        """
        if error := getattr(part, "error", None):
            raise UnusableAnswer(f"error inside the answer: {error}")
        if usage := getattr(part, "usage", None):
            self.usage = _usage(usage)
        choices = getattr(part, "choices", None)
        if not isinstance(choices, list) or not choices:
            return
        whole = getattr(choices[0], "message", None)
        self.begun = True
        self.finished |= whole is not None or getattr(choices[0], "finish_reason", None) is not None
        source = whole or getattr(choices[0], "delta", None)
        self._take_text(source)
        self._take_calls(source)

    def text(self) -> str:
        """Return the turn as protocol text: thoughts that came apart from it are put in front as `<think>`."""
        content, reasoning = "".join(self.content), "".join(self.reasoning).strip()
        if "<think>" not in content:
            if "</think>" in content:  # the server's chat template has opened the tag already
                content = f"<think>{content}"
            elif reasoning:
                content = f"<think>\n{reasoning.replace('</think>', '')}\n</think>\n\n{content.lstrip()}"
        return content.encode("utf-8", "replace").decode()  # lone surrogates fit in no file

    def _take_calls(self, source: object) -> None:
        calls = getattr(source, "tool_calls", None)
        for place, call in enumerate(calls if isinstance(calls, list) else ()):
            index = getattr(call, "index", None)
            function = getattr(call, "function", None)
            draft = self.calls.setdefault(index if isinstance(index, int) else place, FunctionCall())
            for name in ("name", "arguments"):
                piece = getattr(function, name, None)
                if piece is not None and not isinstance(piece, str):
                    raise UnusableAnswer(f"the {name} of a tool call is {type(piece).__name__}, not text")
                setattr(draft, name, getattr(draft, name) + (piece or ""))

    def _take_text(self, source: object) -> None:
        content = getattr(source, "content", None)
        # servers name the thoughts one way or the other; some send the same text under both names
        thought = getattr(source, "reasoning_content", None) or getattr(source, "reasoning", None)
        for piece, pieces in ((content, self.content), (thought, self.reasoning)):
            if isinstance(piece, str):
                pieces.append(piece)
            elif piece is not None:
                raise UnusableAnswer(f"its content is {type(piece).__name__}, not text")


def _usage(reported: object) -> Usage:
    details = getattr(reported, "prompt_tokens_details", None)
    cached = _count(details, "cached_tokens") or _count(reported, "prompt_cache_hit_tokens")
    return Usage(_count(reported, "prompt_tokens"), _count(reported, "completion_tokens"), cached)


def _count(source: object, name: str) -> int:
    value = getattr(source, name, None)
    return value if isinstance(value, int) and value >= 0 else 0
