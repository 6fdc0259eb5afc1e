"""What each setting does, seen from outside, and which file it is taken from."""

from __future__ import annotations

import json
import threading
import time

import pytest
from local_guild.wire import Send, Wait, answer
from stage import chats
from stage.boot import PLUGIN
from stage.chats import PROFILE
from usr.plugins.agent_guild_preflight.helpers import evaluation

PROJECT = "harbour"
HEALTHY: dict[str, str] = {}
CAUTION = {"agent_card_resolves": "failed"}
DENIED = {"protocol_handshake": "failed"}
UNKNOWN = {"protocol_handshake": "unknown"}
PUBLIC_ENDPOINT = "https://tools.example.com"

# From the most specific to the least; the last is the shipped file, set by the environment.
SCOPES = {
    "project-and-profile": (PROJECT, PROFILE),
    "project": (PROJECT, None),
    "profile": (None, PROFILE),
    "global": (None, None),
}
DEFAULT = "default"


def approval(scope):
    """Return settings that show, in a denial, which file they came from."""
    return {"protected_servers": {"tools": f"https://{scope}.example.com/mcp"}}


def set_default(scene, key, value):
    """Set a default through the environment, as an operator of a container does."""
    scene.patch.setenv(f"A0_SET_{PLUGIN}__{key}", value)


@pytest.mark.parametrize("winner", [*SCOPES, DEFAULT])
def test_the_most_specific_file_wins(scene, winner):
    """Project and profile, project, profile, global, default: in this order."""
    scene.protect()
    scene.operator.unconfigure()
    scene.open_project({})
    set_default(scene, "protected_servers", json.dumps(approval(DEFAULT)["protected_servers"]))
    present = list(SCOPES)[[*SCOPES, DEFAULT].index(winner) :]
    for scope in present:
        scene.operator.configure(approval(scope), *SCOPES[scope])
    scene.call()
    scene.expect_refused("url_mismatch", endpoint=f"https://{winner}.example.com")


def test_files_of_other_projects_and_profiles_count_for_nothing(scene):
    """A file is in force for its own project or profile only."""
    scene.protect()
    scene.operator.configure(approval("other"), "another_project")
    scene.operator.configure(approval("other"), None, "another_profile")
    scene.operator.configure(approval("other"), PROJECT, "another_profile")
    scene.open_project({})
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)


@pytest.mark.parametrize("scope", ["project-and-profile", "project", "profile"])
def test_a_file_wins_whole(scene, scope):
    """What the more specific file leaves out is the default, never the global file's value."""
    scene.serve(scene.answers(CAUTION))
    scene.protect(policy={"on_caution": "allow"}, cache_ttl_seconds=300)
    scene.open_project({})
    specific = scene.settings()
    scene.operator.configure(specific, *SCOPES[scope])
    scene.call()
    scene.expect_refused("caution_not_permitted", statuses=CAUTION, preflights=1)


def test_an_empty_file_of_a_project_wins_too(scene):
    """It protects nothing there, and the global file goes on protecting elsewhere."""
    scene.serve(scene.answers(DENIED))
    scene.protect()
    scene.operator.configure({}, PROJECT)
    scene.open_project({})
    scene.call()
    assert "echo: hello" in scene.chat.shown[-1]
    scene.expect_untouched()
    scene.chat = scene.new_chat()
    scene.tap.reset()
    scene.call()
    scene.expect_refused("do_not_delegate", None, "operator", statuses=DENIED, preflights=1)


# Defaults


@pytest.mark.parametrize("others", ["absent", "null"])
def test_the_defaults(scene, others):
    """The public service is asked, caution is refused, and the answer is kept."""
    scene.serve(scene.answers(CAUTION))
    scene.protect_publicly(scene.guild.origin)
    keys = ["policy", "timeout_seconds", "cache_ttl_seconds", "allow_private_hosts"]
    nulls = dict.fromkeys([*keys, "fixture_guild_origin"]) if others == "null" else {}
    servers = {"protected_servers": {"tools": scene.public_url}}
    scene.operator.configure(nulls | servers)
    scene.call()
    scene.expect_refused(
        "caution_not_permitted", endpoint=PUBLIC_ENDPOINT, statuses=CAUTION, preflights=1
    )
    scene.call()
    assert scene.preflights == 1
    assert scene.chat.records[1]["cached"] is True


