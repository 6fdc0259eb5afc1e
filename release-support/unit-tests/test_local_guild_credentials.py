"""The local preflight service with `--credentials-of`: which headers a probe carries, and where to.

Each guild runs in a process of its own. What it answers and prints is searched for the secret at
the end of every test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from local_guild import addresses, agent_zero
from local_guild.answers import LIMITS, LIMITS_WITH_HEADERS
from local_guild.credentials import Credentials, Withheld, may_travel
from local_guild.wire import Play, Send, Stall, WireServer, answer
from local_guild_probing import (
    NAMES,
    PATIENCE_SECONDS,
    RELEASE_SUPPORT,
    ask,
    card_answer,
    event_stream,
    initialize_result,
    process,
    run,
    statuses,
    world,
)
from stage.certificates import Authority
from stage.folder import GLOBAL, AgentZero

SECRET = "s3cret-0f-the-0perator"
BEARER = {"Authorization": f"Bearer {SECRET}"}
PROJECT = "usr/projects/shop/.a0proj"
OF_PROJECT = f"{PROJECT}/plugins/agent_guild_preflight/config.json"
ANNOUNCED = "approved URLs are probed with the headers that the MCP settings hold for them\n"

# The service in a world of names, with the command line that follows.
NAMED_GUILD = (
    NAMES
    + """
from local_guild.__main__ import main
sys.argv = ["local_guild", *sys.argv[1:]]
main()
"""
)

# The official Python SDK behind its own bearer check.
BEARER_SERVER = """
import socket, sys
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.fastmcp import FastMCP
class Verifier:
    async def verify_token(self, token):
        if token == sys.argv[2]:
            return AccessToken(token=token, client_id="operator", scopes=[])
listener = socket.create_server(("127.0.0.1", 0))
origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
auth = AuthSettings(issuer_url=origin, resource_server_url=f"{origin}/mcp")
server = FastMCP("real", token_verifier=Verifier(), auth=auth)
application = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
print(origin, flush=True)
uvicorn.Server(uvicorn.Config(application, log_level="critical")).run(sockets=[listener])
"""

REFUSED = answer(b"", status=b"401 Unauthorized")
OPENED = answer(initialize_result(), headers=[(b"Mcp-Session-Id", b"s-1")])


# --- The stage ------------------------------------------------------------------------------


class Zero(AgentZero):
    """An Agent Zero folder, and a guild that reads it."""

    guild = ""
    said: list[str]

    def approve(self, url: str, path: str = GLOBAL, **settings: Any) -> None:
        """Approve a URL in one of the settings files."""
        self.write(path, {"protected_servers": {"tools": url}, **settings})

    def hold(self, url: str, headers: Any = BEARER, **others: Any) -> None:
        """Have the MCP settings hold headers for a URL."""
        server = {"type": "streamable-http", "url": url, "headers": headers}
        self.set_mcp(tools=server, **others)

    def hold_in_project(self, url: str, headers: Any, **more: Any) -> None:
        """Have a project's MCP settings hold headers for a URL."""
        server = {"url": url, "headers": headers, **more}
        self.write(f"{PROJECT}/mcp_servers.json", {"mcpServers": {"ours": server}})

    def ask(self, url: str) -> dict[str, Any]:
        """Ask the guild about a URL."""
        response = ask(self.guild, url)
        self.said.append(f"{response.headers}{response.text}")
        document = response.json()
        statuses(document)
        assert isinstance(document, dict)
        return document

    def handshake(self, url: str) -> tuple[str, str]:
        """Ask about a URL; return status and detail of the handshake."""
        found = check(self.ask(url), "protocol_handshake")
        return found["status"], found["detail"]


def check(document: dict[str, Any], name: str) -> dict[str, str]:
    """Return one check of an answer."""
    (found,) = (each for each in document["checks"] if each["check"] == name)
    assert isinstance(found, dict)
    return found


@contextmanager
def serving(root: Path, **names: list[list[str]]) -> Iterator[str]:
    """Run a guild for a folder, where names lead to these addresses; it must print nothing else."""
    (root / "usr").mkdir(exist_ok=True)
    command = ["-c", NAMED_GUILD, "--port", "0", "--credentials-of", str(root)]
    with process(*command, environment=world(**names)) as (origin, running):
        assert running.stdout is not None
        assert running.stdout.readline() == ANNOUNCED
        yield origin
        running.terminate()
        assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agent-zero")


