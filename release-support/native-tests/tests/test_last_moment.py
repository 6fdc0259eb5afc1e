"""What happens between the gate's decision and the tool's answer.

Other hooks run after ours, the host looks the server up anew, and the call takes its time: a
binding that changes before the tool begins refuses the call, one that changes while it runs
withholds the result. What cannot be seen from inside is shown at the end, as a limit.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import threading

import pytest
from helpers.errors import RepairableException
from helpers.mcp_handler import MCPConfig, MCPTool
from helpers.tool import Response
from stage import chats
from stage.boot import PLUGIN
from usr.plugins.agent_guild_preflight.helpers import host
from usr.plugins.agent_guild_preflight.helpers.denial import GuildPreflightError
from usr.plugins.agent_guild_preflight.helpers.execution import around_execution

HEALTHY: dict[str, str] = {}
SECRET = "SECRET-5b1e"
CALL = b'"method":"tools/call"'
WAIT_SECONDS = 20.0


def native(scene, name="tools.echo", text=SECRET):
    scene.chat.native((name, {"text": text}))


def legacy(scene, name="tools.echo", text=SECRET):
    scene.chat.legacy(name, {"text": text})


def parallel(scene, name="tools.echo", text=SECRET):
    """Make the call in a parallel child; gives what its parent is told."""
    (job,) = scene.chat.parallel((name, {"text": text}))
    return job.get("error") or job.get("result")


WAYS = [native, legacy, parallel]


# Before the tool begins


def other_url(scene, agent):
    scene.alter(url=f"{scene.url}/")


def removed(scene, agent):
    scene.replace_servers()


def second_server(scene, agent):
    scene.replace_servers(scene.live, scene.live)


def header_added(scene, agent):
    scene.alter(headers={"X-Team": "other"})


def host_header(scene, agent):
    scene.alter(headers={"Host": "other.example.com"})


def tls_verification(scene, agent):
    scene.alter(verify=False)


def tool_disabled(scene, agent):
    scene.alter(disabled_tools=["echo"])


def tool_renamed(scene, agent):
    """The bound tool now names another tool of the same server."""
    agent.loop_data.current_tool.name = "tools.dotted.na.me"


CHANGES = [
    other_url,
    removed,
    second_server,
    header_added,
    host_header,
    tls_verification,
    tool_disabled,
    tool_renamed,
]


@pytest.fixture
def change_later(scene):
    """Make a change in a later hook; gives the ids of the records that the hook found."""
    scene.protect()
    found = []

    def change_later(change):
        def hook(agent, **_):
            found.extend(record["id"] for record in agent.get_data(f"{PLUGIN}.decisions"))
            change(scene, agent)

        scene.add_hook("tool_execute_before", hook)
        return found

    return change_later


def test_a_check_that_fails_itself(scene, change_later):
    """It refuses, says nothing but its class, to the operator, and takes the record's place."""

    def fail(*_, **__):
        raise LookupError(SECRET)

    found = change_later(lambda *_: scene.patch.setattr(host, "look", fail))
    native(scene)
    (record,) = scene.chat.records
    assert [record["id"]] == found
    assert (record["decision"], record["reason"]) == ("refused", "internal_error")
    assert scene.told() == scene.line("internal_error", "operator", statuses=HEALTHY)
    assert re.fullmatch("LookupError in gate, line [0-9]+", record["unforeseen"])
    assert scene.chat.log_lines[-1]["kvps"]["unforeseen"] == record["unforeseen"]
    assert SECRET not in json.dumps([record, scene.told(), scene.chat.log_lines])
    assert scene.tap.count(CALL) == 0


def test_what_was_tolerated_is_no_part_of_a_later_refusal(scene, change_later):
    """The record says why the call was refused; nothing was tolerated in that."""
    scene.serve(scene.answers({"agent_card_resolves": "failed"}))
    scene.protect(policy={"on_caution": "allow"})
    change_later(other_url)
    native(scene)
    (record,) = scene.chat.records
    assert (record["reason"], record["tolerated"]) == ("binding_changed", [])
    assert scene.tap.count(CALL) == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_later_hook_that_changes_the_binding(scene, change_later, change, way):
    """The call was allowed, and is refused as it begins: the same record, and not one byte sent."""
    allowed = change_later(change)
    told = way(scene)
    record = scene.expect_superseded(told)
    assert [record["id"]] == allowed
    assert record["verdict"] == "no_failed_checks"


