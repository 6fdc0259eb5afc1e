"""What parallel children leave behind: their own contexts are thrown away, their decisions not.

A direct child runs one tool in a context that the host removes at once; a subordinate child is
an agent in a chat of its own. Both name the chat that they work for.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from agent import Agent, AgentContext
from helpers import persist_chat
from local_guild.answers import CHECKS
from local_guild.wire import Wait
from stage import chats
from usr.plugins.agent_guild_preflight.helpers import records
from usr.plugins.agent_guild_preflight.helpers.exceptions import Unforeseen
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import contract
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import (
    Check,
    Status,
    Verdict,
)
from usr.plugins.agent_guild_preflight.helpers.judgement import Judgement
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

HEALTHY: dict[str, str] = {}
DENIED = {"protocol_handshake": "failed"}
ECHO = ("tools.echo", {"text": "hello"})
PARENT = "_parallel_parent_context_id"
DECISIONS = "agent_guild_preflight.decisions"
LAST = "agent_guild_preflight.last_observation"
WAIT_SECONDS = 20.0


def subordinate(scene, parent=None, **named):
    """Open a chat as the host opens that of a subordinate child."""
    child = scene.new_chat(**named)
    child.context.set_data(PARENT, (parent or scene.chat).context.id)
    return child


async def direct_children(scene, count):
    await scene.chat._parallel([ECHO] * count)


async def subordinate_children(scene, count):
    children = [subordinate(scene, profile="developer") for _ in range(count)]
    await asyncio.gather(*(child.native_turn(ECHO) for child in children))
    for child in children:
        assert child.records[0] in scene.chat.records
        child.close()


def ids(chat):
    return [record["id"] for record in chat.records]


def decisions_logged(chat):
    return [line["kvps"]["decision"] for line in chat.log_lines]


@pytest.mark.parametrize("children", [direct_children, subordinate_children])
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("statuses", [HEALTHY, DENIED], ids=["allowed", "refused"])
def test_decisions_stay_with_the_parent(scene, children, count, statuses):
    """Each once, in the order in which they were made, when the children are gone."""
    answerable = [threading.Event() for _ in range(count)]
    numbers = itertools.count()

    def play(head):
        number = next(numbers)
        return [Wait(answerable[number]), *scene.answers(statuses, method=f"{number}")(head)]

    made = queue.Queue()
    keep = records.keep

    def noted(agent, judgement, record_id, **how):
        keep(agent, judgement, record_id, **how)
        if agent is scene.chat.agent:
            made.put((judgement.observation.method, record_id))

    scene.patch.setattr(records, "keep", noted)
    scene.serve(play)
    scene.protect(timeout_seconds=15)
    contexts = len(AgentContext.all())
    running = chats.begin(children(scene, count))
    assert scene.guild.wait_for_requests(count, WAIT_SECONDS)
    expected = []
    for number in [*range(1, count, 2), *range(0, count, 2)]:
        answerable[number].set()
        method, record_id = made.get(timeout=WAIT_SECONDS)
        assert method == f"untrusted: {number}"
        expected.append(record_id)
    running.result(chats.CALL_SECONDS)
    assert len(AgentContext.all()) == contexts
    assert ids(scene.chat) == expected
    assert len(set(expected)) == count
    decision = "allowed" if statuses == HEALTHY else "refused"
    assert [record["decision"] for record in scene.chat.records] == [decision] * count
    assert decisions_logged(scene.chat) == [decision] * count
    assert made.empty()


@pytest.mark.parametrize("children", [direct_children, subordinate_children])
def test_invalid_settings_are_told_in_the_parent_chat(scene, children):
    """A child's own log goes with it, and the operator would see a refusal without a cause."""
    scene.protect(timeout_second=4)
    if children is direct_children:
        chats.run(direct_children(scene, 1))
    else:
        child = subordinate(scene)
        child.native(ECHO)
    wrong, decided = scene.chat.log_lines
    assert wrong["heading"] == "Agent Guild preflight: the settings are not valid"
    assert wrong["content"] == "timeout_second: is not a setting"
    assert decided["kvps"]["reason"] == "invalid_configuration"
    assert [record["reason"] for record in scene.chat.records] == ["invalid_configuration"]
    scene.expect_reached(0)


