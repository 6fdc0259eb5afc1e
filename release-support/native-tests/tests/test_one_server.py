"""A policy, a lifetime and a deadline for one server, beside another one that has none of its own.

The two servers are one, reached by two URLs: `tools`, which has an entry with requirements of its
own, and `others`, which is approved in the short form.
"""

from __future__ import annotations

import time

import pytest

HEALTHY: dict[str, str] = {}
# What can be seen of a server that answers 401 without its key.
UNAUTHORIZED = {"protocol_handshake": "unknown", "agent_card_resolves": "failed"}
UNREACHABLE = {"endpoint_reachable": "failed", "protocol_handshake": "unknown"}
DENIED = {"protocol_handshake": "failed"}
CREDENTIALS = {"required_proven": ["endpoint_reachable"], "on_caution": "allow"}
LENIENT = {
    "required_proven": [],
    "tolerate_unknown_required": True,
    "on_caution": "allow",
    "on_unavailable": "allow",
}


@pytest.fixture
def protect_both(scene, other_tap, other_url):
    """Return what protects both servers: `own` is what the entry of `tools` says besides its URL."""

    def protect(own, **settings):
        scene.protect(**settings)
        scene.use_mcp(tools=scene.url, others=other_url)
        entries = {"tools": {"url": scene.url, **own}, "others": other_url}
        scene.operator.configure(scene.settings(protected_servers=entries, **settings))
        scene.tap.reset()
        other_tap.reset()

    return protect


def native(scene, name):
    scene.call(f"{name}.echo")


def legacy(scene, name):
    scene.chat.legacy(f"{name}.echo", {"text": "hello"})


def anew(scene, name, way=native):
    """Make a call in a fresh chat."""
    scene.chat = scene.new_chat()
    way(scene, name)


@pytest.mark.parametrize("way", [native, legacy])
def test_each_server_is_judged_by_its_own_policy(scene, protect_both, other_url, way):
    """The service says the same of both."""
    scene.serve(scene.answers(UNAUTHORIZED))
    protect_both({"policy": CREDENTIALS})
    way(scene, "others")
    scene.expect_refused(
        "required_check_unknown",
        None,
        "operator",
        preflights=1,
        statuses=UNAUTHORIZED,
        server="others",
        endpoint=other_url.removesuffix("/mcp"),
    )
    anew(scene, "tools", way)
    scene.expect_allowed(preflights=2, statuses=UNAUTHORIZED, tolerated=["delegate_with_caution"])
    scene.expect_reached()


def test_what_the_entry_leaves_out_comes_from_the_top_level(scene, protect_both):
    """Caution is permitted there, and the two checks are required as everywhere."""
    scene.serve(scene.answers(UNAUTHORIZED))
    protect_both({"policy": {"required_proven": ["endpoint_reachable"]}}, policy=LENIENT)
    native(scene, "tools")
    scene.expect_allowed(statuses=UNAUTHORIZED, tolerated=["delegate_with_caution"])
    protect_both({"policy": {"required_proven": ["endpoint_reachable"]}})
    anew(scene, "tools")
    scene.expect_refused("caution_not_permitted", preflights=2, statuses=UNAUTHORIZED)


def test_no_policy_of_an_entry_permits_a_handshake_that_failed(scene, protect_both):
    scene.serve(scene.answers(DENIED))
    protect_both({"policy": LENIENT})
    native(scene, "tools")
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=DENIED)


def test_a_server_of_another_name_is_judged_by_the_entry_of_its_url(scene, protect_both):
    scene.serve(scene.answers(UNAUTHORIZED))
    protect_both({"policy": CREDENTIALS})
    scene.use_mcp(renamed=scene.url)
    scene.tap.reset()
    native(scene, "renamed")
    scene.expect_allowed(statuses=UNAUTHORIZED, tolerated=["delegate_with_caution"])


def test_evidence_is_kept_as_long_as_the_entry_says(scene, protect_both, other_url, clock):
    protect_both({"cache_ttl_seconds": 30}, cache_ttl_seconds=300)
    for name in ("tools", "others"):
        native(scene, name)
    clock(29)
    for name in ("tools", "others"):
        native(scene, name)
    assert scene.asked == [scene.url, other_url]
    clock(2)
    for name in ("tools", "others"):
        native(scene, name)
    assert scene.asked == [scene.url, other_url, scene.url]


def test_an_entry_may_want_its_evidence_anew_for_every_call(scene, protect_both, other_url, clock):
    protect_both({"cache_ttl_seconds": 0}, cache_ttl_seconds=300)
    for name in ("tools", "others", "tools", "others"):
        native(scene, name)
    assert scene.asked == [scene.url, other_url, scene.url]


