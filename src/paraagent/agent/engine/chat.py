"""A chat as token ids that are only ever appended to: what was sampled is never tokenised again.

Place in the flow: layer 3, optional; the local policy reads prompts through it and training prepares its rows with
it, so both see the same tokens. What a chat template puts around messages is found once, by rendering placeholders,
and joined piece by piece. Control tokens stand only in these pieces: in the content of a message they are plain text.
Limits: the template must render a chat as a prefix of the longer chat (all but tool-rewriting ones do).
"""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from paraagent.errors import UsageError

_SYSTEM, _USER, _ASSISTANT, _NEXT = "PLACEHOLDERSYSTEM", "PLACEHOLDERUSER", "PLACEHOLDERASSISTANT", "PLACEHOLDERNEXT"


class Chat:
    """How one tokenizer writes a conversation.

    Raises:
        UsageError: the tokenizer has no usable chat template.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        if not tokenizer.chat_template:
            raise UsageError(
                f"the tokenizer of {tokenizer.name_or_path} has no chat template: take an instruct model, "
                "or put a chat_template.jinja into its folder"
            )
        try:
            first = self._render([("system", _SYSTEM), ("user", _USER)])
            self._merges_system = False
        except Exception:  # some templates refuse a system message, each with an error of its own
            first = self._render([("user", f"{_SYSTEM}\n\n{_USER}")])
            self._merges_system = True
        opening = [("user", _USER)] if self._merges_system else [("system", _SYSTEM), ("user", _USER)]
        whole = self._render([*opening, ("assistant", _ASSISTANT), ("user", _NEXT)])
        before, found, after = whole.partition(_ASSISTANT)
        closing, found_next, opening_again = after.partition(_NEXT)
        head, found_system, rest = first.partition(_SYSTEM)
        middle, found_user, tail = rest.partition(_USER)
        if not (found and found_next and found_system and found_user) or not before.endswith(tail):
            raise UsageError(
                f"the chat template of {tokenizer.name_or_path} rewrites earlier messages: use one that only appends"
            )
        self._head, self._middle, self._tail = (self._control(text) for text in (head, middle, tail))
        self._closing, self._opening_again = self._control(closing), self._control(opening_again)
        self.end_of_turn: int = self._closing[0]
        """The token that ends an assistant's turn."""

    def begin(self, system: str, user: str) -> list[int]:
        """Return the tokens of the first two messages, up to where the assistant's first turn begins."""
        return [*self._head, *self.content(system), *self._middle, *self.content(user), *self._tail]

    def go_on(self, last: int | None, user: str) -> list[int]:
        """Return what follows an assistant's turn, up to where the next one begins.

        Args:
            last: the turn's last token; unless it is `end_of_turn`, the turn is ended first.
        """
        closing = self._closing[1:] if last == self.end_of_turn else self._closing
        return [*closing, *self.content(user), *self._opening_again]

    def turn(self, text: str) -> list[int]:
        """Return an assistant's turn as it would be sampled, its end included."""
        return [*self.content(text), self.end_of_turn]

    def content(self, text: str) -> list[int]:
        """Return text as tokens none of which is a control token."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return ids

    def text(self, tokens: list[int] | tuple[int, ...]) -> str:
        """Return the text of a sampled turn, without the token that ends it."""
        kept = tokens[:-1] if tokens and tokens[-1] == self.end_of_turn else tokens
        text: str = self._tokenizer.decode(list(kept), skip_special_tokens=False)
        return text

    def stop_ids(self, declared: int | list[int] | None) -> list[int]:
        """Return the tokens that end a turn: the template's, the tokenizer's, and those a model declares."""
        known = [declared] if isinstance(declared, int) else declared or []
        ids = [self.end_of_turn, self._tokenizer.eos_token_id, *known]
        return sorted({token for token in ids if token is not None})

    def _control(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _render(self, messages: list[tuple[str, str]]) -> str:
        rendered: str = self._tokenizer.apply_chat_template(
            [{"role": role, "content": content} for role, content in messages],
            tokenize=False,
            add_generation_prompt=True,
        )
        return rendered
