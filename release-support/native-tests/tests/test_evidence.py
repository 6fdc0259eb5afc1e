"""What is kept of each decision, and where remote text and secrets never appear."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest
from agent import AgentContext, AgentContextType
from helpers import persist_chat
from local_guild.wire import Reset, Send, Stall, Wait, answer
from stage import chats
from usr.plugins.agent_guild_preflight.helpers import evaluation

HEALTHY: dict[str, str] = {}
CAUTION = {"agent_card_resolves": "failed"}
DENIED = {"protocol_handshake": "failed"}
SIX = [
    "endpoint_reachable",
    "protocol_handshake",
    "agent_card_resolves",
    "agent_card_signed",
    "payment_claim_holds",
    "independent_evidence",
]
MARKER = "MARKER"
SECRET = "SECRET-0d9f"
ECHO = ("tools.echo", {"text": "hello"})
DECISIONS = "agent_guild_preflight.decisions"
LAST = "agent_guild_preflight.last_observation"


def is_recent(text):
    """A time of our own clock, UTC, to the second."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return abs(datetime.now(UTC) - moment) < timedelta(minutes=2)


# Records


def test_the_record_of_an_allowed_call(scene):
    """Every field of it."""
    scene.protect()
    scene.call()
    record = scene.expect_allowed(statuses=HEALTHY)
    identity, at, observed = (record.pop(key) for key in ("id", "at", "observed_at"))
    assert re.fullmatch(r"[0-9a-f]{32}", identity)
    assert is_recent(at)
    assert is_recent(observed)
    assert record == {
        "decision": "allowed",
        "reason": None,
        "sub_reason": None,
        "next_step": None,
        "refused_by": None,
        "server": "tools",
        "tool": "untrusted: echo",
        "endpoint": scene.endpoint,
        "verdict": "no_failed_checks",
        "cached": False,
        "age_seconds": 0.0,
        "tolerated": [],
    }


def test_the_record_of_a_refused_call(scene):
    """Without an observation: no verdict, no time of one."""
    scene.serve([Reset()])
    scene.protect()
    scene.call()
    record = scene.expect_refused("evidence_unavailable", "protocol", "retry_later", preflights=1)
    assert is_recent(record["at"])
    assert record["server"] == "tools"
    assert record["endpoint"] == scene.endpoint
    nothing = ["verdict", "observed_at", "age_seconds"]
    assert [record[key] for key in nothing] == [None] * 3
    assert record["cached"] is False
    assert record["tolerated"] == []


def test_the_last_observation_of_an_allowed_call(scene):
    """Every field of it."""
    scene.serve(scene.answers(CAUTION, method="How.", limits="Not more."))
    scene.protect(policy={"on_caution": "allow"})
    scene.call()
    found = scene.chat.last_observation
    assert is_recent(found.pop("requested_at"))
    assert is_recent(found.pop("observed_at"))
    checks = found.pop("checks")
    assert [check["check"] for check in checks] == SIX
    assert [check["status"] for check in checks] == ["proven"] * 2 + ["failed"] + ["unknown"] * 3
    assert all(check["detail"].startswith("untrusted: ") for check in checks)
    assert found == {
        "verdict": "delegate_with_caution",
        "failed": ["agent_card_resolves"],
        "unknowns": SIX[3:],
        "scored": SIX[:3],
        "other_checks": 0,
        "other_failed": 0,
        "method": "untrusted: How.",
        "limits": "untrusted: Not more.",
        "guild_origin": scene.guild.origin,
        "cached": False,
        "age_seconds": 0.0,
        "error": None,
    }


def test_twenty_records_are_kept(scene):
    """The last ones, oldest first, each with an id of its own."""
    scene.protect()
    scene.call()
    first = scene.chat.records[0]["id"]
    scene.operator.configure(scene.settings(protected_servers={"tools": f"{scene.url}/"}))
    for _ in range(19):
        scene.call()
    assert scene.chat.records[0]["id"] == first
    scene.call()
    records = scene.chat.records
    assert len(records) == len({record["id"] for record in records}) == 20
    assert first not in {record["id"] for record in records}
    assert {record["reason"] for record in records} == {"url_mismatch"}
    assert len(scene.chat.log_lines) == 21


@pytest.mark.parametrize("rubbish", ["text", 7, {"id": 1}, ["text", 7, None], None])
def test_a_foreign_value_in_the_place_of_the_records(scene, rubbish):
    """Someone else wrote there: the call is judged and recorded all the same."""
    scene.protect()
    scene.chat.agent.set_data(DECISIONS, rubbish)
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)


