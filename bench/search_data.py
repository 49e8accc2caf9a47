"""Labelled queries for `search.py` and `search_fit.py`: ToolBench requests, catalog slots, and requests nobody
serves.

Everything is drawn with fixed seeds, so that two runs over one catalog see the same queries. Each query says which
tools count as found and which are taken away before it is asked; a query with no tool left is unanswerable.

What unanswerable can mean among 90,000 tools: `nobody` holds requests that no remote interface can meet (physical
acts, impossible wishes), checked by hand to name no digital service. The other two kinds are exact only inside a
smaller world: `category gone` asks ToolBench requests after every API of the wanted APIs' categories was removed,
`other box` asks for one API's operation in a toolbox of one, three or twelve APIs of other providers and categories.
Both keep a few requests that something left can partly serve, so a false answer rate of 0 is neither reachable nor
wanted there.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from paraagent.catalog.store import Catalog
from paraagent.errors import EnvironmentFault
from paraagent.evaluate.benchmarks import toolbench_data
from paraagent.search.search import SearchIndex
from paraagent.types import EffectKind, Search, Tool

T = TypeVar("T")
FOLDER = "stabletoolbench"
BOX = (1, 3, 12)
"""How many APIs a small toolbox may hold."""


@dataclass(frozen=True, slots=True)
class Query:
    """One labelled search."""

    text: str
    wanted: frozenset[str]
    """Names of the tools that count as found; empty for an unanswerable query."""
    group: str
    slot: str = ""

    @property
    def search(self) -> Search:
        return Search(self.slot, self.text)


@dataclass(frozen=True, slots=True)
class Case:
    """A query and the world it is asked in."""

    index: SearchIndex
    query: Query


@dataclass(frozen=True, slots=True)
class Worlds:
    """All indexes and labelled sets; each set in two halves: one to fit on, one to report."""

    apis: list[Tool]
    """ToolBench's APIs as tools."""
    catalog: list[Tool]
    alone: SearchIndex
    mixed: SearchIndex
    sets: dict[str, tuple[list[Case], list[Case]]]


ANSWERABLE = ("toolbench alone", "toolbench mixed", "catalog slots", "catalog brief", "box")


def worlds(data: Path | None, catalog: Catalog) -> Worlds:
    """Read everything and draw every set."""
    apis, requests = toolbench(data)
    # responses are not searched and would take gigabytes
    tools = [replace(tool, returns={}) for tool in catalog]
    alone, mixed = SearchIndex.build_in_memory(apis), SearchIndex.build_in_memory([*apis, *tools])
    first, second = halves(requests)
    boxed = halves(boxes(tools, 600, seed=5))

    def inside(index: SearchIndex, parts: tuple[list[Query], list[Query]]) -> tuple[list[Case], list[Case]]:
        return [Case(index, query) for query in parts[0]], [Case(index, query) for query in parts[1]]

    sets = {
        "toolbench alone": inside(alone, (first, second)),
        "toolbench mixed": inside(mixed, (first, second)),
        "catalog slots": inside(mixed, halves(slots(tools, 800, 33, reworded, same_text))),
        "catalog brief": inside(mixed, halves(slots(tools, 400, 34, brief, same_thing))),
        "nobody": inside(mixed, halves(nobody())),
        "category gone": (category_gone(alone, apis, first), category_gone(alone, apis, second)),
    }
    for name in ("box", "other box"):
        fit, report = ([case for case in half if case.query.group == name] for half in boxed)
        sets[name] = fit, report
    return Worlds(apis, tools, alone, mixed, sets)


def toolbench(data: Path | None) -> tuple[list[Tool], list[Query]]:
    """Read all APIs and requests of StableToolBench, by default from `data/` in a folder beside this project.

    Raises:
        SystemExit: the files are not there; the message says what to pass.
    """
    if data is None:
        data = next(iter(sorted(Path("..").glob(f"*/data/{FOLDER}"))), Path(FOLDER))
    try:
        found = toolbench_data.read(data)
    except EnvironmentFault as error:
        raise SystemExit(str(error)) from error
    queries = [Query(request.text, frozenset(request.relevant), request.split) for request in found.requests]
    return list(found.tools.values()), queries


def pieces(text: str) -> list[str]:
    """Split a request into its sub-requests: sentences, and clauses that start with a new verb."""
    found = []
    for sentence in re.split(r"(?<=[.!?])\s+|;\s", text):
        found += [part for part in _CLAUSE.split(sentence) if len(part.split()) > 2]
    return found


_VERBS = (
    "get|fetch|find|provide|give|show|suggest|recommend|retrieve|check|list|generate|calculate|convert|tell|create"
)
_CLAUSE = re.compile(
    r",?\s+(?:and also|as well as|and then|additionally|also|furthermore|moreover)[,\s]\s*"
    rf"|,?\s+and\s+(?=(?:{_VERBS})\b)|,\s+and\s+(?=(?:the|a|any)\b)",
    re.IGNORECASE,
)


Phrase = Callable[[Tool, random.Random], str | None]
Kin = Callable[[Tool], tuple[str, str]]


