"""The gate and the command `check` come to the same decision about the same configuration.

Each configuration goes through both: a call of an agent in a project, and the command over the
files that the same host reads.
"""

from __future__ import annotations

import json

import pytest
from usr.plugins.agent_guild_preflight.helpers.commands.main import main

PROJECT = "harbour"
CAUTION = {"agent_card_resolves": "failed"}
DENIED = {"protocol_handshake": "failed"}
UNKNOWN = {"protocol_handshake": "unknown"}
HEALTHY: dict[str, str] = {}
LENIENT = {"on_caution": "allow", "tolerate_unknown_required": True, "required_proven": []}
STRICT = {"required_proven": ["independent_evidence"]}
OTHER = {"protected_servers": {"tools": "https://tools.example.com/mcp"}}
BROKEN = "{"

# What the service finds; what the project's file says other than `Scene.settings`, or its whole
# text, or None for no file; the same of the global file.
CONFIGURATIONS = {
    "healthy": (HEALTHY, None, {}),
    "caution": (CAUTION, None, {}),
    "caution permitted": (CAUTION, None, {"policy": {"on_caution": "allow"}}),
    "denied": (DENIED, None, {}),
    "denied, all permitted": (DENIED, None, {"policy": LENIENT | {"on_unavailable": "allow"}}),
    "unknown": (UNKNOWN, None, {}),
    "unknown tolerated": (UNKNOWN, None, {"policy": {"tolerate_unknown_required": True}}),
    "more required": (HEALTHY, None, {"policy": STRICT}),
    "nothing required": (UNKNOWN, None, {"policy": {"required_proven": []}}),
    "inconsistent": (None, None, {}),
    "inconsistent, unreachable tolerated": (
        None,
        None,
        {"policy": {"on_unavailable": "allow_unreachable"}},
    ),
    "inconsistent tolerated": (None, None, {"policy": {"on_unavailable": "allow"}}),
    "private": (HEALTHY, None, {"allow_private_hosts": False}),
    "no local service": (HEALTHY, None, {"fixture_guild_origin": None}),
    "another URL": (HEALTHY, None, OTHER),
    "not the one spelling": (HEALTHY, None, {"protected_servers": {"tools": "HTTP://x.example/"}}),
    "typo": (HEALTHY, None, {"polcy": {}}),
    "typo below": (HEALTHY, None, {"policy": {"on_cauton": "allow"}}),
    "unreadable": (HEALTHY, None, BROKEN),
    "project wins": (CAUTION, {"policy": LENIENT}, {}),
    "project is stricter": (HEALTHY, {"policy": STRICT}, {}),
    "project is broken": (HEALTHY, BROKEN, {}),
    "project names a service of its own": (HEALTHY, {}, {"fixture_guild_origin": None}),
    "project has a floor": (HEALTHY, {"floor": True}, {}),
    "floor refuses": (CAUTION, {"policy": LENIENT}, {"floor": True}),
    "floor allows": (HEALTHY, {"policy": LENIENT}, {"floor": True}),
    "project refuses above a floor": (HEALTHY, {"policy": STRICT}, {"floor": True}),
    "project protects nothing above a floor": (
        CAUTION,
        {"protected_servers": {}},
        {"floor": True},
    ),
    "project approves another URL above a floor": (HEALTHY, OTHER, {"floor": True}),
    "floor is broken": (HEALTHY, {}, BROKEN),
    "floor is no boolean": (HEALTHY, {}, {"floor": "true"}),
    "floor has a typo": (HEALTHY, {}, {"floor": True, "polcy": {}}),
}


def service_for(scene, statuses):
    """Find these statuses; without any, give an answer that breaks the contract."""
    return scene.answers(headline=None) if statuses is None else scene.answers(statuses)


def configure(scene, project, everywhere):
    """Write both files, and the MCP settings where the command looks for them."""
    scene.protect()
    scene.open_project({})
    for raw, scope in ((everywhere, None), (project, PROJECT)):
        if raw is not None:
            text = raw if isinstance(raw, str) else scene.settings(**raw)
            scene.operator.configure(text, project=scope)
    path = scene.operator.root / "usr" / "settings.json"
    servers = {"tools": {"type": "streamable-http", "url": scene.url}}
    current = json.loads(path.read_text())
    path.write_text(json.dumps({**current, "mcp_servers": json.dumps({"mcpServers": servers})}))


def decided_by_the_gate(scene):
    """Make a call; give its decision, reason, sub-reason, who refused, and the text."""
    scene.call()
    (record,) = scene.chat.records
    if record["reason"] == "invalid_configuration":
        return ("refused", "invalid_configuration", None), scene.told()
    refused = record["decision"] == "refused"
    words = ("decision", "reason", "sub_reason", "refused_by", "tolerated", "verdict")
    return tuple(record[word] for word in words), scene.told() if refused else None


def decided_by_the_command(scene, capsys):
    """Run `check` over the same files; give the same."""
    capsys.readouterr()
    root = str(scene.operator.root)
    code = main(["check", "tools", "--root", root, "--project", PROJECT, "--json"])
    output, _ = capsys.readouterr()
    data = json.loads(output)
    if code == 12:
        return ("refused", "invalid_configuration", None), None
    words = ("decision", "reason", "sub_reason", "refused_by", "tolerated", "verdict")
    told = data["refusal"] and scene.without_times(data["refusal"])
    return tuple(data[word] for word in words), told


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_both_come_to_the_same(scene, capsys, name):
    """Decision, reason, who refused, what was tolerated, and the line for the model."""
    statuses, project, everywhere = CONFIGURATIONS[name]
    scene.serve(service_for(scene, statuses))
    configure(scene, project, everywhere)
    decision, told = decided_by_the_gate(scene)
    preflights = scene.preflights
    again, line = decided_by_the_command(scene, capsys)
    assert again == decision
    assert scene.preflights == 2 * preflights
    if decision[1] != "invalid_configuration":
        assert line == told


def test_the_configurations_come_to_different_decisions(scene, capsys):
    """The table above would show little if all were refused for one reason."""
    found = set()
    for statuses, project, everywhere in CONFIGURATIONS.values():
        scene.serve(service_for(scene, statuses))
        configure(scene, project, everywhere)
        found.add(decided_by_the_command(scene, capsys)[0][:2])
        scene.operator.unconfigure()
    assert found == {
        ("allowed", None),
        *(
            ("refused", reason)
            for reason in (
                *("invalid_configuration", "endpoint_refused", "url_mismatch"),
                *("evidence_inconsistent", "do_not_delegate", "required_check_unknown"),
                "caution_not_permitted",
            )
        ),
    }