def is_plain(value):
    """Whether a value is JSON as it stands: no tuple, no enum, no number that is none."""
    if type(value) is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if type(value) is list:
        return all(map(is_plain, value))
    return type(value) in (str, int, float, bool, type(None))


def test_records_are_plain_json_and_survive_the_chat(scene):
    """Saved and loaded by the host: nothing is lost and nothing is changed."""

    def edit(document):
        document["method"] = "\ud83d \N{SNOWMAN} \\ \" ' {} \0"

    scene.serve(scene.edits(edit))
    scene.protect(cache_ttl_seconds=300)
    scene.call()
    scene.call()
    scene.operator.configure(scene.settings(allow_private_hosts=False))
    scene.call()
    scene.operator.configure(scene.settings(cache_ttl_seconds=300))
    scene.call()
    kept = {key: scene.chat.agent.get_data(key) for key in (DECISIONS, LAST)}
    assert is_plain(kept)
    assert json.loads(json.dumps(kept)) == kept
    identity = scene.chat.context.id
    persist_chat.save_tmp_chat(scene.chat.context)
    try:
        AgentContext.remove(identity)
        assert identity in persist_chat.load_tmp_chats()
        agent = AgentContext.get(identity).agent0
        assert {key: agent.get_data(key) for key in kept} == kept
    finally:
        persist_chat.remove_chat(identity)


def test_a_background_context_keeps_its_own_records(scene):
    """Like any other; the host does not save it."""
    scene.protect()
    scene.chat = scene.new_chat(type=AgentContextType.BACKGROUND)
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)
    persist_chat.save_tmp_chat(scene.chat.context)
    assert not (scene.operator.root / "usr" / "chats" / scene.chat.context.id).exists()


def test_concurrent_calls_of_one_agent_leave_one_record_each(scene):
    """All wait for the service at once; none loses another's record."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(timeout_seconds=15)
    scene.stub_execution()  # a finished dispatch would unbind the tool of the others
    turns = [chats.begin(scene.chat.native_turn(ECHO)) for _ in range(5)]
    assert scene.guild.wait_for_requests(5, 10)
    assert scene.chat.records == []
    answerable.set()
    for turn in turns:
        turn.result(10)
    records = scene.chat.records
    assert [record["decision"] for record in records] == ["allowed"] * 5
    assert len({record["id"] for record in records}) == 5
    assert len(scene.chat.log_lines) == 5


# The last observation


def closed_port():
    """Return a port that nothing listens on, and the socket that keeps it so."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken


def unreachable(scene):
    with closed_port() as taken:
        origin = f"http://127.0.0.1:{taken.getsockname()[1]}"
        scene.operator.configure(scene.settings(fixture_guild_origin=origin))
        scene.call()
    return "connect"


def unusable(scene):
    scene.serve([Send(answer(b"", status=b"500 Oh"))])
    scene.operator.configure(scene.settings())
    scene.call()
    return "http_status"


def contradicting(scene):
    scene.serve(scene.answers(scored=[]))
    scene.operator.configure(scene.settings())
    scene.call()
    return "summary"


def tolerated(scene):
    scene.serve(scene.answers(scored=[]))
    scene.operator.configure(scene.settings(policy={"on_unavailable": "allow"}))
    scene.call()
    assert scene.chat.records[-1]["decision"] == "allowed"
    return "summary"


def not_disclosed(scene):
    scene.operator.configure(scene.settings(allow_private_hosts=False))
    scene.call()


def not_the_approved_url(scene):
    scene.operator.configure(scene.settings(protected_servers={"tools": f"{scene.url}/"}))
    scene.call()


def another_call(scene):
    scene.hook("tools.echo", None)


def unforeseen(scene):
    scene.patch.setattr(evaluation, "ask", None)
    scene.call()


@pytest.mark.parametrize(
    "outcome",
    [
        unreachable,
        unusable,
        contradicting,
        tolerated,
        not_disclosed,
        not_the_approved_url,
        another_call,
        unforeseen,
    ],
)
def test_an_older_observation_never_stays(scene, outcome):
    """The latest decision rested on nothing, and that is what is kept, with the reason why."""
    scene.protect()
    scene.call()
    assert scene.chat.last_observation["verdict"] == "no_failed_checks"
    error = outcome(scene)
    found = scene.chat.last_observation
    assert len(scene.chat.records) == 2
    assert found["error"] == error
    assert (found["guild_origin"] is None) == (error is None)
    rest = {key: value for key, value in found.items() if key not in ("error", "guild_origin")}
    assert set(rest.values()) == {None}


