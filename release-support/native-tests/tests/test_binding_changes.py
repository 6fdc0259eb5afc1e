"""The server's settings change while the service is being asked.

The service holds its answer until the change is made: after the binding was compared, and
before it is compared again.
"""

from __future__ import annotations

import threading

import pytest
from helpers.mcp_handler import MCPServerLocal
from local_guild.wire import Wait
from stage import chats

HEALTHY: dict[str, str] = {}
DENIED = {"protocol_handshake": "failed"}
PROJECT = "harbour"


def live(**fields):
    """Change the live server object, as a settings page does."""
    return lambda scene: scene.alter(**fields)


def second_server(scene):
    scene.replace_servers(scene.live, scene.live)


def local_server(scene):
    scene.replace_servers(MCPServerLocal({"name": "tools", "command": "true"}))


def other_path(scene):
    scene.alter(url=f"{scene.url}/")


CHANGES = {
    "url": other_path,
    "tls_verification": live(verify=False),
    "header_added": live(headers={"X-Team": "other"}),
    "host_header": live(headers={"Host": "other.example.com"}),
    "second_server": second_server,
    "removed": lambda scene: scene.replace_servers(),
    "renamed": live(name="tools_2"),
    "local_server": local_server,
    "tool_disabled": live(disabled_tools=["echo"]),
    "scope": live(scope="project"),
    "transport": live(type="sse"),
}


@pytest.fixture
def call_during(scene):
    """Make a call, and a change while the service is asked; `tools` is protected."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(timeout_seconds=15)

    def call_during(change):
        turn = chats.begin(scene.chat.native_turn(("tools.echo", {"text": "hello"})))
        assert scene.guild.wait_for_requests(1, 10)
        change(scene)
        scene.tap.reset()
        answerable.set()
        turn.result(20)

    return call_during


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_refuses_the_call(scene, call_during, change):
    """What was checked is not what would be called; the evidence stays in the record."""
    call_during(change)
    record = scene.expect_refused(
        "binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY
    )
    assert record["verdict"] == "no_failed_checks"
    assert scene.chat.last_observation["verdict"] == "no_failed_checks"


def test_a_changed_header_value_refuses_the_call(scene, call_during):
    """The header was there before, with another value."""
    scene.alter(headers={"Authorization": "Bearer one"})
    call_during(live(headers={"Authorization": "Bearer two"}))
    scene.expect_refused("binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY)
    assert "Bearer" not in str(scene.chat.records + scene.chat.shown + scene.chat.log_lines)


def test_a_change_after_a_tolerated_failure_refuses_the_call(scene):
    """Tolerance for missing evidence is none for another server."""
    scene.serve(scene.answers(before=lambda: scene.alter(verify=False), scored=None))
    scene.protect(policy={"on_unavailable": "allow"})
    scene.call()
    record = scene.expect_refused("binding_changed", None, "retry_later", preflights=1)
    assert record["tolerated"] == []


def test_a_refusal_by_the_evidence_comes_first(scene):
    """The stages have an order: policy before the second look at the binding."""
    scene.serve(scene.answers(DENIED, before=lambda: scene.alter(verify=False)))
    scene.protect()
    scene.call()
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)


def test_a_rebuilt_configuration_refuses_the_call(scene, call_during, other_url, other_tap):
    """The whole configuration is replaced, as after an edit in the settings."""
    call_during(lambda scene: scene.use_mcp(tools=other_url))
    scene.expect_refused("binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY)
    assert other_tap.count(b'"method":"tools/call"') == 0


def enter_project(scene):
    scene.chat.context.set_data("project", PROJECT)


@pytest.mark.parametrize("url", ["other", "same"])
def test_a_project_that_is_entered_refuses_the_call(scene, call_during, other_url, url):
    """It has a server of that name of its own; at the same URL it is still another one."""
    chosen = {"other": other_url, "same": scene.url}[url]
    scene.operator.set_project_mcp(PROJECT, {"tools": {"type": "streamable-http", "url": chosen}})
    (server,) = scene.servers_of(scene.new_chat(project=PROJECT))
    assert (server.url, server.scope) == (chosen, "project")
    call_during(enter_project)
    scene.expect_refused("binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY)


# What is no change


def rebuilt(scene):
    """Build the same configuration anew: other objects, the same settings."""
    before = scene.live
    scene.operator.set_mcp({"tools": {"type": "streamable-http", "url": scene.url}}, anew=True)
    assert scene.live is not before


def changed_back(scene):
    scene.alter(url=f"{scene.url}/")
    scene.alter(url=scene.url)


UNCHANGED = {
    "nothing": lambda scene: None,
    "rebuilt": rebuilt,
    "description": live(description="another text"),
    "changed_back": changed_back,
    "other_tool_disabled": live(disabled_tools=["co:lon"]),
    "timeouts": live(tool_timeout=77),
}


@pytest.mark.parametrize("change", UNCHANGED.values(), ids=UNCHANGED)
def test_no_change_allows_the_call(scene, call_during, change):
    """What decides where the call goes is as it was."""
    call_during(change)
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


def test_a_change_of_another_server_allows_the_call(scene, call_during, other_url):
    """Its neighbour is removed meanwhile."""
    scene.use_mcp(tools=scene.url, others=other_url)
    call_during(lambda scene: scene.replace_servers(scene.live))
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


def test_a_change_in_a_project_allows_the_call_of_a_chat_elsewhere(scene, call_during, other_url):
    """Each chat is compared with the configuration of its own."""
    other = {"tools": {"type": "streamable-http", "url": other_url}}
    call_during(lambda scene: scene.operator.set_project_mcp(PROJECT, other))
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


def test_the_next_call_is_judged_by_what_is_there_then(scene):
    """After the change: the new state is compared, from the first stage on."""
    scene.serve(scene.answers(before=lambda: scene.alter(verify=False)))
    scene.protect(cache_ttl_seconds=300)
    scene.call()
    scene.call()
    scene.alter(verify=True)
    scene.call()
    reasons = [record["reason"] for record in scene.chat.records]
    assert reasons == ["binding_changed", "transport_altered", None]
    # The evidence was sound, and is used again.
    assert scene.chat.records[2]["cached"] is True
    assert scene.preflights == 1
