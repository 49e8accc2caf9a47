"""What a tool does, as a person would ask for it: an imperative phrase made from the tool's own description.

Place in the flow: layer 3; `phrasing` builds requests from these, `repertoire` leaves out tools that have none. The
phrase never holds the tool's identifier. Limits: English; a description that starts with neither a known verb nor a
short noun phrase gives nothing, and its tool is not used in tasks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from paraagent.catalog.names import singular
from paraagent.catalog.text import clean
from paraagent.types import EffectKind, Tool

READ_VERBS = frozenset(
    """
    get list retrieve return fetch show find search view read look check count describe browse query obtain
    download display lookup perform run calculate compute validate verify estimate preview compare analyze
    detect identify see
    """.split()
)
WRITE_VERBS = frozenset(
    """
    create add update delete remove set send start stop cancel register assign unassign attach detach enable
    disable upload publish archive restore invite approve reject close open move copy clone rename replace
    modify edit change submit generate activate deactivate schedule grant revoke reset merge mark make put save
    store insert subscribe unsubscribe block unblock lock unlock pause resume import export trigger confirm
    issue refund capture void place book reserve initiate request apply configure define deploy destroy
    terminate release reopen report reply rotate share sync tag untag transfer translate convert associate
    disassociate connect disconnect link unlink allocate reboot restart record complete finish follow unfollow
    pin unpin star unstar suspend upgrade append join leave launch decline dismiss provision purge renew retry
    rebuild
    """.split()
)
MAX_WORDS = 13


def _any(words: str) -> str:
    """Return a pattern that matches one of the words; `~` in a word stands for a space."""
    return "(?:" + "|".join(words.replace("~", " ") for words in words.split()) + ")"


_DEFINITE = _any("specified given specific particular provided requested supplied certain chosen selected")
_CALLED = _any("endpoint method operation api call request function action route service")
_ALLOWED = _any("allows? lets enables? permits")
_LEAD_IN = re.compile(
    rf"^(?:(?:represents|contains|provides|-) |(?:please )?(?:use|call) (?:this|the) (?:[\w-]+ ){{1,3}}to "
    rf"|(?:this|the|an?) (?:[\w-]+ ){{0,2}}{_CALLED}"
    rf"(?: that| which| is used to| can be used to| is to| allows you to| lets you| will| to|,)? "
    rf"|(?:endpoint|method|operation|used|api) (?:to|for|that) "
    rf"|{_ALLOWED} (?:you |the user |users |clients |the client |to )*(?:to )?"
    rf"|(?:the ability|you can|it is possible) (?:to )?)",
    re.IGNORECASE,
)
"""What stands before the verb in `This endpoint allows you to list orders`."""
_TURN = _any(
    """
    specified identified referenced based matching using via filtered determined denoted whose which that where if
    when so because as including in~order ordered sorted paginated according provided through without optionally
    otherwise unless depending containing along such requires only given uniquely
    """
)
_BY = _any("its their the an? unique using providing specifying given passing")
_HANDLE = _any("ids? uuid key name code slug number index identifier")
_FILTER = _any("ids? uuid identifiers? parameters? criteria filters? name values?")
_TAIL = re.compile(
    rf"(?:,? \b(?:{_TURN}\b|by (?:{_BY}|(?:[\w-]+ )?{_HANDLE}\b)"
    rf"|with (?:the )?[\w-]+ (?:ids?|uuid|identifiers?)\b"
    rf"|(?:with|for|from|having) (?:an? |the |its |their )?(?:{_DEFINITE} )?(?:unique |matching |following )?"
    rf"{_FILTER}\b"
    rf"|returns?\b|and (?:returns?|its|their|then|optionally|also|provides?|shows?|includes?)\b"
    rf"|and \w+s (?:it|them)\b|or (?:an? )?(?:error|empty|404)).*"
    rf"|,? ?[(\[{{/;:].*|\s[-–—]\s.*|,? (?:e\.g\.|i\.e\.).*)$",
    re.IGNORECASE,
)
"""How the thing is identified, what else comes back, conditions: all that a person leaves out."""
_LOOSE = _any("for of in on by to from with at and or the an? all any be is are into between under")
_LOOSE_END = re.compile(f"[ ,]{_LOOSE}$")
_UNFIT_WORDS = _any(
    r"""
    deprecated obsolete internal legacy no~longer do~not testing test not coming~soon beta documentation todo
    placeholder options post put patch n/a swagger endpoints? apis? http https cors lorem json xml crud you we this
    odata is are can will entity~set bulk batch ping health~?check uri url [sv]\d+ dto oauth callback boolean array
    objects?
    """
)
_UNFIT = re.compile(
    rf"\b{_UNFIT_WORDS}\b|[<>$=\\/@|{{}}\[\]#*^~\"`]|(?<!\w)'|'(?![st]\b)|\w_\w|[a-z][A-Z]|\d{{3}}|--|\.\w"
)
"""What a phrase must not hold: talk about the interface, markup, identifiers."""
_VOWEL = re.compile(r"[aeio]|u[mnp](?!i)|[AEFHILMNORSX][A-Z]")
_VAGUE = frozenset(
    """
    details detail information info data results result status resource resources record records list item items
    response object value values content it them one entities entity the a an of your all get
    """.split()
)
_PREPOSITION = frozenset("of for in on by to from with at between within under against about per into during".split())
_DETERMINER = frozenset(
    "a an the all any your my each every this that its their our some multiple several one".split()
)
_NO_NOUN = frozenset(
    "if when it as is are will can may be infer explore get list has have returns contains help diagnose".split()
)
_MASS = frozenset(
    """
    information info data metadata content access feedback inventory usage traffic weather help software
    """.split()
)


@dataclass(frozen=True, slots=True)
class Wording:
    """A request for one operation: `verb` and `thing`, as `retrieve` and `the contact phones of a user`."""

    verb: str
    thing: str

    @property
    def text(self) -> str:
        return f"{self.verb} {self.thing}"


def wording(tool: Tool) -> Wording | None:
    """Return what the tool does in a person's words, or None if its description does not yield a fit phrase."""
    for sentence in _sentences(tool.description):
        found = _phrase(sentence, tool.effect)
        if found and _fit(found, tool):
            return found
    return None


