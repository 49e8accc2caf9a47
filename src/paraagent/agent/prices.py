"""What models cost: a table that the user keeps in a file, since prices change and differ between providers.

Place in the flow: layer 3, read by commands, given to `budget`. The file is TOML or JSON: one table per model, prices
per million tokens, and the currency, which is only ever shown.

    currency = "EUR"

    ["small-1"]
    input = 0.25
    cached = 0.025    # input that the provider had in its cache; as `input` if left out
    output = 2.0

Limits: no price per request, and none for writing to a cache.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import JsonValue, Usage

_MILLION = 1_000_000
_FORM = "`input`, `output` and perhaps `cached`, each a price per million tokens"


@dataclass(frozen=True, slots=True)
class Price:
    """One model's prices per million tokens."""

    input: float
    output: float
    cached: float
    """Of input tokens that the provider reports as cached."""
    currency: str = "USD"

    def cost(self, usage: Usage) -> float:
        """Return what a model call cost; cached tokens are a part of the input."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        return (fresh * self.input + cached * self.cached + usage.output_tokens * self.output) / _MILLION

    def prompt(self, tokens: int) -> float:
        """Return the most that a prompt may cost: as if nothing of it were cached."""
        return tokens * max(self.input, self.cached) / _MILLION

    def affords(self, money: float) -> float:
        """Return how many output tokens this buys; infinitely many if they are free."""
        if money < 0:
            return -1.0
        return money * _MILLION / self.output if self.output else math.inf


class Prices:
    """The prices of several models."""

    def __init__(self, prices: Mapping[str, Price], where: str) -> None:
        self._prices = prices
        self._where = where

    def of(self, model: str) -> Price:
        """Return a model's price.

        Raises:
            UsageError: the table has none; the message says what to add, and which close names there are.
        """
        price = self._prices.get(model)
        if price is not None:
            return price
        close = difflib.get_close_matches(model, self._prices, n=3, cutoff=0.4)
        hint = f"; it has {', '.join(close or list(self._prices)[:3])}" if self._prices else ""
        raise UsageError(f"{self._where} has no price for {model!r}{hint}: add an entry of that name with {_FORM}")


def read_prices(path: Path) -> Prices:
    """Read a table of prices, JSON if the file is called so and TOML otherwise.

    Raises:
        EnvironmentFault: there is no such file, or it cannot be read.
        UsageError: it is no such table; the message names the entry and what is wrong.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be read ({error.strerror}); give a file of prices") from None
    try:
        content = orjson.loads(data) if path.suffix == ".json" else tomllib.loads(data.decode())
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise UsageError(f"{path}: not valid {kind}: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: must be an object with one entry for each model")
    currency = content.pop("currency", "USD")
    if not isinstance(currency, str) or not currency.strip():
        raise UsageError(f'{path}: `currency` must be a text, as "EUR"')
    prices = {model: _price(entry, currency, f"{path}: {model}") for model, entry in content.items()}
    return Prices(prices, str(path))


def _price(entry: JsonValue, currency: str, where: str) -> Price:
    if not isinstance(entry, dict) or not {"input", "output"} <= entry.keys() <= {"input", "output", "cached"}:
        raise UsageError(f"{where}: must have {_FORM}")
    price = {kind: _amount(value, f"{where}: `{kind}`") for kind, value in entry.items()}
    return Price(price["input"], price["output"], price.get("cached", price["input"]), currency)


def _amount(value: JsonValue, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"{where} must be a number, 0 or more, not {value!r}")
    return float(value)
