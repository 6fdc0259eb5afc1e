"""A floor: the global file stays in force under the file of a project or a profile.

A call must satisfy both files. Each case says which of the two refuses, what the model and the
operator are told, and how often the service is asked.
"""

from __future__ import annotations

import json
import threading
import time

import pytest
from local_guild.wire import Send, Wait, answer
from stage.chats import PROFILE
from usr.plugins.agent_guild_preflight.helpers import evaluation

PROJECT = "harbour"
HEALTHY: dict[str, str] = {}
CAUTION = {"agent_card_resolves": "failed"}
UNREACHABLE = {"endpoint_reachable": "failed", "protocol_handshake": "unknown"}
DENIED = {"protocol_handshake": "failed"}
UNKNOWN = {"protocol_handshake": "unknown"}
PUBLIC_ENDPOINT = "https://tools.example.com"
CALL = b'"method":"tools/call"'
SECRET = "SECRET-3ac9"
NO_DIGEST = f"sha256:{'0' * 64}"

SCOPES = {
    "project-and-profile": (PROJECT, PROFILE),
    "project": (PROJECT, None),
    "profile": (None, PROFILE),
}
LENIENT = {
    "required_proven": [],
    "tolerate_unknown_required": True,
    "on_caution": "allow",
    "on_unavailable": "allow",
}
STRICT = {"required_proven": ["protocol_handshake", "independent_evidence"]}


def lay_floor(scene, selected, *, scope="project", servers=None, **globally):
    """Keep the global file in force below a more specific one, in a project's chat.

    `selected` is the specific file, or what it says other than `Scene.settings`.
    """
    scene.protect(**{"floor": True, **globally})
    scene.open_project(servers or {})
    text = isinstance(selected, str)
    scene.operator.configure(selected if text else scene.settings(**selected), *SCOPES[scope])


def begin_anew(scene):
    """Go on in a fresh chat of the project."""
    scene.chat = scene.new_chat(project=PROJECT)
    scene.tap.reset()


# Ways in


def native(scene, name="tools.echo", text="hello"):
    scene.call(name, text)


def legacy(scene, name="tools.echo", text="hello"):
    scene.chat.legacy(name, {"text": text})


def parallel(scene, name="tools.echo", text="hello"):
    """Make the call in a parallel child; gives what its parent is told."""
    (job,) = scene.chat.parallel((name, {"text": text}))
    return job.get("error") or job.get("result")


WAYS = [native, legacy, parallel]


# What a specific file cannot lower


NOTHING = {"protected_servers": {}}
ANOTHER = {"protected_servers": {"others": "https://others.example.com/mcp"}}
WEAKER = {"policy": LENIENT}