def _sentences(description: str) -> list[str]:
    """Return the first two sentences, the only ones that tend to say what the operation does."""
    text = re.sub(r"\s*\([^()]*\)", "", clean(description, 400))
    parts = re.split(r"[.!?]+(?:\s|$)|\s[-–—]\s|\n", text)
    return [part for part in (part.strip(" .\"'*:") for part in parts[:2]) if part]


def _phrase(sentence: str, effect: EffectKind) -> Wording | None:
    sentence = _lower_title(_LEAD_IN.sub("", sentence, count=1).strip())
    head, _, rest = sentence.partition(" ")
    verb = base_verb(head)
    if verb is None:
        return _noun_phrase(sentence) if effect == "read" else None
    if verb not in (READ_VERBS if effect == "read" else WRITE_VERBS):
        return None
    if verb in ("look", "lookup"):
        return Wording("look up", _article(_trim(rest.removeprefix("up ")), "the"))
    if rest.startswith("or "):
        return None
    if verb == "find" and rest.startswith("out "):
        verb, rest = "find out", rest.removeprefix("out ")
    if verb == "list":
        rest = rest.removeprefix("of ")
    if verb == "search" and rest.startswith("for "):
        verb, rest = "search for", rest.removeprefix("for ")
    article = "a" if verb in ("create", "add", "register", "generate", "schedule", "start", "send", "make") else "the"
    return Wording("get" if verb in ("return", "see") else verb, _article(_trim(rest), article))


def _noun_phrase(sentence: str) -> Wording | None:
    thing = _trim(sentence)
    parts = thing.lower().split()
    plain = parts[:1] and parts[0] not in _PREPOSITION and not parts[0].endswith("ing")
    stray = not _NO_NOUN.isdisjoint(parts) or not {"a", "an", "the"}.isdisjoint(parts[1:3])
    if not plain or stray or not 1 < len(parts) <= 6:
        return None
    return Wording("get", _article(thing, "the"))


def _trim(rest: str) -> str:
    """Cut what a person would not say: how the thing is identified, what else comes back, fillers before the noun."""
    rest = re.sub(rf"\b(?:an?|the) {_DEFINITE} ", "the ", rest, flags=re.IGNORECASE)
    rest = re.sub(
        rf"\b(?:{_DEFINITE}|existing|single|individual|(?:currently )?available) ", "", rest, flags=re.IGNORECASE
    )
    previous = None
    while rest != previous:
        previous, rest = rest, _LOOSE_END.sub("", _TAIL.sub("", rest).strip(" ,."))
    rest = re.sub(r"^(?:a |the )?(?:\w+ )?list (?:of|containing) (?:all )?(?:of )?(?:the )?", "the ", rest)
    rest = re.sub(r"^the (an?|the|your|all|any|every)\b", r"\1", rest)
    return re.sub(r"^(?:the |all )?(?:details|information|info|data) (?:about|of|on|for) (?:an?|the) ", "the ", rest)


def _article(thing: str, article: str) -> str:
    """Put an article before a singular noun that has none, and make `a` and `an` fit."""
    parts = thing.split()
    if parts and parts[0].lower() not in _DETERMINER | _PREPOSITION and not parts[0].endswith("'s"):
        head = next((before for before, word in pairwise(parts) if word in _PREPOSITION), parts[-1])
        if singular(head.lower()) == head.lower():
            parts.insert(0, "the" if head.lower() in _MASS else article)
    for i, word in enumerate(parts[:-1]):
        if word in ("a", "an"):
            parts[i] = "an" if _VOWEL.match(parts[i + 1]) else "a"
    return " ".join(parts)


def _lower_title(sentence: str) -> str:
    """Lower the first word, and every Title Case word if the whole sentence is written that way."""
    parts = sentence.split()
    long = [part for part in parts[1:] if len(part) > 3 and part.isalpha()]
    titled = bool(long) and all(part[0].isupper() for part in long)
    return " ".join(_lower(part) if titled or i == 0 else part for i, part in enumerate(parts))


def _lower(word: str) -> str:
    return word.lower() if word[1:] == word[1:].lower() else word


@lru_cache(maxsize=8192)
def base_verb(word: str) -> str | None:
    """Return the base form of a known verb: `Returns` gives `return`, `Creating` gives `create`; else None."""
    word = word.lower()
    known = READ_VERBS | WRITE_VERBS
    forms = [word]
    if word.endswith("s"):
        forms += [word[:-1], word[:-2], word[:-3] + "y"]
    if word.endswith("ing"):
        forms += [word[:-3], word[:-3] + "e", word[:-4]]
    return next((form for form in forms if form in known), None)


def _fit(found: Wording, tool: Tool) -> bool:
    text = found.text
    vague = all(word in _VAGUE for word in found.thing.lower().split())
    if (
        vague
        or not found.thing[0].isalnum()
        or not 2 <= len(text.split()) <= MAX_WORDS
        or not text.isascii()
        or _UNFIT.search(found.thing)
    ):
        return False
    names = {tool.name.lower(), tool.operation.lower()}
    return not any(len(name) > 8 and " " not in name and name in text.lower() for name in names)
