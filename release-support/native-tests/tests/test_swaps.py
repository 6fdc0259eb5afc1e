"""What is called is what was checked: an edit between the gate's last look and the host's own.

The host looks the server up again when the tool runs. In a project that reads the files anew, and
an edit in between would lead the call to a server that nobody checked.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time

import pytest
from helpers.mcp_handler import MCPConfig, MCPServerRemote
from stage import editor
from stage.tool_server import stdio_server

CALL = b'"method":"tools/call"'
PROJECT = "harbour"
HEALTHY: dict[str, str] = {}
# In full with LONG_TESTS, which takes minutes on the framework; a tenth otherwise.
RANDOM_EDITS, TIMED_EDITS = (150, 50) if os.environ.get("LONG_TESTS") else (15, 10)


def remote(url, **changed):
    return {"type": "streamable-http", "url": url, **changed}


def native(scene, text="hello"):
    scene.chat.native(("tools.echo", {"text": text}))


def legacy(scene, text="hello"):
    scene.chat.legacy("tools.echo", {"text": text})


def parallel(scene, text="hello"):
    (job,) = scene.chat.parallel(("tools.echo", {"text": text}))
    return job.get("error") or job.get("result")


WAYS = [native, legacy, parallel]


@pytest.fixture
def in_project(scene):
    """A project with the approved server of its own; its evidence is kept."""
    scene.protect(cache_ttl_seconds=300)
    scene.open_project({"tools": remote(scene.url)})
    return scene


def edit(scene, servers):
    scene.operator.edit_project_mcp(PROJECT, servers)


EDITS = {
    "another URL": lambda scene, other_url: {"tools": remote(other_url)},
    "another header": lambda scene, other_url: {"tools": remote(scene.url, headers={"X-Key": "2"})},
    "another host": lambda scene, other_url: {
        "tools": remote(scene.url, headers={"Host": "x.example"})
    },
    "another transport": lambda scene, other_url: {"tools": remote(scene.url, type="sse")},
    "a local server": lambda scene, other_url: {"tools": stdio_server()},
    "a disabled server": lambda scene, other_url: {"tools": remote(scene.url, disabled=True)},
    "a disabled tool": lambda scene, other_url: {
        "tools": remote(scene.url, disabled_tools=["echo"])
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("servers", EDITS.values(), ids=EDITS)
def test_an_edit_between_the_check_and_the_call(in_project, other_url, other_tap, servers, way):
    """The call goes to the server that was checked, in the way that was checked, and to no other."""
    scene = in_project
    scene.as_it_looks_up(lambda: edit(scene, servers(scene, other_url)))
    told = way(scene)
    scene.expect_allowed(statuses=HEALTHY, told=told)
    scene.expect_reached()
    assert other_tap.connections == 0
    assert b"x.example" not in scene.tap.received and b"x-key: 2" not in scene.tap.received.lower()


def test_the_next_call_is_judged_by_the_edit(in_project, other_url, other_tap):
    """What was checked is held for one call."""
    scene = in_project
    scene.as_it_looks_up(lambda: edit(scene, {"tools": remote(other_url)}))
    native(scene)
    native(scene)
    assert [record["reason"] for record in scene.chat.records] == [None, "url_mismatch"]
    scene.expect_reached()
    assert other_tap.count(CALL) == 0


def test_an_edit_while_the_call_runs(in_project, other_url, other_tap):
    """The call runs on what was checked; the edit is the next call's."""
    scene = in_project
    scene.tap.once(CALL, lambda: edit(scene, {"tools": remote(other_url)}))
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    assert other_tap.connections == 0


def update(scene, other_url):
    scene.operator.set_mcp({"tools": remote(other_url)})


def list_changed_in_place(scene, other_url):
    """No host does so; a plugin may."""
    servers = MCPConfig.get_instance().servers
    servers[:] = [MCPServerRemote({"name": "tools", **remote(other_url)})]


@pytest.mark.parametrize("change", [update, list_changed_in_place])
def test_a_global_change_between_the_check_and_the_call(scene, other_url, other_tap, change):
    """Without a project one object is changed in place: seen afterwards, and nothing went astray."""
    scene.protect()
    scene.as_it_looks_up(lambda: change(scene, other_url))
    native(scene)
    scene.operator.set_mcp({}, anew=True)
    scene.expect_refused(
        "binding_changed_during_call",
        preflights=1,
        statuses=HEALTHY,
        superseded=True,
        was_called=True,
    )
    assert other_tap.count(CALL) == 0


def test_random_edits(in_project, other_url, other_tap):
    """An operator, or another plugin, edits the project at any moment of a call."""
    scene = in_project
    moments = random.Random(1)
    approved, other = {"tools": remote(scene.url)}, {"tools": remote(other_url)}
    began = time.perf_counter()
    native(scene)
    spent = time.perf_counter() - began
    for _ in range(RANDOM_EDITS):
        timer = threading.Timer(moments.uniform(0, 1.2 * spent), edit, (scene, other))
        timer.start()
        native(scene)
        timer.join()
        edit(scene, approved)
    assert other_tap.count(CALL) == 0
    reasons = {record["reason"] for record in scene.chat.records}
    assert reasons <= {None, "url_mismatch", "binding_changed"}
    assert scene.tap.count(CALL) == sum("echo: " in text for text in scene.chat.shown)


def test_timed_edits(in_project, other_url, other_tap):
    """An outside process waits for the reads of a dispatch, and edits after each of them in turn."""
    scene = in_project
    approved, other = {"tools": remote(scene.url)}, {"tools": remote(other_url)}
    file = scene.operator.project_mcp_path(PROJECT)
    new = file.with_suffix(".new")
    native(scene)
    decided = []
    with editor.running(file) as process:
        for number in range(TIMED_EDITS):
            edit(scene, approved)
            new.write_text(json.dumps({"mcpServers": other}))
            process.edit_after(1 + number % 5, new)
            native(scene)
            while new.exists():  # fewer reads than the editor waits for
                file.read_text()
            process.wait()
            decided.append(scene.chat.records[-1]["reason"])
    assert other_tap.count(CALL) == 0
    assert set(decided) <= {None, "url_mismatch", "binding_changed"}
    assert None in decided
