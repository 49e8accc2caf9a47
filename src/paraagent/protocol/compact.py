"""A shorter way to write the same turns, for small models: lines instead of tags and JSON.

Place in the flow: layer 2, optional; a policy that speaks it expands every turn to the one grammar before the loop
sees it, and reads observations through `observe`. The trace, the rewards and the viewer know nothing of it.

    # a thought                                     <think>, optional
    find                                            <search_tool> blocks under a plan with exactly their slots
    order: Pinecart get an order by its id              slot and query; one text alone is both
    run                                             <tool_call> blocks under the plan that their links imply
    order: c1 = pinecart_get_order(order_id="A7")       slot (a remark, not kept), id, call: the card's own words
    c2 = pinecart_track(parcel=$c1.parcels.0.id)        a bare link
    say                                             <answer>, to the end of the text
    Done. status: sent

`find more` and `run more` go on without a plan; a line `plan {...}` before them gives one in JSON. Limits: line
breaks inside a search become spaces; text before the first keyword that is no thought makes the turn unreadable.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence

import orjson

from paraagent.protocol import links
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.flow import call_plan
from paraagent.protocol.grammar import Turn
from paraagent.protocol.grammar import parse as parse_tags
from paraagent.protocol.jsontext import write_json
from paraagent.protocol.plan import Plan, SearchPlan
from paraagent.protocol.render import render_answer, render_call, render_plan, render_think
from paraagent.protocol.shorten import View, shorten
from paraagent.types import Call, JsonObject, JsonValue, Search

SYSTEM = """\
Do the request with tools. A turn is one of
find: a line for each tool you need, what it must do
run: a line for each call, id = tool(name=value), $id.path for another call's result
say: the answer, or that it cannot be done"""

_HEAD = re.compile(r"(?:^|:\s+|^\s+)(?:([A-Za-z_][\w-]*)\s*=\s*)?(\w[\w.\-/]*)\(")
_ARGUMENT = re.compile(r"\s*(?:([\w$@.:/\[\]-]{1,80})|(\"(?:[^\"\\]|\\.)*\"))\s*=\s*")
_BARE_LINK = re.compile(r"\$[A-Za-z_][\w-]*(?:[.\[][\w.\[\]@-]*)?")
_KEYWORDS = ("find", "find more", "run", "run more", "say")


class _Unreadable(ValueError):
    """A line that is no call."""


def parse(text: str) -> Turn:
    """Read one compact turn; never raises."""
    return parse_tags(expand(text))


def expand(text: str) -> str:
    """Return a compact turn as text of the one grammar; what cannot be read stays as it is and becomes its fault."""
    lines = text.strip().split("\n")
    thoughts: list[str] = []
    while lines and lines[0].startswith("#"):
        thoughts.append(lines.pop(0)[1:].strip())
    plan = ""
    if lines and lines[0].startswith("plan "):
        plan = f"<plan>{lines.pop(0)[5:].strip()}</plan>"
    keyword = lines.pop(0).strip() if lines else ""
    if keyword not in _KEYWORDS:
        return text
    blocks = [render_think("\n".join(thoughts))]
    if keyword == "say":
        return "\n".join([*blocks, *filter(None, [plan]), render_answer("\n".join(lines))])
    body = [line.strip() for line in lines if line.strip()]
    if keyword.startswith("find"):
        searches = [_search(line) for line in body]
        if keyword == "find" and searches and not plan:
            plan = render_plan(SearchPlan(tuple(search.slot for search in searches)))
        actions = [f"<search_tool>{search.slot}: {search.query}</search_tool>" for search in searches]
    else:
        calls = [_call(line) for line in body]
        known = [call for call in calls if isinstance(call, Call)]
        if keyword == "run" and known and not plan:
            plan = render_plan(call_plan(known))
        actions = [call if isinstance(call, str) else render_call(call) for call in calls]
    return "\n".join([*blocks, *filter(None, [plan]), *actions])


def render(turn: Turn, slots: Mapping[str, str] | None = None) -> str:
    """Write a turn the compact way.

    Args:
        slots: what to put before a call as a remark, by tool name.

    Raises:
        ValueError: the turn does nothing, so it cannot be written.
    """
    lines = [f"# {line}" for line in turn.think.split("\n") if line.strip()]
    calls = [call for call in turn.calls if isinstance(call, Call)]
    if turn.kind == "exploration":
        implied: Plan | None = SearchPlan(tuple(search.slot for search in turn.searches))
        body = [_flat(s.slot if s.slot == s.query else f"{s.slot}: {s.query}") for s in turn.searches]
    elif turn.kind == "execution":
        implied = call_plan(calls) if calls else None
        body = [_flat(c.text) if isinstance(c, BrokenCall) else call_line(c, slots or {}) for c in turn.calls]
    elif turn.kind == "answer":
        return "\n".join([*lines, "say", turn.answer or ""])
    else:
        raise ValueError("an invalid turn cannot be written")
    keyword = "find" if turn.kind == "exploration" else "run"
    if turn.plan is None:
        keyword += " more"
    elif turn.plan != implied:
        lines.append(f"plan {write_json(turn.plan.to_json())}")
    return "\n".join([*lines, keyword, *body])


def observe(
    content: str, view: View | None = None, *, slots: Sequence[str] = (), ids: Sequence[str | None] = ()
) -> str:
    """Return what came back, without tags: slots over their tools, results and errors by id, notes.

    A tool that was shown already in this observation is shown again by its name only.

    Args:
        content: an observation as the loop writes it.
        view: how much of it is shown.
        slots: names to put over the tools in place of those that were searched for, in order.
        ids: ids to put before the results in place of their own, in order.
    """
    view = view or View()
    lines: list[str] = []
    shown: set[str] = set()
    left = 0
    headings, names = iter(slots), iter(ids)
    block = ""
    for line in content.split("\n"):
        if line in ("<tools>", "<tool_response>"):
            block = line
        elif line in ("</tools>", "</tool_response>"):
            block = ""
        elif block == "<tools>":
            lines.append(_heading(line, next(headings, None)))
            block, left = "cards", view.tools
        elif block == "cards":
            left -= 1
            if left >= 0:
                lines.append(line.partition("(")[0] if line in shown else line)
            shown.add(line)
        elif block == "<tool_response>":
            lines.append(_result(line, view, next(names, None)))
        elif (note := _note(line)) not in lines:
            lines.append(note)
    return "\n".join(lines)


def _note(line: str) -> str:
    """Tell what the agent is told about its turn in words of this dialect where it speaks of tags."""
    if not line.startswith("Note: ") or not ("&lt;" in line or "JSON" in line or "tags" in line):
        return line
    if "last turn" in line:
        return "Note: This is the last turn: say the answer now, with what is known."
    return "Note: A turn is find, run or say, with a line for each tool or call: id = tool(name=value)."


def _heading(line: str, name: str | None) -> str:
    slot, _, told = line.rpartition(": ")
    return f"{name or slot}: nothing fits" if told.startswith("nothing fits") else f"{name or slot}:"


def _search(line: str) -> Search:
    slot, _, query = (part.strip() for part in line.partition(": "))
    slot = slot.replace(":", " ").strip() or "tool"
    return Search(slot, query or line)


def _call(line: str) -> Call | str:
    """Read one call line; one that cannot be read becomes a block that says so."""
    for head in _HEAD.finditer(line):  # a slot may have parentheses, too
        with contextlib.suppress(ValueError):
            return Call(head[2], _arguments(line, head.end()), head[1])
    return f"<tool_call>{line}</tool_call>"


def _arguments(line: str, position: int) -> JsonObject:
    decoder = json.JSONDecoder()
    found: JsonObject = {}
    while True:
        if re.fullmatch(r"\s*\)\s*", line[position:]):
            return found
        name = _ARGUMENT.match(line, position)
        if name is None:
            raise _Unreadable
        key = name[1] or str(json.loads(name[2]))
        link = _BARE_LINK.match(line, name.end())
        if link is not None:
            value: JsonValue = link[0]
            position = link.end()
        else:
            value, position = decoder.raw_decode(line, name.end())
        if key in found and write_json(found[key]) != write_json(value):
            raise _Unreadable
        found[key] = value
        rest = re.match(r"\s*(,(?=\s*\S)|(?=\)))", line[position:])
        if rest is None:
            raise _Unreadable
        position += rest.end()


def call_line(call: Call, slots: Mapping[str, str]) -> str:
    """Return a call on one line, behind a remark if `slots` has one for its tool."""
    remark = f"{_flat(slots[call.name])}: " if call.name in slots else ""
    name = "" if call.id is None else f"{call.id} = "
    arguments = ", ".join(f"{argument_name(key)}={_value(value)}" for key, value in call.arguments.items())
    return f"{remark}{name}{call.name}({arguments})"


def argument_name(name: str) -> str:
    """Return how an argument is named before its `=`."""
    return name if re.fullmatch(r"[\w$@.:/\[\]-]{1,80}", name) else write_json(name)


def _value(value: JsonValue) -> str:
    if isinstance(value, str) and links.upstream(value) and _BARE_LINK.fullmatch(value):
        return value
    return write_json(value)


def _result(line: str, view: View, name: str | None) -> str:
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError:
        return line
    name = name or body.get("id") or body.get("name") or "?"
    if "error" in body:
        error = body["error"]
        told = error.get("message") if body.get("name") else "this line is no call, write id = tool(name=value)"
        return f"{name} failed: {error.get('kind')}: {told}"
    return f"{name}: {write_json(shorten(body.get('result'), view), compact=True)}"


def _flat(text: str) -> str:
    return " ".join(text.split())
