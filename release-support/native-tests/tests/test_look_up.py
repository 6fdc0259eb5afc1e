"""The host's look-up of MCP servers: answered as the host would, held for one call, and left alone.

What a held call is for is in test_swaps. Here it is what holding must not do: touch another call
or agent, leave anything behind, or stumble over somebody else who stands in the same place.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib.util
import json
import sys
import threading

import pytest
import usr
from helpers import settings
from helpers.errors import RepairableException
from helpers.mcp_handler import MCPConfig, MCPTool
from helpers.tool import Response
from stage import chats
from usr.plugins.agent_guild_preflight.helpers import look_up

CALL = b'"method":"tools/call"'
PROJECT = "harbour"
HEALTHY: dict[str, str] = {}
WAIT_SECONDS = 20.0


def remote(url, **changed):
    return {"type": "streamable-http", "url": url, **changed}


def there():
    """Return what stands in the place of the host's look-up."""
    return vars(MCPConfig)["get_for_agent"]


@pytest.fixture(autouse=True)
def left_alone():
    """Whatever a test does, the host's own look-up is back when it is over."""
    before = there()
    yield
    assert there() is before


@pytest.fixture
def in_project(scene):
    scene.protect(cache_ttl_seconds=300)
    scene.open_project({"tools": remote(scene.url)})
    return scene


def edit(scene, servers):
    scene.operator.edit_project_mcp(PROJECT, servers)


# The same as the host's own


def save_settings(scene, **changed):
    path = scene.operator.root / "usr" / "settings.json"
    path.write_text(json.dumps({**settings.get_settings(), **changed}))


def global_servers(scene, url):
    return json.dumps({"mcpServers": {"tools": remote(scene.url), "more": remote(url)}})


def reload_settings(scene, url):
    save_settings(scene, mcp_servers=global_servers(scene, url))
    settings.reload_settings()


CHANGES = {
    "nothing": lambda scene, url: None,
    "another URL": lambda scene, url: edit(scene, {"tools": remote(url)}),
    "the same again": lambda scene, url: edit(scene, {"tools": remote(scene.url)}),
    "one letter": lambda scene, url: edit(scene, {"tools": remote(scene.url, description="x")}),
    "none": lambda scene, url: edit(scene, {}),
    "a broken file": lambda scene, url: scene.operator.project_mcp_path(PROJECT).write_text("{"),
    "no file": lambda scene, url: scene.operator.project_mcp_path(PROJECT).unlink(),
    "settings reloaded": reload_settings,
    "settings forgotten": lambda scene, url: scene.patch.setattr(settings, "_settings", None),
    "settings of another form": lambda scene, url: scene.patch.setattr(settings, "_settings", []),
    "an update": lambda scene, url: MCPConfig.update(global_servers(scene, url)),
    "an update with the same": lambda scene, url: scene.use_mcp(tools=scene.url),
    "projects forgotten": lambda scene, url: MCPConfig.clear_project_instances(),
    "another project": lambda scene, url: scene.chat.context.set_data("project", "quay"),
    "no project": lambda scene, url: scene.chat.context.set_data("project", None),
    "a name that is none": lambda scene, url: scene.chat.context.set_data("project", "../quay"),
    "a project in blanks": lambda scene, url: scene.chat.context.set_data("project", " harbour "),
}


@pytest.fixture
def forget_updates(scene):
    """Set the same MCP servers anew next time: a test has changed them past the operator."""
    yield
    scene.operator.set_mcp({}, anew=True)
    settings.reload_settings()


@pytest.mark.usefixtures("forget_updates")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_it_answers_as_the_host_does(in_project, other_url, change):
    """The very object, before and after every change, asked before the host is."""
    scene = in_project
    scene.operator.set_project_mcp("quay", {"tools": remote(other_url)})
    for do in (lambda: None, lambda: change(scene, other_url)):
        do()
        found = look_up.servers_for(scene.chat.agent)
        assert found is MCPConfig.get_for_agent(scene.chat.agent)
        assert look_up.servers_for(scene.chat.agent) is found


def test_it_does_not_gather_the_settings_again(in_project):
    """In a project that is nearly all of the cost; the host has kept what it would answer with."""
    agent = in_project.chat.agent
    called = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name == "get_settings":
            called.append(frame.f_code.co_filename)

    for work in (look_up.servers_for, MCPConfig.get_for_agent):
        sys.setprofile(note)
        work(agent)
        sys.setprofile(None)
        assert (called == []) == (work is look_up.servers_for)