def slots(tools: Sequence[Tool], count: int, seed: int, phrase: Phrase, kin: Kin) -> list[Query]:
    """Ask for catalog tools in other words; every tool of the same kin counts as found.

    Half of the tools are drawn by provider, so that the four big clouds are not all there is.
    """
    rng = random.Random(seed)
    by_provider: dict[str, list[Tool]] = defaultdict(list)
    families: dict[tuple[str, str], set[str]] = defaultdict(set)
    for tool in tools:
        by_provider[tool.provider].append(tool)
        families[kin(tool)].add(tool.name)
    queries: list[Query] = []
    while len(queries) < count:
        tool = rng.choice(by_provider[rng.choice(sorted(by_provider))] if rng.random() < 0.5 else tools)
        text = phrase(tool, rng)
        if text:
            slot = " ".join(text.split()[:4]) if rng.random() < 0.3 else ""
            queries.append(Query(text, frozenset(families[kin(tool)]), "catalog", slot))
    return queries


def same_text(tool: Tool) -> tuple[str, str]:
    """Kin of a tool asked for by its description: same provider, same description."""
    return tool.provider, tool.description


def same_thing(tool: Tool) -> tuple[str, str]:
    """Kin of a tool asked for by verb and noun: same effect, same resource."""
    return tool.effect, tool.resource


def brief(tool: Tool, rng: random.Random) -> str | None:
    """Return a request of two or three words, as `remove order`; None for a tool without resource or plain verb."""
    if not tool.resource or tool.effect == "action":
        return None
    verb = rng.choice(_VERBS_OF[tool.effect])
    return f"{verb} {tool.resource.replace('_', ' ')}{rng.choice(('', 's'))}".strip()


_VERBS_OF: dict[EffectKind, tuple[str, ...]] = {
    "read": ("get", "list", "find", "show", ""),
    "create": ("create", "add", "make"),
    "update": ("update", "change", "edit"),
    "delete": ("delete", "remove"),
}
_SYNONYMS = {
    "get": ("fetch", "retrieve", "look up", "show"),
    "gets": ("fetch", "look up", "show me"),
    "retrieves": ("get", "fetch", "look up"),
    "retrieve": ("get", "fetch", "look up"),
    "returns": ("get", "fetch", "show me"),
    "return": ("get", "fetch", "show me"),
    "list": ("show all", "get all", "enumerate"),
    "lists": ("show all", "get all", "enumerate"),
    "create": ("add", "make", "set up", "register"),
    "creates": ("add", "make", "set up", "register"),
    "delete": ("remove", "erase", "get rid of"),
    "deletes": ("remove", "erase", "get rid of"),
    "update": ("change", "modify", "edit"),
    "updates": ("change", "modify", "edit"),
}
_SMALL = frozenset("a an the of for to in on by with and or from that this is are".split())
_OPENERS = ("", "", "I need to ", "please ", "can you ", "we want to ", "how do I ")


def reworded(tool: Tool, rng: random.Random) -> str | None:
    """Return a request for the tool in other words, or None if its description says too little."""
    sentence = re.split(r"(?<=[.!?])\s|\n", tool.description.strip())[0][:200]
    words = [word for word in sentence.split() if word.isascii()]
    if sum(word.lower() not in _SMALL for word in words) < 3:
        return None
    said = []
    for word in words:
        plain = word.lower().strip(".,")
        if plain in _SYNONYMS and rng.random() < 0.6:
            said.append(rng.choice(_SYNONYMS[plain]))
        elif plain in _SMALL or rng.random() < 0.8:
            said.append(word)
    if sum(word.lower() not in _SMALL for word in said) < 3:
        return None
    text = rng.choice(_OPENERS) + " ".join(said)
    if rng.random() < 0.6:
        text += " in " + rng.choice((tool.api_title or tool.provider, tool.provider.split(".")[0]))
    return text


def category_gone(index: SearchIndex, tools: Sequence[Tool], queries: Iterable[Query]) -> list[Case]:
    """Ask ToolBench requests where every API of the wanted APIs' categories is gone."""
    category = {tool.name: tool.category for tool in tools}
    found = []
    for query in queries:
        gone = {category[name] for name in query.wanted}
        left = index.without(name for name, kind in category.items() if kind in gone)
        found.append(Case(left, Query(query.text, frozenset(), "category gone")))
    return found


def boxes(tools: Sequence[Tool], count: int, seed: int) -> list[Case]:
    """Ask for an operation in a toolbox of one, three or twelve APIs; every other toolbox holds it."""
    rng = random.Random(seed)
    by_api: dict[tuple[str, str], list[Tool]] = defaultdict(list)
    for tool in tools:
        by_api[tool.provider, tool.api].append(tool)
    apis = sorted(api for api, members in by_api.items() if len(members) <= 60)
    cases: list[Case] = []
    while len(cases) < count:
        target = rng.choice(by_api[rng.choice(apis)])
        phrase, kin = rng.choice(((reworded, same_text), (reworded, same_text), (brief, same_thing)))
        text, size = phrase(target, rng), rng.choice(BOX)
        others = [
            api
            for api in rng.sample(apis, 4 * size)
            if by_api[api][0].category not in ("", target.category) and api[0] != target.provider
        ]
        if not text or len(others) < size:
            continue
        answerable = len(cases) % 2 == 0
        held = [(target.provider, target.api), *others[1:size]] if answerable else others[:size]
        box = [tool for api in held for tool in by_api[api]]
        if not answerable and any(target.resource in (tool.resource, "") for tool in box):
            continue
        wanted = frozenset(tool.name for tool in box if kin(tool) == kin(target))
        query = Query(text, wanted if answerable else frozenset(), "box" if answerable else "other box")
        cases.append(Case(SearchIndex.build_in_memory(box), query))
    return cases