def test_null_in_the_policy_means_its_defaults(scene):
    """An unknown handshake is refused by default, and null does not change that."""
    keys = ["required_proven", "tolerate_unknown_required", "on_caution", "on_unavailable"]
    scene.serve(scene.answers(UNKNOWN))
    scene.protect(policy=dict.fromkeys(keys))
    scene.call()
    scene.expect_refused("required_check_unknown", None, "operator", statuses=UNKNOWN, preflights=1)


def test_defaults_from_the_environment(scene):
    """They stand in for the shipped file's values, at every level."""
    scene.serve(scene.answers(CAUTION))
    scene.protect_publicly(scene.guild.origin)
    scene.operator.unconfigure()
    set_default(scene, "protected_servers", json.dumps({"tools": scene.public_url}))
    set_default(scene, "policy__on_caution", "allow")
    set_default(scene, "cache_ttl_seconds", "0")
    executed = scene.stub_execution()
    scene.call()
    scene.expect_allowed(
        endpoint=PUBLIC_ENDPOINT, statuses=CAUTION, tolerated=["delegate_with_caution"]
    )
    scene.call()
    assert scene.preflights == 2
    assert executed == ["tools.echo"] * 2


def test_the_environment_does_not_touch_a_file(scene):
    """A file wins whole over every default, wherever that came from."""
    scene.serve(scene.answers(CAUTION))
    set_default(scene, "policy__on_caution", "allow")
    scene.protect()
    scene.call()
    scene.expect_refused("caution_not_permitted", statuses=CAUTION, preflights=1)


# Each setting