@pytest.mark.parametrize("owner", ["get_for_agent", "get_project_instance"])
def test_whoever_has_wrapped_the_look_up_is_asked(in_project, owner):
    """A plugin of the operator's may choose servers for an agent."""
    scene = in_project
    chosen = MCPConfig.get_instance()
    scene.patch.setattr(MCPConfig, owner, classmethod(lambda cls, *_, **__: chosen))
    assert look_up.servers_for(scene.chat.agent) is chosen


def test_whoever_has_wrapped_the_settings_is_asked(in_project, other_url):
    """The same for one who changes what is in force."""
    scene = in_project
    original = settings.get_settings

    def get_settings():
        return {**original(), "mcp_servers": global_servers(scene, other_url)}

    scene.patch.setattr(settings, "get_settings", get_settings)
    found = look_up.servers_for(scene.chat.agent)
    assert {server.name for server in found.servers} == {"tools", "more"}


# No other call or agent is touched


def test_only_the_call_itself_is_held(in_project, other_url):
    """Another agent of the project, and the same agent in another thread or task, see the edit."""
    scene = in_project
    neighbour = scene.new_chat(project=PROJECT).agent
    agent = scene.chat.agent
    seen = {}

    def see(name, of):
        (server,) = MCPConfig.get_for_agent(of).servers
        seen[name] = server.url

    def look():
        edit(scene, {"tools": remote(other_url)})
        see("neighbour", neighbour)
        empty = contextvars.Context()
        for name, run in (("thread", lambda *_: see("thread", agent)), ("task", empty.run)):
            thread = threading.Thread(target=run, args=(see, name, agent))
            thread.start()
            thread.join()
        see("call", agent)

    scene.as_it_looks_up(look)
    scene.call()
    assert seen == {
        "neighbour": other_url,
        "thread": other_url,
        "task": other_url,
        "call": scene.url,
    }
    scene.expect_reached()


def test_what_outlives_the_call_is_not_held(in_project, other_url):
    """A task that the tool has begun goes on in the call's context when the call is over."""
    scene = in_project
    agent, neighbour = scene.chat.agent, scene.new_chat(project=PROJECT).agent
    is_over = asyncio.Event()
    original = MCPTool.execute
    later = []

    async def outlive():
        await is_over.wait()
        (server,) = MCPConfig.get_for_agent(agent).servers
        return server.url

    async def execute(tool, **arguments):
        later.append(asyncio.create_task(outlive()))
        return await original(tool, **arguments)

    async def both():
        await scene.chat.native_turn(("tools.echo", {}))
        edit(scene, {"tools": remote(other_url)})
        # Another call is held meanwhile, so that the place of the look-up is still ours.
        hold = look_up.Hold(neighbour, look_up.frozen(MCPConfig.get_instance()))
        is_over.set()
        try:
            return await later[0]
        finally:
            hold.release()

    scene.patch.setattr(MCPTool, "execute", execute)
    assert chats.run(both()) == other_url


def test_a_call_within_a_call(in_project, other_url, other_tap):
    """A plugin that makes another call of the agent from within one: each is judged by itself."""
    scene = in_project
    scene.operator.edit_project_mcp(
        PROJECT, {"tools": remote(scene.url), "others": remote(other_url)}
    )
    MCPConfig.get_for_agent(scene.chat.agent)
    original = MCPTool.execute

    async def execute(tool, **arguments):
        if arguments["text"] == "outer":
            await scene.chat.native_turn(
                ("tools.echo", {"text": "inner"}), ("others.echo", {"text": "neighbour"})
            )
        return await original(tool, **arguments)

    scene.patch.setattr(MCPTool, "execute", execute)
    scene.call(text="outer")
    assert [record["decision"] for record in scene.chat.records] == ["allowed", "allowed"]
    scene.expect_reached(2)
    assert other_tap.count(CALL) == 1


def test_our_own_look_ups_are_never_held(in_project, other_url):
    """A call within a held call is judged by what is there then."""
    agent = in_project.chat.agent
    hold = look_up.Hold(agent, look_up.frozen(look_up.servers_for(agent)))
    try:
        edit(in_project, {"tools": remote(other_url)})
        (server,) = look_up.servers_for(agent).servers
        (held,) = MCPConfig.get_for_agent(agent).servers
    finally:
        hold.release()
    assert (server.url, held.url) == (other_url, in_project.url)


