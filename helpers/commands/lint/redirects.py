"""Does an endpoint redirect? One request to each, as an MCP client would begin.

Rules of this module:

1. One POST of an MCP `initialize` per URL, with no header but those that name its content and
   what is accepted: no configured header, no credential, no cookie, no proxy or netrc of the
   environment. TLS is verified. No redirect is followed, nothing is sent twice.
2. Before anything is sent, standard error says to whom.
3. A URL that the screen refuses is not asked; a private one only where the settings allow it.
4. Of an answer only the status and the `Location` are looked at; its body is not read. Where it
   leads is not shown: that is the server's text. What no HTTP is ends the request, before the HTTP
   library's patterns meet it.

The module imports nothing of the framework, and the HTTP library only where it is used.
Source: the MCP specification, transports, "Sending messages to the server".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from ...guild_preflight.endpoint import DEFAULT_PORTS, Endpoint, EndpointRefused, screen
from ...guild_preflight.response_head import REDIRECTS
from ...settings.configuration import Configuration
from ...settings.in_force import Layer
from ..shared import network
from ..shared.findings import Finding, Found

if TYPE_CHECKING:
    import httpx

DEADLINE_SECONDS: Final = 10.0  # for all of one request, the name's resolution included
MAX_CONNECTIONS: Final = 32  # at once
MAX_LOCATION_CHARACTERS: Final = 8192  # four times a URL of ours; more is no URL
PROTOCOL_VERSION: Final = "2025-06-18"


def endpoints_to_ask(layers: Sequence[Layer]) -> list[Endpoint]:
    """Return the endpoints that may be asked.

    Args:
        layers: the settings in force; those that are not valid are left aside.

    Returns:
        Every approved URL that passes the screen of its settings, each once.
    """
    found: dict[str, Endpoint] = {}
    for layer in layers:
        if isinstance(layer.settings, Configuration):
            allow_private_hosts = layer.settings.allow_private_hosts
            for approval in layer.settings.protected_servers.values():
                try:
                    endpoint = screen(approval.url, allow_private_hosts=allow_private_hosts)
                except EndpointRefused:
                    continue
                found.setdefault(endpoint.url, endpoint)
    return list(found.values())


def ask(endpoints: Sequence[Endpoint]) -> list[tuple[str, Found | None]]:
    """Ask each endpoint once, some at the same time.

    Args:
        endpoints: those that may be asked.

    Returns:
        Every URL with what was found; None where it does not redirect.
    """
    for endpoint in endpoints:
        network.announce(f"sends one request to {endpoint.redacted}, the host of the URL itself")
    return network.run(_ask_all(endpoints)) if endpoints else []


async def _ask_all(endpoints: Sequence[Endpoint]) -> list[tuple[str, Found | None]]:
    urls = [endpoint.url for endpoint in endpoints]
    turns = asyncio.Semaphore(MAX_CONNECTIONS)

    async def take_turn(url: str) -> Found | None:
        async with turns:
            return await _ask(url)

    found = await asyncio.gather(*[take_turn(url) for url in urls])
    return list(zip(urls, found, strict=True))


async def _ask(url: str) -> Found | None:
    import httpx

    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            location = await _location(url)
    except TimeoutError:
        return Found(Finding.NO_ANSWER, url, f"None within {DEADLINE_SECONDS:.0f} seconds.")
    except httpx.ConnectError:
        return Found(Finding.NO_ANSWER, url, "No connection, or TLS did not verify.")
    except (httpx.TransportError, OSError):
        return Found(Finding.NO_ANSWER, url, "The connection broke, or it was no HTTP.")
    except (httpx.InvalidURL, ValueError):  # an A-label that decodes to nothing
        return Found(Finding.NO_ANSWER, url, "Its host is no name that can be looked up.")
    finding = None if location is None else kind_of_redirect(url, location)
    return None if finding is None else Found(finding, url)


async def _location(url: str) -> str | None:
    """Return where the endpoint redirects to, as it says it; None where it does not redirect."""
    import httpx

    from ...guild_preflight.checked_stream import check_what_comes
    from ...guild_preflight.request import shared_tls_context
    from ...product import NAME, USER_AGENT, VERSION

    initialize = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": NAME, "version": VERSION},
        },
    }
    request = httpx.Request(
        "POST",
        url,
        headers={
            "User-Agent": USER_AGENT,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        },
        content=json.dumps(initialize).encode(),
        extensions={"trace": check_what_comes},
    )
    transport = httpx.AsyncHTTPTransport(verify=shared_tls_context(), trust_env=False, retries=0)
    async with transport:
        response: httpx.Response = await transport.handle_async_request(request)
        await response.aclose()
    return response.headers.get("Location") if response.status_code in REDIRECTS else None


def kind_of_redirect(url: str, location: str) -> Finding:
    """Return where a redirect leads, without saying it in the server's words.

    Args:
        url: the URL that was asked, in its one spelling.
        location: what the answer's `Location` says.

    Returns:
        The finding.
    """
    if len(location) > MAX_LOCATION_CHARACTERS:
        return Finding.REDIRECT_UNCLEAR
    try:
        target, asked = urlsplit(urljoin(url, location)), urlsplit(url)
        if _origin(target) != _origin(asked):
            return Finding.REDIRECT_ORIGIN if target.hostname else Finding.REDIRECT_UNCLEAR
    except ValueError:
        return Finding.REDIRECT_UNCLEAR
    rest = target.query or target.fragment
    if target.path == f"{asked.path}/" and not rest:
        return Finding.REDIRECT_SLASH
    return (
        Finding.REDIRECT_UNCLEAR
        if target.path == asked.path and not rest
        else Finding.REDIRECT_PATH
    )


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or DEFAULT_PORTS.get(url.scheme)