def two_dispatches_of_one_tool(scene, between):
    """Two turns on one agent: the hook of the first finds the tool of the second.

    Args:
        between: runs when the first has been allowed, and its own tool has yet to begin.
    """
    original = MCPTool.before_execution
    order = []
    second_is_bound, first_is_over = asyncio.Event(), asyncio.Event()

    async def before_execution(tool, **arguments):
        await original(tool, **arguments)
        order.append(tool)
        if len(order) == 1:
            await second_is_bound.wait()
        else:
            second_is_bound.set()
            await first_is_over.wait()

    def hook(agent, **_):
        assert agent.loop_data.current_tool is order[1]
        between()

    async def both():
        first = asyncio.create_task(scene.chat.native_turn(("tools.echo", {"text": "first"})))
        while not order:
            await asyncio.sleep(0)
        second = asyncio.create_task(scene.chat.native_turn(("tools.echo", {"text": "second"})))
        await first
        first_is_over.set()
        await second

    scene.patch.setattr(MCPTool, "before_execution", before_execution)
    scene.add_hook("tool_execute_before", hook)
    chats.run(both())
    return order


@pytest.mark.parametrize("change", [other_url, header_added, tool_disabled])
def test_the_tool_that_runs_is_not_the_one_that_the_hook_found(scene, change):
    scene.protect()
    two_dispatches_of_one_tool(scene, lambda: change(scene, scene.chat.agent))
    reasons = [record["reason"] for record in scene.chat.records]
    assert reasons[0] == "binding_changed"
    assert len(reasons) == 2
    scene.expect_reached(0)


def test_nothing_stays_with_the_tool_that_the_hook_did_not_find(scene):
    """It is checked each time that it runs, and the framework's class is as it was."""
    scene.protect()
    tool, _ = two_dispatches_of_one_tool(scene, lambda: None)
    assert [record["decision"] for record in scene.chat.records] == ["allowed", "refused"]
    assert scene.chat.records[1]["reason"] == "dispatch_mismatch"
    scene.expect_reached(1)
    assert MCPTool.execute.__module__ == MCPTool.__module__
    other_url(scene, scene.chat.agent)
    with pytest.raises(GuildPreflightError, match="binding_changed"):
        chats.run(tool.execute(text="again"))
    scene.expect_reached(1)


def test_a_call_that_a_later_hook_refuses(scene, change_later):
    """Its tool never begins; once it is gone, the next call takes away what waits for it."""
    words = ["not today"]

    def refuse_once(*_):
        if words:
            raise RepairableException(words.pop())

    change_later(refuse_once)
    scene.call()
    scene.expect_reached(0)
    gc.collect()
    scene.call()
    scene.expect_reached(1)
    assert MCPTool.execute.__module__ == MCPTool.__module__


def test_a_check_does_not_wait_for_the_call_after_the_next(scene, change_later):
    """One call is refused by a later hook; the next, in the same turn, is protected no more."""
    words = ["not today"]

    def refuse_once(*_):
        if words:
            raise RepairableException(words.pop())

    async def turns():
        await scene.chat.native_turn(("tools.echo", {"text": "first"}))
        scene.operator.configure(scene.settings(protected_servers={}))
        header_added(scene, scene.chat.agent)
        await scene.chat.native_turn(("tools.echo", {"text": "second"}))

    change_later(refuse_once)
    chats.run(turns())
    assert "echo: second" in scene.chat.shown[-1]
    assert [record["decision"] for record in scene.chat.records] == ["allowed"]


@pytest.fixture
def checking(scene):
    """Return what puts a check in front of a tool, and what has come of it so far."""
    scene.protect()
    checked = []

    class Held:
        def release(self):
            checked.append("released")

    def before():
        checked.append("before")
        return Held()

    def put_before(tool):
        around_execution(tool, before, lambda _: checked.append("after"))
        return tool

    return put_before, checked


def tool_of(agent, name="tools.echo"):
    """Return a new instance of a tool, as a dispatcher makes one."""
    return MCPConfig.get_for_agent(agent).get_tool(agent, name)