def test_both_invalid_files_are_told(scene):
    """An operator who mends only the one would be refused again."""
    scene.protect(floor=True, timeout_second=4)
    scene.operator.configure(scene.settings(polcy={}), "harbour")
    scene.open_project({})
    scene.call()
    assert [line["content"] for line in scene.chat.log_lines] == [
        "polcy: is not a setting",
        "global config.json, timeout_second: is not a setting",
        "",  # the decision
    ]
    assert [record["reason"] for record in scene.chat.records] == ["invalid_configuration"]
    scene.expect_reached(0)


def test_more_than_twenty_decisions_of_children(scene):
    """The last twenty stay, whoever made them; the log has them all."""
    scene.protect(protected_servers={"tools": f"{scene.url}/"})
    scene.call()
    first = ids(scene.chat)
    seen = list(first)
    for _ in range(3):
        scene.chat.parallel(*[ECHO] * 8)
        seen += [one for one in ids(scene.chat) if one not in seen]
    assert len(seen) == 25
    assert ids(scene.chat) == seen[-20:]
    assert first[0] not in ids(scene.chat)
    assert decisions_logged(scene.chat) == ["refused"] * 25


def test_children_of_a_subordinate_agent(scene):
    """Which agent of a chat asked is not recorded: its main agent keeps the decision."""
    scene.protect()
    main = scene.chat.agent
    second = Agent(1, main.config, scene.chat.context)
    main.set_data(Agent.DATA_NAME_SUBORDINATE, second)
    second.set_data(Agent.DATA_NAME_SUPERIOR, main)
    second.loop_data = chats.LoopData()
    scene.chat.agent = second
    scene.chat.parallel(ECHO, ECHO)
    assert scene.chat.records == []
    scene.chat.agent = main
    assert [record["decision"] for record in scene.chat.records] == ["allowed"] * 2
    assert decisions_logged(scene.chat) == ["allowed"] * 2


def test_children_of_a_child(scene):
    """Their decisions stay with the chat that asked for them, which stays as well."""
    scene.protect()
    child = subordinate(scene)
    child.parallel(ECHO)
    assert len(child.records) == 1
    assert scene.chat.records == []


def test_a_replaced_record_of_a_child(scene):
    """The later refusal takes the place of the first record in both chats."""
    scene.protect()
    child = subordinate(scene)
    scene.tap.once(b'"method":"tools/call"', lambda: scene.alter(verify=False))
    child.native(ECHO)
    assert [record["reason"] for record in child.records] == ["binding_changed_during_call"]
    assert scene.chat.records == child.records
    for chat in (scene.chat, child):
        assert decisions_logged(chat) == ["allowed", "refused"]


@pytest.mark.parametrize("parent", ["removed", "unknown", "no_name"])
def test_a_parent_that_is_gone(scene, parent):
    """The child is judged like any other, and keeps what it decides."""
    scene.protect()
    child = subordinate(scene)
    if parent == "removed":
        scene.chat.close()
    else:
        child.context.set_data(PARENT, {"unknown": "no-such-chat", "no_name": 7}[parent])
    child.native(ECHO)
    scene.expect_allowed(chat=child, statuses=HEALTHY)
    assert scene.chat.records == []


def test_a_parent_that_goes_while_its_child_waits(scene):
    """It is removed while the service is being asked."""
    parent = scene.chat
    scene.serve(scene.answers(before=lambda: parent.close()))
    scene.protect()
    child = subordinate(scene)
    child.native(ECHO)
    scene.expect_allowed(chat=child, statuses=HEALTHY)
    assert parent.records == []


# Chats with records


TRAP = json.dumps(
    {
        "responses_state": {"response_id": "resp_1", "response_ids": ["resp_2"]},
        "metadata": {"responses": {"response_id": "resp_3"}},
    }
)


