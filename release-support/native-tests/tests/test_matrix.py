"""Every way in to a protected server, against every outcome.

A row is a way in, a column an outcome that the operator, the service or another plugin brings
about. A cell holds the reason of the decision, how often the service was asked, and that a
refused call reached the tool server with not one byte. Where a row has another outcome than its
column, the row's `instead` says which.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent import Agent, LoopData
from helpers.mcp_handler import MCPConfig, MCPTool
from local_guild.wire import Send, answer
from stage import chats
from stage.tool_server import HOSTILE_TOOLS

CALL = b'"method":"tools/call"'
PARENT = "_parallel_parent_context_id"
ECHO = {"text": "hello"}
WAIT_SECONDS = 20.0

COLUMNS = {
    "allowed": None,
    "url_mismatch": "url_mismatch",
    "evidence_unavailable": "evidence_unavailable",
    "do_not_delegate": "do_not_delegate",
    "binding_changed": "binding_changed",
    "swapped": None,
}
ASKS = {None, "evidence_unavailable", "do_not_delegate", "binding_changed"}

# Outcomes that are no decision of the gate.
UNPROTECTED = "unprotected"  # neither name nor URL is approved: it runs as without the gate


def always(outcome, *, but=()):
    """Say that a row comes out the same in every column."""
    return {column: outcome for column in COLUMNS if column not in but}


# Ways in


def native(name="tools.echo"):
    return lambda scene: scene.call(name)


def native_alias(scene):
    scene.call(scene.chat.use_aliases()["tools.echo"])


def native_turn(scene):
    scene.chat.native(("tools.echo", ECHO), ("tools.echo", ECHO))


def legacy(name="tools.echo"):
    return lambda scene: scene.chat.legacy(name, ECHO)


def legacy_alias(scene):
    scene.chat.legacy(scene.chat.use_aliases()["tools.echo"], ECHO)


def parallel(count):
    return lambda scene: scene.chat.parallel(*[("tools.echo", ECHO)] * count)


def subordinate_agent(scene):
    """A second agent of the same chat makes the call."""
    main = scene.chat.agent
    second = Agent(1, main.config, scene.chat.context)
    main.set_data(Agent.DATA_NAME_SUBORDINATE, second)
    second.set_data(Agent.DATA_NAME_SUPERIOR, main)
    second.loop_data = LoopData()
    scene.chat.agent = second
    scene.call()


def child_of_a_subordinate(scene):
    """A subordinate in a chat of its own, of another profile, has a parallel child."""
    project = scene.chat.context.get_data("project")
    child = scene.new_chat(project=project, profile="developer")
    child.context.set_data(PARENT, scene.chat.context.id)
    scene.chat = child
    scene.chat.parallel(("tools.echo", ECHO))


def interleaved(second, *, then="stays"):
    """Two turns on one agent: the second begins before the first asks the hooks.

    The second stays bound until the first has ended, ends before the first goes on, or goes on
    like it.
    """

    def go(scene):
        original = MCPTool.before_execution
        first_waits, second_is_bound, first_is_over = (asyncio.Event() for _ in range(3))

        async def before_execution(tool, **arguments):
            await original(tool, **arguments)
            if not first_waits.is_set():
                first_waits.set()
                await second_is_bound.wait()
            elif then != "ends":
                second_is_bound.set()
                if then == "stays":
                    await first_is_over.wait()

        async def both():
            first = asyncio.create_task(scene.chat.native_turn(("tools.echo", ECHO)))
            await first_waits.wait()
            other = asyncio.create_task(scene.chat.native_turn((second, ECHO)))
            if then == "ends":
                await other
                second_is_bound.set()
            await first
            first_is_over.set()
            await other

        scene.patch.setattr(MCPTool, "before_execution", before_execution)
        chats.run(both())

    return go


# What the operator has set up


def remote(url, **changed):
    return {"type": "streamable-http", "url": url, **changed}


def plain(scene, other_url):
    scene.use_mcp(tools=scene.url)


def with_neighbour(scene, other_url):
    scene.use_mcp(tools=scene.url, others=other_url)


def only(name="tools", path="/mcp", **changed):
    def arrange(scene, other_url):
        scene.use_mcp(**{name: remote(scene.endpoint + path, **changed)})

    return arrange


def in_project(name="tools", **changed):
    def arrange(scene, other_url):
        plain(scene, other_url)
        scene.open_project({name: remote(scene.url, **changed)})

    return arrange


def project_with_other_url(scene, other_url):
    plain(scene, other_url)
    scene.open_project({"tools": remote(other_url)})


def project_that_inherits(scene, other_url):
    plain(scene, other_url)
    scene.open_project({})


def two_of_one_name(scene, other_url):
    kind = {"type": "streamable-http"}
    scene.operator.set_mcp(
        [{"name": "To-ols", "url": scene.url, **kind}, {"name": "to ols", "url": other_url, **kind}]
    )


@dataclass(frozen=True)
class Row:
    """One way in.

    Attributes:
        go: makes the calls.
        arrange: sets the MCP servers and opens the chat.
        protected: the name that the operator protects.
        path: the path of the approved URL.
        calls: how many calls are made.
        judged: how many of them are judged when the first is refused.
        at_once: how many wait for the service at the same time.
        elsewhere: calls that an unprotected neighbour gets.
        instead: outcome by column, where it is not the column's own; several reasons are those
            of its calls, one after the other.
    """

    go: Callable[[Any], object]
    arrange: Callable[[Any, str], object] = plain
    protected: str = "tools"
    path: str = "/mcp"
    calls: int = 1
    judged: int = 1
    at_once: int = 1
    elsewhere: int = 0
    instead: Mapping[str, Any] = field(default_factory=dict)


ALTERED = always("transport_altered", but=["url_mismatch"])
ROWS = {
    "native": Row(native()),
    "native, by alias": Row(native_alias),
    "native, two in a turn": Row(native_turn, calls=2),
    "legacy": Row(legacy()),
    "legacy, by alias": Row(legacy_alias),
    "legacy, with an action": Row(legacy("tools.echo:go")),
    "parallel, two": Row(parallel(2), calls=2, judged=2, at_once=2),
    "parallel, eight": Row(parallel(8), calls=8, judged=8, at_once=8),
    "subordinate agent": Row(subordinate_agent),
    "parallel child of a subordinate of another profile": Row(child_of_a_subordinate),
    "project that inherits the server": Row(native(), project_that_inherits),
    "project that gives the name another URL": Row(
        native(), project_with_other_url, instead=always("url_mismatch")
    ),
    "project that adds a harmless header": Row(native(), in_project(headers={"X-Key": "1"})),
    "project that names another host": Row(
        native(), in_project(headers={"Host": "other.example.com"}), instead=ALTERED
    ),
    "project that turns TLS verification off": Row(
        native(), in_project(verify=False), instead=ALTERED
    ),
    "server of a project only": Row(native("own.echo"), in_project("own"), protected="own"),
    "approved URL under a second name": Row(
        native("second.echo"), only("second"), instead={"url_mismatch": UNPROTECTED}
    ),
    **{f"tool named {name!r}": Row(native(f"tools.{name}")) for name in HOSTILE_TOOLS},
    "two servers whose names normalise alike": Row(
        native("to_ols.echo"),
        two_of_one_name,
        protected="to_ols",
        # A project keeps the last of two such names.
        instead={**always("server_ambiguous"), "swapped": "url_mismatch"},
    ),
    "name that is normalised": Row(
        native("my_tools_.echo"), only("My Tools!"), protected=" my-tools?"
    ),
    "disabled server": Row(native(), only(disabled=True), instead=always("server_not_configured")),
    "disabled tool": Row(
        native(),
        only(disabled_tools=["echo"]),
        instead=always("tool_not_exposed", but=["url_mismatch"]),
    ),
    "interleaved with another tool": Row(
        interleaved("others.echo"),
        with_neighbour,
        elsewhere=1,
        instead=always("dispatch_mismatch"),
    ),
    "interleaved with a call that is over": Row(
        interleaved("others.echo", then="ends"),
        with_neighbour,
        elsewhere=1,
        instead=always("dispatch_mismatch"),
    ),
    "interleaved with the same tool": Row(
        interleaved("tools.echo", then="goes on"),
        # The second has its own tool; the first finds that one, taken, or none any more.
        instead={
            "allowed": ("dispatch_mismatch", None),
            "url_mismatch": ("url_mismatch", "dispatch_mismatch"),
            "evidence_unavailable": ("dispatch_mismatch", "evidence_unavailable"),
            "do_not_delegate": ("dispatch_mismatch", "do_not_delegate"),
            "binding_changed": ("dispatch_mismatch", "binding_changed"),
            "swapped": ("dispatch_mismatch", None),
        },
    ),
    "SSE server": Row(native(), only(type="sse", path="/sse"), path="/sse"),
    "streamable-HTTP server": Row(native(), only(type="streamable-http")),
    "streamable-HTTP server by its other name": Row(native(), only(type="http-stream")),
}


def service(scene, column, at_once):
    """Return the script of the service; it answers when all who ask at once have asked."""
    everybody = threading.Barrier(at_once)
    denied = {"protocol_handshake": "failed"} if column == "do_not_delegate" else {}
    answers = scene.answers(denied)

    def play(head):
        everybody.wait(WAIT_SECONDS)
        if column == "evidence_unavailable":
            return [Send(answer(b"", status=b"500 Oh"))]
        return answers(head)

    return play


def turn_verification_off(scene):
    """What another plugin's hook does, later than ours."""

    def hook(agent, tool_name, **_):
        for server in MCPConfig.get_for_agent(agent).servers:
            scene.patch.setattr(server, "verify", False)

    return hook


