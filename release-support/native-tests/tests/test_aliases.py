"""Aliases that the agent does not map: which calls may be of a protected server, and which are not.

The host makes an alias of every MCP tool and hands the agent the map. A chat that is loaded again
has none, a tool may have gone since, and local tools may have names of the same form.
"""

from __future__ import annotations

import pytest
from helpers import responses_tools
from helpers.mcp_handler import MCPConfig
from usr.plugins.agent_guild_preflight.helpers import host

CALL = b'"method":"tools/call"'
HEALTHY: dict[str, str] = {}
GONE = "0123abcd"  # the digest of no tool that any test has
TOOL = """
from helpers.tool import Response, Tool

class Note(Tool):
    async def execute(self, **kwargs):
        return Response(message="noted", break_loop=False)
"""
native_name = getattr(responses_tools, "_native_tool_name", None) or responses_tools._native_name


def remote(url):
    return {"type": "streamable-http", "url": url}


@pytest.fixture
def local_tool(scene):
    """Make a local tool of a name, until the end."""
    made = []

    def local_tool(name):
        path = scene.operator.tool_path(name)
        path.write_text(TOOL)
        made.append(path)

    yield local_tool
    for path in made:
        path.unlink()


@pytest.fixture
def both(scene, other_url, other_tap):
    """A protected server and one that is not, and an agent without a map."""
    scene.protect()
    scene.use_mcp(tools=scene.url, others=other_url)
    scene.tap.reset()
    other_tap.reset()
    return scene


def native(scene, name):
    scene.chat.native((name, {"text": "hello"}))


def legacy(scene, name):
    scene.chat.legacy(name, {"text": "hello"})


WAYS = [native, legacy]


def expect_mismatch(scene, server="tools"):
    scene.expect_refused("dispatch_mismatch", None, "retry_later", server=server, endpoint=None)


@pytest.mark.parametrize("way", WAYS)
def test_the_alias_of_a_tool_that_is_known(both, way):
    """The host finds no tool of that name; the gate says that it is none of the protected server."""
    way(both, native_name("tools.echo"))
    expect_mismatch(both)


@pytest.mark.parametrize("way", WAYS)
def test_a_local_tool_in_the_place_of_one_that_is_known(both, local_tool, way):
    """It would answer in the name of the protected server."""
    name = native_name("tools.echo")
    local_tool(name)
    way(both, name)
    expect_mismatch(both)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [f"tools_echo_{GONE}", f"tools_{GONE}", native_name("tools.gone")])
def test_a_local_tool_of_a_name_that_no_known_tool_has(both, local_tool, name, way):
    """The host has found it, and no server has such a tool: it is what it says."""
    local_tool(name)
    way(both, name)
    assert "noted" in both.chat.shown[-1]
    both.expect_untouched()


def test_the_same_while_the_settings_cannot_be_read(both, local_tool):
    """Every MCP tool is refused then, and no local one."""
    both.operator.configure("{")
    for name in (f"tools_echo_{GONE}", native_name("tools.echo")):
        local_tool(name)
        native(both, name)
    assert "noted" in both.chat.shown[0] + both.chat.shown[1]
    both.expect_invalid(server=None)


def test_an_alias_of_a_server_that_is_not_protected(both, local_tool):
    """Known to be that of another, whatever it may look like."""
    both.operator.configure(both.settings(protected_servers={"ö": both.url, "tools": both.url}))
    name = native_name("others.echo")
    native(both, name)
    both.expect_untouched()
    local_tool(name)
    native(both, name)
    assert "noted" in both.chat.shown[-1]
    both.expect_untouched()


@pytest.mark.parametrize(
    ("name", "server"),
    [
        (f"tools_echo_{GONE}", "tools"),
        (f"tools_{GONE}", "tools"),
        (f"wetter__sterreich_now_{GONE}", "wetter_österreich"),
        (f"now_{GONE}", "öö"),
        (f"a0_tool_{GONE}", "öö"),
        (f"{'s' * 52}_{GONE}", "s" * 60),
        (f"{'s' * 51}__{GONE}", "s" * 51),
    ],
)
def test_an_alias_of_a_tool_that_has_gone(both, name, server):
    """No local tool stands there, so nobody can tell that it was another's: refused."""
    both.operator.configure(both.settings(protected_servers={server: both.url}))
    native(both, name)
    (record,) = both.chat.records
    assert (record["reason"], record["server"]) == ("server_not_configured", server)
    assert both.preflights == 0


