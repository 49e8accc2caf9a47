"""Writes the request of a task the way a person would: services by their names, operations in plain words.

Place in the flow: layer 3, after `tasks` has chosen the steps. Every literal argument stands verbatim in the text,
every fact that will be checked is asked for by name, no tool is named. `reworded` lets a language model say it
differently and refuses what loses a literal. Limits: English; two requests for the same goals differ only in their
frames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from paraagent.env.labels import label, said, thing_named
from paraagent.env.service import service_name
from paraagent.env.shapes import Goal, Link, Step
from paraagent.env.task import Fact, Task
from paraagent.errors import UsageError
from paraagent.protocol.links import upstream
from paraagent.types import JsonValue

_OPENERS = (
    "I need {n} things done.",
    "Please take care of {n} things for me.",
    "Could you help me with {n} things?",
    "Here are {n} small jobs.",
    "",
)
_CONNECTIVES = ("Also, ", "Next, ", "Then there is one more thing: ", "Separately, ", "And ", "In addition, ", "")
_FRAMES = (
    "{On} {service}, {do} and tell me {facts}.",
    "On {service}, {do}. What I need from it is {facts}.",
    "Could you {do} in {service} and give me {facts}?",
    "Please {do} using {service} and report {facts}.",
    "I'd like you to {do} on {service}. Tell me {facts}.",
    "In {service}, {do}, then let me know {facts}.",
)
_CHAIN_FRAMES = (
    "On {service}, {first}. {Then}{rest} and tell me {facts}.",
    "In {service}, first {first}; {then}{rest}. I need to know {facts}.",
    "Please {first} on {service}. {Then}{rest} and give me {facts}.",
    "Could you {first} in {service}? {Then}{rest}, and report {facts}.",
)
_SILENT_CHAIN_FRAMES = (
    "On {service}, {first}. {Then}{rest}.",
    "In {service}, first {first}; {then}{rest}.",
    "Please {first} on {service}. {Then}{rest}.",
)
_SILENT_FRAMES = ("On {service}, {do}.", "Please {do} on {service}.", "Could you {do} in {service}?")
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
_SEARCHED = frozenset({"q", "query", "search", "term", "keyword", "phrase", "text"})


def request(goals: Sequence[Goal], rng: Random, asides: Sequence[str] = ()) -> str:
    """Return the request for all goals; `asides` are remarks about things to leave alone."""
    sentences = [sentence(goal, rng) for goal in goals]
    if len(goals) > 1:
        opener = rng.choice(_OPENERS).format(n=_NUMBERS[len(goals)])
        words = rng.sample(_CONNECTIVES, len(goals) - 1)
        sentences = [sentences[0], *(_joined(word, text) for word, text in zip(words, sentences[1:], strict=True))]
        sentences = [opener, *sentences] if opener else sentences
    return " ".join([*sentences, *asides])


def sentence(goal: Goal, rng: Random) -> str:
    """Return one goal in words."""
    service = service_name(goal.steps[0].tool)
    clauses = [clause(step, goal.steps, rng) for step in goal.steps]
    facts = asked(goal.facts)
    if len(clauses) == 1:
        frame = rng.choice(_FRAMES if facts else _SILENT_FRAMES)
        return _capital(
            frame.format(On=rng.choice(("On", "In", "With")), service=service, do=clauses[0], facts=facts)
        )
    then = rng.choice(("then ", "after that, ", "next, "))
    rest = ", then ".join(clauses[1:])
    frame = rng.choice(_CHAIN_FRAMES if facts else _SILENT_CHAIN_FRAMES)
    return _capital(
        frame.format(service=service, first=clauses[0], rest=rest, facts=facts, then=then, Then=_capital(then))
    )


def clause(step: Step, steps: Sequence[Step], rng: Random) -> str:
    """Return one step as an imperative: its operation, its literals, and what it takes from an earlier step."""
    thing = step.wording.thing
    loose: list[str] = []
    given: list[str] = []
    if step.link:
        noun = thing_named(step.tool, step.link.parameter) or ()
        refer = reference(step.link, steps, rng)
        thing, loose = _placed(thing, noun, refer, label(step.link.parameter) or "", loose)
    for name, value in step.literals.items():
        noun = thing_named(step.tool, name) or ()
        if not noun:
            given.append(_given(name, value))
        else:
            thing, loose = _placed(thing, noun, f"the {{}} {said(value)}".format, "", loose)
    searched = [text for text in given if text.startswith("for ")]
    span = [text for text in given if text.startswith(("from ", "to ", "since ", "until "))]
    plain = [text for text in given if text not in searched and text not in span]
    about = "for " + _and(loose) if loose else ""
    parts = [step.wording.verb, thing, *searched, about, "with " + _and(plain) if plain else "", *span]
    return " ".join(part for part in parts if part)


def reference(link: Link, steps: Sequence[Step], rng: Random) -> Callable[[str], str]:
    """Return how a person names the thing that a link points to, given its noun: `the new order`, `that order`."""
    source = next(step for step in steps if step.id == link.source).tool
    made = source.resource.replace("_", " ")

    def refer(noun: str) -> str:
        same = noun.endswith(made) or made.endswith(noun)
        if link.kind == "create":
            return f"{rng.choice(('the', 'that'))} new {noun}" if same else f"the resulting {noun}"
        if link.kind == "list":
            return f"the first {noun} listed" if same else f"the {noun} of the first entry"
        return f"that {noun}" if same else f"the {noun} given there"

    return refer


def asked(facts: Sequence[Fact]) -> str:
    """Return what the answer must state, as `the status and the total of the first one`."""
    return _and([f"the {fact.label}" for fact in facts])


def literals(goal: Goal) -> list[str]:
    """Return the literals as they must stand in the request."""
    return [said(value) for step in goal.steps for value in step.literals.values()]


def reworded(task: Task, model: Callable[[str], str]) -> Task:
    """Return the task with its request as `model` says it: every literal, number and proper name must still be there.

    Raises:
        UsageError: something is gone, or a tool's name came in; the message says what. Keep the original then.
    """
    request = model(task.request).strip()
    literal = {said(value) for call in task.calls for value in call.arguments.values() if not upstream(value)}
    named = {entity.id for entity in task.entities if entity.id in task.request}
    names = set(re.findall(r"[\w.:-]*\d[\w.:-]*\w|\d|(?<=[a-z,;] )[A-Z]\w+", task.request))
    lost = sorted(text for text in literal | named | names if text not in request)
    if lost:
        raise UsageError(f"the reworded request lost {', '.join(map(repr, lost))}: keep the original")
    leaked = sorted({call.tool for call in task.calls if call.tool in request})
    if leaked:
        raise UsageError(f"the reworded request names the tool {leaked[0]}: keep the original")
    return replace(task, request=request)


def _given(name: str, value: JsonValue) -> str:
    shown, text = label(name), said(value)
    if name.lower() in _SEARCHED:
        return f"for {text}"
    return f"{shown} set to {text}" if isinstance(value, bool) else f"{shown} {text}"


def _placed(
    thing: str, noun: tuple[str, ...], refer: Callable[[str], str], fallback: str, loose: list[str]
) -> tuple[str, list[str]]:
    """Put a reference where the operation mentions its noun, or at the end of the `for ...` that follows."""
    words = r"[ -]?".join(map(re.escape, noun))
    pattern = (
        rf"(?:\b(?:an?|the|your|this|that|any|one|each|every) (?=(?:[\w-]+ )?{words})"
        rf"|(?<=for )|(?<=of )|(?<=in )|(?<=to )|(?<=by )|(?<=from ))(?P<head>(?:[\w-]+ )??{words})(?: ids?| number)?"
        rf"(?=$|'s|,| (?:of|for|in|on|by|to|from|with|at|and|or)\b)"
    )
    if noun and (match := re.search(pattern, thing, re.IGNORECASE)):
        return thing[: match.start()] + refer(match["head"]) + thing[match.end() :], loose
    return thing, [*loose, refer(" ".join(noun) or fallback)]


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + f" and {parts[-1]}" if parts else ""


def _joined(word: str, text: str) -> str:
    """Put a connective before a sentence, whose first letter it takes over."""
    return word + (text[0].lower() + text[1:] if word and not text.startswith(("I ", "I'")) else text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