def test_timeout_seconds(scene):
    """The deadline is the setting's, and an answer within it is as good as any."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(timeout_seconds=0.5)
    began = time.monotonic()
    scene.call()
    assert 0.5 <= time.monotonic() - began < 4
    scene.expect_refused("evidence_unavailable", "timeout", "retry_later", preflights=1)
    scene.operator.configure(scene.settings(timeout_seconds=15))
    scene.chat = scene.new_chat()
    turn = chats.begin(scene.chat.native_turn(("tools.echo", {"text": "hello"})))
    assert scene.guild.wait_for_requests(2, 10)
    answerable.set()
    turn.result(10)
    scene.expect_allowed(preflights=2, statuses=HEALTHY)


@pytest.mark.parametrize(("ttl", "preflights"), [(0, 3), (1, 1), (300, 1), (86_400, 1)])
def test_cache_ttl_seconds(scene, clock, ttl, preflights):
    """Three calls: with 0 each asks anew, otherwise they share one answer."""
    scene.protect(cache_ttl_seconds=ttl)
    executed = scene.stub_execution()
    for _ in range(3):
        scene.call()
    assert scene.preflights == preflights
    assert [record["cached"] for record in scene.chat.records] == [False] + [ttl > 0] * 2
    assert executed == ["tools.echo"] * 3


def test_evidence_expires(scene, clock):
    """At the end of its time the endpoint is asked about again."""
    scene.stub_execution()
    scene.protect(cache_ttl_seconds=300)
    scene.call()
    clock(299.9)
    scene.call()
    assert scene.preflights == 1
    clock(0.1)
    scene.call()
    assert scene.preflights == 2
    ages = [record["age_seconds"] for record in scene.chat.records]
    assert ages == [0.0, 299.9, 0.0]


def test_the_readers_own_ttl_decides(scene, clock):
    """Evidence that is fresh enough for one configuration is too old for another."""
    scene.stub_execution()
    scene.protect(cache_ttl_seconds=300)
    scene.call()
    clock(20)
    scene.operator.configure(scene.settings(cache_ttl_seconds=10))
    scene.call()
    assert scene.preflights == 2
    clock(5)
    scene.operator.configure(scene.settings(cache_ttl_seconds=0))
    scene.call()
    assert scene.preflights == 3
    scene.operator.configure(scene.settings(cache_ttl_seconds=300))
    scene.call()
    assert scene.preflights == 3
    # The call with 0 has left nothing behind.
    assert scene.chat.records[-1]["age_seconds"] == 5.0


def test_evidence_is_kept_for_the_exact_url_and_service(scene, other_url):
    """Another URL, or the same one at another service, is asked about anew."""
    scene.stub_execution()
    scene.protect(cache_ttl_seconds=300)
    scene.call()
    first = scene.guild
    scene.serve()
    scene.operator.configure(scene.settings(cache_ttl_seconds=300))
    scene.call()
    assert (len(first.requests), scene.preflights) == (1, 1)
    for approved in (f"{scene.url}/", other_url):
        scene.use_mcp(tools=approved)
        settings = scene.settings(protected_servers={"tools": approved}, cache_ttl_seconds=300)
        scene.operator.configure(settings)
        scene.call()
    assert scene.asked == [scene.url, f"{scene.url}/", other_url]
    assert [record["cached"] for record in scene.chat.records] == [False] * 4


def test_a_failure_is_never_kept(scene):
    """The next call asks again, whatever the ttl."""
    healthy, answers = scene.answers(), [Send(answer(b"", status=b"500 Oh")), Send(answer(b"{}"))]
    scene.serve(lambda head: [answers.pop()] if answers else healthy(head))
    scene.protect(cache_ttl_seconds=300)
    executed = scene.stub_execution()
    for _ in range(4):
        scene.call()
    reasons = [record["sub_reason"] for record in scene.chat.records]
    assert reasons == ["shape", "http_status", None, None]
    assert scene.preflights == 3
    assert executed == ["tools.echo"] * 2


@pytest.mark.parametrize(
    ("required", "statuses", "reason"),
    [
        ([], UNKNOWN, None),
        (["protocol_handshake"], UNKNOWN, "required_check_unknown"),
        (["endpoint_reachable"], UNKNOWN, None),
        (["independent_evidence"], HEALTHY, "required_check_unknown"),
        (["independent_evidence"], {"independent_evidence": "proven"}, None),
    ],
)
def test_required_proven(scene, required, statuses, reason):
    """Only the named checks are required."""
    scene.serve(scene.answers(statuses))
    scene.protect(policy={"required_proven": required})
    scene.call()
    if reason is None:
        scene.expect_allowed(statuses=statuses)
    else:
        scene.expect_refused(reason, None, "operator", statuses=statuses, preflights=1)


@pytest.mark.parametrize("tolerated", [False, True])
def test_tolerate_unknown_required(scene, tolerated):
    """An unknown check may be tolerated, a failed one never."""
    scene.serve(scene.answers(UNKNOWN))
    settings = {"tolerate_unknown_required": tolerated}
    scene.protect(policy=settings)
    scene.call()
    if tolerated:
        scene.expect_allowed(statuses=UNKNOWN, tolerated=["protocol_handshake"])
    else:
        scene.expect_refused(
            "required_check_unknown", None, "operator", statuses=UNKNOWN, preflights=1
        )
    scene.serve(scene.answers(DENIED))
    scene.operator.configure(scene.settings(policy=settings))
    scene.chat = scene.new_chat()
    scene.tap.reset()
    scene.call()
    scene.expect_refused("do_not_delegate", None, "operator", statuses=DENIED, preflights=1)


@pytest.mark.parametrize("choice", ["deny", "allow"])
def test_on_caution(scene, choice):
    """The verdict that asks for caution."""
    scene.serve(scene.answers(CAUTION))
    scene.protect(policy={"on_caution": choice})
    scene.call()
    if choice == "allow":
        scene.expect_allowed(statuses=CAUTION, tolerated=["delegate_with_caution"])
    else:
        scene.expect_refused("caution_not_permitted", statuses=CAUTION, preflights=1)


@pytest.mark.parametrize("choice", ["deny", "allow_unreachable", "allow"])
def test_on_unavailable(scene, choice):
    """A service that answers nothing usable; `test_decisions` has the finer differences."""
    scene.serve([Send(answer(b"", status=b"500 Internal Server Error"))])
    scene.protect(policy={"on_unavailable": choice})
    scene.call()
    if choice == "allow":
        scene.expect_allowed(tolerated=["http_status"])
    else:
        scene.expect_refused("evidence_unavailable", "http_status", "retry_later", preflights=1)


def test_allow_private_hosts(scene):
    """Lifts the rule on private hosts towards a local service, and no other rule."""
    scene.protect(allow_private_hosts=False)
    scene.call()
    scene.expect_refused("endpoint_refused", "host_not_public", endpoint=None)
    scene.operator.configure(scene.settings(protected_servers={"tools": f"{scene.url}?key=1"}))
    scene.chat = scene.new_chat()
    scene.call()
    scene.expect_refused("endpoint_refused", "query", endpoint=None)
    scene.operator.configure(scene.settings())
    scene.chat = scene.new_chat()
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)


def test_protected_servers_binds_byte_for_byte(scene):
    """A path that differs in one character is another URL."""
    scene.protect(protected_servers={"tools": f"{scene.url}/"})
    scene.call()
    scene.expect_refused("url_mismatch")


# The local service


@pytest.fixture
def two_services(scene):
    """A local service and, in the public one's place, another that refuses everything."""
    local = scene.serve()
    public = scene.serve(scene.answers(DENIED))
    scene.patch.setattr(evaluation, "PUBLIC_ORIGIN", public.origin)
    return scene, local, public


