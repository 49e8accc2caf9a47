"""How the built-in experts put their thoughts and answers: short, varied, and about what is known, missing and next.

Place in the flow: layer 5, used by `experts`. A thought names slots and tools exactly as plans and calls do, so that
a small model learns to copy them. All variation comes from one seeded generator. Limits: English.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from paraagent.types import Tool

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Voice:
    """One narrator; the same seed says the same."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def any_of(self, *sayings: str) -> str:
        """Return one of several ways to say the same."""
        return self._random.choice(sayings)

    def missing_one(self, what: str, known: str) -> str:
        """Open a task of one part."""
        lack = self.any_of(
            f"I need a tool to {what}.", f"Missing: a tool to {what}.", f"First I have to find a tool to {what}."
        )
        if not known:
            return lack
        return self.any_of(f"Known: {known}. {lack}", f"{lack} Known already: {known}.", f"{lack} Given: {known}.")

    def missing_many(self, parts: Sequence[str]) -> str:
        """Open a task of several parts."""
        count = counted(len(parts))
        listed = "; ".join(f"{number}) {part}" for number, part in enumerate(parts, 1))
        return self.any_of(
            f"{count.capitalize()} parts: {listed}. I have no tool for any of them, so I search for all at once.",
            f"The request has {count} independent parts. {listed}. Next: search for all the tools together.",
            f"To do: {listed}. None depends on another; I look for all the tools in one turn.",
        )

    def picked(self, slot: str, tool: str, reason: str) -> str:
        because = f": {reason}" if reason else ""
        return self.any_of(
            f"{slot} -> {tool}{because}.",
            f"For {slot} I take {tool}{because}.",
            f"{slot}: {tool} fits{because and ', ' + reason}.",
        )

    def asked_again(self, slot: str, service: str, *, strangers: bool) -> str:
        """Say that a search was too vague; `strangers` if all it has shown belongs to other services."""
        if not strangers:
            return self.any_of(
                f"{slot}: none of these does that. I ask more exactly, with {service} in the query.",
                f"The tool for {slot} is not among them. Once more, naming {service}.",
            )
        return self.any_of(
            f"{slot}: nothing here is from {service}. I ask again and name the service.",
            f"None of the tools for {slot} belongs to {service}; I say it more exactly.",
            f"{slot} is still missing, these are tools of other services. Once more, with {service} in the query.",
        )

    def doubted(self, slot: str, closest: Tool | None) -> str:
        near = f" {closest.name} comes closest but does something else." if closest else ""
        return self.any_of(
            f"{slot}: nothing suitable.{near} I try other words once.",
            f"No tool here can {slot}.{near} One more search before I give up.",
        )

    def gave_up(self, slot: str) -> str:
        return self.any_of(
            f"Two searches and still no tool to {slot}. I will say so.",
            f"The second search shows no tool to {slot} either. I stop here and tell the user.",
            f"Nothing can {slot}. Guessing with another tool would be wrong; I answer that it cannot be done.",
        )

    def retried(self, tool: str, why: str) -> str:
        return self.any_of(
            f"{tool} failed ({why}). That may pass, so I call it again.",
            f"{why}: a passing failure of {tool}. Same call once more.",
            f"{tool} did not answer properly ({why}); I repeat it.",
        )

    def switched(self, old: str, why: str, new: str) -> str:
        return self.any_of(
            f"{old} keeps failing ({why}). {new} does the same, I use it instead.",
            f"{old} will not work ({why}); {new} was found too and fits as well.",
            f"Because of {why} I go around {old} with {new}.",
        )

    def sought(self, old: str, why: str) -> str:
        return self.any_of(
            f"{old} does not work ({why}) and no other tool for this was shown. I search for another one.",
            f"Without {old} ({why}) I need another tool for the same; search again.",
        )

    def together(self, count: int) -> str:
        calls = "both calls" if count == 2 else f"all {counted(count)} calls"
        return self.any_of(
            f"Nothing has to wait: {calls} run together.",
            f"They do not need each other, so {calls} go out in one turn.",
            f"No call needs another's result; {calls} run in parallel.",
        )

    def needs(self, tool: str, parameter: str, producer: str) -> str:
        return self.any_of(
            f"{tool} needs {parameter} from {producer}.",
            f"{parameter} of {tool} comes out of {producer}.",
            f"First {producer}, whose result gives {parameter} for {tool}.",
        )

    def received(self, parameter: str, value: str) -> str:
        return self.any_of(
            f"{parameter} is {value}.", f"The result gives {parameter} {value}.", f"Now I know {parameter}: {value}."
        )

    def corrected(self, parameter: str, what: str) -> str:
        return self.any_of(
            f"The call was refused: {what}. I correct {parameter}.",
            f"My mistake with {parameter}: {what}. Again, with the right arguments.",
        )

    def finished(self, known: str) -> str:
        if not known:
            return self.any_of("Everything is done.", "All calls succeeded, nothing is left.", "That was all.")
        return self.any_of(
            f"I have it: {known}.", f"All results are there: {known}.", f"Nothing is missing. Results: {known}."
        )

    def toolless(self) -> str:
        return self.any_of(
            "No tool is needed for this.", "I can answer this myself.", "The request holds all I need, no tool."
        )

    def declined(self, what: str) -> str:
        return self.any_of(
            f"I could not find a tool to {what}, so nothing was done.",
            f"There is no tool available to {what}. I have not changed anything.",
            f"I am unable to {what}: two searches have shown no suitable tool.",
            f"Sorry, I cannot {what}; no tool for that exists here.",
        )


def counted(number: int) -> str:
    """Return a small number as a word."""
    return _COUNTS[number] if number < len(_COUNTS) else str(number)
