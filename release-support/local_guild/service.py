"""The preflight service: `GET /preflight?url=<percent-encoded URL>` on a loopback address.

Rules this module keeps:

1. It listens on loopback only, and answers only to a loopback `Host` with its own port. A page in a
   browser cannot use it as a scanner: a request must name the plugin as its `User-Agent`, which a page
   can do only after asking for leave, and that is never given. A request that carries `Origin`, or
   a `Sec-Fetch-Site` other than `none`, is refused too.
2. An answer is `application/json` without a charset, and has no header that speaks of age, caching
   or a version of the content.
3. The target is echoed exactly as it decodes; a value that is not UTF-8 could not be, and is
   refused as if it were missing.
4. At most `MAX_PROBES` probes run at once; other callers wait for their turn.
5. It logs nothing about requests or probed servers.
"""

import asyncio
import contextlib
import gc
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from urllib.parse import parse_qsl

from . import answers
from .callers import Callers, Reply, Request, Send
from .credentials import CredentialsFor
from .probe import probe
from .threads import Threads

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")
PATH = "/preflight"
MAX_QUERY_FIELDS = 64
MAX_PROBES = 32
BACKLOG = 512
SHUTDOWN_SECONDS = 1
# What is left of it when callers have had their time is for ending what they wait for.
PARTING_SECONDS = 0.5

_HOST_NAMES = ("127.0.0.1", "[::1]", "localhost")
_HTTP_PORT = 80
_USER_AGENT = re.compile(r"agent_guild_preflight/[A-Za-z0-9.+-]{1,64}")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `host`, one of `LOOPBACK_ADDRESSES`, and `port`, where 0 means any free
    one.

    Raises `ValueError` for another host, and `OSError` if the address cannot be had.
    """
    if host not in LOOPBACK_ADDRESSES:
        raise ValueError("the service listens on loopback addresses only")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def origin(listener: socket.socket) -> str:
    """The origin under which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    listener: socket.socket,
    *,
    ready: Callable[[], None],
    credentials_for: CredentialsFor | None = None,
) -> None:
    """Serve on `listener` until SIGINT or SIGTERM; call `ready` once requests are answered.

    `credentials_for` says which headers belong to a URL; without it, probes carry none.
    Returns within `SHUTDOWN_SECONDS` of the signal. A second one goes to the handlers that stood
    before.
    """
    # What was imported stays; a collection that a large answer sets off need not look at it.
    gc.freeze()
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(Threads())
        runner.run(_serve(listener, ready, credentials_for))


async def _serve(
    listener: socket.socket, ready: Callable[[], None], credentials_for: CredentialsFor | None
) -> None:
    listener.setblocking(False)
    service = _Service(listener.getsockname()[1], credentials_for)
    callers = Callers(
        service.respond,
        busy=_refusal(503, "too many requests are being answered"),
        malformed=_refusal(400, "this is no request"),
    )
    welcoming = asyncio.create_task(callers.welcome(listener))
    end = asyncio.Event()
    with _signals(end):
        ready()
        await end.wait()
    welcoming.cancel()
    await callers.part(PARTING_SECONDS)


@contextmanager
def _signals(end: asyncio.Event) -> Iterator[None]:
    """Have SIGINT and SIGTERM set `end`, and the handlers of before back afterwards."""
    loop = asyncio.get_running_loop()

    def note(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(end.set)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, note) for number in numbers}
    # Where a signal that comes just before the loop goes to sleep would not wake it.
    with contextlib.suppress(NotImplementedError):
        for number in numbers:
            loop.add_signal_handler(number, end.set)
    try:
        yield
    finally:
        for number in numbers:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, before[number])


class _Service:
    """What is answered, and to whom."""

    def __init__(self, port: int, credentials_for: CredentialsFor | None) -> None:
        self._credentials_for = credentials_for
        self._hosts = {f"{name}:{port}" for name in _HOST_NAMES}
        if port == _HTTP_PORT:
            self._hosts |= set(_HOST_NAMES)
        self._turns = asyncio.Semaphore(MAX_PROBES)

    async def respond(self, request: Request, send: Send) -> None:
        """Answer one request."""
        path, _, query = request.target.partition(b"?")
        if not _is_local(request, self._hosts):
            await send(_refusal(403, "only the plugin and programs that name it are answered"))
        elif path != PATH.encode():
            await send(_refusal(404, "there is nothing here"))
        elif request.method != "GET":
            await send(_refusal(405, "only GET is answered", allow="GET"))
        elif (target := _target(query)) is None:
            await send(_refusal(422, "the query needs a url, percent-encoded as UTF-8"))
        else:
            await self._probe(target, send)

    async def _probe(self, target: str, send: Send) -> None:
        async with self._turns:
            probed = await probe(target, credentials_for=self._credentials_for)
            try:
                await send(_json(200, probed.answer))
            finally:
                await probed.leave()


def _is_local(request: Request, hosts: set[str]) -> bool:
    """Whether a request names this service by a loopback name and itself as the plugin, and is not
    made on behalf of a web page."""
    named = [value.lower() for value in request.values("host")]
    agents = request.values("user-agent")
    if len(named) != 1 or named[0] not in hosts:
        return False
    if len(agents) != 1 or not _USER_AGENT.fullmatch(agents[0]):
        return False
    return not request.values("origin") and all(
        site == "none" for site in request.values("sec-fetch-site")
    )


def _target(query: bytes) -> str | None:
    """The last `url` of the query, decoded, or `None` if there is none that is UTF-8."""
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


def _json(status: int, document: object, **headers: str) -> Reply:
    return Reply(status, answers.encode(document), list(headers.items()))


def _refusal(status: int, detail: str, **headers: str) -> Reply:
    return _json(status, {"detail": detail}, **headers)
