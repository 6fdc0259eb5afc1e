"""Every way in which a call can reach a tool, and every kind of server behind its name."""

from __future__ import annotations

import asyncio

import pytest
from helpers.mcp_handler import MCPConfig, MCPTool
from stage import chats
from stage.tool_server import stdio_server

DENIED = {"protocol_handshake": "failed"}
LINE_BREAK = "MARKER line\nbreak"
MARKUP = 'MARKER <b>\x1b[31m"quoted"'
TOOLS = {
    "plain": "echo",
    "dots": "dotted.na.me",
    "colon": "co:lon",
    "line_break": LINE_BREAK,
    "markup": MARKUP,
}


def native(scene, name):
    scene.call(name)


def native_alias(scene, name):
    scene.call(scene.chat.use_aliases()[name])


def legacy(scene, name):
    scene.chat.legacy(name, {"text": "hello"})


def legacy_alias(scene, name):
    """The hook is told the alias, and the bound tool carries the canonical name."""
    scene.chat.legacy(scene.chat.use_aliases()[name], {"text": "hello"})


FORMS = [native, native_alias, legacy, legacy_alias]
CALLS = [
    pytest.param(form, f"tools.{tool}", id=f"{form.__name__}-{kind}")
    for form in FORMS
    for kind, tool in TOOLS.items()
    # In a legacy text a colon separates an action from the tool's name.
    if (form, kind) != (legacy, "colon")
]


@pytest.mark.parametrize(("form", "name"), CALLS)
def test_a_call_is_allowed_in_every_form(scene, form, name):
    """One preflight, one record, one call of the tool that was meant."""
    scene.protect()
    form(scene, name)
    record = scene.expect_allowed(statuses={})
    assert record["server"] == "tools"
    scene.expect_reached()


@pytest.mark.parametrize(("form", "name"), CALLS)
def test_a_call_is_refused_in_every_form(scene, form, name):
    """The same line, whatever the tool is called."""
    scene.serve(scene.answers(DENIED))
    scene.protect()
    form(scene, name)
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)
    assert "MARKER" not in "".join(scene.chat.shown)


def test_a_call_with_an_action(scene):
    """`server.tool:action` is a call of `server.tool`."""
    scene.serve(scene.answers(DENIED))
    scene.protect()
    scene.chat.legacy("tools.echo:go", {"text": "hello"})
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)


def test_a_colon_in_a_legacy_text_never_reaches_another_tool(scene):
    """The host takes `lon` for an action of `tools.co`, which does not exist."""
    scene.protect()
    scene.chat.legacy("tools.co:lon", {"text": "hello"})
    scene.expect_refused("tool_not_exposed")


def test_later_calls_of_a_refused_turn_are_not_made(scene, other_url, other_tap):
    """The host skips them, protected or not."""
    scene.serve(scene.answers(DENIED))
    scene.protect()
    scene.use_mcp(tools=scene.url, others=other_url)
    scene.tap.reset()
    other_tap.reset()
    echo = {"text": "hello"}
    scene.chat.native(("tools.echo", echo), ("others.echo", echo), ("tools.echo", echo))
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)
    assert other_tap.connections == 0


def test_earlier_calls_of_a_refused_turn_were_made(scene, other_url, other_tap):
    """The refusal of the second call does not undo the first."""
    scene.serve(scene.answers(DENIED))
    scene.use_mcp(tools=scene.url, others=other_url)
    scene.operator.configure(scene.settings())
    scene.tap.reset()
    echo = {"text": "first"}
    scene.chat.native(("others.echo", echo), ("tools.echo", echo), ("others.echo", echo))
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)
    assert other_tap.count(b'"method":"tools/call"') == 1


def test_each_call_of_a_turn_is_judged(scene):
    """Three calls in one turn: three records, and with no cache three preflights."""
    scene.protect()
    scene.chat.native(*[("tools.echo", {"text": str(number)}) for number in range(3)])
    assert scene.preflights == 3
    assert [record["decision"] for record in scene.chat.records] == ["allowed"] * 3
    assert [text.rpartition("echo: ")[2][0] for text in scene.chat.shown[-3:]] == ["0", "1", "2"]


# Parallel children