def test_calls_at_once(in_project, other_url, other_tap):
    """Eight parallel children, each held by itself, while the project is edited under them."""
    scene = in_project
    scene.call()
    scene.as_it_looks_up(lambda: edit(scene, {"tools": remote(other_url)}))
    scene.chat.parallel(*[("tools.echo", {"text": "hello"})] * 8)
    reasons = {record["reason"] for record in scene.chat.records}
    assert None in reasons
    assert reasons <= {None, "url_mismatch", "binding_changed"}
    assert other_tap.count(CALL) == 0


# Nothing is left behind: `left_alone` looks after each of these


def refused(scene):
    scene.add_hook("tool_execute_before", lambda *_, **__: scene.alter(verify=False))
    scene.chat.context.set_data("project", None)
    scene.call()
    return "binding_changed"


def withheld(scene):
    scene.tap.once(CALL, lambda: scene.alter(verify=False))
    scene.chat.context.set_data("project", None)
    scene.call()
    return "binding_changed_during_call"


def failing(scene):
    scene.call("tools.fail")


def raising(scene):
    """As the tool policy of a later host does."""

    async def execute(tool, **_):
        raise RepairableException("no")

    scene.patch.setattr(MCPTool, "execute", execute)
    scene.call()
    assert "no" in scene.chat.shown[-1]


def cancelled(scene):
    running = threading.Event()
    scene.tap.once(CALL, running.set)
    turn = chats.begin(scene.chat.native_turn(("tools.stall", {})))
    assert running.wait(WAIT_SECONDS)
    assert there().__func__.__module__ == look_up.__name__
    turn.cancel()
    chats.run(asyncio.sleep(0.1))


@pytest.mark.parametrize("end", [refused, withheld, failing, raising, cancelled])
def test_however_a_call_ends(in_project, end):
    reason = end(in_project)
    assert in_project.chat.records[-1]["reason"] == reason


# Somebody else stands in the same place


def test_a_wrapper_that_was_there_before(in_project):
    """It stays, and is asked for every other call."""
    scene = in_project
    asked = []
    original = MCPConfig.get_for_agent

    def get_for_agent(cls, agent):
        asked.append(agent)
        return original(agent)

    scene.patch.setattr(MCPConfig, "get_for_agent", classmethod(get_for_agent))
    theirs = there()
    neighbour = scene.new_chat(project=PROJECT).agent
    scene.as_it_looks_up(lambda: MCPConfig.get_for_agent(neighbour))
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)
    assert there() is theirs
    assert neighbour in asked


def test_a_wrapper_that_copies_our_mark(in_project):
    """`functools.wraps` copies what is on a function; it is asked all the same."""
    scene = in_project
    chosen = MCPConfig.get_instance()
    agent = scene.chat.agent
    before = there()
    hold = look_up.Hold(agent, look_up.frozen(chosen))
    wrapper = functools.wraps(there().__func__)(lambda cls, agent: chosen)
    MCPConfig.get_for_agent = theirs = classmethod(wrapper)
    assert look_up.servers_for(agent) is chosen
    hold.release()
    assert there() is theirs
    MCPConfig.get_for_agent = before


def test_a_wrapper_that_comes_while_a_call_is_held(in_project, other_url, other_tap):
    """It stays when the call is over, and everything works through it."""
    scene = in_project
    asked = []

    def wrap():
        original = MCPConfig.get_for_agent

        def get_for_agent(cls, agent):
            asked.append(agent)
            return original(agent)

        MCPConfig.get_for_agent = classmethod(get_for_agent)
        edit(scene, {"tools": remote(other_url)})

    before = there()
    try:
        scene.as_it_looks_up(wrap)
        scene.call()
        scene.expect_allowed(statuses=HEALTHY)
        assert asked == [scene.chat.agent]
        theirs = there()
        scene.patch.undo()
        scene.call()
        assert there() is theirs
        assert scene.chat.records[-1]["reason"] == "url_mismatch"
    finally:
        MCPConfig.get_for_agent = before
    assert other_tap.count(CALL) == 0