def test_a_parent_chat_is_saved_loaded_and_deleted(scene):
    """Ids in the name of a tool and in an answer are acted upon at no stage."""
    deleted = []
    scene.patch.setattr(persist_chat, "delete_stored_response_ids", deleted.extend)

    def edit(document):
        for check in document["checks"]:
            check["detail"] = TRAP
        document["method"] = document["limits"] = TRAP

    scene.serve(scene.edits(edit))
    scene.protect()
    parent = scene.chat
    scene.chat = child = subordinate(scene)
    scene.hook(f"tools.{TRAP}", None)  # a dispatch of a tool with such a name
    child.native(ECHO)
    child.parallel(ECHO)
    parent.parallel(ECHO, ECHO)
    assert [record["reason"] for record in parent.records] == ["dispatch_mismatch", *[None] * 3]
    kept = {key: parent.agent.get_data(key) for key in (DECISIONS, LAST)}
    assert json.dumps(kept).count("response_id") > 10
    for chat in (parent, child):
        persist_chat.save_tmp_chat(chat.context)
        chat.close()
    try:
        assert {parent.context.id, child.context.id} <= set(persist_chat.load_tmp_chats())
        loaded = AgentContext.get(parent.context.id)
        assert {key: loaded.agent0.get_data(key) for key in kept} == kept
    finally:
        for chat in (parent, child):
            persist_chat.remove_chat(chat.context.id)
            chat.close()
    assert deleted == []


def longest(reason, sub_reason, server):
    """Return the judgement with the longest fields that there can be."""
    label = "a" * 63
    host = ".".join([label, label, label, "a" * 61])
    statuses = dict.fromkeys(Check, Status.UNKNOWN)
    now = datetime.now(UTC)
    seen = Observation(
        verdict=Verdict.DELEGATE_WITH_CAUTION,
        statuses=statuses,
        details=dict.fromkeys(Check, "\\" * contract.MAX_DETAIL_CHARACTERS),
        other_checks=contract.MAX_OTHER_CHECKS,
        other_failed=contract.MAX_OTHER_CHECKS,
        method="\\" * 600,
        limits="\\" * 600,
        requested_at=now,
        observed_at=now,
        cached=True,
        age_seconds=86_399.0001,
    )
    return Judgement(
        reason=reason,
        sub_reason=sub_reason,
        server=server,
        endpoint=f"https://{host}:65535",
        tool="\\" * 5_000,
        observation=seen,
        tolerated=CHECKS,
        guild_origin=f"https://{host}:65535",
        cache_ttl_seconds=86_400.0,
        unforeseen=Unforeseen("E" * 64, "guild_preflight.single_flight", 99_999),
    )


def test_a_record_of_a_server_whose_name_is_too_long(scene):
    """It is refused by that name, and shown by its beginning."""
    scene.protect()
    scene.operator.configure(scene.settings(protected_servers={"n" * 100_000: scene.url}))
    scene.call()
    (record,) = scene.chat.records
    assert (record["reason"], record["server"]) == ("invalid_configuration", "n" * 128)
    assert len(json.dumps(scene.chat.log_lines)) < 2 * records.MAX_RECORD_BYTES


# The longest names by which a server can be protected, as the host normalises them.
SERVERS = {"ascii": "a" * 128, "astral": "\U00020000" * 128}


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_twenty_of_the_largest_records(server):
    """Each reason with each of its sub-reasons: none larger than is stated, as the host saves."""
    data = {}
    agent = SimpleNamespace(get_data=data.get, set_data=data.__setitem__)
    causes = [(None, None), *((reason, None) for reason in Reason)]
    causes += [(sub_reason.reason, sub_reason) for sub_reason in SubReason]
    largest = 0
    for number, cause in enumerate(causes):
        records.keep(agent, longest(*cause, server), f"{number:032x}")
        text = json.dumps(data[DECISIONS][-1], ensure_ascii=False)
        largest = max(largest, len(text.encode()))
    assert len(data[DECISIONS]) == records.MAX_RECORDS == 20
    # The bound is near, so that this test has the longest fields indeed.
    assert records.MAX_RECORD_BYTES * 0.5 < largest <= records.MAX_RECORD_BYTES
