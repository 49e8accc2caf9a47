"""Which credentials go with an OpenAPI call, and where.

Place in the flow: layer 3, under `toolbox`. The document says which security schemes an operation takes, the user
gives a value for each scheme by name: an API key, a bearer token, or `user:password` for basic authentication. OAuth
and OpenID schemes take a token that was obtained elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paraagent.errors import UsageError
from paraagent.types import JsonObject, JsonValue

Resolve = Callable[[JsonValue], JsonObject]
Alternatives = tuple[tuple[str, ...], ...]
"""Sets of schemes, any one of which suffices; none at all if the operation is open to everybody."""


@dataclass(slots=True)
class Credentials:
    """What to add to a request."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)


class Security:
    """A document's security schemes and the user's values for them.

    Raises:
        UsageError: a value is given for a scheme that the document does not have.
    """

    def __init__(self, document: JsonObject, resolve: Resolve, values: Mapping[str, str], where: str) -> None:
        components = resolve(document.get("components"))
        schemes = components.get("securitySchemes")
        self.schemes: dict[str, JsonObject] = (
            {name: resolve(scheme) for name, scheme in schemes.items()} if isinstance(schemes, dict) else {}
        )
        self._default = alternatives(document.get("security"))
        self._values = values
        if unknown := [name for name in values if name not in self.schemes]:
            known = ", ".join(self.schemes) or "none"
            raise UsageError(f"{where} has no security scheme {unknown[0]!r}; it has: {known}")

    @property
    def secrets(self) -> set[str]:
        """The values, and the forms in which basic authentication sends them."""
        return set(self._values.values()) | {_basic(value) for value in self._values.values() if ":" in value}

    def of(self, operation: JsonObject) -> Alternatives:
        """Return what an operation asks for."""
        return alternatives(operation["security"]) if "security" in operation else self._default

    def credentials(self, wanted: Alternatives) -> Credentials:
        """Return the credentials for the first alternative that the user gave all values for, else none."""
        found = Credentials()
        usable = next((names for names in wanted if all(name in self._values for name in names)), ())
        for name in usable:
            self._add(self.schemes.get(name, {}), self._values[name], found)
        return found

    def missing(self, wanted: Alternatives) -> str:
        """Say which values the user would have to give, or "" if there is nothing to say."""
        if not wanted or any(all(name in self._values for name in names) for names in wanted):
            return ""
        return "the user can give credentials with " + " or ".join(
            " ".join(f"--auth {name}='${{VARIABLE}}'" for name in names) for names in wanted
        )

    def _add(self, scheme: JsonObject, value: str, found: Credentials) -> None:
        kind, name = scheme.get("type"), str(scheme.get("name", ""))
        if kind == "apiKey":
            places = {"header": found.headers, "query": found.query, "cookie": found.cookies}
            places.get(str(scheme.get("in")), found.headers)[name] = value
        elif kind == "http" and str(scheme.get("scheme", "")).lower() == "basic":
            found.headers["authorization"] = f"Basic {_basic(value)}"
        else:
            found.headers["authorization"] = f"Bearer {value}"


def alternatives(raw: JsonValue) -> Alternatives:
    """Read a `security` list."""
    return tuple(tuple(entry) for entry in raw if isinstance(entry, dict)) if isinstance(raw, list) else ()


def _basic(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