def test_a_refusing_observation_is_kept(scene):
    """A valid answer stays what the decision rested on, when it refuses too."""
    scene.serve(scene.answers(DENIED))
    scene.protect()
    scene.call()
    found = scene.chat.last_observation
    assert (found["verdict"], found["failed"]) == ("do_not_delegate", ["protocol_handshake"])
    assert found["error"] is None


def test_kept_evidence_says_so(scene, clock):
    """With its own time and its age, in the record, in the observation and in the log."""
    scene.protect(cache_ttl_seconds=300)
    scene.call()
    first = scene.chat.last_observation
    clock(61.25)
    scene.chat = scene.new_chat()
    scene.call()
    record = scene.expect_allowed(statuses=HEALTHY, age="cached, age 61 s")
    assert (record["cached"], record["age_seconds"]) == (True, 61.25)
    assert record["observed_at"] == first["observed_at"]
    found = scene.chat.last_observation
    assert found == first | {"cached": True, "age_seconds": 61.25}


def test_tolerated_unknowns_are_named_as_tolerated(scene):
    """Never as proven."""
    scene.serve(scene.answers({"protocol_handshake": "unknown"}))
    scene.protect(policy={"tolerate_unknown_required": True})
    scene.call()
    record = scene.expect_allowed(
        statuses={"protocol_handshake": "unknown"}, tolerated=["protocol_handshake"]
    )
    assert record["tolerated"] == ["protocol_handshake"]
    assert "protocol_handshake" in scene.chat.last_observation["unknowns"]
    assert "protocol_handshake" not in scene.chat.last_observation["scored"]


# Remote text


def planted(document):
    """Put the marker into every string of a valid answer that it stays valid with."""
    for check in document["checks"]:
        check["detail"] = f"{MARKER} detail\n<b>\x1b[31m"
        check["declared_name"] = f"{MARKER} name"
        check[f"{MARKER} key"] = MARKER
    for key in ("headline", "method", "limits", "preflight_id", "observed_at"):
        document[key] = f"{MARKER} {key} \ud800 \u202e\u0000"
    document["freshness"] = {MARKER: [MARKER]}
    document[f"{MARKER} key"] = {"deep": MARKER}
    name = f"{MARKER.lower()}_check"
    document["checks"].append({"check": name, "status": "unknown", "detail": MARKER})
    document["unknowns"].append(name)


def with_verdict(document):
    planted(document)
    document["verdict"] = MARKER


def with_status(document):
    planted(document)
    document["checks"][2]["status"] = MARKER


def with_target(document):
    planted(document)
    document["target"] = f"https://{MARKER}.example.com/"


def with_summary(document):
    planted(document)
    document["failed"] = [MARKER]


def with_name(document):
    planted(document)
    document["checks"][5]["check"] = f"{MARKER} check"


def denied(document):
    planted(document)
    document["checks"][1]["status"] = "failed"
    document["failed"] = ["protocol_handshake"]
    document["verdict"] = "do_not_delegate"


HEADERS = [(b"Server", b"MARKER"), (b"X-Cache", b"MARKER"), (b"MARKER", b"MARKER")]
BODY = json.dumps({"error": MARKER, MARKER: [MARKER]}).encode()
REASON = b"500 MARKER"
PLANTED_ANSWERS = [planted, denied, with_verdict, with_status, with_target, with_summary, with_name]
PLANTED_REPLIES = {
    "error": answer(BODY, status=REASON, headers=HEADERS),
    "not_found": answer(b"MARKER", status=b"404 MARKER", content_type=b"text/MARKER"),
    "redirect": answer(BODY, status=b"302 MARKER", headers=[(b"Location", b"/MARKER")]),
    "media_type": answer(BODY, content_type=b"text/MARKER"),
    "encoding": answer(BODY, headers=[(b"Content-Encoding", b"MARKER")]),
    "stale": answer(BODY, headers=[(b"Age", b"MARKER")]),
    "protocol": b"HTTP/1.1 MARKER\r\nMARKER\r\n\r\n",
    "json": answer(b'{"MARKER": MARKER'),
    "duplicate_key": answer(b'{"MARKER": 1, "MARKER": "MARKER"}'),
    "number": answer(b'{"MARKER": NaN}'),
    "shape": answer(BODY),
}


