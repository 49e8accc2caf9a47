"""Requests reach public addresses only, however the address is written, resolved or redirected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from http_api import HttpApi
from paraagent.agent.toolboxes.openapi import client
from paraagent.agent.toolboxes.openapi.client import Fetched, fetch, guarded_client, is_public
from paraagent.errors import ToolFailure


@pytest.fixture(scope="module")
def api() -> Iterator[HttpApi]:
    with HttpApi() as server:
        yield server


def get(url: str, *, allow_private: bool = False) -> Fetched:
    async def run() -> Fetched:
        async with guarded_client(allow_private=allow_private, timeout=2.0) as http:
            return await fetch(http, http.build_request("GET", url), 100_000)

    return asyncio.run(run())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "198.18.0.1", "192.0.2.1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_of_private_networks_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_other_addresses_are(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_every_spelling_of_this_machine_is_refused(api: HttpApi, host: str) -> None:
    before = len(api.requests)
    with pytest.raises(ToolFailure, match="private network") as caught:
        get(f"http://{host}:{api.port}/orders")
    assert caught.value.kind == "permission"
    assert len(api.requests) == before


def test_this_machine_can_be_allowed(api: HttpApi) -> None:
    assert get(f"http://localhost:{api.port}/orders", allow_private=True).status == 200


def pretend(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]], public: str = "127.0.0.1") -> list[str]:
    """Let names resolve to given addresses, and take one address of this machine for a public one."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in names:
            return real(host, port, *args, **kwargs)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in names[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(client, "is_public", lambda address: address == public or is_public(address))
    return asked


def test_a_redirect_to_a_private_address_is_refused(api: HttpApi, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {})
    api.redirect_to = f"http://127.0.0.2:{api.port}/orders"
    with pytest.raises(ToolFailure, match=r"127\.0\.0\.2 is an address of this machine"):
        get(f"{api.url}/redirect")
    assert api.requests[-1].path == "/redirect"


def test_the_address_that_was_checked_is_the_one_that_is_reached(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = pretend(monkeypatch, {"rebind.test": ["127.0.0.1"]})
    assert get(f"http://rebind.test:{api.port}/echo").status == 200
    assert asked == ["rebind.test"], "a second look-up could give another address"
    assert api.requests[-1].headers["host"] == f"rebind.test:{api.port}"


def test_one_private_address_among_public_ones_is_enough_to_refuse(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, {"mixed.test": ["127.0.0.1", "10.0.0.1"]})
    with pytest.raises(ToolFailure, match=r"mixed\.test"):
        get(f"http://mixed.test:{api.port}/orders")


def test_only_http_can_be_redirected_to(api: HttpApi) -> None:
    api.redirect_to = "file:///etc/passwd"
    with pytest.raises(ToolFailure, match="redirects from http to file"):
        get(f"{api.url}/redirect", allow_private=True)