UNCONFIRMED = {"none": {"fixture_guild_origin": None}, "no file": None}


@pytest.mark.parametrize("globally", UNCONFIRMED.values(), ids=UNCONFIRMED)
@pytest.mark.parametrize("scope", ["project", "profile"])
def test_a_local_service_that_the_global_file_does_not_name(two_services, scope, globally):
    """A project's file must not choose who is asked: the public service is."""
    scene, local, public = two_services
    scene.protect_publicly()
    scene.operator.unconfigure()
    if globally is not None:
        scene.operator.configure(globally)
    scene.open_project({})
    scene.alter(url=scene.public_url)
    (server,) = scene.servers_of(scene.chat)
    scene.patch.setattr(server, "url", scene.public_url)
    servers = {"tools": scene.public_url}
    chosen = scene.settings(protected_servers=servers, fixture_guild_origin=local.origin)
    scene.operator.configure(chosen, *SCOPES[scope])
    scene.call()
    scene.expect_refused(
        "do_not_delegate",
        None,
        "operator",
        endpoint=PUBLIC_ENDPOINT,
        statuses=DENIED,
        preflights=1,
    )
    assert scene.chat.last_observation["guild_origin"] == public.origin
    assert local.connections == 0


@pytest.mark.parametrize("private", [True, False])
def test_a_private_endpoint_is_not_told_to_the_public_service(two_services, private):
    """Nor to a local one that the global file does not name."""
    scene, local, public = two_services
    scene.protect()
    scene.operator.configure({"fixture_guild_origin": None, "allow_private_hosts": private})
    scene.open_project({})
    scene.operator.configure(scene.settings(fixture_guild_origin=local.origin), PROJECT)
    scene.call()
    why = "private_needs_local_service" if private else "host_not_public"
    scene.expect_refused("endpoint_refused", why, endpoint=None)
    assert local.connections == public.connections == 0


def test_a_private_endpoint_is_not_told_without_a_global_file(two_services):
    """The shipped defaults permit none."""
    scene, local, public = two_services
    scene.protect()
    scene.operator.unconfigure()
    scene.open_project({})
    scene.operator.configure(scene.settings(fixture_guild_origin=local.origin), PROJECT)
    scene.call()
    scene.expect_refused("endpoint_refused", "host_not_public", endpoint=None)
    assert local.connections == public.connections == 0