# The answer about the server, the specific file, the refusal.
LOWERED = {
    "protects nothing": (DENIED, NOTHING, ("do_not_delegate", None, "operator")),
    "says nothing of servers": (
        DENIED,
        {"protected_servers": None},
        ("do_not_delegate", None, "operator"),
    ),
    "protects another server": (DENIED, ANOTHER, ("do_not_delegate", None, "operator")),
    "requires nothing": (
        UNKNOWN,
        {"policy": {"required_proven": []}},
        ("required_check_unknown", None, "operator"),
    ),
    "permits caution": (CAUTION, WEAKER, ("caution_not_permitted", None, "operator")),
    "tolerates what is unknown": (
        UNKNOWN,
        WEAKER,
        ("required_check_unknown", None, "operator"),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("statuses", "selected", "refusal"), LOWERED.values(), ids=LOWERED)
def test_a_specific_file_cannot_lower_it(scene, statuses, selected, refusal, scope, way):
    """The floor refuses, and says so; both ask the same service, which is asked once."""
    scene.serve(scene.answers(statuses))
    lay_floor(scene, selected, scope=scope)
    told = way(scene)
    scene.expect_refused(*refusal, preflights=1, statuses=statuses, told=told, refused_by="floor")


@pytest.mark.parametrize("way", WAYS)
def test_a_project_cannot_send_calls_elsewhere(scene, other_url, other_tap, way):
    """It gives the server another URL, and approves that one: nothing is asked, nothing sent."""
    own = {"tools": {"type": "streamable-http", "url": other_url}}
    lay_floor(scene, {"protected_servers": {"tools": other_url}}, servers=own)
    other_tap.reset()
    told = way(scene)
    scene.expect_refused("url_mismatch", told=told, refused_by="floor")
    assert other_tap.connections == 0


def test_a_project_cannot_use_the_approved_url_by_another_name(scene):
    """The floor protects its URL under every name; it is told by the name in the floor."""
    scene.serve(scene.answers(DENIED))
    lay_floor(scene, NOTHING, servers={"own": {"type": "streamable-http", "url": scene.url}})
    native(scene, "own.echo")
    scene.expect_refused(
        "do_not_delegate", None, "operator", preflights=1, statuses=DENIED, refused_by="floor"
    )


def test_a_project_cannot_do_without_evidence(scene):
    """It tolerates a service that gives none; the floor does not."""
    scene.serve([Send(answer(b"", status=b"500 Oh"))])
    lay_floor(scene, WEAKER)
    native(scene)
    scene.expect_refused(
        "evidence_unavailable",
        "http_status",
        "retry_later",
        preflights=1,
        refused_by="floor",
    )


def test_a_project_cannot_have_private_hosts_disclosed(scene):
    """It allows them, and the floor does not."""
    lay_floor(scene, {}, allow_private_hosts=False)
    native(scene)
    scene.expect_refused(
        "endpoint_refused", "host_not_public", endpoint=None, refused_by="selected"
    )


def test_a_project_cannot_have_private_hosts_of_the_floor_disclosed(scene):
    """It protects nothing, so that the floor alone decides."""
    lay_floor(scene, NOTHING, allow_private_hosts=False)
    native(scene)
    scene.expect_refused("endpoint_refused", "host_not_public", endpoint=None, refused_by="floor")


@pytest.mark.parametrize(
    ("pins", "reason"),
    [({}, "tool_not_pinned"), ({"echo": NO_DIGEST}, "definition_changed")],
    ids=["none", "another"],
)
@pytest.mark.parametrize("selected", [{}, NOTHING], ids=["no pins", "nothing"])
def test_a_project_cannot_do_without_pins(scene, selected, pins, reason):
    """The floor's pins count whether the project protects the server or not."""
    servers = {"tools": {"url": scene.url, "tools": pins}}
    lay_floor(scene, {**selected}, protected_servers=servers)
    native(scene)
    scene.expect_refused(reason, refused_by="floor")


@pytest.fixture
def silent(scene):
    """Have the service asked silent until the test ends."""
    answerable = threading.Event()
    scene.serve([Wait(answerable)])
    yield
    answerable.set()


@pytest.mark.parametrize(
    ("here", "floor", "refused_by"),
    [
        ({"timeout_seconds": 15, **WEAKER}, {"timeout_seconds": 0.4}, "floor"),
        ({"timeout_seconds": 0.4}, {"timeout_seconds": 15, "policy": LENIENT}, "selected"),
        ({"timeout_seconds": 0.4, **WEAKER}, {"timeout_seconds": 0.8}, "floor"),
        ({"timeout_seconds": 0.8}, {"timeout_seconds": 0.4, "policy": LENIENT}, "selected"),
    ],
)
def test_each_waits_until_its_own_deadline(scene, silent, here, floor, refused_by):
    """A service that never answers holds the call no longer than one of them waits to refuse it."""
    lay_floor(scene, here, **floor)
    began = time.monotonic()
    native(scene)
    seconds = {"floor": floor, "selected": here}[refused_by]["timeout_seconds"]
    assert seconds <= time.monotonic() - began < 5
    scene.expect_refused(
        "evidence_unavailable", "timeout", "retry_later", preflights=1, refused_by=refused_by
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_specific_file_cannot_cut_the_deadline_of_the_floor(scene, way, scope):
    """To it there is a time-out, which both tolerate; the floor sees the warning that comes later."""
    scene.serve(scene.answers(DENIED, before=lambda: time.sleep(0.5)))
    impatient = {"timeout_seconds": 0.1, "cache_ttl_seconds": 0, **WEAKER}
    lay_floor(scene, impatient, scope=scope, policy=LENIENT)
    told = way(scene)
    scene.expect_refused(
        "do_not_delegate",
        None,
        "operator",
        preflights=1,
        statuses=DENIED,
        told=told,
        refused_by="floor",
    )


def test_no_deadline_is_too_short_for_any_answer(scene):
    """What nobody could keep is no setting."""
    lay_floor(scene, {"timeout_seconds": 1e-9, **WEAKER}, policy=LENIENT)
    native(scene)
    scene.expect_invalid("timeout_seconds: is outside its limits")


def test_a_specific_file_cannot_do_without_the_evidence_of_the_floor(scene, clock):
    """It wants all anew; to the floor its own evidence is fresh enough, and speaks against it."""
    answers = [UNREACHABLE, HEALTHY, HEALTHY]
    scene.serve(lambda target: scene.answers(answers.pop(0))(target))
    lay_floor(scene, {"cache_ttl_seconds": 0, **WEAKER}, cache_ttl_seconds=300)
    scene.chat = scene.new_chat()
    native(scene)
    begin_anew(scene)
    clock(20)
    native(scene)
    scene.expect_refused(
        "do_not_delegate",
        None,
        "retry_after 280 s",
        preflights=1,
        statuses=UNREACHABLE,
        age=" (cached, age 20 s)",
        refused_by="floor",
    )


# What a specific file can raise


# The answer about the server, the specific file, the refusal, the preflights.
RAISED = {
    "another URL": (
        HEALTHY,
        lambda scene: {"protected_servers": {"tools": f"{scene.url}/"}},
        ("url_mismatch", None, "operator"),
    ),
    "an empty table of pins": (
        HEALTHY,
        lambda scene: {"protected_servers": {"tools": {"url": scene.url, "tools": {}}}},
        ("tool_not_pinned", None, "operator"),
    ),
    "another pin": (
        HEALTHY,
        lambda scene: {
            "protected_servers": {"tools": {"url": scene.url, "tools": {"echo": NO_DIGEST}}}
        },
        ("definition_changed", None, "operator"),
    ),
    "no private hosts": (
        HEALTHY,
        lambda scene: {"allow_private_hosts": False},
        ("endpoint_refused", "host_not_public", "operator"),
    ),
    "more checks": (
        HEALTHY,
        lambda scene: {"policy": STRICT},
        ("required_check_unknown", None, "operator"),
    ),
    "no caution": (CAUTION, lambda scene: {}, ("caution_not_permitted", None, "operator")),
}
ASKS = {"required_check_unknown", "caution_not_permitted"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("statuses", "selected", "refusal"), RAISED.values(), ids=RAISED)
def test_a_specific_file_may_be_stricter(scene, statuses, selected, refusal, way):
    """It refuses what the floor allows; nothing in the log says that it were the floor."""
    scene.serve(scene.answers(statuses))
    lay_floor(scene, selected(scene), policy=LENIENT)
    told = way(scene)
    asked = refusal[0] in ASKS
    scene.expect_refused(
        *refusal,
        preflights=int(asked),
        told=told,
        refused_by="selected",
        statuses=statuses if asked else None,
        endpoint=None if refusal[0] == "endpoint_refused" else "",
    )


def test_a_project_that_does_not_do_without_evidence(scene):
    """The floor tolerates a service that gives none; the project does not."""
    scene.serve([Send(answer(b"", status=b"500 Oh"))])
    lay_floor(scene, {}, policy=LENIENT)
    native(scene)
    scene.expect_refused(
        "evidence_unavailable", "http_status", "retry_later", preflights=1, refused_by="selected"
    )


def test_the_specific_file_is_the_first_to_refuse(scene):
    """Both would; one of them does."""
    scene.serve(scene.answers(CAUTION))
    lay_floor(scene, {"policy": STRICT})
    native(scene)
    scene.expect_refused(
        "required_check_unknown",
        None,
        "operator",
        preflights=1,
        statuses=CAUTION,
        refused_by="selected",
    )


# What both allow


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("selected", [{}, NOTHING, WEAKER], ids=["same", "nothing", "weaker"])
def test_a_call_that_satisfies_both(scene, selected, scope, way):
    """One record, one line in the log, one preflight."""
    executed = scene.stub_execution()
    lay_floor(scene, selected, scope=scope)
    told = way(scene)
    scene.expect_allowed(statuses=HEALTHY, told=told)
    assert executed == ["tools.echo"]


def test_a_call_that_satisfies_both_reaches_the_server(scene):
    """It is made once."""
    lay_floor(scene, {})
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


# The answer about the server, both policies, what is tolerated.
TOLERATED = {
    "the same": (
        CAUTION,
        {"on_caution": "allow"},
        {"on_caution": "allow"},
        ["delegate_with_caution"],
    ),
    "each its own": (
        UNKNOWN,
        {"required_proven": ["protocol_handshake"], "tolerate_unknown_required": True},
        {"required_proven": ["independent_evidence"], "tolerate_unknown_required": True},
        ["protocol_handshake", "independent_evidence"],
    ),
    "the specific file's": (
        UNKNOWN,
        {"required_proven": ["protocol_handshake"], "tolerate_unknown_required": True},
        {"required_proven": []},
        ["protocol_handshake"],
    ),
    "the floor's": (
        UNKNOWN,
        {"required_proven": []},
        {"required_proven": ["protocol_handshake"], "tolerate_unknown_required": True},
        ["protocol_handshake"],
    ),
}


@pytest.mark.parametrize(
    ("statuses", "policy", "floor", "tolerated"), TOLERATED.values(), ids=TOLERATED
)
def test_what_is_tolerated_is_told_of_both(scene, statuses, policy, floor, tolerated):
    """Each word once, those of the specific file first."""
    scene.stub_execution()
    scene.serve(scene.answers(statuses))
    lay_floor(scene, {"policy": policy}, policy=floor)
    native(scene)
    scene.expect_allowed(statuses=statuses, tolerated=tolerated)


def test_missing_evidence_that_both_tolerate(scene):
    """Told once."""
    scene.stub_execution()
    scene.serve([Send(answer(b"", status=b"500 Oh"))])
    lay_floor(scene, WEAKER, policy=LENIENT)
    native(scene)
    scene.expect_allowed(tolerated=["http_status"])
    assert scene.chat.last_observation["error"] == "http_status"


# What only one of them protects


def test_a_server_that_only_the_project_protects(scene, other_url):
    """It is judged as without a floor; the floor's server goes on being judged by the floor."""
    scene.serve(scene.answers(CAUTION))
    servers = {"own": {"type": "streamable-http", "url": other_url}}
    lay_floor(scene, {"protected_servers": {"own": other_url}}, servers=servers, policy=LENIENT)
    native(scene, "own.echo")
    scene.expect_refused(
        "caution_not_permitted",
        server="own",
        endpoint=other_url.removesuffix("/mcp"),
        statuses=CAUTION,
        preflights=1,
        refused_by="selected",
    )
    scene.stub_execution()
    begin_anew(scene)
    native(scene)
    scene.expect_allowed(preflights=2, statuses=CAUTION, tolerated=["delegate_with_caution"])


def test_a_server_that_neither_protects(scene, other_url):
    """Untouched."""
    scene.stub_execution()
    lay_floor(scene, {}, servers={"own": {"type": "streamable-http", "url": other_url}})
    native(scene, "own.echo")
    assert "echo: stub" in scene.chat.shown[-1]
    scene.expect_untouched()


def test_a_local_tool(scene):
    """Untouched."""
    lay_floor(scene, NOTHING)
    native(scene, "note")
    assert "noted" in scene.chat.shown[-1]
    scene.expect_untouched()


# Where there is no floor


@pytest.mark.parametrize(
    "floor", [{}, {"floor": None}, {"floor": False}], ids=["absent", "null", "false"]
)
@pytest.mark.parametrize("scope", SCOPES)
def test_without_a_floor_the_specific_file_wins(scene, scope, floor):
    """As anything in the framework: it may protect nothing at all."""
    executed = scene.stub_execution()
    scene.serve(scene.answers(DENIED))
    scene.protect(**floor)
    scene.open_project({})
    scene.operator.configure({}, *SCOPES[scope])
    native(scene)
    scene.expect_untouched()
    assert executed == ["tools.echo"]


def test_a_floor_without_a_specific_file(scene):
    """It is the file in force, and no more than that."""
    scene.serve(scene.answers(CAUTION))
    scene.protect(floor=True)
    native(scene)
    scene.expect_refused(
        "caution_not_permitted", statuses=CAUTION, preflights=1, refused_by="selected"
    )


def test_a_chat_outside_of_the_project(scene):
    """The project's stricter file is none of its business."""
    lay_floor(scene, {"policy": STRICT})
    scene.stub_execution()
    scene.chat = scene.new_chat()
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_copy_of_the_global_file(scene, scope):
    """The same as the global file itself, its floor included."""
    scene.serve(scene.answers(CAUTION))
    lay_floor(scene, {"floor": True}, scope=scope)
    native(scene)
    scene.expect_refused(
        "caution_not_permitted", statuses=CAUTION, preflights=1, refused_by="selected"
    )


def test_a_floor_that_is_laid_and_taken_away(scene):
    """It counts from the next call on."""
    executed = scene.stub_execution()
    scene.serve(scene.answers(DENIED))
    lay_floor(scene, NOTHING, floor=False)
    native(scene)
    scene.operator.configure(scene.settings(floor=True))
    native(scene)
    scene.operator.configure(scene.settings())
    native(scene)
    assert [record["refused_by"] for record in scene.chat.records] == ["floor"]
    assert executed == ["tools.echo"] * 2


# A floor where none may stand


ELSEWHERE = "floor: counts in the global config.json only"
UNTOLD = (
    "protected_servers: is missing or unreadable, so every MCP tool is refused; after removing "
    "the plugin, restart Agent Zero"
)


@pytest.mark.parametrize("floor", [True, False, "true", 0, []], ids=str)
@pytest.mark.parametrize("globally", [True, False], ids=["with a floor", "without"])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_floor_in_a_specific_file(scene, scope, globally, floor):
    """An invalid configuration, whatever it says and whether there is one below it."""
    lay_floor(scene, {"floor": floor, "timeout_seconds": 4}, scope=scope, floor=globally)
    native(scene)
    scene.expect_invalid(ELSEWHERE)


def test_null_for_a_floor_in_a_specific_file(scene):
    """It means the default, as everywhere."""
    scene.stub_execution()
    lay_floor(scene, {"floor": None, "timeout_seconds": 4}, floor=False)
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)


@pytest.mark.parametrize("name", ["tools.echo", "own.echo"])
def test_a_floor_in_a_specific_file_without_servers(scene, other_url, name):
    """Nobody can tell what such a file protects: every MCP tool is refused."""
    servers = {"own": {"type": "streamable-http", "url": other_url}}
    lay_floor(scene, json.dumps({"floor": True}), servers=servers, floor=False)
    native(scene, name)
    scene.expect_invalid(ELSEWHERE, UNTOLD, server=None)


def test_a_floor_in_a_specific_file_beside_other_problems(scene):
    """All of them are told, each with its key."""
    lay_floor(scene, {"floor": True, "timeout": 4})
    native(scene)
    scene.expect_invalid("timeout: is not a setting", ELSEWHERE)


def test_a_floor_in_a_specific_file_is_none_of_another_server(scene, other_url):
    """Which servers the file protects can be told: the others are left alone."""
    scene.stub_execution()
    servers = {"own": {"type": "streamable-http", "url": other_url}}
    lay_floor(scene, {"floor": True, "timeout_seconds": 4}, servers=servers)
    native(scene, "own.echo")
    scene.expect_untouched()


# A global file that is no configuration


GLOBAL = "global config.json, "
UNREADABLE = {
    "malformed": ('{"floor": true', "the file: cannot be read as plain JSON, or is gone"),
    "empty": ("", "the file: cannot be read as plain JSON, or is gone"),
    "with comments": ("{} // none", "the file: cannot be read as plain JSON, or is gone"),
    "null": ("null", "the file: must be an object, {...}"),
    "list": ("[]", "the file: must be an object, {...}"),
    "text": ('"floor"', "the file: must be an object, {...}"),
    "true": ("true", "the file: must be an object, {...}"),
}


@pytest.mark.parametrize("name", ["tools.echo", "own.echo"])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("text", "problem"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_global_file_that_cannot_be_read(scene, other_url, text, problem, scope, name):
    """Nobody can tell whether it has a floor, nor what that protects: every MCP tool is refused."""
    servers = {"own": {"type": "streamable-http", "url": other_url}}
    lay_floor(scene, NOTHING, scope=scope, servers=servers)
    scene.operator.configure(text)
    native(scene, name)
    scene.expect_invalid(GLOBAL + problem, GLOBAL + UNTOLD, server=None, refused_by="floor")


@pytest.mark.parametrize("way", [legacy, parallel])
def test_a_global_file_that_cannot_be_read_by_other_ways(scene, way):
    """Refused alike."""
    lay_floor(scene, {})
    scene.operator.configure("{")
    told = way(scene)
    problem = UNREADABLE["malformed"][1]
    scene.expect_invalid(
        GLOBAL + problem, GLOBAL + UNTOLD, server=None, told=told, refused_by="floor"
    )


def test_two_files_that_cannot_be_read(scene):
    """The more specific one is named."""
    lay_floor(scene, "{")
    scene.operator.configure("{")
    native(scene)
    scene.expect_invalid(UNREADABLE["malformed"][1], UNTOLD, server=None)


def test_a_global_file_that_cannot_be_read_leaves_local_tools_alone(scene):
    """They are none of an MCP server."""
    lay_floor(scene, {})
    scene.operator.configure("{")
    native(scene, "note")
    assert "noted" in scene.chat.shown[-1]
    scene.expect_untouched()


# What is wrong with it, which server a refusal then names, and the lines in the log.
PROBLEMS = {
    "unknown key": ({"Timeout_seconds": 4}, "tools", ["Timeout_seconds: is not a setting"]),
    "no servers": (
        {"Timeout_seconds": 4, "protected_servers": None},
        None,
        ["Timeout_seconds: is not a setting", UNTOLD],
    ),
    "servers that are none": (
        {"protected_servers": []},
        None,
        ["protected_servers: must be an object, {...}", UNTOLD],
    ),
    "a server that is none": (
        {"protected_servers": {"tools": 7}},
        "tools",
        ["protected_servers.tools: must be an approved URL, or an object that has one as url"],
    ),
    "a choice that is none": (
        {"policy": {"on_caution": "Deny"}},
        "tools",
        ["policy.on_caution: is none of the permitted values"],
    ),
    "a key misspelt": ({"Floor": True}, "tools", ["Floor: is not a setting"]),
}


@pytest.mark.parametrize(("problems", "server", "lines"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_floor_with_problems(scene, problems, server, lines):
    """Refused, whatever the specific file says."""
    lay_floor(scene, WEAKER, **problems)
    native(scene)
    scene.expect_invalid(*[GLOBAL + line for line in lines], server=server, refused_by="floor")


MISSPELT = {"unknown key", "no servers", "a key misspelt"}


@pytest.mark.parametrize("name", sorted(MISSPELT))
def test_a_global_file_with_a_key_that_may_be_a_misspelt_floor(scene, name):
    """Nobody can tell that no floor was meant."""
    problems, server, lines = PROBLEMS[name]
    lay_floor(scene, {})
    scene.operator.configure({**scene.settings(), **problems})
    native(scene)
    scene.expect_invalid(*[GLOBAL + line for line in lines], server=server, refused_by="floor")


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        *((name, {"floor": nothing}) for name in PROBLEMS for nothing in (False, None)),
        *((name, {}) for name in PROBLEMS if name not in MISSPELT),
    ],
    ids=str,
)
def test_a_global_file_with_problems_and_no_floor(scene, name, floor):
    """It says who is told, so nobody is; what no file in force protects goes on."""
    executed = scene.stub_execution()
    lay_floor(scene, {"policy": {"on_caution": "allow"}})
    scene.operator.configure({**scene.settings(), **PROBLEMS[name][0], **floor})
    native(scene)
    scene.expect_invalid(
        *[GLOBAL + line for line in PROBLEMS[name][2] if line != UNTOLD], refused_by="floor"
    )
    scene.operator.configure({}, PROJECT)
    native(scene)
    assert scene.preflights == 0
    assert executed == ["tools.echo"]


WRONG = ["true", 1, 0, "", [], {}]


@pytest.mark.parametrize("selected", [{}, NOTHING], ids=["same", "nothing"])
@pytest.mark.parametrize("floor", WRONG, ids=repr)
def test_a_floor_of_a_wrong_type(scene, floor, selected):
    """What the global file protects is refused: it is none, and it may have been meant."""
    lay_floor(scene, selected, floor=floor)
    native(scene)
    scene.expect_invalid(f"{GLOBAL}floor: must be true or false", refused_by="floor")


def test_a_floor_of_a_wrong_type_without_servers(scene):
    """Nobody can tell what it would protect: every MCP tool is refused."""
    lay_floor(scene, {}, floor="yes", protected_servers=None)
    native(scene)
    scene.expect_invalid(
        f"{GLOBAL}floor: must be true or false", GLOBAL + UNTOLD, server=None, refused_by="floor"
    )


def test_a_floor_of_a_wrong_type_without_a_specific_file(scene):
    """It is the file in force; there is no other to be told apart."""
    scene.protect(floor="true")
    native(scene)
    scene.expect_invalid("floor: must be true or false")


def test_a_broken_floor_has_nobody_told_of_a_server_that_only_the_project_protects(
    scene, other_url
):
    """The global file decides who is told, and it is not valid."""
    servers = {"own": {"type": "streamable-http", "url": other_url}}
    lay_floor(scene, {"protected_servers": {"own": other_url}}, servers=servers, floor="true")
    native(scene, "own.echo")
    scene.expect_invalid(f"{GLOBAL}floor: must be true or false", server="own", refused_by="floor")


# How old evidence may be


@pytest.mark.parametrize(
    ("here", "floor", "preflights"),
    [(300, 0, 3), (0, 300, 3), (0, 0, 3), (300, 10, 2), (10, 300, 2), (300, 300, 1)],
)
def test_evidence_is_fresh_enough_for_both(scene, clock, here, floor, preflights):
    """Three calls, 20 seconds apart from the second to the third."""
    executed = scene.stub_execution()
    lay_floor(scene, {"cache_ttl_seconds": here}, cache_ttl_seconds=floor)
    native(scene)
    native(scene)
    clock(20)
    native(scene)
    assert scene.preflights == preflights
    assert [record["decision"] for record in scene.chat.records] == ["allowed"] * 3
    assert executed == ["tools.echo"] * 3


@pytest.mark.parametrize("floor", [0, 10])
def test_a_denial_says_how_long_the_evidence_of_who_refuses_stays_fresh(scene, floor):
    """Until then the same call gives the same answer."""
    scene.serve(scene.answers(UNREACHABLE))
    lay_floor(scene, {"cache_ttl_seconds": 300}, cache_ttl_seconds=floor)
    native(scene)
    scene.expect_refused(
        "do_not_delegate",
        None,
        "retry_after 300 s",
        preflights=1,
        statuses=UNREACHABLE,
        refused_by="selected",
    )


# Who is told


@pytest.fixture
def two_services(scene):
    """A local service that the global file names, and another in the public one's place."""
    public = scene.serve(scene.answers(DENIED))
    scene.patch.setattr(evaluation, "PUBLIC_ORIGIN", public.origin)
    return scene.serve(), public


@pytest.mark.parametrize("floor", [True, False])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("named", ["left out", "none", "another"])
def test_a_specific_file_has_no_say_in_who_is_told(scene, two_services, named, scope, floor):
    """The service that the global file names is asked, and nobody else."""
    executed = scene.stub_execution()
    local, public = two_services
    lay_floor(scene, {}, scope=scope, floor=floor)
    settings = scene.settings(fixture_guild_origin=None)
    if named == "left out":
        del settings["fixture_guild_origin"]
    if named == "another":
        settings["fixture_guild_origin"] = public.origin
    scene.operator.configure(settings, *SCOPES[scope])
    native(scene)
    scene.expect_allowed(statuses=HEALTHY, preflights=1)
    assert (len(local.requests), public.connections) == (1, 0)
    assert scene.chat.last_observation["guild_origin"] == local.origin
    assert executed == ["tools.echo"]


@pytest.mark.parametrize("protects", ["tools", "own"])
@pytest.mark.parametrize("floor", [True, False])
def test_nobody_is_told_of_a_private_host_that_the_global_file_does_not_permit(
    scene, other_url, two_services, floor, protects
):
    """Of its own server no more than of the global file's."""
    local, public = two_services
    servers = {"own": {"type": "streamable-http", "url": other_url}}
    own = {"protected_servers": {"own": other_url, "tools": scene.url}}
    lay_floor(scene, own, servers=servers, floor=floor, allow_private_hosts=False)
    native(scene, f"{protects}.echo")
    scene.expect_refused(
        "endpoint_refused",
        "host_not_public",
        endpoint=None,
        refused_by="selected",
        server=protects,
    )
    assert local.connections == public.connections == 0


# Until the tool has answered


def verification_off(scene):
    for server in scene.servers_of(scene.chat):
        scene.patch.setattr(server, "verify", False)


def description(scene):
    for server in scene.servers_of(scene.chat):
        (tool,) = [tool for tool in scene.definitions(server) if tool["name"] == "echo"]
        scene.patch.setitem(tool, "description", "Sends its text on.")


@pytest.fixture(params=[{}, NOTHING], ids=["both", "floor only"])
def pinned_by_the_floor(scene, request):
    """The floor pins the tools; the project's file protects them without pins, or not at all."""

    def pinned_by_the_floor():
        scene.use_mcp(tools=scene.url)
        servers = {"tools": {"url": scene.url, "tools": scene.pins(scene.live)}}
        lay_floor(scene, request.param, protected_servers=servers)

    return pinned_by_the_floor


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", [verification_off, description])
def test_a_change_while_the_service_is_asked(scene, pinned_by_the_floor, change, way):
    """What only the floor protects is watched like anything else."""
    scene.serve(scene.answers(before=lambda: change(scene)))
    pinned_by_the_floor()
    told = way(scene)
    record = scene.expect_refused(
        "binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY, told=told
    )
    assert record["refused_by"] is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", [verification_off, description])
def test_a_later_hook_that_changes_the_binding(scene, pinned_by_the_floor, change, way):
    """Refused as the tool begins."""
    pinned_by_the_floor()
    scene.add_hook("tool_execute_before", lambda agent, **_: change(scene))
    told = way(scene)
    scene.expect_refused(
        "binding_changed",
        None,
        "retry_later",
        preflights=1,
        statuses=HEALTHY,
        superseded=True,
        told=told,
    )


@pytest.mark.parametrize("change", [verification_off, description])
def test_a_change_while_the_call_runs(scene, pinned_by_the_floor, change):
    """The result is withheld."""
    pinned_by_the_floor()
    scene.tap.once(CALL, lambda: change(scene))
    native(scene, text=SECRET)
    scene.expect_refused(
        "binding_changed_during_call",
        preflights=1,
        statuses=HEALTHY,
        superseded=True,
        was_called=True,
    )
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps([*kept, scene.chat.shown])


# What it costs


@pytest.mark.parametrize("selected", [{}, NOTHING], ids=["both", "floor only"])
@pytest.mark.parametrize("way", WAYS)
def test_look_ups_of_ours(scene, look_ups, clock, way, selected):
    """Two for a call with kept evidence, as without a floor."""
    executed = scene.stub_execution()
    settings = {"cache_ttl_seconds": 300}
    lay_floor(scene, {**selected, **settings}, **settings)
    way(scene)
    look_ups.clear()
    way(scene)
    assert len(look_ups) == 2
    assert scene.preflights == 1
    assert executed == ["tools.echo"] * 2


# Names that the framework takes for patterns


PATTERNS = ["sho[p]", "sh*", "sho?"]


def open_pattern(scene, name):
    """Open a chat in a project of such a name, beside one that the name matches."""
    scene.operator.set_project_mcp("shop", {})
    scene.open_project({}, name)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_project_whose_name_is_a_pattern(scene, name):
    """The framework would read the file of another project; every MCP tool is refused instead."""
    scene.protect()
    open_pattern(scene, name)
    scene.operator.configure({"protected_servers": {}}, project="shop")
    scene.operator.configure(scene.settings(), project=name)
    native(scene)
    scene.expect_invalid(
        "the file: is under a folder, project or profile with *, ? or [ in its name, which Agent "
        "Zero takes for a pattern",
        UNTOLD,
        server=None,
    )


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_without_any_settings(scene, name):
    """Nothing is configured, so nothing is refused."""
    scene.protect()
    scene.operator.unconfigure()
    open_pattern(scene, name)
    native(scene)
    scene.expect_untouched()
    scene.expect_reached(1)


# Limits


def test_limit_a_project_that_switches_the_plugin_off(scene):
    """The framework then runs no hook of it: a floor is a setting of a plugin that runs."""
    executed = scene.stub_execution()
    scene.serve(scene.answers(DENIED))
    lay_floor(scene, NOTHING)
    (scene.operator.config_path(PROJECT).parent / ".toggle-0").touch()
    scene.operator.forget_extensions()
    native(scene)
    scene.expect_untouched()
    assert executed == ["tools.echo"]