@pytest.mark.parametrize("count", [2, 8])
def test_parallel_children_are_refused(scene, count):
    """Each job's error is exactly the line; the parent's chat keeps what its children got."""
    scene.serve(scene.answers(DENIED))
    scene.protect()
    done = scene.chat.parallel(*[("tools.echo", {"text": str(n)}) for n in range(count)])
    line = scene.line("do_not_delegate", "operator", statuses=DENIED)
    assert [scene.without_times(job["error"]) for job in done] == [line] * count
    assert scene.preflights == count
    assert scene.tap.connections == 0
    assert [record["reason"] for record in scene.chat.records] == ["do_not_delegate"] * count
    assert len(scene.chat.log_lines) == count


@pytest.mark.parametrize("count", [2, 8])
def test_parallel_children_are_allowed(scene, count):
    """All on one preflight, where evidence may be shared."""
    scene.protect(cache_ttl_seconds=300)
    done = scene.chat.parallel(*[("tools.echo", {"text": str(n)}) for n in range(count)])
    assert [job["result"] for job in done] == [f"echo: {n}" for n in range(count)]
    assert scene.preflights == 1
    scene.expect_reached(count)


def test_parallel_children_are_judged_one_by_one(scene, other_url):
    """A refused child beside others that are allowed or not protected."""
    scene.serve()
    scene.use_mcp(tools=scene.url, others=other_url)
    scene.operator.configure(
        scene.settings(protected_servers={"tools": scene.url, "others": scene.url})
    )
    echo = {"text": "hello"}
    done = scene.chat.parallel(("tools.echo", echo), ("others.echo", echo), ("note", {}))
    assert [job.get("result") for job in done] == ["echo: hello", None, "noted"]
    assert done[1]["error"] == scene.line("url_mismatch", "operator", server="others")


# The announced and the bound tool


@pytest.fixture
def mismatch(scene, other_url):
    """A scene with a protected and an unprotected server."""
    scene.protect()
    scene.use_mcp(tools=scene.url, others=other_url)
    scene.tap.reset()
    return scene


def bound(scene, name):
    """Return a tool as the host would bind it; None for no tool."""
    if name is None:
        return None
    tool = MCPConfig.get_instance().get_tool(scene.chat.agent, name)
    return tool or scene.chat.agent.get_tool(name, None, {}, "", scene.chat.agent.loop_data)


MISMATCHES = [
    ("tools.echo", None),
    ("tools.echo", "others.echo"),
    ("others.echo", "tools.echo"),
    ("tools.echo", "note"),
    ("note", "tools.echo"),
    ("tools.dotted.na.me", "tools.echo"),
    ("Tools.echo", None),
    ("", "tools.echo"),
]


@pytest.mark.parametrize(("announced", "current"), MISMATCHES)
def test_a_mismatch_is_refused_when_either_name_is_protected(mismatch, announced, current):
    """Nobody can tell which of the two would run."""
    mismatch.hook(announced, bound(mismatch, current))
    mismatch.expect_refused("dispatch_mismatch", None, "retry_later", endpoint=None)


def test_a_mismatch_is_recognised_behind_an_alias(mismatch):
    """An alias is resolved before anything is compared."""
    alias = mismatch.chat.use_aliases()["tools.echo"]
    mismatch.hook(alias, bound(mismatch, "others.echo"))
    mismatch.expect_refused("dispatch_mismatch", None, "retry_later", endpoint=None)


@pytest.mark.parametrize(
    ("announced", "current"),
    [("others.echo", None), ("others.echo", "note"), ("note", "others.echo"), ("note", None)],
)
def test_a_mismatch_of_unprotected_names_is_untouched(mismatch, announced, current):
    """It is none of the gate's business."""
    mismatch.hook(announced, bound(mismatch, current))
    mismatch.expect_untouched()
    assert mismatch.chat.shown == mismatch.new_chat().shown


@pytest.mark.parametrize("second_is_over", [False, True], ids=["other_tool", "no_tool"])
def test_interleaved_dispatches(mismatch, second_is_over):
    """Two turns on one agent: the first finds the tool of the second bound, or none at all."""
    scene = mismatch
    original = MCPTool.before_execution
    is_bound, may_end = asyncio.Event(), asyncio.Event()

    async def before_execution(tool, **arguments):
        await original(tool, **arguments)
        if tool.name == "tools.echo":
            await is_bound.wait()
        elif not second_is_over:
            is_bound.set()
            await may_end.wait()

    async def both():
        first = asyncio.create_task(scene.chat.native_turn(("tools.echo", {"text": "first"})))
        second = asyncio.create_task(scene.chat.native_turn(("others.echo", {"text": "second"})))
        if second_is_over:
            await second
            is_bound.set()
        await first
        refused = scene.expect_refused("dispatch_mismatch", None, "retry_later", endpoint=None)
        may_end.set()
        await second
        return refused

    scene.patch.setattr(MCPTool, "before_execution", before_execution)
    chats.run(both())
    assert sum("echo: second" in text for text in scene.chat.shown) == 1