def nobody() -> list[Query]:
    """Return hand-written requests that no remote interface can meet."""
    return [Query(text.strip(), frozenset(), "nobody") for text in NOBODY.strip().splitlines()]


def halves(queries: Sequence[T], seed: int = 7) -> tuple[list[T], list[T]]:
    """Split at random into one half to tune on and one half to report."""
    order = list(queries)
    random.Random(seed).shuffle(order)
    return order[: len(order) // 2], order[len(order) // 2 :]


NOBODY = """
fold my laundry and put it into the wardrobe
walk the dog around the block before breakfast
pull out my aching wisdom tooth
teleport me to the office in Rotterdam by nine o'clock
unclog the kitchen sink drain
water the bonsai trees on my balcony while I am on holiday
sharpen the kitchen knives on a whetstone
iron five shirts and hang them up
make it stop raining over the stadium this afternoon
resurrect a woolly mammoth from frozen bones
knit a woollen scarf in green and silver
tune the strings of my grandmother's cello
change the oil of a 1998 tractor
climb Mount Everest on my behalf and plant a flag
cook a pot of lentil soup and bring it to my desk
give the baby a bath and change its nappy
milk the cows at dawn
chop firewood for the winter and stack it behind the shed
dig a well in the garden
sew the missing button back onto my coat
massage my sore shoulders for twenty minutes
babysit my twins on Friday evening
shear the sheep before the summer heat
repair the leaking roof of the barn
scrub the graffiti off the tunnel wall
polish the silver cutlery until it shines
defrost the ice sculpture standing in the lobby
plant three hundred tulip bulbs along the driveway
mow the lawn and trim the hedges
catch the mouse that lives behind the fridge
brush the cat and cut its claws
rotate the tyres of my bicycle and grease the chain
hem these trousers two centimetres shorter
blow out the candles on my birthday cake
carry the piano up to the third floor
erase my memories of last Tuesday
read the mind of my neighbour and tell me his secret wish
travel back to 1815 and warn Napoleon
turn lead into gold
make my houseplants speak fluent Portuguese
bring my late grandfather back for one evening
swap the moon with Mars for a week
reverse the rotation of the Earth
grant me immortality
hatch the dragon egg in the cellar vault
cast a spell that makes me invisible to guards
exorcise the haunted vending machine in the hallway
summon a thunderstorm with a wooden wand
shrink an elephant to the size of a mouse
let me breathe under water without equipment
rename the colour blue for all of mankind
stop time between two heartbeats
delete gravity in my living room until supper
create a new continent in the Pacific
cancel next winter
update the past so that I never missed the train
list the names of all ghosts living in this castle
download the taste of strawberries
retrieve the thoughts of my goldfish
translate what my cat is meowing about
upload my soul into a teapot
get the phone number of Julius Caesar's barber
fetch yesterday's lightning and put it into a jar
generate a real unicorn with a purple mane
set the boiling point of water to fifty degrees everywhere
undo the invention of the wheel
find the pot of gold at the end of the rainbow
check whether my dreams were dreamt by somebody else first
lift the sunken galleon from the sea bed with bare hands
juggle seven burning torches in the town square
donate a litre of my blood this morning
hold my umbrella while I tie my shoes
whistle a lullaby to the horses in the stable
taste the sauce and add salt if it is bland
remove the splinter from my thumb
scratch my back where I cannot reach
wake my husband gently with a feather
paint the garden fence white with two coats
push my broken down car to the nearest petrol station
climb onto the roof and sweep the chimney
put a plaster on my daughter's scraped knee
untangle the Christmas lights in the attic
hug my mother from me when she is sad
smuggle a cake with a file into the prison
pick the ripest mangoes from the tree
wax the skis and sharpen their edges
glue the broken vase together so that nobody notices
steer the sailing boat through the narrow strait
put the goat out of the vegetable patch
dust the chandelier in the ballroom without a ladder
squeeze twelve lemons and strain the juice
perform heart surgery on the patient in room twelve
stand in the queue at the bakery for me
turn the mattress over and beat the carpets
shovel the snow off my grandmother's doorstep
herd the geese back into the pen
wipe the fog off the bathroom mirror
cut my fringe straight with the good scissors
give birth to my child
chew this nut for me
comb the burrs out of the pony's tail
pour concrete for the new staircase
wrestle the bear that stole our picnic
dye the curtains with walnut shells
rock the cradle until he falls asleep
feed the sourdough starter every evening
hammer the loose nail back into the floorboard
open the stuck lid of the jam jar
"""