def swap(scene, other_url):
    """Edit the project between the gate's last look and the host's: the approved URL leads elsewhere."""
    if not scene.chat.context.get_data("project"):
        scene.open_project({})
    project = scene.chat.context.get_data("project")
    names = [server.name for server in scene.servers_of(scene.chat) if server.name != "others"]
    edited = {name: remote(other_url) for name in names}
    scene.as_it_looks_up(lambda: scene.operator.edit_project_mcp(project, edited))


CELLS = [
    pytest.param(row, column, id=f"{name}: {column}")
    for name, row in ROWS.items()
    for column in COLUMNS
]


@pytest.mark.parametrize(("row", "column"), CELLS)
def test_matrix(scene, other_url, other_tap, row, column):
    """The decision and its reason, the preflights, and what the tool servers got."""
    scene.serve(service(scene, column, row.at_once))
    row.arrange(scene, other_url)
    approved = scene.endpoint + row.path + "/" * (column == "url_mismatch")
    scene.operator.configure(
        scene.settings(protected_servers={row.protected: approved}, timeout_seconds=15)
    )
    if column == "binding_changed":
        scene.add_hook("tool_execute_before", turn_verification_off(scene))
    if column == "swapped":
        swap(scene, other_url)
    scene.tap.reset()
    other_tap.reset()

    row.go(scene)

    outcome = row.instead.get(column, COLUMNS[column])
    assert other_tap.count(CALL) == row.elsewhere
    if outcome == UNPROTECTED:
        scene.expect_untouched()
        assert scene.tap.count(CALL) == row.calls
        return
    judged = row.calls if outcome is None else row.judged
    reasons = list(outcome) if isinstance(outcome, tuple) else [outcome] * judged
    found = [record["reason"] for record in scene.chat.records]
    if column == "swapped" and reasons == [None] * row.calls:
        # The edit is made by the first call that begins, and the others of the row may see it.
        assert len(found) == row.calls and None in found
        assert set(found) <= {None, "url_mismatch", "binding_changed"}
        reasons = found
    assert found == reasons
    assert scene.preflights == sum(reason in ASKS for reason in reasons)
    if None in reasons:
        scene.expect_reached(reasons.count(None))
    else:
        assert scene.tap.connections == 0