# Names


def test_servers_whose_names_normalise_alike(scene, other_url):
    """Which one would be called is the order of a list: refused."""
    scene.serve()
    kind = {"type": "streamable-http"}
    scene.operator.set_mcp(
        [{"name": "To-ols", "url": scene.url, **kind}, {"name": "to ols", "url": other_url, **kind}]
    )
    scene.operator.configure(scene.settings(protected_servers={"to_ols": scene.url}))
    scene.tap.reset()
    scene.call("to_ols.echo")
    scene.expect_refused("server_ambiguous", server="to_ols")


def test_a_protected_name_is_normalised_like_the_hosts_names(scene):
    """The operator may write the name as in the MCP settings."""
    scene.serve()
    scene.use_mcp(**{"My Tools!": scene.url})
    scene.operator.configure(scene.settings(protected_servers={" my-tools?": scene.url}))
    scene.tap.reset()
    scene.call("my_tools_.echo")
    scene.expect_allowed(server="my_tools_", statuses={})
    scene.expect_reached()


def test_protected_names_that_normalise_alike_are_an_error(scene):
    """Only one of two URLs could be meant."""
    scene.protect(protected_servers={"tools": scene.url, "TOOLS": f"{scene.url}/"})
    scene.call()
    scene.expect_invalid()


@pytest.mark.parametrize(
    ("switched_off", "reason"),
    [
        ({"disabled": True}, "server_not_configured"),
        ({"disabled_tools": ["echo"]}, "tool_not_exposed"),
    ],
)
def test_a_disabled_server_or_tool(scene, switched_off, reason):
    """The host binds a tool of its own that does not exist; the gate says why it is so."""
    scene.serve()
    scene.use_mcp(tools={"type": "streamable-http", "url": scene.url, **switched_off})
    scene.operator.configure(scene.settings())
    scene.tap.reset()
    scene.call()
    scene.expect_refused(reason)


def test_a_local_tool_in_the_place_of_a_protected_one(scene):
    """The dispatcher may hold the real one: two calls of one name interleave."""
    scene.protect()
    agent = scene.chat.agent
    missing = agent.get_tool("tools.echo", None, {}, "", None)
    scene.between(lambda: setattr(agent.loop_data, "current_tool", missing))
    scene.call()
    scene.expect_refused("dispatch_mismatch", None, "retry_later")


def test_an_alias_that_the_agent_has_forgotten(scene):
    """Another dispatch has ended, and the next model call renewed the map of aliases."""
    scene.protect()
    agent = scene.chat.agent
    alias = scene.chat.use_aliases()["tools.echo"]

    def forget():
        agent.loop_data.current_tool = None
        agent.set_data("responses_tool_name_map", {})

    scene.between(forget)
    scene.chat.legacy(alias, {"text": "hello"})
    scene.expect_refused("dispatch_mismatch", None, "retry_later", endpoint=None)


# Servers


@pytest.mark.parametrize("kind", ["sse", "streamable-http", "http-stream"])
def test_every_kind_of_remote_server(scene, kind):
    """The URL is approved byte for byte, whatever is spoken there."""
    path = "/sse" if kind == "sse" else "/mcp"
    url = scene.endpoint + path
    scene.serve()
    scene.use_mcp(tools={"type": kind, "url": url})
    scene.tap.reset()
    scene.operator.configure(scene.settings(protected_servers={"tools": f"{url}/"}))
    scene.call()
    scene.expect_refused("url_mismatch")
    scene.operator.configure(scene.settings(protected_servers={"tools": url}))
    scene.chat = scene.new_chat()
    scene.call()
    scene.expect_allowed(statuses={})
    scene.expect_reached()


