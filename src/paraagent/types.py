"""The data that every part exchanges: tools, actions, results, and the protocols they meet in.

Place in the flow: layer 0, imported by everything. A *tool* is an interface, an *action* is a search or a call, a
*result* answers one call. `Toolbox` and `Policy` are the seams where real and simulated parts are swapped.
Records are immutable; JSON values inside them are read-only by convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union

from paraagent.errors import ErrorKind

if TYPE_CHECKING:
    from paraagent.agent.context import Context

if TYPE_CHECKING:
    JsonValue: TypeAlias = Union[bool, int, float, str, list["JsonValue"], dict[str, "JsonValue"], None]  # noqa: UP007
else:
    JsonValue = Any  # msgspec decodes records with these fields and cannot follow a recursive alias
JsonObject: TypeAlias = dict[str, JsonValue]

EffectKind = Literal["read", "create", "update", "delete", "action"]
TurnKind = Literal["exploration", "execution", "answer", "invalid"]
TaskKind = Literal["single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct"]
Split = Literal["train", "validation", "test-seen", "test-unseen"]
StopReason = Literal[
    "answered",
    "turn_limit",
    "search_limit",
    "call_limit",
    "token_limit",
    "money_limit",
    "time_limit",
    "invalid_turns",
    "cancelled",
    "model_error",
    "search_error",
]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool interface."""

    name: str
    """Unique in its catalog or toolbox. In a catalog `[a-z0-9_]`, at most 64 characters: safe as a function-calling
    name. A real tool is called `source.name`, where the name is what its server calls it."""
    description: str
    parameters: JsonObject
    """JSON Schema (Draft 2020-12) of type object."""
    returns: JsonObject
    """JSON Schema of a successful response."""
    effect: EffectKind
    resource: str = ""
    """The noun the tool works on, singular and lower case with underscores, as `order`; empty if unknown."""
    provider: str = ""
    """The service's domain or family, as `stripe.com`."""
    api: str = ""
    """The API inside the provider, unique together with it; tools of one API share entities."""
    api_title: str = ""
    """The API's own human title, as `Stripe API`."""
    category: str = ""
    licence: str = ""
    source: str = ""
    """Package and version the definition came from, as `botocore 1.44.8`."""
    operation: str = ""
    """The operation's original identifier, as `GetCustomersCustomer`."""
    method: str = ""
    """HTTP method in upper case, or empty."""
    path: str = ""
    """URL path template with `{param}` placeholders, or empty."""
    synthetic_returns: bool = False
    """True if the API answers without a body and `returns` is our acknowledgement."""


@dataclass(frozen=True, slots=True)
class Search:
    """One query for a missing capability."""

    slot: str
    """The capability's short name."""
    query: str
    """What the tool must do, in the agent's words."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to run a tool; string arguments `$id.path` are links to another call's result."""

    name: str
    arguments: JsonObject
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool found by a search."""

    tool: Tool
    score: float
    """Calibrated: 0 to 1, the estimated probability that this tool fits the query."""
    reason: str
    """Why it ranks here, in a few words: the matched terms by field."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one search."""

    search: Search
    hits: tuple[Hit, ...]
    """Best first; empty when nothing fits."""
    total: int
    """How many tools were searched."""
    nothing_fits: bool
    """The calibrated verdict that no tool serves this query."""


@dataclass(frozen=True, slots=True)
class ToolError:
    """Why a call failed, as data."""

    kind: ErrorKind
    message: str
    retry_after: float | None = None
    """Seconds, if the server said so."""
    injected: bool = False
    """True if a simulator made this failure on purpose."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one call; exactly one exists for every call, in call order."""

    call: Call
    arguments: JsonObject
    """The arguments after links were resolved; the call's own if they could not be."""
    value: JsonValue = None
    error: ToolError | None = None
    started: float = 0.0
    """Seconds on the episode's clock."""
    ended: float = 0.0
    attempts: int = 0
    """How often the tool was really invoked: 0 if it never ran, above 1 after retries."""
    shared_with: int | None = None
    """Index in the group of the identical call whose run this result shares."""

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class Effects:
    """What a call touches, as keys `api/resource/id` or prefixes `api/resource`; a prefix covers its ids.

    Two calls conflict if one writes what the other reads or writes, or if either is exclusive.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    exclusive: bool = False
    """True when the effect is undeclared: the call conflicts with every other."""

    @property
    def read_only(self) -> bool:
        return not self.writes and not self.exclusive


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message as a model sees it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call as the provider reports them; 0 where there is no model."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a policy returns for one turn."""

    text: str
    usage: Usage = Usage()
    seconds: float = 0.0
    """Time to charge to the episode's clock for thinking; real time for a real model, 0 for a built-in policy."""


class Policy(Protocol):
    """Chooses the next turn. One policy object serves many episodes at once and keeps no state between turns."""

    name: str

    async def act(self, context: Context) -> Reply:
        """Return the next assistant turn as protocol text.

        Raises:
            ModelError: the model could not be asked; the episode is masked, not failed.
        """
        ...


class Toolbox(Protocol):
    """A world of tools: search it, look a tool up, call it, and know what a call touches."""

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        """Answer all queries of a turn, one `Found` per query in order."""
        ...

    def tool(self, name: str) -> Tool | None:
        """Return the tool of this exact name, or None."""
        ...

    def suggestions(self, name: str) -> list[str]:
        """Return up to three existing names close to an unknown one."""
        ...

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        """Return what the call would touch.

        Arguments that are not known yet are left out; the answer must then cover every value they may take, as the
        prefix `api/resource` does for a missing id.
        """
        ...

    def server(self, tool: Tool) -> str:
        """Return the key under which rate limits apply, as the provider."""
        ...

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        """Run one call; arguments are already linked but not validated.

        Raises:
            ToolFailure: the call failed; nothing else may escape.
        """
        ...