def test_a_refusal_on_kept_evidence_says_how_long_the_entry_keeps_it(scene, protect_both, clock):
    scene.serve(scene.answers(UNREACHABLE))
    protect_both({"cache_ttl_seconds": 60}, cache_ttl_seconds=300)
    native(scene, "tools")
    clock(20)
    anew(scene, "tools")
    scene.expect_refused(
        "do_not_delegate",
        None,
        "retry_after 40 s",
        preflights=1,
        statuses=UNREACHABLE,
        age=" (cached, age 20 s)",
    )


def test_the_deadline_is_that_of_the_entry(scene, protect_both, other_url):
    """The service takes a second."""
    scene.serve(scene.answers(before=lambda: time.sleep(1)))
    protect_both({"timeout_seconds": 0.3}, timeout_seconds=15)
    began = time.monotonic()
    native(scene, "tools")
    assert 0.3 <= time.monotonic() - began < 1
    scene.expect_refused("evidence_unavailable", "timeout", "retry_later", preflights=1)
    anew(scene, "others")
    scene.expect_allowed(
        preflights=2, statuses=HEALTHY, server="others", endpoint=other_url.removesuffix("/mcp")
    )


def test_an_entry_may_wait_longer_than_the_others(scene, protect_both, other_url):
    scene.serve(scene.answers(before=lambda: time.sleep(1)))
    protect_both({"timeout_seconds": 15}, timeout_seconds=0.3)
    native(scene, "tools")
    scene.expect_allowed(statuses=HEALTHY)
    scene.tap.reset()
    anew(scene, "others")
    scene.expect_refused(
        "evidence_unavailable",
        "timeout",
        "retry_later",
        preflights=2,
        server="others",
        endpoint=other_url.removesuffix("/mcp"),
    )


# With a floor, entry by entry


def lay_floor(scene, here, below, **globally):
    """Keep the global file below that of a project; each has an entry for `tools`."""
    entries = [{"tools": {"url": scene.url, **own}} for own in (here, below)]
    scene.protect(floor=True, protected_servers=entries[1], **globally)
    scene.open_project({})
    scene.operator.configure(scene.settings(protected_servers=entries[0]), "harbour", None)


def test_an_entry_of_a_project_does_not_lower_the_floor(scene):
    scene.serve(scene.answers(UNAUTHORIZED))
    lay_floor(scene, {"policy": LENIENT}, {})
    native(scene, "tools")
    scene.expect_refused(
        "required_check_unknown",
        None,
        "operator",
        preflights=1,
        statuses=UNAUTHORIZED,
        refused_by="floor",
    )


def test_the_entry_of_the_floor_counts_for_the_floor_alone(scene):
    """It permits what its own file does not; the project's file has to, as well."""
    scene.serve(scene.answers(UNAUTHORIZED))
    lay_floor(scene, {"policy": CREDENTIALS}, {"policy": CREDENTIALS})
    native(scene, "tools")
    scene.expect_allowed(statuses=UNAUTHORIZED, tolerated=["delegate_with_caution"])
    lay_floor(scene, {}, {"policy": CREDENTIALS})
    native(scene, "tools")
    scene.expect_refused(
        "required_check_unknown",
        None,
        "operator",
        preflights=2,
        statuses=UNAUTHORIZED,
        refused_by="selected",
    )


def test_an_entry_of_a_project_does_not_cut_the_deadline_of_the_entry_of_the_floor(scene):
    """The floor tolerates a service that says nothing; it would have heard the warning."""
    scene.serve(scene.answers(DENIED, before=lambda: time.sleep(0.5)))
    impatient = {"timeout_seconds": 0.1, "policy": LENIENT}
    patient = {"timeout_seconds": 10, "policy": LENIENT}
    lay_floor(scene, impatient, patient, timeout_seconds=0.1)
    native(scene, "tools")
    scene.expect_refused(
        "do_not_delegate", None, "operator", preflights=1, statuses=DENIED, refused_by="floor"
    )


# What is wrong with an entry


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ({"policy": {"on_caution": "yes"}}, "policy.on_caution: is none of the permitted values"),
        ({"policy": {"on_cauton": "deny"}}, "policy.on_cauton: is not a setting"),
        ({"policy": []}, "policy: must be an object, {...}"),
        ({"timeout_seconds": 60}, "timeout_seconds: is outside its limits"),
        ({"cache_ttl_seconds": "1"}, "cache_ttl_seconds: must be a number of seconds"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_with_the_path_of_the_entry(scene, protect_both, own, problem):
    protect_both(own)
    native(scene, "tools")
    scene.expect_invalid(f"protected_servers.tools.{problem}")