@pytest.fixture(scope="module")
def reading(folder: Path) -> Iterator[str]:
    """One guild for all tests: it must not remember a test."""
    names = {"mcp.test": [["127.0.0.1"]], "localhost.test": [["127.0.0.1"]]}
    with serving(folder, **names) as origin:
        yield origin


@pytest.fixture
def zero(folder: Path, reading: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Zero]:
    """A folder with the plugin and nothing else, and its guild."""
    shutil.rmtree(folder / "usr")
    zero = Zero(folder, capsys)
    zero.guild, zero.said = reading, []
    yield zero
    assert SECRET not in "".join(zero.said)


def carries(head: bytes) -> bool:
    """Whether a request carries the secret, in whichever form."""
    return SECRET.encode() in head


def lines(server: WireServer) -> list[tuple[str, bool]]:
    """Return the requests that a server got, each with whether it carried the secret."""
    return [(head.split(b" HTTP")[0].decode(), carries(head)) for head in server.requests]


def fields(head: bytes) -> dict[str, list[str]]:
    """Return the headers of a request by their names in lower case."""
    found: dict[str, list[str]] = {}
    for line in head.decode("latin-1").split("\r\n")[1:-2]:
        name, _, value = line.partition(": ")
        found.setdefault(name.lower(), []).append(value)
    return found


def guarded(head: bytes) -> list[Send]:
    """Open a session for whoever carries the secret, and only with `Authorization`."""
    if fields(head).get("authorization") != [f"Bearer {SECRET}"]:
        return [Send(REFUSED)]
    return [Send(OPENED if head.startswith(b"POST") else answer(b""))]


def opened(head: bytes) -> list[Send]:
    """Open a session for everybody."""
    is_post = head.startswith(b"POST")
    return [Send(OPENED if is_post else answer(b"", status=b"404 Not Found"))]


def bearing(zero: Zero, play: Play, headers: Any = BEARER) -> WireServer:
    """A server that is approved and for which the settings hold headers."""
    server = WireServer(play)
    zero.approve(f"{server.origin}/mcp")
    zero.hold(f"{server.origin}/mcp", headers)
    return server


# --- What a server counts -------------------------------------------------------------------


