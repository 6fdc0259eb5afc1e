"""The local preflight service as it runs: what it answers, whom, and the command."""

import json
import signal
import socket
import subprocess

import httpx
import pytest
from local_guild import answers, service
from local_guild.wire import Send, Stall, WireServer, answer
from local_guild_probing import (
    CHECKS,
    KEYS,
    MCP_SERVER,
    PATIENCE_SECONDS,
    RELEASE_SUPPORT,
    USER_AGENT,
    ask,
    connect,
    process,
    read_all,
    request_head,
    run,
    statuses,
)

# --- Real servers, asked about through the running service ---------------------


@pytest.mark.parametrize(("transport", "path"), [("streamable", "/mcp"), ("sse", "/sse")])
def test_a_real_mcp_server_shakes_hands(guild: str, transport: str, path: str) -> None:
    with process("-c", MCP_SERVER, transport) as (origin, _):
        document = ask(guild, origin + path).json()
    assert statuses(document) == dict.fromkeys(CHECKS, "unknown") | {
        "endpoint_reachable": "proven",
        "protocol_handshake": "proven",
    }
    assert document["verdict"] == "no_failed_checks"


def test_a_real_mcp_server_on_a_wrong_path_does_not(guild: str) -> None:
    with process("-c", MCP_SERVER, "streamable") as (origin, _):
        found = statuses(ask(guild, origin + "/elsewhere").json())
    assert (
        found["endpoint_reachable"],
        found["protocol_handshake"],
        found["agent_card_resolves"],
    ) == ("proven", "failed", "failed")


def test_a_plain_web_server_fails_the_handshake(guild: str) -> None:
    page = answer(b"<h1>hello</h1>", content_type=b"text/html")
    with WireServer([Send(page)]) as server:
        document = ask(guild, server.origin + "/mcp").json()
    found = statuses(document)
    assert (found["endpoint_reachable"], found["protocol_handshake"]) == ("proven", "failed")
    assert document["verdict"] == "do_not_delegate"


def test_a_closed_port_is_not_reachable(guild: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = statuses(ask(guild, f"http://127.0.0.1:{port}/mcp").json())
    assert (found["endpoint_reachable"], found["protocol_handshake"]) == ("failed", "unknown")


# --- The form of an answer, and who gets one -----------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "",
        "no url",
        "http://user:pw@127.0.0.1/mcp",
        "ftp://127.0.0.1/",
        "http://[::1",
        "http:///x",
        "a&b#c+d é\n\0",
        "http://127.0.0.1/" + "x" * 3000,
    ],
)
def test_what_cannot_be_probed_is_echoed_and_not_reachable(guild: str, target: str) -> None:
    response = ask(guild, target)
    assert response.status_code == 200
    assert response.json()["target"] == target
    assert statuses(response.json())["endpoint_reachable"] == "failed"


def test_an_answer_has_the_headers_of_the_contract(guild: str) -> None:
    response = ask(guild, "nothing")
    assert response.headers["content-type"] == "application/json"
    assert not {"cache-control", "age", "etag", "content-encoding", "server"} & set(
        response.headers
    )
    assert response.content == answers.encode(response.json())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/preflight", 422),
        ("GET", "/preflight?uri=x", 422),
        ("GET", "/preflight?url=%FF", 422),
        ("GET", "/preflight?" + "a=1&" * 100 + "url=x", 422),
        ("GET", "/preflight/?url=x", 404),
        ("GET", "/", 404),
        ("POST", "/", 404),
        ("POST", "/preflight?url=x", 405),
        ("HEAD", "/preflight?url=x", 405),
        ("OPTIONS", "/preflight?url=x", 405),
    ],
)
def test_other_requests_are_refused(guild: str, method: str, path: str, status: int) -> None:
    headers = {"User-Agent": USER_AGENT}
    response = httpx.request(method, guild + path, headers=headers, trust_env=False)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"


def test_the_last_of_several_urls_counts(guild: str) -> None:
    address, headers = guild + "/preflight?url=one&url=two+2&x=3", {"User-Agent": USER_AGENT}
    assert httpx.get(address, headers=headers, trust_env=False).json()["target"] == "two 2"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_host_names_are_answered(guild: str, name: str) -> None:
    port = guild.rpartition(":")[2]
    assert ask(guild, "x", Host=f"{name}:{port}").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{port}",
        "0.0.0.0:{port}",
        "",
        "localhost.:{port}",
    ],
)
def test_other_host_names_are_refused(guild: str, host: str) -> None:
    with WireServer([Stall()]) as server:
        response = ask(guild, server.origin, Host=host.format(port=guild.rpartition(":")[2]))
        assert (response.status_code, server.connections) == (403, 0)


