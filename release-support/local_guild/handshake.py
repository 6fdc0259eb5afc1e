"""A real MCP `initialize` with one URL: over streamable HTTP, else over server-sent events.

Rules this module keeps:

1. Only an `InitializeResult` that answers our own request, in a protocol version that the `mcp`
   library supports, is a handshake. Each attempt has an id that nobody can know beforehand, so a
   stored document answers nothing, and a request that was not accepted has no answer.
2. What the endpoint itself answers is all that counts: no card and no other page is looked at.
3. What was seen is written down as it happens, so that it still counts when the caller's clock
   breaks the attempt off.
4. A demand for credentials or payment ends the attempt: asking in another way would only repeat it.
5. A session that the server opened for us can be closed again, once the answer is given.
6. The other side's failures raise nothing here.
7. The caller's headers go with the requests to the URL, and to the address that its own event stream
   gives out on the same server. They replace none of the attempt's own.
"""

import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS
from mcp.types import (
    LATEST_PROTOCOL_VERSION,
    ClientCapabilities,
    Implementation,
    InitializeRequest,
    InitializeRequestParams,
    InitializeResult,
    JSONRPCRequest,
    JSONRPCResponse,
)

from . import exchange
from .connection import NotConnected
from .documents import refuse_costly
from .events import Events

MAX_SESSION_ID_CHARACTERS = 256
MAX_ADDRESS_CHARACTERS = 2048

_REQUEST_IDS = 2**31  # what a server with small integers can still repeat
_REQUEST = InitializeRequest(
    params=InitializeRequestParams(
        protocolVersion=LATEST_PROTOCOL_VERSION,
        capabilities=ClientCapabilities(),
        clientInfo=Implementation(name="local-guild", version="0.1.0"),
    )
).model_dump(by_alias=True, mode="json", exclude_none=True)
_POST_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


@dataclass
class Seen:
    """What an attempt has seen so far.

    `refused` and `status` are HTTP status codes; `session` closes the session that was opened.
    """

    answered: bool = False
    status: int | None = None
    initialized: bool = False
    refused: int | None = None
    asked_for_payment: bool = False
    session: dict[str, str] | None = None


async def attempt(
    client: exchange.Client, url: httpx.URL, seen: Seen, headers: Mapping[str, str]
) -> None:
    """Try to shake hands with `url` in at most three requests, noting in `seen` what happens.

    Raises nothing but cancellation.
    """
    ours = _Attempt(client, url, seen, headers, secrets.randbelow(_REQUEST_IDS))
    try:
        await ours.over_streamable_http()
    except NotConnected:
        return
    except exchange.EXCHANGE_ERRORS:
        pass  # A server of the older transport may well break off a POST.
    if seen.initialized or seen.refused or seen.asked_for_payment:
        return
    with contextlib.suppress(*exchange.EXCHANGE_ERRORS):
        await ours.over_server_sent_events()


async def leave(
    client: exchange.Client, url: httpx.URL, seen: Seen, headers: Mapping[str, str]
) -> None:
    """Close the session that a handshake over streamable HTTP opened, if any, with one request.

    Raises nothing but cancellation.
    """
    if seen.session:
        with contextlib.suppress(*exchange.EXCHANGE_ERRORS):
            async with client.request("DELETE", url.raw_path, {**headers, **seen.session}):
                pass


@dataclass(frozen=True)
class _Attempt:
    """One attempt, over one transport after the other, under one id."""

    client: exchange.Client
    url: httpx.URL
    seen: Seen
    headers: Mapping[str, str]
    request_id: int

    async def over_streamable_http(self) -> None:
        async with self._post(self.url.raw_path) as response:
            _note(response, self.seen)
            if not response.is_success or response.status == 202:  # 202 is for what has no answer.
                return
            match response.media_type:
                case "application/json":
                    result = _initialize_result(await response.read(), self.request_id)
                case "text/event-stream":
                    result = await _result_among(response, self.request_id)
                case _:
                    return
            if result:
                self.seen.initialized = True
                self.seen.session = _session(response, result)

    async def over_server_sent_events(self) -> None:
        """Open the event stream of the URL, post the request to the address it gives out, and wait
        for the answer on the stream."""
        own = {**self.headers, "Accept": "text/event-stream"}
        async with self.client.request("GET", self.url.raw_path, own) as response:
            _note(response, self.seen)
            if not response.is_success or response.media_type != "text/event-stream":
                return
            posted = False
            events = Events()
            while piece := await response.read_piece():
                for name, data in events.feed(piece):
                    if name == "message" and posted and _initialize_result(data, self.request_id):
                        self.seen.initialized = True
                        return
                    if name == "endpoint" and not posted:
                        path = _message_path(self.url, data.decode("utf-8", "replace"))
                        posted = path is not None and await self._is_accepted(path)
                        if not posted:
                            return

    async def _is_accepted(self, path: bytes) -> bool:
        """Post the request to an address of the same server; whether that accepts it."""
        async with self._post(path) as response:
            return response.is_success

    def _post(self, path: bytes) -> contextlib.AbstractAsyncContextManager[exchange.Response]:
        request = JSONRPCRequest(jsonrpc="2.0", id=self.request_id, **_REQUEST)
        body = request.model_dump_json(by_alias=True, exclude_none=True).encode()
        return self.client.request("POST", path, {**self.headers, **_POST_HEADERS}, body)


def _message_path(url: httpx.URL, given: str) -> bytes | None:
    """Where the event stream of `url` wants messages posted, as a path with its query, or `None` if
    that is not an address of the same server."""
    if len(given) > MAX_ADDRESS_CHARACTERS:
        return None
    try:
        address = url.join(given)
    except (httpx.InvalidURL, ValueError):
        return None
    same_server = (address.scheme, address.netloc) == (url.scheme, url.netloc)
    return address.raw_path if same_server and not address.userinfo else None


async def _result_among(response: exchange.Response, request_id: int) -> InitializeResult | None:
    """The result that answers our request on the event stream of a POST, or `None` if the stream
    ends without it."""
    events = Events()
    while piece := await response.read_piece():
        for name, data in events.feed(piece):
            if name == "message" and (result := _initialize_result(data, request_id)):
                return result
    return None


def _note(response: exchange.Response, seen: Seen) -> None:
    """Write down what the status of an answer from the probed URL says."""
    seen.answered = True
    seen.status = response.status
    if response.status in (401, 403):
        seen.refused = response.status
    if response.status == 402:
        seen.asked_for_payment = True


def _initialize_result(message: bytes, request_id: int) -> InitializeResult | None:
    """The result in a JSON-RPC message, or `None` if the message is anything but the answer to our
    request.

    Raises `BoundReached`.
    """
    refuse_costly(message)
    try:
        response = JSONRPCResponse.model_validate_json(message)
        result = InitializeResult.model_validate(response.result)
    except ValueError:  # pydantic's ValidationError is one.
        return None
    if response.id != request_id or result.protocolVersion not in SUPPORTED_PROTOCOL_VERSIONS:
        return None
    return result


def _session(response: exchange.Response, result: InitializeResult) -> dict[str, str] | None:
    """The request headers that name the session a server opened, or `None` if it opened none that
    can be named."""
    session_id = response.header("mcp-session-id")
    if (
        not session_id
        or len(session_id) > MAX_SESSION_ID_CHARACTERS
        or not (session_id.isascii() and session_id.isprintable())
    ):
        return None
    return {"Mcp-Session-Id": session_id, "Mcp-Protocol-Version": str(result.protocolVersion)}
