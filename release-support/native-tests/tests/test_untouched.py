"""What the gate leaves alone, and what it refuses when it cannot tell.

`PUBLIC_ORIGIN` is a service of ours in every scene here, so that a request to the public
service would be seen too.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from helpers.mcp_handler import MCPConfig
from stage.tool_server import stdio_server
from usr.plugins.agent_guild_preflight.helpers import evaluation, host, records

MALFORMED = '{"protected_servers": '
INTERNAL = "internal_error"
MARKER = "MARKER"


@pytest.fixture
def everything(scene, other_url):
    """A scene with a server of each kind; a request to any service is counted."""
    scene.serve()
    scene.patch.setattr(evaluation, "PUBLIC_ORIGIN", scene.guild.origin)
    scene.use_mcp(tools=scene.url, others=other_url, pipes=stdio_server())
    scene.tap.reset()
    return scene


def call_local_tools(scene):
    """Call what no MCP server has: a tool, the answer to the user, a tool that does not exist."""
    scene.call("note")
    assert "noted" in scene.chat.shown[-1]
    scene.call("response")
    before = len(scene.chat.shown)
    scene.call("no_such_tool")
    assert len(scene.chat.shown) == before + 1
    assert "no_such_tool" in scene.chat.shown[-1]
    scene.chat.legacy("note", {})
    assert "noted" in scene.chat.shown[-1]


def call_mcp(scene, *servers):
    """Call `echo` of each server and see that it answered."""
    for server in servers:
        scene.call(f"{server}.echo", f"to {server}")
        assert f"echo: to {server}" in scene.chat.shown[-1]


NOTHING_CONFIGURED = {
    "no file": None,
    "empty": {},
    "no servers": {"protected_servers": {}, "policy": {"on_caution": "deny"}},
    "null servers": {"protected_servers": None},
}


@pytest.mark.parametrize("configured", NOTHING_CONFIGURED.values(), ids=NOTHING_CONFIGURED)
def test_nothing_configured(everything, other_tap, configured):
    """Without a protected server: no request, no record, no log line, for no kind of tool."""
    if configured is not None:
        everything.operator.configure(configured)
    call_local_tools(everything)
    call_mcp(everything, "tools", "others")
    everything.expect_untouched()
    everything.expect_reached()
    assert other_tap.connections > 0


def test_nothing_configured_leaves_local_servers_alone(everything):
    """The same for a server that is a process of this machine."""
    call_mcp(everything, "pipes")
    everything.expect_untouched()


def test_the_rest_is_untouched_when_one_server_is_protected(everything):
    """Local tools and the servers that nobody listed, beside one that is protected."""
    everything.operator.configure(everything.settings())
    call_local_tools(everything)
    call_mcp(everything, "others", "pipes")
    everything.expect_untouched()
    assert everything.tap.connections == 0
    call_mcp(everything, "tools")
    everything.expect_allowed(statuses={})


def test_parallel_calls_are_untouched(everything):
    """Nothing configured, several calls at once: no trace."""
    done = everything.chat.parallel(("tools.echo", {"text": "one"}), ("note", {}))
    assert [job["result"] for job in done] == ["echo: one", "noted"]
    everything.expect_untouched()


# An invalid configuration

TELLING = {
    "wrong type": {"timeout_seconds": "5"},
    "typo": {"on_causion": "allow"},
    "typo below": {"policy": {"on_causion": "allow"}},
    "out of range": {"timeout_seconds": 16},
    "not a local service": {"fixture_guild_origin": "https://tools.example.com"},
}


@pytest.mark.parametrize("problem", TELLING.values(), ids=TELLING)
def test_an_invalid_configuration_that_tells_what_is_protected(everything, other_tap, problem):
    """The protected server is refused; the others go on, and nothing is said about them."""
    everything.operator.configure(everything.settings(**problem))
    call_local_tools(everything)
    call_mcp(everything, "others")
    everything.expect_untouched()
    everything.call("tools.echo")
    everything.expect_invalid()
    assert other_tap.connections > 0


def test_an_invalid_configuration_that_tells_leaves_local_servers_alone(everything):
    """A local server under a name that is not protected."""
    everything.operator.configure(everything.settings(timeout_seconds="5"))
    call_mcp(everything, "pipes")
    everything.expect_untouched()


def test_an_invalid_configuration_protects_an_approved_url_under_any_name(everything):
    """A second name for the approved URL is as protected as the first."""
    everything.use_mcp(second=everything.url)
    everything.tap.reset()
    everything.operator.configure(everything.settings(timeout_seconds="5"))
    everything.call("second.echo")
    everything.expect_invalid()


NOT_TELLING = {
    "malformed": MALFORMED,
    "null file": "null",
    "list": "[]",
    "text": '"tools"',
    "unreadable servers": json.dumps({"protected_servers": ["tools"]}),
    "no servers and a typo": json.dumps({"protected_server": {}}),
}


@pytest.mark.parametrize("text", NOT_TELLING.values(), ids=NOT_TELLING)
def test_an_invalid_configuration_that_tells_nothing(everything, other_tap, text):
    """Every MCP call is refused, since any could be a protected one; local tools never are."""
    everything.operator.configure(text)
    other_tap.reset()
    call_local_tools(everything)
    everything.expect_untouched()
    for calls, name in enumerate(("tools.echo", "others.echo", "pipes.echo"), 1):
        everything.call(name)
        record = everything.expect_invalid(server=None, calls=calls)
        assert record["tool"] == "untrusted: echo"
    assert other_tap.connections == 0


@pytest.mark.parametrize(
    ("announced", "current", "refused"),
    [
        ("tools.echo", None, True),
        ("note", "tools.echo", True),
        ("note", None, False),
        ("note", "note", False),
    ],
)
def test_an_invalid_configuration_and_a_dispatch_that_nobody_can_tell(
    everything, announced, current, refused
):
    """What has the name of an MCP tool may be one."""
    everything.operator.configure("[]")
    agent = everything.chat.agent
    tool = None
    if refused and current:
        tool = MCPConfig.get_instance().get_tool(agent, current)
    elif current:
        tool = agent.get_tool(current, None, {}, "", agent.loop_data)
    everything.hook(announced, tool)
    if refused:
        everything.expect_invalid(server=None)
    else:
        everything.expect_untouched()


def test_every_problem_is_told_to_the_operator(everything):
    """All at once, each with its key, none with a value; nothing of it for the model."""
    everything.operator.configure(
        everything.settings(
            timeout_seconds=MARKER, polic=MARKER, policy={"on_caution": MARKER, "required": []}
        )
    )
    everything.call("tools.echo")
    record = everything.expect_invalid(
        "polic: is not a setting",
        "policy.required: is not a setting",
        "policy.on_caution: is none of the permitted values",
        "timeout_seconds: must be a number of seconds",
    )
    assert MARKER not in json.dumps([record, everything.chat.log_lines])


# A gate that fails


def fail(*_, **__):
    """Fail with a text that nobody may be shown."""
    raise LookupError(MARKER)


@pytest.mark.parametrize("seam", ["screen", "recall", "ask", "decide", "require_approved"])
def test_a_gate_that_fails_after_it_knows_the_server(everything, seam):
    """The protected call is refused; the failure says nothing but its class, to the operator."""
    everything.operator.configure(everything.settings())
    everything.patch.setattr(evaluation, seam, fail)
    call_local_tools(everything)
    call_mcp(everything, "others")
    everything.expect_untouched()
    everything.call("tools.echo")
    record = everything.expect_refused(
        INTERNAL,
        endpoint=None if seam in ("screen", "require_approved") else "",
        unforeseen="LookupError",
        preflights=1 if seam == "decide" else 0,
    )
    assert MARKER not in json.dumps([record, *everything.chat.shown, *everything.chat.log_lines])


@pytest.mark.parametrize("seam", ["layers_for", "look"])
def test_a_gate_that_fails_before_it_knows_the_server(everything, seam):
    """Any MCP call may be a protected one, then; a local tool is not."""
    everything.operator.configure(everything.settings())
    everything.patch.setattr(host, seam, fail)
    call_local_tools(everything)
    everything.expect_untouched()
    everything.call("others.echo")
    assert everything.told() == everything.line(INTERNAL, "operator", server=None, endpoint=None)
    (record,) = everything.chat.records
    assert (record["reason"], record["server"]) == (INTERNAL, None)
    assert MARKER not in json.dumps([record, *everything.chat.shown, *everything.chat.log_lines])


@pytest.mark.parametrize("raw", [MALFORMED, {"protected_servers": {"tools": 7}}])
def test_a_gate_that_cannot_say_what_is_wrong_with_the_settings(everything, raw):
    """They refuse the call all the same."""
    everything.operator.configure(raw)
    everything.patch.setattr(records, "write_configuration_log", fail)
    everything.call("tools.echo")
    server = None if raw == MALFORMED else "tools"
    assert everything.told() == everything.line(INTERNAL, "operator", server=server, endpoint=None)
    assert everything.tap.connections == 0


def test_a_failure_has_ended_before_anything_is_kept(everything):
    """Whoever logs what is being handled, with the record, must find nothing of it."""
    handled = []
    everything.operator.configure(everything.settings())
    everything.patch.setattr(host, "layers_for", fail)
    everything.patch.setattr(records, "write_log", lambda *_: handled.append(sys.exception()))
    everything.call("tools.echo")
    assert handled == [None]


@pytest.mark.parametrize("seam", ["keep", "write_log"])
def test_a_gate_that_cannot_keep_its_record(everything, seam):
    """A decision that leaves no trace is none: refused, and the call leaves no second record."""
    everything.operator.configure(everything.settings())
    everything.patch.setattr(records, seam, fail)
    everything.call("tools.echo")
    assert everything.told() == everything.line(INTERNAL, "operator", statuses=None)
    assert everything.tap.connections == 0
    kept = [(record["decision"], record["reason"]) for record in everything.chat.records]
    assert kept == ([] if seam == "keep" else [("refused", INTERNAL)])


@pytest.mark.parametrize("seam", ["get_plugin_config", "get_enabled_plugin_paths"])
def test_a_host_that_cannot_read_its_files(everything, seam):
    """What the host raises about the settings is an unreadable configuration, not a failure."""
    everything.operator.configure(everything.settings())
    names = ("get_plugin_config", "get_enabled_plugin_paths")
    works = {name: getattr(host.plugins, name) for name in names}
    everything.patch.setattr(host, "plugins", SimpleNamespace(**{**works, seam: fail}))
    call_local_tools(everything)
    everything.call("tools.echo")
    everything.expect_invalid(
        "the file: cannot be read as plain JSON, or is gone",
        "protected_servers: is missing or unreadable, so every MCP tool is refused; after "
        "removing the plugin, restart Agent Zero",
        server=None,
    )