def marks(value, path=""):
    """Return the path of every string, key or value, that holds the marker."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from marks(str(key), f"{path}.<key>")
            yield from marks(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from marks(item, path)
    elif isinstance(value, str) and MARKER.lower() in value.lower():
        assert value.startswith("untrusted: ")
        assert value.isascii()
        assert value.isprintable()
        assert '"' not in value
        with pytest.raises(ValueError, match="Expecting value"):
            json.loads(value)
        yield path.removeprefix(".")


def expect_no_mark(scene, *more):
    """The marker is in nothing that a model reads, and in no line of the gate's log.

    But for the tool's name, which the operator is shown with its mark.
    """
    assert set(marks(scene.chat.log_lines)) <= {"kvps.tool"}
    lines = [{**item, "kvps": {**item["kvps"], "tool": ""}} for item in scene.chat.log_lines]
    seen = json.dumps([scene.chat.shown, lines, *more]).lower()
    assert MARKER.lower() not in seen


@pytest.mark.parametrize("edit", PLANTED_ANSWERS)
@pytest.mark.parametrize("choice", ["deny", "allow"])
def test_text_of_an_answer_is_evidence_and_nothing_else(scene, edit, choice):
    """Refused or allowed: marked and escaped where it is kept, and shown nowhere."""
    scene.serve(scene.edits(edit))
    scene.protect(policy={"on_unavailable": choice})
    scene.call()
    assert scene.preflights == 1
    expect_no_mark(scene)
    assert list(marks(scene.chat.records)) == []
    found = set(marks(scene.chat.last_observation))
    valid = edit in (planted, denied)
    assert found == ({"checks.detail", "method", "limits"} if valid else set())


@pytest.mark.parametrize("reply", PLANTED_REPLIES.values(), ids=PLANTED_REPLIES)
@pytest.mark.parametrize("choice", ["deny", "allow"])
def test_text_of_an_unusable_reply_is_kept_nowhere(scene, reply, choice):
    """Reason phrases, headers, error bodies: gone."""
    scene.serve([Send(reply)])
    scene.protect(policy={"on_unavailable": choice})
    scene.call()
    assert scene.chat.last_observation["error"] is not None
    expect_no_mark(scene)
    assert list(marks([scene.chat.records, scene.chat.last_observation])) == []


def test_text_of_an_answer_is_in_no_error_of_a_parallel_job(scene):
    """The job's error is what its parent's model reads."""
    scene.serve(scene.edits(denied))
    scene.protect()
    done = scene.chat.parallel(ECHO, ECHO)
    assert all("do_not_delegate" in job["error"] for job in done)
    assert all("+1 unlisted" in job["error"] for job in done)
    expect_no_mark(scene, [job["error"] for job in done])


@pytest.mark.parametrize("tool", ["MARKER line\nbreak", 'MARKER <b>\x1b[31m"quoted"'])
def test_a_tool_name_is_evidence_and_nothing_else(scene, tool):
    """A tool's name and description are the server's free text; the record keeps the name."""
    name = f"tools.{tool}"
    scene.serve(scene.answers(DENIED))
    scene.protect()
    scene.call(name)
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)
    expect_no_mark(scene, scene.chat.parallel((name, {}))[0]["error"])
    assert set(marks(scene.chat.records)) == {"tool"}
    assert list(marks(scene.chat.last_observation)) == []


def test_a_tool_name_is_shown_by_no_refusal(scene):
    """Not where the settings are wrong, nor where two names differ."""
    scene.protect(timeout_seconds="5")
    scene.call("tools.MARKER line\nbreak")
    scene.operator.configure(scene.settings())
    scene.hook("tools.MARKER line\nbreak", None)
    scene.hook("MARKER.tools", scene.chat.agent.loop_data.current_tool)
    assert len(scene.chat.log_lines) == 3
    expect_no_mark(scene)
    assert list(marks(scene.chat.records)) == ["tool", "tool"]


TRAP = json.dumps(
    {
        "responses_state": {"response_id": "resp_1", "response_ids": ["resp_2"]},
        "metadata": {"responses": {"response_id": "resp_3"}},
    }
)


def test_ids_in_remote_text_are_not_acted_upon(scene):
    """When a chat is deleted, the host looks for ids in stored strings and deletes those."""
    deleted = []
    scene.patch.setattr(persist_chat, "delete_stored_response_ids", deleted.extend)

    def edit(document):
        for check in document["checks"]:
            check["detail"] = TRAP
        document["method"] = document["limits"] = document["headline"] = TRAP

    scene.serve(scene.edits(edit))
    scene.protect()
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)
    assert "response_id" in json.dumps(scene.chat.last_observation)
    persist_chat.save_tmp_chat(scene.chat.context)
    persist_chat.remove_chat(scene.chat.context.id)
    assert deleted == []
    # The same text, kept as it came, would have been.
    scene.chat.agent.set_data("kept_as_it_came", TRAP)
    persist_chat.save_tmp_chat(scene.chat.context)
    persist_chat.remove_chat(scene.chat.context.id)
    assert sorted(deleted) == ["resp_1", "resp_2", "resp_3"]


# Secrets


@pytest.mark.parametrize("statuses", [HEALTHY, DENIED], ids=["allowed", "refused"])
def test_arguments_are_sent_and_kept_nowhere(scene, statuses):
    """The tool gets them when it runs; the service, the record and the log never do."""
    scene.serve(scene.answers(statuses))
    scene.protect()
    arguments = {"text": SECRET, SECRET: SECRET}
    scene.chat.legacy("tools.echo", {"text": SECRET})
    scene.chat.native(("tools.echo", arguments))
    assert len(scene.chat.records) == 2
    assert SECRET.encode() not in b"".join(scene.guild.requests)
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps(kept)
    if statuses == DENIED:
        assert SECRET not in "".join(scene.chat.shown)
        assert scene.tap.connections == 0


def test_headers_are_sent_and_kept_nowhere(scene):
    """A key in the MCP settings goes to the tool server only."""
    scene.protect()
    scene.alter(headers={"Authorization": f"Bearer {SECRET}"})
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)
    assert scene.tap.count(SECRET.encode()) > 0
    assert SECRET.encode() not in b"".join(scene.guild.requests)
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps([*kept, scene.chat.shown])


def test_a_refused_url_is_kept_nowhere(scene):
    """A URL that must not be disclosed is not echoed either."""
    url = f"https://user:{SECRET}@tools.example.com/mcp"
    scene.protect(protected_servers={"tools": url})
    scene.call()
    scene.expect_refused("endpoint_refused", "userinfo", endpoint=None)
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps([*kept, scene.chat.shown])


def test_the_path_of_an_approved_url_is_shown_nowhere(scene):
    """Only scheme, host and port are, where the URL has passed the screen."""
    scene.protect(protected_servers={"tools": f"{scene.url}/{SECRET}"})
    scene.call()
    scene.expect_refused("url_mismatch")
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps([*kept, scene.chat.shown])


# Cancellation


@pytest.mark.parametrize("ttl", [0, 300])
def test_a_cancelled_turn_leaves_nothing(scene, ttl):
    """The user stops the chat while the service is being asked: it ends as it would anyway."""
    ended = []
    over = threading.Event()
    scene.serve([Stall()])
    scene.protect(cache_ttl_seconds=ttl, timeout_seconds=15)

    async def turn():
        try:
            await scene.chat.native_turn(ECHO)
            ended.append("finished")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            over.set()

    running = chats.begin(turn())
    assert scene.guild.wait_for_requests(1, 10)
    assert running.cancel()
    assert over.wait(10)
    assert ended == ["cancelled"]
    assert scene.chat.records == []
    assert scene.chat.last_observation is None
    assert scene.chat.log_lines == []
    assert scene.chat.shown == scene.new_chat().shown
    assert scene.tap.connections == 0
    if ttl == 0:
        # A request that nobody shares ends with its caller.
        assert scene.guild.wait_until_closed(10)


def test_a_cancelled_turn_fails_no_other(scene):
    """Two chats wait for one answer, and one of them is stopped."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(cache_ttl_seconds=300, timeout_seconds=15)
    stopped, other = scene.chat, scene.new_chat()
    first = chats.begin(stopped.native_turn(ECHO))
    assert scene.guild.wait_for_requests(1, 10)
    second = chats.begin(other.native_turn(ECHO))
    # Both run on one loop: once this has run, the second waits as well.
    chats.run(asyncio.sleep(0))
    assert first.cancel()
    answerable.set()
    second.result(10)
    scene.expect_allowed(chat=other, statuses=HEALTHY)
    assert stopped.records == []