def in_another_task(original):
    async def execute(tool, **arguments):
        return await asyncio.wait_for(asyncio.create_task(original(tool, **arguments)), 20)

    return execute


def in_another_thread(original):
    async def execute(tool, **arguments):
        return await asyncio.to_thread(lambda: asyncio.run(original(tool, **arguments)))

    return execute


def after_a_while(original):
    async def execute(tool, **arguments):
        await asyncio.sleep(0.05)
        return await original(tool, **arguments)

    return execute


def twice(original):
    async def execute(tool, **arguments):
        await original(tool, **arguments)
        return await original(tool, **arguments)

    return execute


@pytest.mark.parametrize("wrap", [in_another_task, in_another_thread, after_a_while, twice])
def test_a_plugin_that_wraps_the_execution(in_project, other_url, other_tap, wrap):
    """However it runs the tool, that goes where it was checked to go."""
    scene = in_project
    scene.as_it_looks_up(lambda: edit(scene, {"tools": remote(other_url)}))
    scene.patch.setattr(MCPTool, "execute", wrap(MCPTool.execute))
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached(2 if wrap is twice else 1)
    assert other_tap.count(CALL) == 0


def never(tool):
    """Look nothing up."""


def and_no_more(tool):
    """Look up and do nothing with what is found."""
    MCPConfig.get_for_agent(tool.agent)


@pytest.mark.parametrize("look", [never, and_no_more])
def test_an_execution_that_calls_nothing_that_was_checked(in_project, look):
    """Nobody can tell where it went: its answer is withheld."""

    async def execute(tool, **_):
        look(tool)
        return Response(message="echo: from elsewhere", break_loop=False)

    in_project.patch.setattr(MCPTool, "execute", execute)
    in_project.call()
    in_project.expect_refused(
        "binding_changed_during_call",
        preflights=1,
        statuses=HEALTHY,
        superseded=True,
        is_withheld=True,
    )
    assert "from elsewhere" not in str(in_project.chat.shown)


# Two copies of the plugin


def test_two_copies_of_the_room(in_project, other_url):
    """Each holds its own call, in whatever order they begin and end."""
    spec = importlib.util.spec_from_file_location(f"{look_up.__name__}_again", look_up.__file__)
    second = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(second)
    one, two = (in_project.new_chat(project=PROJECT).agent for _ in range(2))
    for first_to_end in (0, 1):
        holds = [
            copy.Hold(agent, copy.frozen(copy.servers_for(agent)))
            for copy, agent in ((look_up, one), (second, two))
        ]
        assert [MCPConfig.get_for_agent(agent) for agent in (one, two)] == [
            hold.servers for hold in holds
        ]
        assert second.servers_for(one) is look_up.servers_for(two)
        holds.pop(first_to_end).release()
        holds.pop().release()
        assert MCPConfig.get_for_agent(one) is MCPConfig.get_for_agent(two)


@pytest.fixture
def reload_plugin(scene):
    """Have all modules of all user plugins forgotten, as the host does when one changes."""
    plugins = usr.plugins
    saved = {name: module for name, module in sys.modules.items() if name.startswith("usr.plugins")}

    def reload_plugin():
        for name in [name for name in sys.modules if name.startswith("usr.plugins")]:
            del sys.modules[name]
        scene.operator.forget_extensions()

    yield reload_plugin
    reload_plugin()
    sys.modules.update(saved)
    usr.plugins = plugins


def test_a_reload_while_a_call_is_held(in_project, other_url, other_tap, reload_plugin):
    """The call ends as it began; the next is the new copy's, also within the first."""
    scene = in_project
    second = scene.new_chat(project=PROJECT)
    original = MCPTool.execute
    held = []

    async def execute(tool, **arguments):
        if not held:
            held.append(there())
            reload_plugin()
            await second.native_turn(("tools.echo", {"text": "second"}))
            edit(scene, {"tools": remote(other_url)})
        return await original(tool, **arguments)

    scene.patch.setattr(MCPTool, "execute", execute)
    scene.call()
    assert sys.modules[look_up.__name__] is not look_up
    for chat in (scene.chat, second):
        (record,) = chat.records
        assert record["decision"] == "allowed"
    scene.expect_reached(2)
    assert other_tap.count(CALL) == 0
    scene.call()
    assert scene.chat.records[-1]["reason"] == "url_mismatch"