@pytest.mark.parametrize("name", [f"tool_echo_{GONE}", f"my_tools_echo_{GONE}", f"a0_tool_{GONE}"])
def test_a_name_that_no_tool_of_the_server_could_have(both, name):
    """Left to the host, which knows no such tool."""
    native(both, name)
    both.expect_untouched()


@pytest.mark.parametrize("server", ["wetter_österreich", "öö", "s" * 60, "_tools_", "tools"])
def test_servers_of_every_kind_of_name(scene, server):
    """With and without the map: the call reaches the server, or nobody."""
    scene.serve()
    scene.use_mcp(**{server: scene.url})
    scene.operator.configure(scene.settings(protected_servers={server: scene.url}))
    scene.tap.reset()
    name = f"{server}.echo"
    native(scene, native_name(name))
    assert [record["reason"] for record in scene.chat.records] == ["dispatch_mismatch"]
    assert scene.tap.connections == 0
    aliases = scene.chat.use_aliases()
    native(scene, aliases[name])
    legacy(scene, aliases[name])
    assert [record["reason"] for record in scene.chat.records[1:]] == [None, None]
    scene.expect_reached(2)


def test_an_alias_of_a_second_name_for_the_approved_url(scene, local_tool):
    """What a known alias stands for is looked up, so that the URL protects it as well."""
    scene.protect()
    scene.use_mcp(second=scene.url)
    scene.tap.reset()
    native(scene, native_name("second.echo"))
    expect_mismatch(scene)


def test_an_alias_that_is_forgotten_while_its_tool_is_bound(both):
    """The bound tool is the one that the alias stands for: nothing is amiss."""
    name = both.chat.use_aliases()["tools.echo"]
    both.between(lambda: both.chat.agent.set_data("responses_tool_name_map", {}))
    legacy(both, name)
    both.expect_allowed(statuses=HEALTHY)


@pytest.mark.parametrize("bound", ["note", f"tools_echo_{GONE}"])
def test_another_dispatch_has_a_local_tool_bound(both, local_tool, bound):
    """That the tool of another call is a local one says nothing of this call."""
    local_tool(f"tools_echo_{GONE}")
    agent = both.chat.agent
    both.hook(f"tools_other_{GONE}", agent.get_tool(bound, None, {}, "", agent.loop_data))
    (record,) = both.chat.records
    assert (record["reason"], record["server"]) == ("dispatch_mismatch", "tools")


def test_a_tool_of_the_project_and_one_of_the_global_servers(scene, other_url, local_tool):
    """Aliases are made of the global servers, whatever project the agent works in."""
    scene.protect()
    scene.use_mcp(tools=scene.url)
    scene.operator.configure(
        scene.settings(protected_servers={"tools": scene.url, "own": other_url})
    )
    scene.open_project({"own": remote(other_url), "tools": {**remote(scene.url), "disabled": True}})
    for number, name in enumerate((native_name("tools.echo"), native_name("own.echo")), 1):
        local_tool(name)
        native(scene, name)
        assert len(scene.chat.records) == number
        assert scene.chat.records[-1]["reason"] == "dispatch_mismatch"


# What is untouched costs no look-up


@pytest.mark.parametrize("name", ["note", f"tools_echo_{GONE}"])
def test_look_ups_without_a_protected_server(scene, look_ups, local_tool, name):
    scene.serve()
    local_tool(f"tools_echo_{GONE}")
    look_ups.clear()
    native(scene, name)
    assert look_ups == []
    assert "noted" in scene.chat.shown[-1]


def test_a_server_with_more_tools_than_are_looked_through(both):
    """Nobody knows the tool then, and what its alias could be of decides."""
    servers = MCPConfig.get_instance()
    names = [tool["name"] for server in servers.servers for tool in server.get_tools()]
    last = f"tools.{names[-1]}"
    assert host.tool_behind(native_name(last), servers) == last
    both.patch.setattr(host, "MAX_TOOLS", 1)
    assert host.tool_behind(native_name(last), servers) is None
    assert host.tool_behind(native_name(f"tools.{names[0]}"), servers) == f"tools.{names[0]}"