def test_two_host_headers_are_never_answered(guild: str) -> None:
    port = int(guild.rpartition(":")[2])
    with connect(guild) as client:
        client.sendall(
            b"GET /preflight?url=x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nHost: evil.example\r\n"
            b"User-Agent: %s\r\nConnection: close\r\n\r\n" % (port, USER_AGENT.encode())
        )
        assert client.recv(65536).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-origin", 403),
        ("Sec-Fetch-Site", "none", 200),
    ],
)
def test_web_pages_are_refused(guild: str, name: str, value: str, status: int) -> None:
    assert ask(guild, "x", **{name: value}).status_code == status


@pytest.mark.parametrize(
    "agents",
    [
        [],
        [""],
        ["Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0"],
        ["curl/8.5.0"],
        ["agent_guild_preflight"],
        ["agent_guild_preflight/"],
        ["agent_guild_preflight/0.1.0 Mozilla/5.0"],
        ["Mozilla/5.0 agent_guild_preflight/0.1.0"],
        [USER_AGENT, "Mozilla/5.0"],
        [USER_AGENT, USER_AGENT],
    ],
)
def test_a_browser_that_says_nothing_of_the_page_is_refused(guild: str, agents: list[str]) -> None:
    with WireServer([Stall()]) as server:
        head = request_head(guild, server.origin)
        named = b"".join(b"User-Agent: %s\r\n" % agent.encode() for agent in agents)
        with connect(guild) as client:
            client.sendall(head.replace(b"User-Agent: %s\r\n" % USER_AGENT.encode(), named))
            assert read_all(client).split()[1] == b"403"
        assert server.connections == 0


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0rc1", "1.0+local", "7"])
def test_any_version_of_the_plugin_is_answered(guild: str, version: str) -> None:
    headers = {"User-Agent": f"agent_guild_preflight/{version}"}
    assert ask(guild, "x", **headers).status_code == 200


# --- The command ---------------------------------------------------------------


def run_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(str(RELEASE_SUPPORT / "local_guild"), *arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_where_it_listens_and_ends_cleanly(number: signal.Signals) -> None:
    with process(str(RELEASE_SUPPORT / "local_guild"), "--port", "0") as (origin, running):
        assert ask(origin, "x").status_code == 200
        running.send_signal(number)
        assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")
        assert running.returncode == 0


def test_the_command_ends_while_a_probe_is_under_way() -> None:
    with (
        WireServer([Stall()]) as server,
        process(str(RELEASE_SUPPORT / "local_guild"), "--port", "0") as (origin, running),
        connect(origin) as client,
    ):
        client.sendall(request_head(origin, server.origin))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")
        assert running.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["--host", "0.0.0.0"], ["--host", "localhost"], ["--port", "65536"], ["--port", "-1"]],
)
def test_the_command_refuses_other_addresses(arguments: list[str]) -> None:
    ended = run_command(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")


def test_a_port_in_use_is_one_clear_line(guild: str) -> None:
    port = guild.rpartition(":")[2]
    ended = run_command("--port", port)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert port in ended.stderr


def test_only_loopback_addresses_are_listened_on() -> None:
    with pytest.raises(ValueError):
        service.listen("0.0.0.0", 0)


# --- Answers -------------------------------------------------------------------


def test_an_answer_body_assumes_a_healthy_endpoint() -> None:
    document = json.loads(answers.answer_body("http://x/é"))
    assert document["target"] == "http://x/é"
    assert statuses(document) == dict.fromkeys(CHECKS, "unknown") | {
        "endpoint_reachable": "proven",
        "protocol_handshake": "proven",
    }


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("status", ["proven", "failed", "unknown"])
def test_an_answer_body_follows_from_its_statuses(name: str, status: str) -> None:
    assert statuses(json.loads(answers.answer_body("t", {name: status})))[name] == status


def test_an_override_is_taken_as_it_is() -> None:
    document = json.loads(answers.answer_body("t", verdict="do_not_delegate", extra=[1]))
    assert (document["verdict"], document["failed"], list(document)) == (
        "do_not_delegate",
        [],
        [*KEYS, "extra"],
    )


@pytest.mark.parametrize("wrong", [{"endpoint_reachable": "fine"}, {"no_such_check": "proven"}])
def test_wrong_statuses_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        answers.answer_body("t", wrong)
