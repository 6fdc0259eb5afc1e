"""The preflight service: `GET /preflight?url=<percent-encoded URL>` on a loopback address.

Rules this module keeps:

1. It listens on loopback only, and answers only to a loopback `Host` with its own port. A page in a
   browser cannot use it as a scanner: a request that carries `Origin`, or a `Sec-Fetch-Site` other
   than `none`, is refused too.
2. An answer is `application/json` without a charset, and has no header that speaks of age, caching
   or a version of the content.
3. The target is echoed exactly as it decodes; a value that is not UTF-8 could not be, and is
   refused as if it were missing.
4. It logs nothing about requests or probed servers.
"""

import socket
from collections.abc import Callable
from urllib.parse import parse_qsl

import uvicorn
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from . import answers
from .probe import probe

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")
PATH = "/preflight"
MAX_QUERY_FIELDS = 64
MAX_CONNECTIONS = 256
SHUTDOWN_SECONDS = 1

_HOST_NAMES = ("127.0.0.1", "[::1]", "localhost")
_HTTP_PORT = 80


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `host`, one of `LOOPBACK_ADDRESSES`, and `port`, where 0 means any free
    one.

    Raises `ValueError` for another host, and `OSError` if the address cannot be had.
    """
    if host not in LOOPBACK_ADDRESSES:
        raise ValueError("the service listens on loopback addresses only")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def origin(listener: socket.socket) -> str:
    """The origin under which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(listener: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve on `listener` until a signal ends it; call `ready` once requests are answered.

    SIGINT and SIGTERM end it within `SHUTDOWN_SECONDS`; the signal is then raised again for the
    handlers that stood before.
    """
    config = uvicorn.Config(
        application(listener.getsockname()[1]),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        # Quiet: ending while a probe is under way would print where in it, and a bad request, what
        # was wrong with it.
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    _Server(config, ready).run(sockets=[listener])


def application(port: int) -> ASGIApp:
    """The service as an ASGI application that is reached at `port`."""
    hosts = {f"{name}:{port}" for name in _HOST_NAMES}
    if port == _HTTP_PORT:
        hosts |= set(_HOST_NAMES)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        response = await _response(Request(scope), hosts)
        await response(scope, receive, send)

    return respond


async def _response(request: Request, hosts: set[str]) -> Response:
    if not _is_local(request, hosts):
        return _refusal(403, "only programs on this machine are answered")
    if request.scope["path"] != PATH:
        return _refusal(404, "there is nothing here")
    if request.method != "GET":
        return _refusal(405, "only GET is answered", allow="GET")
    target = _target(request)
    if target is None:
        return _refusal(422, "the query needs a url, percent-encoded as UTF-8")
    probed = await probe(target)
    response = _json(200, probed.answer)
    response.background = BackgroundTask(probed.leave)
    return response


def _is_local(request: Request, hosts: set[str]) -> bool:
    """Whether a request names this service by a loopback name, and is not made on behalf of a web
    page."""
    named = [value.lower() for value in request.headers.getlist("host")]
    if len(named) != 1 or named[0] not in hosts:
        return False
    return "origin" not in request.headers and all(
        site == "none" for site in request.headers.getlist("sec-fetch-site")
    )


def _target(request: Request) -> str | None:
    """The last `url` of the query, decoded, or `None` if there is none that is UTF-8."""
    query: bytes = request.scope["query_string"]
    try:
        fields = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_QUERY_FIELDS,
        )
    except ValueError:
        return None
    return dict(fields).get("url")


def _json(status: int, document: object, **headers: str) -> Response:
    return Response(answers.encode(document), status, headers, media_type="application/json")


def _refusal(status: int, detail: str, **headers: str) -> Response:
    return _json(status, {"detail": detail}, **headers)


class _Server(uvicorn.Server):
    """A server that says when it is ready: from then on signals end it in order."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