def test_the_right_credentials_prove_the_handshake_and_go_to_the_url_alone(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        document = zero.ask(f"{server.origin}/mcp")
        assert server.wait_for_requests(4, PATIENCE_SECONDS)
        assert lines(server) == [
            ("POST /mcp", True),
            ("GET /.well-known/agent-card.json", False),
            ("GET /.well-known/agent.json", False),
            ("DELETE /mcp", True),
        ]
    assert check(document, "protocol_handshake") == {
        "check": "protocol_handshake",
        "status": "proven",
        "detail": "The URL answered an MCP initialize request with a valid result. "
        "It was asked with the headers of the MCP settings.",
    }
    assert document["limits"] == LIMITS_WITH_HEADERS


def test_without_credentials_the_handshake_is_unknown(zero: Zero) -> None:
    with bearing(zero, guarded, headers={}) as server:
        document = zero.ask(f"{server.origin}/mcp")
        assert [carried for _, carried in lines(server)] == [False] * 3
    assert check(document, "protocol_handshake")["status"] == "unknown"
    assert Withheld.NONE_HELD.sentence in check(document, "protocol_handshake")["detail"]
    assert document["limits"] == LIMITS


def test_wrong_credentials_are_asked_with_once_and_prove_nothing(zero: Zero) -> None:
    wrong = {"Authorization": f"Bearer wrong-{SECRET}"}
    with bearing(zero, guarded, headers=wrong) as server:
        status, detail = zero.handshake(f"{server.origin}/mcp")
        assert [carried for _, carried in lines(server)] == [True, False, False]
    assert (status, detail) == (
        "unknown",
        "The URL wants other credentials before it speaks MCP (status 401). "
        "It was asked with the headers of the MCP settings.",
    )


def test_without_the_option_nothing_is_sent(zero: Zero, guild: str) -> None:
    with bearing(zero, guarded) as server:
        document = ask(guild, f"{server.origin}/mcp").json()
        assert [carried for _, carried in lines(server)] == [False] * 3
    assert check(document, "protocol_handshake")["detail"] == (
        "The URL wants credentials before it speaks MCP (status 401)."
    )
    assert document["limits"] == LIMITS


def test_the_settings_are_read_anew_at_each_probe(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        url = f"{server.origin}/mcp"
        assert zero.handshake(url)[0] == "proven"
        zero.hold(url, {})
        assert zero.handshake(url)[0] == "unknown"
        zero.hold(url)
        assert zero.handshake(url)[0] == "proven"
        zero.approve(f"{server.origin}/other")
        assert zero.handshake(url)[0] == "unknown"


# --- Nowhere else ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Moved", b"308 Moved"])
def test_a_redirect_is_not_followed(zero: Zero, status: bytes) -> None:
    with WireServer([Stall()]) as elsewhere:
        away = answer(b"", status=status, headers=[(b"Location", elsewhere.origin.encode())])
        with bearing(zero, lambda _: [Send(away)]) as server:
            assert zero.handshake(f"{server.origin}/mcp")[0] == "failed"
            assert [carried for _, carried in lines(server)] == [True, True, False, False]
        assert elsewhere.connections == 0


@pytest.mark.parametrize("status", [b"301 Moved", b"307 Moved"])
def test_a_redirect_within_the_server_is_not_followed(zero: Zero, status: bytes) -> None:
    away = answer(b"", status=status, headers=[(b"Location", b"/mcp/")])
    with bearing(zero, lambda _: [Send(away)]) as server:
        zero.handshake(f"{server.origin}/mcp")
        assert not any(line.endswith("/mcp/") for line, _ in lines(server))


def sse(zero: Zero, address: Callable[[WireServer], str]) -> WireServer:
    """A server of the older transport, approved, whose event stream gives out an address."""

    def play(head: bytes) -> list[Any]:
        return event_stream(address(server).encode(), threading.Event())(head)

    server = WireServer(play)
    zero.approve(f"{server.origin}/sse")
    zero.hold(f"{server.origin}/sse")
    return server


@pytest.mark.parametrize(
    "address",
    ["{elsewhere}/messages", "//{elsewhere_host}/messages", "https://{host}/messages"],
)
def test_an_event_stream_of_another_origin_gets_nothing(zero: Zero, address: str) -> None:
    with WireServer([Stall()]) as elsewhere:

        def given(server: WireServer) -> str:
            return address.format(
                elsewhere=elsewhere.origin,
                elsewhere_host=elsewhere.origin.removeprefix("http://"),
                host=server.origin.removeprefix("http://"),
            )

        with sse(zero, given) as server:
            assert zero.handshake(f"{server.origin}/sse")[0] == "failed"
            assert lines(server)[:2] == [("POST /sse", True), ("GET /sse", True)]
            assert not any("messages" in line for line, _ in lines(server))
        assert elsewhere.connections == 0


def test_an_event_stream_of_the_same_origin_is_answered_with_them(zero: Zero) -> None:
    posted = threading.Event()
    stream = event_stream(b"/messages?session=1", posted)

    def play(head: bytes) -> list[Any]:
        if not carries(head):
            return [Send(REFUSED)]
        return stream(head)

    with WireServer(play) as server:
        zero.approve(f"{server.origin}/sse")
        zero.hold(f"{server.origin}/sse")
        assert zero.handshake(f"{server.origin}/sse")[0] == "proven"
        assert lines(server)[:3] == [
            ("POST /sse", True),
            ("GET /sse", True),
            ("POST /messages?session=1", True),
        ]
        assert not any(carried for line, carried in lines(server) if "well-known" in line)


def test_a_card_gets_nothing_and_what_it_says_is_not_passed_on(zero: Zero) -> None:
    """A server that has seen the secret could hand it back as its name."""

    def play(head: bytes) -> list[Send]:
        if b"agent-card" in head:
            return [Send(card_answer(name=f"I am {SECRET}", x402={"price": 1}))]
        return [Send(OPENED)] if carries(head) else [Send(REFUSED)]

    with bearing(zero, play) as server:
        document = zero.ask(f"{server.origin}/mcp")
        server.wait_for_requests(4, PATIENCE_SECONDS)
        assert ("GET /", False) in lines(server)  # the price is looked for at the root
        assert [line for line, carried in lines(server) if carried] == ["POST /mcp", "DELETE /mcp"]
    card = check(document, "agent_card_resolves")
    assert card["status"] == "proven"
    assert "declared_name" not in card


def test_a_name_of_the_server_is_passed_on_where_nothing_was_sent(zero: Zero) -> None:
    def play(head: bytes) -> list[Send]:
        return [Send(card_answer(name="Open") if b"agent-card" in head else OPENED)]

    with bearing(zero, play, headers=None) as server:
        document = zero.ask(f"{server.origin}/mcp")
    assert check(document, "agent_card_resolves")["declared_name"] == "Open"


def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(
    zero: Zero, tmp_path: Path
) -> None:
    context = Authority(tmp_path, "nobody").server("server", [x509.DNSName("localhost")])
    with WireServer(guarded, tls=context) as server:
        url = server.origin.replace("127.0.0.1", "localhost") + "/mcp"
        zero.approve(url)
        zero.hold(url)
        assert check(zero.ask(url), "endpoint_reachable")["status"] == "failed"
        assert (server.connections > 0, server.requests) == (True, [])


# --- Which URLs -----------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["/mcp/", "/MCP", "/mcp?", "/mcp?x=1", "/%6dcp", "/other"])
def test_another_spelling_of_the_url_gets_nothing(zero: Zero, changed: str) -> None:
    """Whichever of the three has it: what is asked about, the settings, or the MCP settings."""
    with bearing(zero, opened) as server:
        url, other = f"{server.origin}/mcp", server.origin + changed
        zero.ask(other)
        zero.approve(other)
        zero.ask(url)
        zero.approve(url)
        zero.hold(other)
        zero.ask(url)
        assert server.requests
        assert not any(map(carries, server.requests))


def test_a_url_that_no_settings_approve_is_probed_without(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        zero.approve("https://mcp.example.com/mcp")
        status, detail = zero.handshake(f"{server.origin}/mcp")
        assert not any(map(carries, server.requests))
    assert status == "unknown"
    assert Withheld.NOT_APPROVED.sentence in detail


@pytest.mark.parametrize(
    "settings", [{"polcy": {}}, {"protected_servers": "all"}, "{", {"floor": "yes"}]
)
def test_settings_that_are_not_valid_approve_nothing(zero: Zero, settings: Any) -> None:
    with bearing(zero, guarded) as server:
        named = {"protected_servers": {"tools": f"{server.origin}/mcp"}}
        zero.write(GLOBAL, settings if isinstance(settings, str) else named | settings)
        assert zero.handshake(f"{server.origin}/mcp")[0] == "unknown"
        assert not any(map(carries, server.requests))


def test_a_projects_settings_do_not_approve_while_the_global_ones_are_not_valid(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        zero.approve(f"{server.origin}/mcp", OF_PROJECT)
        zero.write(GLOBAL, {"unknown": 1})
        assert zero.handshake(f"{server.origin}/mcp")[0] == "unknown"
        zero.write(GLOBAL, {})
        assert zero.handshake(f"{server.origin}/mcp")[0] == "proven"


@pytest.mark.parametrize(
    "path",
    [
        OF_PROJECT,
        f"{PROJECT}/agents/agent0/plugins/agent_guild_preflight/config.json",
        f"{PROJECT}/agents/clerk/plugins/agent_guild_preflight/config.json",
        "usr/agents/clerk/plugins/agent_guild_preflight/config.json",
        "usr/agents/agent0/plugins/agent_guild_preflight/config.json",
    ],
)
def test_the_settings_of_any_project_and_profile_approve(zero: Zero, path: str) -> None:
    with bearing(zero, guarded) as server:
        zero.write(GLOBAL, {})
        zero.approve(f"{server.origin}/mcp", path)
        assert zero.handshake(f"{server.origin}/mcp")[0] == "proven"


def test_settings_under_a_path_that_is_taken_for_a_pattern_approve_nothing(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        zero.write(GLOBAL, {})
        odd = "usr/projects/sh[o]p/.a0proj/plugins/agent_guild_preflight/config.json"
        zero.approve(f"{server.origin}/mcp", odd)
        assert zero.handshake(f"{server.origin}/mcp")[0] == "unknown"


def test_a_folder_whose_path_is_taken_for_a_pattern_approves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://mcp.example.com/mcp"
    odd = Zero(tmp_path / "agent[0]", capsys)
    odd.approve(url)
    odd.hold(url)
    assert agent_zero.credentials_for(odd.root, url) == Credentials(withheld=Withheld.NOT_APPROVED)


# --- Which headers --------------------------------------------------------------------------


def test_two_servers_of_one_url_with_other_headers_are_unknown(zero: Zero) -> None:
    """Even where the server answers anybody: with which headers a call goes is not known."""
    with bearing(zero, opened) as server:
        url = f"{server.origin}/mcp"
        second = {"url": url, "headers": {"Authorization": "Bearer other"}}
        zero.hold(url, BEARER, second=second)
        assert zero.handshake(url) == ("unknown", Withheld.DIFFERENT.sentence)
        assert not any("authorization" in fields(head) for head in server.requests)


@pytest.mark.parametrize(
    "other", [{}, None, {"Authorization": f"bearer {SECRET}"}, BEARER | {"X": "1"}]
)
def test_other_headers_are_any_difference(zero: Zero, other: Any) -> None:
    with bearing(zero, guarded) as server:
        url = f"{server.origin}/mcp"
        zero.hold(url, BEARER, second={"url": url, "headers": other})
        assert zero.handshake(url) == ("unknown", Withheld.DIFFERENT.sentence)
        assert not any(map(carries, server.requests))


def test_two_servers_of_one_url_with_the_same_headers_are_one(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        url = f"{server.origin}/mcp"
        same = {"authorization": f"Bearer {SECRET}"}
        zero.hold(url, BEARER, second={"serverUrl": url, "headers": same})
        zero.hold_in_project(url, same)
        assert zero.handshake(url)[0] == "proven"


def test_a_project_that_has_other_headers_counts(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        url = f"{server.origin}/mcp"
        zero.hold_in_project(url, {"Authorization": "Bearer other"})
        assert zero.handshake(url) == ("unknown", Withheld.DIFFERENT.sentence)
        zero.hold_in_project(f"{url}/", {"Authorization": "Bearer other"})
        assert zero.handshake(url)[0] == "proven"


def test_headers_that_a_project_alone_holds_are_sent(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp()
        zero.hold_in_project(url, BEARER)
        assert zero.handshake(url)[0] == "proven"


def test_a_server_that_is_switched_off_counts_for_nothing(zero: Zero) -> None:
    with bearing(zero, guarded) as server:
        url = f"{server.origin}/mcp"
        off = {"url": url, "headers": {"Authorization": "Bearer other"}, "disabled": True}
        zero.hold(url, BEARER, second=off)
        assert zero.handshake(url)[0] == "proven"
        zero.set_mcp(tools={"url": url, "headers": BEARER, "disabled": True})
        assert zero.handshake(url)[0] == "unknown"


@pytest.mark.parametrize(
    "value",
    [
        "Bearer §§secret(KEY)",
        "Bearer ${API_KEY}",
        "Bearer ${input:key}",
        "Bearer $API_KEY",
        "$(cat key)",
        "Bearer {{ api_key }}",
        "Bearer {env:API_KEY}",
        "Bearer %API_KEY%",
        "Bearer <your token>",
        "<API_KEY>",
    ],
)
def test_a_placeholder_is_not_sent(zero: Zero, value: str) -> None:
    headers = {"X-Other": f"a-{SECRET}", "Authorization": value}
    with bearing(zero, opened, headers) as server:
        handshake = zero.handshake(f"{server.origin}/mcp")
        sent = [fields(head) for head in server.requests]
    assert handshake == ("unknown", Withheld.PLACEHOLDER.sentence)
    assert sent and not any({"authorization", "x-other"} & set(names) for names in sent)


@pytest.mark.parametrize(
    "value", ["Basic dXNlcjpwYXNzJA==", "Bearer a$B<c>d%e%f", "Bearer $2y$10$abc", "a{b}c", "5%"]
)
def test_what_only_looks_a_little_like_a_placeholder_is_sent(zero: Zero, value: str) -> None:
    with bearing(zero, opened, {"Authorization": value}) as server:
        assert zero.handshake(f"{server.origin}/mcp")[0] == "proven"
        assert fields(server.requests[0])["authorization"] == [value]


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {SECRET}\r\nX-More: 1"},
        {"Authorization": f" {SECRET}"},
        {"Authorization": f"{SECRET}\x7f"},
        {"Authorization": f"{SECRET}é"},
        {"Authorization: x\r\nX": SECRET},
        {"": SECRET},
        {"Authorization": 1},
        {"Authorization": None},
        {"Authorization": SECRET * 1000},
        [["Authorization", SECRET]],
        SECRET,
    ],
)
def test_what_cannot_be_a_header_is_not_sent(zero: Zero, headers: Any) -> None:
    with bearing(zero, opened, headers) as server:
        handshake = zero.handshake(f"{server.origin}/mcp")
        assert not any(map(carries, server.requests))
    assert handshake == ("unknown", Withheld.NOT_SENDABLE.sentence)


def test_headers_that_route_and_those_of_the_probe_itself_are_not_sent(zero: Zero) -> None:
    foreign = "elsewhere.example"
    routing = ("Host", "X_Forwarded_Host", "x-original-url", "Fly-Force-Instance-Id", "Upgrade")
    own = (
        *("Accept", "Content-Type", "Accept-Encoding", "User-Agent", "Connection", "Expect"),
        *("Content-Length", "Transfer-Encoding", "Mcp-Session-Id", "MCP_Protocol_Version"),
        *("Last-Event-ID", "TE", "Proxy-Authorization"),
    )
    headers = dict.fromkeys([*routing, *own], foreign) | BEARER | {"X-Team": "blue"}
    with bearing(zero, guarded, headers) as server:
        assert zero.handshake(f"{server.origin}/mcp")[0] == "proven"
        sent = fields(server.requests[0])
    assert sent["x-team"] == ["blue"]
    assert not any(foreign in values for values in sent.values())
    assert {name: len(values) for name, values in sent.items()} == dict.fromkeys(sent, 1)


def test_headers_that_only_route_are_none(zero: Zero) -> None:
    with bearing(zero, guarded, {"Host": "elsewhere.example"}) as server:
        status, detail = zero.handshake(f"{server.origin}/mcp")
    assert (status, Withheld.NONE_HELD.sentence in detail) == ("unknown", True)


@pytest.mark.parametrize("path", ["usr/settings.json", f"{PROJECT}/mcp_servers.json"])
def test_mcp_settings_that_cannot_be_read_are_unknown(zero: Zero, path: str) -> None:
    """Another file might hold other headers for the URL."""
    with bearing(zero, opened) as server:
        zero.write(path, f'{{"mcpServers": "{SECRET}",}}')
        assert zero.handshake(f"{server.origin}/mcp") == ("unknown", Withheld.UNREADABLE.sentence)
        assert not any(map(carries, server.requests))


# --- Plain http -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mcp.test", "localhost.test"])
def test_plain_http_to_a_host_that_is_not_loopback_is_probed_without(zero: Zero, name: str) -> None:
    """Wherever the name leads just now: the test's leads here."""
    with WireServer(guarded) as server:
        url = server.origin.replace("127.0.0.1", name) + "/mcp"
        zero.approve(url)
        zero.hold(url)
        status, detail = zero.handshake(url)
        assert [carried for _, carried in lines(server)] == [False] * 3
    assert (status, Withheld.PLAIN_HTTP.sentence in detail) == ("unknown", True)


def test_it_says_so_where_the_handshake_is_proven_without(zero: Zero) -> None:
    with WireServer(opened) as server:
        url = server.origin.replace("127.0.0.1", "mcp.test") + "/mcp"
        zero.approve(url)
        zero.hold(url)
        status, detail = zero.handshake(url)
    assert (status, detail.endswith(Withheld.PLAIN_HTTP.sentence)) == ("proven", True)


def test_a_name_for_this_machine_that_leads_elsewhere_is_probed_without(zero: Zero) -> None:
    with serving(zero.root, localhost=[["0.0.0.0"]]) as zero.guild, WireServer(guarded) as server:
        url = server.origin.replace("127.0.0.1", "localhost") + "/mcp"
        zero.approve(url)
        zero.hold(url)
        assert Withheld.PLAIN_HTTP.sentence in zero.handshake(url)[1]
        assert [carried for _, carried in lines(server)] == [False] * 3


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_plain_http_to_loopback_may_have_them(zero: Zero, host: str) -> None:
    with WireServer(guarded) as server:
        url = server.origin.replace("127.0.0.1", host) + "/mcp"
        zero.approve(url)
        zero.hold(url)
        assert zero.handshake(url)[0] == "proven"


@pytest.mark.parametrize(
    ("url", "leads_to", "may"),
    [
        ("http://192.0.2.7/mcp", ["192.0.2.7"], False),
        ("http://mcp.example.com/mcp", ["192.0.2.7"], False),
        ("http://mcp.example.com/mcp", ["127.0.0.1"], False),
        ("http://localhost.example.com/mcp", ["127.0.0.1"], False),
        ("http://127.0.0.1.example.com/mcp", ["127.0.0.1"], False),
        ("http://192.168.1.20:8000/mcp", ["192.168.1.20"], False),
        ("http://0.0.0.0/mcp", ["0.0.0.0"], False),
        ("http://localhost/mcp", ["192.0.2.7"], False),
        ("http://localhost/mcp", ["127.0.0.1", "192.0.2.7"], False),
        ("http://localhost/mcp", ["127.0.0.1", "::1"], True),
        ("http://tools.localhost/mcp", ["127.0.0.1"], True),
        ("http://[::1]:8000/mcp", ["::1"], True),
        ("http://127.1.2.3/mcp", ["127.1.2.3"], True),
        ("https://192.0.2.7/mcp", ["192.0.2.7"], True),
    ],
)
def test_where_headers_may_travel_is_told_without_a_connection(
    url: str, leads_to: list[str], may: bool
) -> None:
    assert may_travel(httpx.URL(url), addresses.Addresses(leads_to, 80)) is may


# --- Never kept, shown or raised ------------------------------------------------------------


def test_credentials_do_not_show_what_they_hold() -> None:
    credentials = Credentials(BEARER)
    assert SECRET not in f"{credentials!r}{credentials}"


def test_an_unforeseen_failure_reads_no_credentials_and_tells_nothing(
    zero: Zero, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://mcp.example.com/mcp"
    zero.approve(url)
    zero.hold(url)
    assert agent_zero.credentials_for(zero.root, url) == Credentials(BEARER)

    def break_off(_: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(agent_zero, "read_mcp_settings", break_off)
    credentials = agent_zero.credentials_for(zero.root, url)
    assert credentials == Credentials(withheld=Withheld.UNREADABLE)


# --- The command ----------------------------------------------------------------------------


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(str(RELEASE_SUPPORT / "local_guild"), *arguments)


def test_a_folder_that_is_none_of_agent_zero_is_one_clear_line(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing", ""):
        ended = run_command("--port", "0", "--credentials-of", str(folder))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.splitlines()[-1] == (
            "local_guild: error: argument --credentials-of: it must be the Agent Zero folder, "
            "the one that has the folder usr"
        )


def test_the_help_names_the_option_and_what_it_does() -> None:
    told = " ".join(run_command("--help").stdout.split())
    assert "--credentials-of FOLDER" in told
    assert "probe approved URLs with the headers that the MCP settings" in told


def test_a_folder_may_be_named_from_where_the_command_is_called(zero: Zero) -> None:
    command = [str(RELEASE_SUPPORT / "local_guild"), "--port", "0", "--credentials-of"]
    relative = os.path.relpath(zero.root)
    with process(*command, relative) as (zero.guild, _), bearing(zero, guarded) as server:
        assert zero.handshake(f"{server.origin}/mcp")[0] == "proven"


# --- The whole chain ------------------------------------------------------------------------


@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "/mcp"), ("sse", "/sse")])
def test_a_server_of_the_official_sdk_is_allowed_with_its_header_and_refused_without(
    zero: Zero, transport: str, path: str
) -> None:
    def decided(headers: Mapping[str, str]) -> tuple[int, str]:
        zero.set_mcp(tools={"type": transport, "url": url, "headers": dict(headers)})
        code, said, errors = zero.run("check", "tools")
        assert SECRET not in "\n".join([*said, *errors])
        (decision,) = (line.split(maxsplit=1)[1] for line in said if line.startswith("decision"))
        return code, decision

    with process("-c", BEARER_SERVER, transport, SECRET) as (origin, _):
        url = origin + path
        zero.approve(
            url,
            allow_private_hosts=True,
            fixture_guild_origin=zero.guild,
            cache_ttl_seconds=0,
        )
        assert decided(BEARER) == (0, "allowed")
        assert decided({})[0] == 10
        assert decided({"Authorization": "Bearer wrong"})[0] == 10
        assert decided(BEARER) == (0, "allowed")