def test_what_else_runs_in_the_context_of_a_call(scene, checking):
    """A hook may run a tool of its own; the check waits for the tool that was judged."""
    put_before, checked = checking
    agent, stranger = scene.chat.agent, scene.new_chat().agent

    async def run(*tools):
        put_before(tool_of(agent))
        for each in tools:
            await each.execute(text="hello")

    chats.run(run(tool_of(agent, "tools.co:lon"), tool_of(stranger)))
    assert not checked
    chats.run(run(tool_of(agent, "tools.co:lon"), tool_of(agent)))
    assert checked == ["before", "released", "after"]


def test_a_check_waits_in_two_places_and_is_made_once(scene, checking):
    """Also while the call of another keeps our function in front of the framework's."""
    put_before, checked = checking

    async def run():
        first, second = (put_before(tool_of(scene.chat.agent)) for _ in range(2))
        await asyncio.create_task(second.execute(text="hello"))
        assert checked == ["before", "released", "after"]
        await first.execute(text="hello")
        assert checked == ["before", "released", "after"] * 2

    chats.run(run())


def test_a_later_hook_that_changes_the_settings(scene, change_later, other_url, other_tap):
    """The whole configuration is replaced; the new server gets nothing either."""
    change_later(lambda scene, agent: scene.use_mcp(tools=other_url))
    native(scene)
    scene.expect_refused(
        "binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY, superseded=True
    )
    assert other_tap.count(CALL) == 0


