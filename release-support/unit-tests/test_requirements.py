"""A policy for one server: it decides as it would at the top of a file with that server alone."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

import floor_statement
from floor_statement import URLS, Answer, Call, Plugin

CASES = 1500
PROVEN = dict.fromkeys(floor_statement.CHECKS, "proven")


def alone(raw: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a file with one server, in the short form, and all that is asked of it at the top."""
    entry = raw["protected_servers"][name]
    own = entry if isinstance(entry, dict) else {"url": entry}
    written = {key: value for key, value in own.items() if key != "url" and value is not None}
    policies = [each.get("policy") or {} for each in (raw, own)]
    merged: dict[str, Any] = {}
    for policy in policies:
        merged |= {key: value for key, value in policy.items() if value is not None}
    return {**raw, **written, "policy": merged, "protected_servers": {name: own["url"]}}


def outcome(plugin: Plugin, here: Any, everywhere: Any, call: Call) -> tuple[Any, ...]:
    """Return all that a file has a say in."""
    plugin.now += call.later
    says, told = plugin.call(here, everywhere, call)
    judgement = plugin.judgement
    if judgement is None:
        return says, told
    decided = (judgement.reason, judgement.sub_reason, judgement.error, judgement.tolerated)
    return (says, told, *decided, judgement.cache_ttl_seconds, judgement.source)


def test_an_entry_decides_as_its_requirements_at_the_top_of_a_file_of_its_own() -> None:
    rng, seen = random.Random(11), {"allowed": 0, "refused": 0, "own": 0}
    while seen["allowed"] + seen["refused"] < CASES:
        files = floor_statement.pair(rng)
        if not all(file.is_valid and "tools" in file.raw["protected_servers"] for file in files):
            continue
        here, everywhere = (file.raw for file in files)
        together, single = Plugin(), Plugin()
        for call in floor_statement.history(rng):
            call = call._replace(name="tools")
            expected = outcome(single, alone(here, "tools"), alone(everywhere, "tools"), call)
            assert outcome(together, here, everywhere, call) == expected, (here, everywhere, call)
            seen[expected[0]] += 1
            seen["own"] += isinstance(here["protected_servers"]["tools"], dict)
    assert min(seen.values()) > CASES / 5, seen


def test_two_servers_of_one_file_are_judged_each_by_its_own() -> None:
    """The same answer about both: a handshake that nobody could make, and no card."""
    answer = Answer(
        {**PROVEN, "protocol_handshake": "unknown", "agent_card_resolves": "failed"},
        "",
        0.01,
        "",
        0,
    )
    own = {"required_proven": ["endpoint_reachable"], "on_caution": "allow"}
    raw = {"protected_servers": {"notes": {"url": URLS[0], "policy": own}, "maps": URLS[1]}}
    plugin, said = Plugin(), {}
    for name, url in (("notes", URLS[0]), ("maps", URLS[1]), ("other", URLS[0])):
        said[name] = plugin.call(raw, raw, Call(name, url, 0.0, answer))[0]

    assert said == {"notes": "allowed", "maps": "refused", "other": "allowed"}


# The recipe of the documentation

DOCS = Path(__file__).parents[1] / "docs"
README = Path(__file__).parents[2] / "README.md"


def recipe() -> dict[str, Any]:
    """Return the documented file for a server that wants credentials."""
    page = (DOCS / "settings.md").read_text()
    section = page.split("\n### A server that wants credentials\n")[1]
    found: dict[str, Any] = json.loads(section.split("```json\n")[1].split("```")[0])
    return found


@pytest.mark.parametrize(
    ("policy", "handshake", "reason"),
    [
        ({}, "unknown", None),
        ({"required_proven": None}, "unknown", "required_check_unknown"),
        ({"on_caution": None}, "unknown", "caution_not_permitted"),
        ({"required_proven": None, "tolerate_unknown_required": True}, "unknown", None),
        ({"tolerate_unknown_required": True}, "failed", "do_not_delegate"),
    ],
    ids=str,
)
def test_the_recipe_lets_a_server_pass_that_wants_credentials(
    policy: dict[str, Any], handshake: str, reason: str | None
) -> None:
    """And it says true of what else would, and of what would not."""
    raw = recipe()
    (entry,) = raw["protected_servers"].values()
    assert f'"policy": {json.dumps(entry["policy"])}' in README.read_text()
    entry["policy"] |= policy
    statuses = dict.fromkeys(floor_statement.CHECKS, "unknown") | {
        "endpoint_reachable": "proven",
        "protocol_handshake": handshake,
        "agent_card_resolves": "failed",
    }
    plugin = Plugin()

    plugin.call(raw, raw, Call("notes", entry["url"], 0.0, Answer(statuses, "", 0.01, "", 0)))

    assert plugin.judgement.reason == reason


def test_of_two_entries_with_one_url_the_first_judges_a_server_of_another_name() -> None:
    answer = Answer({**PROVEN, "agent_card_resolves": "failed"}, "", 0.01, "", 0)
    entries = {
        "strict": URLS[0],
        "lenient": {"url": URLS[0], "policy": {"on_caution": "allow"}},
    }
    call = Call("other", URLS[0], 0.0, answer)

    for order, says in ((("strict", "lenient"), "refused"), (("lenient", "strict"), "allowed")):
        raw = {"protected_servers": {name: entries[name] for name in order}}
        assert Plugin().call(raw, raw, call)[0] == says