@pytest.mark.parametrize("named", [True, False])
def test_a_project_protects_a_server_of_its_own(two_services, named):
    """The service that the global file names is asked, whether the project's names it or not."""
    scene, local, public = two_services
    scene.protect()
    scene.operator.configure({"fixture_guild_origin": local.origin, "allow_private_hosts": True})
    scene.open_project({})
    origin = local.origin if named else None
    scene.operator.configure(scene.settings(fixture_guild_origin=origin), PROJECT)
    scene.call()
    scene.expect_allowed(preflights=0, statuses=HEALTHY)
    assert (len(local.requests), public.connections) == (1, 0)
    assert scene.chat.last_observation["guild_origin"] == local.origin


# What is no configuration


UNREADABLE = {
    "malformed": ('{"protected_servers": ', "the file: cannot be read as plain JSON"),
    "null": ("null", "the file: must be an object, {...}"),
    "list": ("[]", "the file: must be an object, {...}"),
    "text": ('"deny"', "the file: must be an object, {...}"),
    "empty": ("", "the file: cannot be read as plain JSON"),
}


@pytest.mark.parametrize(
    ("scope", "kind"),
    [*(("global", kind) for kind in UNREADABLE), *((scope, "malformed") for scope in SCOPES)][:-1],
)
def test_a_file_that_is_no_configuration(scene, scope, kind):
    """It wins like any other, and refuses: no less specific file is looked at."""
    text, problem = UNREADABLE[kind]
    scene.protect()
    scene.open_project({})
    scene.operator.configure(text, *SCOPES[scope])
    scene.call()
    scene.expect_invalid(server=None)
    assert scene.chat.log_lines[0]["content"].startswith(problem)


INVALID = {
    "timeout_seconds": ["NaN", "Infinity", "0", "-1", "15.1", '"5"', "true", "[]"],
    "cache_ttl_seconds": ["NaN", "-0.1", "86400.5", '"0"', "false"],
    "allow_private_hosts": ['"false"', "0", "1"],
    "fixture_guild_origin": ['"http://localhost:1"', '"https://127.0.0.1:1"', "0"],
    "policy": ["[]", '"deny"', '{"required_proven": ["reachable"]}', '{"on_caution": "Allow"}'],
    "Timeout_seconds": ["5"],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in INVALID.items() for value in values]
)
def test_a_value_that_is_no_setting(scene, key, value):
    """Refused for the protected server, with the key told to the operator."""
    scene.protect()
    valid = json.dumps({k: v for k, v in scene.settings().items() if k != key})
    scene.operator.configure(f'{valid[:-1]}, "{key}": {value}}}')
    scene.call()
    scene.expect_invalid()
    assert scene.chat.log_lines[0]["content"].startswith(key)


@pytest.mark.parametrize(
    "valid",
    [{"timeout_seconds": 15}, {"timeout_seconds": 1}, {"cache_ttl_seconds": 86_400}],
    ids=str,
)
def test_a_value_at_its_limit(scene, valid):
    """Limits are inclusive."""
    scene.protect(**valid)
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)


def test_a_deleted_default_file(scene):
    """A damaged installation refuses every MCP call; with a configuration it does not matter."""
    scene.protect()
    path = scene.operator.root / "usr" / "plugins" / PLUGIN / "default_config.yaml"
    aside = path.with_suffix(".aside")
    path.rename(aside)
    try:
        scene.call()
        scene.operator.unconfigure()
        refused = scene.new_chat()
        refused.native(("tools.echo", {"text": "again"}))
    finally:
        aside.rename(path)
    scene.expect_allowed(statuses=HEALTHY)
    line = scene.line("invalid_configuration", "operator", server=None, endpoint=None)
    assert scene.told(refused) == line
    scene.expect_reached(1)


def test_a_broken_global_file_is_named(scene):
    """Nobody can tell whether it has a floor, or names the service that the project's file names."""
    scene.protect()
    scene.operator.configure(scene.settings(), project="harbour")
    scene.operator.configure("{")
    scene.chat = scene.new_chat(project="harbour")
    scene.tap.reset()
    scene.call()
    scene.expect_invalid(
        "global config.json, the file: cannot be read as plain JSON, or is gone",
        "global config.json, protected_servers: is missing or unreadable, so every MCP tool is "
        "refused; after removing the plugin, restart Agent Zero",
        server=None,
        refused_by="floor",
    )