def test_an_approved_url_is_protected_under_every_name(scene):
    """A second name is no way around the gate; the record names the approval."""
    scene.serve(scene.answers(DENIED))
    scene.use_mcp(second=scene.url)
    scene.operator.configure(scene.settings())
    scene.tap.reset()
    scene.call("second.echo")
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)


@pytest.mark.parametrize("altered", [{"verify": False}, {"headers": {"Host": "other.example.com"}}])
def test_an_approved_url_under_a_second_name_keeps_its_rules(scene, altered):
    """Its transport is looked at like that of the first name."""
    scene.serve()
    scene.use_mcp(tools=scene.url, second={"type": "streamable-http", "url": scene.url, **altered})
    scene.operator.configure(scene.settings())
    scene.tap.reset()
    scene.call("second.echo")
    scene.expect_refused("transport_altered")


def test_a_local_server_under_a_protected_name(scene):
    """A process of this machine in the place of the approved server: never started."""
    scene.serve()
    scene.use_mcp(tools=stdio_server())
    scene.operator.configure(scene.settings())
    scene.tap.reset()
    scene.call()
    scene.expect_refused("server_not_remote")


# Projects


def tools_in_project(scene, **changed):
    return {"tools": {"type": "streamable-http", "url": scene.url, **changed}}


def test_a_project_that_inherits_the_server(scene):
    """Nothing is changed, nothing is refused."""
    scene.protect()
    scene.open_project({})
    scene.call()
    scene.expect_allowed(statuses={})
    scene.expect_reached()


def test_a_project_that_gives_the_name_another_url(scene, other_url, other_tap):
    """Refused in the project, and allowed outside of it."""
    scene.protect()
    scene.open_project(tools_in_project(scene, url=other_url))
    other_tap.reset()
    scene.call()
    scene.expect_refused("url_mismatch")
    assert other_tap.connections == 0
    scene.chat = scene.new_chat()
    scene.call()
    scene.expect_allowed(statuses={})


@pytest.mark.parametrize(
    "altered",
    [
        {"verify": False},
        {"headers": {"Host": "other.example.com"}},
        {"headers": {"X-Forwarded-Host": "other.example.com"}},
        {"headers": {"x-envoy-original-dst-host": "192.0.2.1:80"}},
        {"headers": {"X.Forwarded.Host": "other.example.com"}},
    ],
    ids=["verify", "host", "forwarded_host", "envoy", "folded"],
)
def test_a_project_that_keeps_the_url_and_alters_the_way_to_it(scene, altered):
    """The same URL can lead elsewhere."""
    scene.protect()
    scene.open_project(tools_in_project(scene, **altered))
    scene.call()
    scene.expect_refused("transport_altered")


@pytest.mark.parametrize("name", ["Authorization", "X_Key", "X-Team"])
def test_a_server_that_gets_the_headers_that_its_entry_names(scene, name):
    """Any other may mean something to a proxy of somebody's own."""
    scene.use_mcp(tools=scene.url)
    entry = {"url": scene.url, "headers": ["authorization", "X-Key"]}
    scene.protect(protected_servers={"tools": entry})
    scene.open_project(tools_in_project(scene, headers={name: "1"}))
    scene.call()
    if name == "X-Team":
        scene.expect_refused("transport_altered")
        return
    scene.expect_allowed(statuses={})
    scene.expect_reached()


@pytest.mark.parametrize("name", ["X-Key", "Host"])
def test_a_project_that_adds_a_harmless_header(scene, name):
    """A key of the project's own does not lead elsewhere, nor does the URL's own host."""
    scene.protect()
    headers = {name: scene.endpoint.removeprefix("http://")}
    scene.open_project(tools_in_project(scene, headers=headers))
    scene.call()
    scene.expect_allowed(statuses={})
    scene.expect_reached()


def test_a_server_of_a_project_only(scene, other_url):
    """Not listed: untouched."""
    scene.protect()
    scene.open_project({"own": {"type": "streamable-http", "url": other_url}})
    scene.call("own.echo")
    assert "echo: hello" in scene.chat.shown[-1]
    scene.expect_untouched()


def test_a_server_of_a_project_only_at_an_approved_url(scene):
    """Listed by its URL: protected."""
    scene.serve(scene.answers(DENIED))
    scene.protect()
    scene.open_project({"own": {"type": "streamable-http", "url": scene.url}})
    scene.call("own.echo")
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)