def test_a_later_hook_while_evidence_is_kept(scene, change_later, clock):
    """With kept evidence the binding is looked at as the tool begins, all the same."""
    scene.operator.configure(scene.settings(cache_ttl_seconds=300))
    native(scene)
    scene.tap.reset()
    scene.chat = scene.new_chat()
    change_later(tls_verification)
    native(scene)
    scene.expect_refused(
        "binding_changed",
        None,
        "retry_later",
        preflights=1,
        statuses=HEALTHY,
        age=" (cached, age 0 s)",
        superseded=True,
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_later_hook_that_changes_nothing(scene, change_later, way):
    """Allowed, with its result."""
    allowed = change_later(lambda scene, agent: None)
    told = way(scene)
    assert f"echo: {SECRET}" in (told or scene.chat.shown[-1])
    (record,) = scene.chat.records
    assert record["decision"] == "allowed"
    assert [record["id"]] == allowed
    assert scene.preflights == 1
    scene.expect_reached()


# An allowed call is as it would be without the gate


@pytest.fixture
def without_plugin(scene):
    """Switch the plugin off or on, as an operator does."""
    switch = scene.operator.config_path().parent / ".toggle-0"

    def without_plugin(is_off):
        if is_off:
            switch.touch()
        else:
            switch.unlink(missing_ok=True)
        scene.operator.forget_extensions()

    yield without_plugin
    without_plugin(False)


def trace(scene, way, tool):
    """Make one call in a fresh chat and give all that is left of it, without names of files."""
    scene.chat = scene.new_chat()
    told = way(scene, f"tools.{tool}")
    items = [item.output() for item in scene.chat.context.log.logs]
    log = [
        [item[key] for key in ("type", "heading", "content", "kvps")]
        for item in items
        if not item["heading"].startswith("Agent Guild")
    ]
    text = json.dumps([told, scene.chat.agent.history.output(), log], default=str)
    return re.sub(r"(?<=/mcp/)\w+|[0-9a-f]{8}[0-9a-f-]*|\d{6,}[\d_.]*|0x[0-9a-f]+", "<id>", text)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tool", ["echo", "picture", "fail", "stall"])
def test_an_allowed_call_is_as_without_the_plugin(scene, without_plugin, tool, way):
    """Result, picture, error and timeout; hooks after it; history and log."""
    heard = []

    def after(agent, response, tool_name):
        heard.append((tool_name, response.message))
        response.message += " (seen)"

    scene.add_hook("tool_execute_after", after)
    scene.protect()
    if tool == "stall":
        scene.alter(tool_timeout=1)
    guarded = trace(scene, way, tool)
    assert [record["decision"] for record in scene.chat.records] == ["allowed"]
    without_plugin(True)
    plain = trace(scene, way, tool)
    assert scene.chat.records == []
    assert guarded == plain
    assert "(seen)" in plain
    assert len(heard) == 2
    assert heard[0][0] == heard[1][0]
    if tool != "stall":
        assert f"echo: {SECRET}" in plain
    scene.expect_reached(2)


# While the call runs


DURING = [other_url, removed, second_server, header_added, tls_verification, tool_disabled]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", DURING)
def test_a_change_while_the_call_runs(scene, change, way):
    """The call is made and its result withheld: it is in nothing that a model reads or we keep."""
    scene.protect()
    scene.tap.once(CALL, lambda: change(scene, scene.chat.agent))
    told = way(scene)
    scene.expect_refused(
        "binding_changed_during_call",
        None,
        "operator",
        preflights=1,
        statuses=HEALTHY,
        superseded=True,
        told=told,
        was_called=True,
    )
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps([*kept, scene.chat.shown, told])


def test_a_change_while_a_failing_call_runs(scene):
    """The tool's error is its text too."""
    scene.protect()
    scene.tap.once(CALL, lambda: scene.alter(verify=False))
    native(scene, "tools.fail")
    scene.expect_refused(
        "binding_changed_during_call",
        None,
        "operator",
        preflights=1,
        statuses=HEALTHY,
        superseded=True,
        was_called=True,
    )
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps([*kept, scene.chat.shown])


def test_a_withheld_result_is_heard_by_no_hook(scene):
    """`tool_execute_after` does not run for it."""
    heard = []
    scene.add_hook("tool_execute_after", lambda agent, **named: heard.append(named))
    scene.protect()
    scene.tap.once(CALL, lambda: scene.alter(verify=False))
    native(scene)
    scene.expect_reached()
    assert heard == []


def test_a_call_that_is_cancelled_while_it_runs(scene):
    """It was allowed and stays so on record; the cancellation goes its way."""
    running, release, over = (threading.Event() for _ in range(3))
    ended = []

    def hold():
        running.set()
        release.wait(WAIT_SECONDS)

    async def turn():
        try:
            await scene.chat.native_turn(("tools.echo", {"text": SECRET}))
            ended.append("finished")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            over.set()

    scene.protect()
    scene.tap.once(CALL, hold)
    turned = chats.begin(turn())
    assert running.wait(WAIT_SECONDS)
    scene.alter(verify=False)
    assert turned.cancel()
    release.set()
    assert over.wait(WAIT_SECONDS)
    assert ended == ["cancelled"]
    (record,) = scene.chat.records
    assert record["decision"] == "allowed"
    assert len(scene.chat.log_lines) == 1
    assert SECRET not in "".join(scene.chat.shown)


# What it costs


@pytest.mark.parametrize("project", [False, True], ids=["no_project", "project"])
@pytest.mark.parametrize("way", WAYS)
def test_look_ups_of_ours(scene, look_ups, clock, way, project):
    """Two for a call with kept evidence; a preflight, which can be waited for, adds one."""
    scene.protect(cache_ttl_seconds=300)
    if project:
        scene.open_project({})
    look_ups.clear()
    way(scene)
    assert len(look_ups) == 3
    look_ups.clear()
    way(scene)
    assert len(look_ups) == 2
    assert scene.preflights == 1
    scene.expect_reached(2)


# Limits


def test_limit_a_change_that_is_taken_back_while_the_call_runs(scene):
    """What is as before when the tool has answered cannot be told from what never changed."""
    scene.protect()

    def change_and_take_back():
        scene.alter(url=f"{scene.url}/")
        scene.alter(url=scene.url)

    scene.tap.once(CALL, change_and_take_back)
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


def test_limit_a_later_hook_that_replaces_the_execution(scene, change_later):
    """A plugin in the same process may run whatever it likes in the place of the tool."""

    def replace(scene, agent):
        async def execute(**_):
            return Response(message="echo: of another plugin", break_loop=False)

        scene.alter(verify=False)
        agent.loop_data.current_tool.execute = execute

    change_later(replace)
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    assert "echo: of another plugin" in scene.chat.shown[-1]
    assert scene.tap.connections == 0
