"""`lint`: every problem and every warning, whole, in a folder made by hand."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from cryptography import x509
from local_guild.wire import Script, Send, Stall, WireServer, answer
from stage.certificates import Authority
from stage.tap import Tap
from usr.plugins.agent_guild_preflight.helpers.commands.lint import redirects
from usr.plugins.agent_guild_preflight.helpers.commands.main import main
from usr.plugins.agent_guild_preflight.helpers.commands.shared.findings import (
    STOPS_THE_GATE,
    Finding,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.endpoint import screen
from usr.plugins.agent_guild_preflight.helpers.settings.problems import Problem

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60

NAME = "plugins/agent_guild_preflight"
PLUGIN = f"usr/{NAME}"
HOOK = "extensions/python/tool_execute_before/_45_agent_guild_preflight.py"
GLOBAL = f"{PLUGIN}/config.json"
DEFAULT = f"{PLUGIN}/default_config.yaml"
PROJECT = f"usr/projects/shop/.a0proj/{NAME}/config.json"
PROFILE = f"usr/agents/agent0/{NAME}/config.json"
SETTINGS = "usr/settings.json"

URL = "https://mcp.example.com/mcp"
WEATHER = {"weather": URL}
DIGEST = "sha256:" + "0" * 64
SHOP = ("--project", "shop")


def values_in_effect(**changed: tuple[object, str]) -> dict[str, dict[str, object]]:
    """Return what `--json` says of one server: the shipped values, but for those named here."""
    values = {
        "policy.required_proven": (["endpoint_reachable", "protocol_handshake"], "default"),
        "policy.tolerate_unknown_required": (False, "default"),
        "policy.on_caution": ("deny", "default"),
        "policy.on_unavailable": ("deny", "default"),
        "timeout_seconds": (5, "default"),
        "cache_ttl_seconds": (300, "default"),
    }
    values |= {path.replace("policy_", "policy."): value for path, value in changed.items()}
    return {path: {"value": value, "from": origin} for path, (value, origin) in values.items()}


class Output(NamedTuple):
    """What a run printed: the head, a block of lines for each finding, and the count."""

    code: int
    head: list[str]
    findings: list[list[str]]
    count: str
    errors: str


class Folder:
    """An Agent Zero folder with the plugin installed, one project, and MCP settings that agree."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._capsys = root, capsys
        for name in ("plugin.yaml", "default_config.yaml", HOOK):
            self.put(f"{PLUGIN}/{name}", (CHECKOUT / name).read_text())
        self.put("usr/projects/shop/.a0proj/project.json", "{}")
        self.serve({"weather": {"url": URL}})

    def put(self, path: str, content: object = "") -> None:
        """Write a file: text as it is, anything else as JSON."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))

    def serve(self, servers: object) -> None:
        """Write the MCP settings, as Agent Zero keeps them: JSON within JSON, each URL with a type."""
        if isinstance(servers, dict):
            servers = {
                name: {"type": "streamable-http", **server} if "url" in server else server
                for name, server in servers.items()
            }
        self.put(SETTINGS, {"mcp_servers": json.dumps({"mcpServers": servers})})

    def lint(self, *arguments: str) -> Output:
        """Run the command."""
        code = main(["lint", "--root", str(self.root), *arguments])
        printed = self._capsys.readouterr()
        head, *findings, count = printed.out.removesuffix("\n").split("\n\n")
        blocks = [block.split("\n") for block in findings]
        return Output(code, head.split("\n"), blocks, count, printed.err)

    def as_json(self, *arguments: str) -> Any:
        """Run the command with `--json`."""
        main(["lint", "--root", str(self.root), "--json", *arguments])
        return json.loads(self._capsys.readouterr().out)

    def problems(self, settings: object, file: str = GLOBAL, *arguments: str) -> list[list[str]]:
        """Write a settings file and give the problems; there is nothing else then."""
        self.put(file, settings)
        output = self.lint(*arguments)
        assert output.code == 12
        number = len(output.findings)
        assert output.count == f"{number} problem{'s' * (number != 1)}, no warnings"
        return output.findings

    def warning(self, *arguments: str, stops: bool = False) -> list[str]:
        """Return the only finding, a warning; `stops`: a problem, the gate does not run with it."""
        output = self.lint(*arguments)
        expected = (0, "no problems, 1 warning")
        if stops:
            expected = (12, "1 problem, no warnings; nothing is checked here")
        assert (output.code, output.count) == expected
        assert len(output.findings) == 1
        return output.findings[0]


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path, capsys)


# Which settings are in force


class TestInForce:
    def test_nothing_is_configured(self, folder):
        assert folder.lint() == (
            0,
            [f"in force: {DEFAULT} (default)", "protected: nothing"],
            [],
            "no problems, no warnings",
            "",
        )

    def test_a_clean_configuration(self, folder, capsys):
        folder.put(GLOBAL, {"protected_servers": WEATHER})
        assert main(["lint", "--root", str(folder.root)]) == 0
        assert capsys.readouterr() == (
            f"in force: {GLOBAL} (global)\n"
            f"counts for nothing here: {DEFAULT} (default)\n"
            "protected: weather\n"
            "\n"
            "no problems, no warnings\n",
            "",
        )

    def test_a_clean_configuration_as_json(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER})
        assert folder.as_json() == {
            "selected": {"file": GLOBAL, "scope": "global"},
            "others": [{"file": DEFAULT, "scope": "default", "counts_for": "nothing"}],
            "protected": ["weather"],
            "headers": {},
            "policies": [
                {"server": "weather", "source": "selected", "settings": values_in_effect()}
            ],
            "problems": [],
            "warnings": [],
        }

    def test_the_most_specific_file_wins(self, folder):
        both = f"usr/projects/shop/.a0proj/agents/agent0/{NAME}/config.json"
        files = [
            (both, "project and profile"),
            (PROJECT, "project"),
            (PROFILE, "profile"),
            (f"agents/agent0/{NAME}/config.json", "profile"),
            (GLOBAL, "global"),
            (f"{NAME}/config.json", "built in"),
            (DEFAULT, "default"),
        ]
        for file, _ in files[:-1]:
            folder.put(file, {"protected_servers": WEATHER})
        for number, (file, scope) in enumerate(files):
            assert folder.lint(*SHOP).head == [
                f"in force: {file} ({scope})",
                *(f"counts for nothing here: {other} ({of})" for other, of in files[number + 1 :]),
                f"protected: {'nothing' if file == DEFAULT else 'weather'}",
            ]
            (folder.root / file).unlink()

    def test_the_profile_is_chosen(self, folder):
        cook = f"usr/agents/cook/{NAME}/config.json"
        folder.put(cook, {"protected_servers": WEATHER})
        assert folder.lint("--profile", "cook").head == [
            f"in force: {cook} (profile)",
            f"counts for nothing here: {DEFAULT} (default)",
            "protected: weather",
        ]
        assert folder.lint().head == [
            f"in force: {DEFAULT} (default)",
            f"counts for other agents: {cook} (profile)",
            "protected: nothing",
        ]

    @pytest.mark.parametrize("plugin", ["plugins/_team", "usr/plugins/team", PLUGIN])
    def test_a_profile_of_a_plugin(self, folder, plugin):
        file = f"{plugin}/agents/cook/{NAME}/config.json"
        folder.put(file, {"protected_servers": WEATHER})
        arguments = ("--profile", "cook")
        if plugin != PLUGIN:
            assert folder.lint(*arguments).head[0] == f"in force: {DEFAULT} (default)"
            folder.put(f"{plugin}/plugin.yaml", "name: team")
        assert folder.lint(*arguments).head[0] == f"in force: {file} (profile)"
        assert f"counts for other agents: {file} (profile)" in folder.lint().head
        folder.put(f"{plugin}/.toggle-0")
        assert folder.lint(*arguments).head[0] == f"in force: {DEFAULT} (default)"

    def test_a_floor_stays_in_force(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER, "floor": True})
        folder.put(PROJECT, {"protected_servers": {}})
        assert folder.lint(*SHOP) == (
            0,
            [
                f"in force: {PROJECT} (project)",
                f"in force as well, as the floor: {GLOBAL} (global)",
                f"counts for nothing here: {DEFAULT} (default)",
                "protected: weather",
            ],
            [],
            "no problems, no warnings",
            "",
        )
        assert [other["counts_for"] for other in folder.as_json(*SHOP)["others"]] == [
            "floor",
            "nothing",
        ]

    def test_a_file_that_says_what_the_floor_says(self, folder):
        for file in (GLOBAL, PROJECT):
            folder.put(file, {"protected_servers": WEATHER, "floor": True})
        output = folder.lint(*SHOP)
        assert output.head[1] == f"in force as well, as the floor: {GLOBAL} (global)"
        assert output.count == "no problems, no warnings"

    def test_files_of_other_agents(self, folder):
        folder.put(PROJECT, {"protected_servers": WEATHER})
        other = f"usr/projects/shop/.a0proj/agents/cook/{NAME}/config.json"
        folder.put(other, {"protected_servers": WEATHER})
        assert folder.lint().head == [
            f"in force: {DEFAULT} (default)",
            f"counts for other agents: {other} (project and profile)",
            f"counts for other agents: {PROJECT} (project)",
            "protected: nothing",
        ]

    def test_nobody_can_tell_what_is_protected(self, folder):
        folder.put(GLOBAL, [])
        assert folder.lint().head[-1] == (
            "protected: nobody can tell which servers are protected, so every MCP tool is refused"
        )
        assert folder.as_json()["protected"] is None


# Problems

PROBLEMS: list[tuple[Problem, str, str]] = [
    (
        Problem.UNREADABLE,
        "\ufeff{}",
        """
problem unreadable: {}: The file cannot be read as plain JSON, or is gone.
  Line 1, column 1.
  What to do: Write one JSON object, in UTF-8 and without comments, that Agent Zero may read.
""",
    ),
    (
        Problem.NOT_AN_OBJECT,
        '{"protected_servers": []}',
        """
problem not_an_object: {}: protected_servers must be an object, {{...}}.
  What to do: Write an object, or leave the key out.
""",
    ),
    (
        Problem.UNKNOWN_KEY,
        '{"protected_servers": {}, "certificate": 1}',
        """
problem unknown_key: {}: certificate is not a setting.
  What to do: Remove the key, or write the name of a setting.
""",
    ),
    (
        Problem.NOT_A_SERVER,
        '{"protected_servers": {"weather": 5}}',
        """
problem not_a_server: {}: protected_servers.weather must be an approved URL, or an object that has one as url.
  What to do: Write "<URL>", or {{"url": "<URL>", "tools": {{"<tool>": "sha256:<digest>"}}}}.
""",
    ),
    (
        Problem.NOT_TEXT,
        '{"protected_servers": {"weather": {}}}',
        """
problem not_text: {}: protected_servers.weather.url must be a text.
  What to do: Write the URL in quotation marks.
""",
    ),
    (
        Problem.NOT_BOOLEAN,
        '{"protected_servers": {}, "allow_private_hosts": "yes"}',
        """
problem not_boolean: {}: allow_private_hosts must be true or false.
  What to do: Write true or false, without quotation marks.
""",
    ),
    (
        Problem.NOT_A_NUMBER,
        '{"protected_servers": {}, "timeout_seconds": "5"}',
        """
problem not_a_number: {}: timeout_seconds must be a number of seconds.
  What to do: Write a number, without quotation marks.
""",
    ),
    (
        Problem.OUT_OF_RANGE,
        '{"protected_servers": {}, "timeout_seconds": 60}',
        """
problem out_of_range: {}: timeout_seconds is outside its limits.
  What to do: Write a number within the limits: timeout_seconds 0.1 to 15; cache_ttl_seconds 0 to 86400.
""",
    ),
    (
        Problem.NOT_A_CHOICE,
        '{"protected_servers": {}, "policy": {"on_caution": "refuse"}}',
        """
problem not_a_choice: {}: policy.on_caution is none of the permitted values.
  What to do: Write deny or allow; on_unavailable may also be allow_unreachable.
""",
    ),
    (
        Problem.NOT_CHECK_NAMES,
        '{"protected_servers": {}, "policy": {"required_proven": ["handshake"]}}',
        """
problem not_check_names: {}: policy.required_proven must be a list of known check names, each at most once.
  What to do: Write a list of: endpoint_reachable, protocol_handshake, agent_card_resolves, agent_card_signed, \
payment_claim_holds, independent_evidence.
""",
    ),
    (
        Problem.NOT_LOCAL_ORIGIN,
        '{"protected_servers": {}, "fixture_guild_origin": "http://127.0.0.1"}',
        """
problem not_local_origin: {}: fixture_guild_origin must be http://127.0.0.1:<port> or http://[::1]:<port>.
  What to do: Write the origin of a service on this machine, with nothing after the port.
""",
    ),
    (
        Problem.NOT_HEADER_NAMES,
        '{"protected_servers": {"weather": {"url": "https://mcp.example.com/mcp", "headers": "x"}}}',
        """
problem not_header_names: {}: protected_servers.weather.headers must be a list of header names, each at most once.
  What to do: Write a list such as ["authorization"]; [] permits no header, and null permits any.
""",
    ),
    (
        Problem.NAME_UNUSABLE,
        '{"protected_servers": {" ": "https://mcp.example.com/mcp"}}',
        """
problem name_unusable: {}: protected_servers.  is not usable as a server name.
  What to do: Write the name as it stands in the MCP settings, at most 128 characters.
""",
    ),
    (
        Problem.NAME_TWICE,
        '{"protected_servers": {"weather": "https://mcp.example.com/mcp", "Weather": "https://mcp.example.com/mcp"}}',
        """
problem name_twice: {}: protected_servers.Weather is the same server name as another once normalised.
  What to do: Keep one of the two; Agent Zero takes them for the same server.
""",
    ),
    (
        Problem.NOT_A_DIGEST,
        '{"protected_servers": {"weather": {"url": "https://mcp.example.com/mcp", "tools": {"now": "sha256:0"}}}}',
        """
problem not_a_digest: {}: protected_servers.weather.tools.now must be sha256: and 64 hexadecimal digits in lower case.
  What to do: Copy the digest from the output of the command pin; with "tools": {{}} it can run.
""",
    ),
]


class TestProblems:
    @pytest.mark.parametrize(
        "problem, settings, block", PROBLEMS, ids=[each[0].name for each in PROBLEMS]
    )
    def test_each(self, folder, problem, settings, block):
        folder.put(GLOBAL, settings)
        output = folder.lint()
        assert output.code == 12
        assert output.findings[0] == block.format(GLOBAL).strip("\n").split("\n")
        assert output.count.startswith("1 problem, ")

    def test_a_floor_in_a_project(self, folder):
        assert folder.problems({"protected_servers": WEATHER, "floor": True}, PROJECT, *SHOP) == [
            [
                f"problem floor_elsewhere: {PROJECT}: floor counts in the global config.json only.",
                "  What to do: Remove the key from this file, or move it to the global config.json.",
            ]
        ]

    @pytest.mark.parametrize("where", ["the folder", "the project", "the profile"])
    def test_settings_under_a_pattern(self, tmp_path, capsys, where):
        """Agent Zero finds another file there, or none; here they are read as they stand."""
        folder = Folder(tmp_path / "a[1]" if where == "the folder" else tmp_path, capsys)
        arguments, file = {
            "the folder": ((), GLOBAL),
            "the project": (("--project", "sho?"), f"usr/projects/sho?/.a0proj/{NAME}/config.json"),
            "the profile": (("--profile", "*"), f"usr/agents/*/{NAME}/config.json"),
        }[where]
        folder.put("usr/projects/sho?/.a0proj/project.json", "{}")
        assert folder.lint(*arguments).code == 0
        folder.put(file, {"protected_servers": WEATHER})
        output = folder.lint(*arguments)
        assert output.code == 12
        assert output.findings[0] == [
            f"problem taken_for_pattern: {file}: The file is under a folder, project or profile "
            "with *, ? or [ in its name, which Agent Zero takes for a pattern.",
            "  What to do: Rename the folder, the project or the profile.",
        ]
        assert output.head[-1] == (
            "protected: nobody can tell which servers are protected, so every MCP tool is refused"
        )

    def test_every_problem_is_shown_here(self):
        elsewhere = {Problem.FLOOR_ELSEWHERE, Problem.TAKEN_FOR_PATTERN}
        assert {each[0] for each in PROBLEMS} | elsewhere == set(Problem)

    def test_all_are_reported_together_and_no_value_is_shown(self, folder):
        settings = {
            "protected_servers": {"weather": {"url": URL, "tool": "SECRET"}},
            "policy": {"on_cauton": "SECRET"},
            "timeout_second": "SECRET",
        }
        findings = folder.problems(settings)
        assert [block[0].rpartition(": ")[2] for block in findings] == [
            "timeout_second is not a setting.",
            "policy.on_cauton is not a setting.",
            "protected_servers.weather.tool is not a setting.",
        ]
        assert "SECRET" not in str(findings) + json.dumps(folder.as_json())

    def test_a_key_of_any_characters(self, folder):
        assert folder.problems({"protected_servers": {}, "\x1b[2J\u202e": 1})[0][0] == (
            rf"problem unknown_key: {GLOBAL}: \x1b[2J\u202e is not a setting."
        )

    def test_both_files_in_force_count(self, folder):
        folder.put(
            GLOBAL, {"protected_servers": WEATHER, "floor": True, "policy": {"on_cauton": 1}}
        )
        folder.put(PROJECT, {"protected_servers": WEATHER, "timeout": 1})
        output = folder.lint(*SHOP)
        assert [block[0] for block in output.findings] == [
            f"problem unknown_key: {PROJECT}: timeout is not a setting.",
            f"problem unknown_key: {GLOBAL}: policy.on_cauton is not a setting.",
        ]
        assert (output.code, output.count) == (12, "2 problems, no warnings")

    def test_a_global_file_that_cannot_be_read_may_have_a_floor(self, folder):
        folder.put(PROJECT, {"protected_servers": WEATHER})
        assert folder.problems("{", GLOBAL, *SHOP) == [
            [
                f"problem unreadable: {GLOBAL}: The file cannot be read as plain JSON, or is gone.",
                "  Line 1, column 2.",
                "  What to do: Write one JSON object, in UTF-8 and without comments, "
                "that Agent Zero may read.",
            ]
        ]

    def test_as_json(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER, "policy": {"on_cauton": "deny"}})
        assert folder.as_json()["problems"] == [
            {
                "file": GLOBAL,
                "path": "policy.on_cauton",
                "problem": "unknown_key",
                "sentence": "is not a setting",
                "remedy": "Remove the key, or write the name of a setting.",
                "nearest": "policy.on_caution",
                "fault": None,
            }
        ]
        folder.put(GLOBAL, '{"protected_servers": {},\n  "policy": SECRET}')
        assert folder.as_json()["problems"] == [
            {
                "file": GLOBAL,
                "path": "",
                "problem": "unreadable",
                "sentence": "cannot be read as plain JSON, or is gone",
                "remedy": "Write one JSON object, in UTF-8 and without comments, "
                "that Agent Zero may read.",
                "nearest": None,
                "fault": {"sentence": "Line 2, column 13.", "line": 2, "column": 13},
            }
        ]


class TestFaults:
    @pytest.mark.parametrize(
        ("content", "line"),
        [
            ('{"protected_servers": {},\n  // all\n}', "  Line 2, column 3."),
            ("", "  Line 1, column 1."),
            ("\udc80", "  It is not UTF-8."),
            ("[" * 100_000, "  It is nested too deeply."),
            ("9" * 5_000, "  A number or a character in it is not permitted."),
        ],
        ids=["comment", "empty", "bytes", "depth", "digits"],
    )
    def test_of_json(self, folder, content, line):
        assert folder.problems(content)[0][1] == line

    def test_a_folder_in_its_place(self, folder):
        (folder.root / GLOBAL).mkdir()
        assert folder.lint().findings[0][1] == (
            "  It is gone, may not be read, or is larger than 64 MiB."
        )

    @pytest.mark.parametrize(
        "file",
        [
            f"usr/projects/shop/.a0proj/agents/agent0/{NAME}/config.json",
            PROJECT,
            PROFILE,
            f"usr/plugins/team/agents/agent0/{NAME}/config.json",
            f"plugins/_team/agents/agent0/{NAME}/config.json",
            f"{PLUGIN}/agents/agent0/{NAME}/config.json",
            f"agents/agent0/{NAME}/config.json",
            GLOBAL,
            f"{NAME}/config.json",
            DEFAULT,
        ],
    )
    @pytest.mark.parametrize("target", ["gone", "config.json", "folder"])
    def test_a_link_to_nothing(self, folder, file, target):
        """The gate refuses every MCP call, though the framework takes it for no file at all."""
        for plugin in ("usr/plugins/team", "plugins/_team"):
            folder.put(f"{plugin}/plugin.yaml", f"name: {plugin}")
        path = folder.root / file
        if target == "folder" and file in (GLOBAL, DEFAULT):
            target = "gone"
        if target == "folder":
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.symlink_to("gone")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(path.name if target == "config.json" else target)
        output = folder.lint(*SHOP)
        assert (output.code, output.head[0].split(" (")[0]) == (12, f"in force: {file}")
        assert output.head[-1].startswith("protected: nobody can tell")
        assert output.findings[0][:2] == [
            f"problem unreadable: {file}: The file cannot be read as plain JSON, or is gone.",
            "  It, or a folder on the way to it, is a link that leads nowhere.",
        ]

    def test_a_link_to_nothing_for_others(self, folder):
        """It is a problem of theirs."""
        path = folder.root / PROJECT
        path.parent.mkdir(parents=True)
        path.symlink_to("gone")
        assert folder.warning()[:2] == [
            f"warning other_file_invalid: {PROJECT}: This file is not valid; it is not in force here.",
            "  The file cannot be read as plain JSON, or is gone.",
        ]

    def test_a_default_file_that_is_gone(self, folder):
        (folder.root / DEFAULT).unlink()
        assert folder.lint().findings == [
            [
                f"problem unreadable: {DEFAULT}: The file cannot be read as plain JSON, or is gone.",
                "  It is gone, may not be read, or is larger than 64 MiB.",
                "  What to do: Write one JSON object, in UTF-8 and without comments, "
                "that Agent Zero may read.",
            ]
        ]

    @pytest.mark.parametrize(
        ("content", "line"),
        [
            ("policy: [\nfloor: null", "  Line 2, column 12."),
            ("\x07", "  A number or a character in it is not permitted."),
            ("[" * 1_000, "  It is nested too deeply."),
        ],
        ids=["syntax", "character", "depth"],
    )
    def test_of_yaml(self, folder, content, line):
        assert folder.problems(content, DEFAULT)[0][1] == line


class TestPolicies:
    """What is asked for each server, and where that comes from."""

    NOTES = "https://notes.example.com/mcp"

    @pytest.fixture
    def two(self, folder):
        """A folder with two servers that the MCP settings have."""
        folder.serve({"weather": {"url": URL}, "notes": {"url": self.NOTES}})
        return folder

    def head(self, folder, *arguments):
        """Return what the head says after the names; nothing of it may be wider than a terminal."""
        output = folder.lint(*arguments)
        lines = output.head[[line.startswith("protected: ") for line in output.head].index(True) :]
        assert all(len(line) <= 80 for line in lines)
        assert output.code == 0
        return lines[1:]

    def test_an_entry_and_the_top_level(self, two):
        """In text only what is not as shipped, wherever it comes from; all of it as data."""
        own = {"on_caution": "allow", "required_proven": [], "on_unavailable": "deny"}
        entry = {"url": self.NOTES, "policy": own, "cache_ttl_seconds": 0, "timeout_seconds": None}
        servers = {"weather": URL, "Notes": entry}
        top = {"timeout_seconds": 2.5, "policy": {"on_caution": "deny"}, "cache_ttl_seconds": 60}
        two.put(GLOBAL, {"protected_servers": servers, **top})
        assert self.head(two) == [
            "policy of weather:",
            "  timeout_seconds: 2.5 (from the top level)",
            "  cache_ttl_seconds: 60 (from the top level)",
            "policy of notes:",
            "  required_proven: none (from the entry)",
            "  on_caution: allow (from the entry)",
            "  timeout_seconds: 2.5 (from the top level)",
            "  cache_ttl_seconds: 0 (from the entry)",
        ]
        of_weather = values_in_effect(
            policy_on_caution=("deny", "top_level"),
            timeout_seconds=(2.5, "top_level"),
            cache_ttl_seconds=(60, "top_level"),
        )
        of_notes = values_in_effect(
            policy_required_proven=([], "entry"),
            policy_on_caution=("allow", "entry"),
            policy_on_unavailable=("deny", "entry"),
            timeout_seconds=(2.5, "top_level"),
            cache_ttl_seconds=(0, "entry"),
        )
        assert two.as_json()["policies"] == [
            {"server": "weather", "source": "selected", "settings": of_weather},
            {"server": "notes", "source": "selected", "settings": of_notes},
        ]

    def test_servers_of_which_the_same_is_to_be_said_are_named_together(self, two):
        policy = {"policy": {"tolerate_unknown_required": True}}
        two.put(GLOBAL, {"protected_servers": {"weather": URL, "notes": self.NOTES}, **policy})
        assert self.head(two) == [
            "policy of weather, notes:",
            "  tolerate_unknown_required: true (from the top level)",
        ]

    def test_what_an_entry_takes_back_is_as_shipped(self, two):
        entry = {"url": URL, "policy": {"on_caution": "deny"}}
        top = {"policy": {"on_caution": "allow"}}
        two.put(GLOBAL, {"protected_servers": {"weather": entry}, **top})
        assert self.head(two) == []
        (policy,) = two.as_json()["policies"]
        assert policy["settings"] == values_in_effect(policy_on_caution=("deny", "entry"))

    def test_long_names_and_long_lists_are_wrapped(self, two):
        checks = ["agent_card_resolves", "agent_card_signed", "payment_claim_holds"]
        entry = {"url": URL, "policy": {"required_proven": [*checks, "independent_evidence"]}}
        name = "n" * 128
        two.serve({name: {"url": URL}})
        two.put(GLOBAL, {"protected_servers": {name: entry}})
        assert two.lint().head[3:] == [
            f"policy of {'n' * 70}",
            f"    {'n' * 58}:",
            "  required_proven: agent_card_resolves, agent_card_signed, payment_claim_holds,",
            "    independent_evidence (from the entry)",
        ]

    def test_each_file_by_its_own_entry(self, two):
        own = {"url": URL, "policy": {"on_caution": "allow"}}
        two.put(
            GLOBAL, {"protected_servers": {"weather": URL}, "timeout_seconds": 2, "floor": True}
        )
        two.put(PROJECT, {"protected_servers": {"weather": own}})
        assert self.head(two, *SHOP) == [
            "policy of weather (selected):",
            "  on_caution: allow (from the entry)",
            "policy of weather (floor):",
            "  timeout_seconds: 2 (from the top level)",
        ]
        assert [each["source"] for each in two.as_json(*SHOP)["policies"]] == ["selected", "floor"]

    def test_a_file_that_is_not_valid_asks_nothing(self, two):
        own = {"url": URL, "policy": {"on_caution": "Allow"}}
        two.put(GLOBAL, {"protected_servers": {"weather": own}})
        output = two.lint()
        assert (output.code, output.head[-1]) == (12, "protected: weather")
        assert output.findings[0][0].startswith(
            f"problem not_a_choice: {GLOBAL}: protected_servers.weather.policy.on_caution is none "
        )
        assert two.as_json()["policies"] == []

    def test_an_entry_that_allows_unavailable_evidence(self, folder):
        own = {"url": URL, "policy": {"on_unavailable": "allow"}}
        folder.put(GLOBAL, {"protected_servers": {"weather": own}})
        assert folder.warning() == [
            f"warning unavailable_allowed: {GLOBAL}: policy.on_unavailable is allow: a call goes on "
            "without any usable evidence.",
            "  In the entry of weather.",
            "  What to do: Write deny or allow_unreachable, unless that is meant.",
        ]
        folder.put(GLOBAL, {"protected_servers": {"weather": own}, "policy": own["policy"]})
        assert len(folder.warning()) == 2


class TestNearest:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"protected_server": {}}, "protected_servers at the top level"),
            ({"Timeout-Seconds": 1}, "timeout_seconds at the top level"),
            ({"polcy": {}}, "policy at the top level"),
            ({"cacheTtlSeconds": 1}, "cache_ttl_seconds at the top level"),
            ({"policy": {"required": []}}, "required_proven in policy"),
            ({"policy": {"on_unavailble": "deny"}}, "on_unavailable in policy"),
            (
                {"protected_servers": {"weather": {"url": URL, "urls": 1}}},
                "url in the object of a server",
            ),
            (
                {"protected_servers": {"a.b": {"url": URL, "tool": 1}}},
                "tools in the object of a server",
            ),
            (
                {"protected_servers": {"a.b": {"url": URL, "timeout": 1}}},
                "timeout_seconds in the object of a server",
            ),
            (
                {"protected_servers": {"a.b": {"url": URL, "policy": {"on_cauton": "deny"}}}},
                "on_caution in policy of a server",
            ),
        ],
    )
    def test_a_typo(self, folder, settings, words):
        folder.put(GLOBAL, {"protected_servers": {}, **settings})
        assert folder.lint().findings[0][1] == f"  Nearest: {words}."

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"on_caution": "allow"}, "on_caution in policy"),
            ({"on_unavailble": "allow"}, "on_unavailable in policy"),
            ({"policy.on_caution": "allow"}, "on_caution in policy"),
            ({"policy": {"timeout_seconds": 1}}, "timeout_seconds at the top level"),
            ({"policy": {"url": 1}}, "url in the object of a server"),
            (
                {"protected_servers": {"a": {"url": URL, "on_caution": "deny"}}},
                "on_caution in policy of a server",
            ),
            (
                {"protected_servers": {"a": {"url": URL, "policy": {"timeout_seconds": 1}}}},
                "timeout_seconds in the object of a server",
            ),
            (
                {"protected_servers": {"a": {"url": URL, "floor": True}}},
                "floor at the top level",
            ),
        ],
    )
    def test_a_setting_in_the_wrong_place(self, folder, settings, words):
        folder.put(GLOBAL, {"protected_servers": {}, **settings})
        assert folder.lint().findings[0][1] == f"  Nearest: {words}."

    def test_a_key_that_is_like_no_setting(self, folder):
        assert folder.problems({"protected_servers": {}, "x": 1})[0][1] == (
            "  What to do: Remove the key, or write the name of a setting."
        )

    # Warnings: the settings

    def test_after_200_keys_that_are_no_settings(self, folder):
        """The rest is named without a proposal, and that is said; long ones are like none."""
        keys = ["x" * 65, *(f"polici_{number:03}" for number in range(202))]
        folder.put(GLOBAL, dict.fromkeys(keys, 1))
        findings = folder.lint().findings
        lines = [found[1] for found in findings if len(found) == 3]
        assert len(findings) == 203
        assert lines == (
            ["  Nearest: policy at the top level."] * 200
            + ["  Nearest: not looked for, after 200 other keys."] * 2
        )
        problems = folder.as_json()["problems"]
        assert [one["nearest"] for one in problems[-3:]] == ["policy", None, None]


class TestSettings:
    def test_an_unknown_profile(self, folder):
        assert folder.warning("--profile", "cock\x1b") == [
            r"warning profile_unknown: cock\x1b: There is no agent profile of this name.",
            "  What to do: Write the name of a folder in agents or usr/agents.",
        ]

    def test_another_file_that_is_not_valid(self, folder):
        folder.put(PROJECT, {"protected_servers": WEATHER})
        folder.put(PROFILE, {"protected_servers": WEATHER, "polcy": {}})
        assert folder.warning(*SHOP) == [
            f"warning other_file_invalid: {PROFILE}: This file is not valid; it is not in force here.",
            "  polcy is not a setting.",
            "  What to do: Mend it before it comes into force for another agent, or remove it.",
        ]

    def test_a_file_of_other_agents_that_is_not_valid(self, folder):
        folder.put(PROJECT, "{")
        assert folder.warning() == [
            f"warning other_file_invalid: {PROJECT}: This file is not valid; it is not in force here.",
            "  The file cannot be read as plain JSON, or is gone.",
            "  What to do: Mend it before it comes into force for another agent, or remove it.",
        ]

    def test_a_server_that_only_the_global_file_protects(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER})
        folder.put(PROJECT, {"protected_servers": {}})
        assert folder.warning(*SHOP) == [
            "warning not_protected_here: weather: The global settings protect this server, and "
            "those in force here do not.",
            "  What to do: List the server in the file in force, or set floor to true in the "
            "global config.json.",
        ]

    def test_a_server_that_is_protected_here_by_its_url(self, folder):
        folder.put(GLOBAL, {"protected_servers": {"forecast": URL}})
        folder.put(PROJECT, {"protected_servers": WEATHER})
        assert folder.lint(*SHOP).count == "no problems, no warnings"

    def test_repeated_keys(self, folder):
        folder.put(
            GLOBAL,
            '{"protected_servers": {"weather": "https://mcp.example.com/mcp", '
            '"weather": "https://mcp.example.com/mcp"}, "policy": {}, '
            '"policy": {"on_caution": "allow", "on_caution": "deny", "on_caution": "deny"}, "policy": '
            '{"on_caution": "deny", "required_proven": [], "required_proven": []}}',
        )
        output = folder.lint()
        assert (output.code, output.count) == (0, "no problems, 3 warnings")
        assert output.findings == [
            [
                f"warning key_repeated: {GLOBAL}: The file repeats a key; Agent Zero keeps the "
                "last one and drops the rest.",
                f"  {path}",
                "  What to do: Keep the one that is meant.",
            ]
            for path in ("policy", "protected_servers.weather", "policy.required_proven")
        ]

    def test_repeated_keys_of_a_file_that_is_not_valid_and_deep(self, folder):
        deep = '{"y":' * 900 + "1" + "}" * 900
        folder.put(GLOBAL, f'{{"x": [{{"a": 1, "a": 2}}], "y": {deep}}}')
        assert folder.lint().findings[-1][:2] == [
            f"warning key_repeated: {GLOBAL}: The file repeats a key; Agent Zero keeps the last "
            "one and drops the rest.",
            "  x.0.a",
        ]

    def test_a_floor_in_the_default_file(self, folder):
        text = (folder.root / DEFAULT).read_text()
        folder.put(DEFAULT, text.replace("floor: null", "floor: true"))
        assert folder.warning() == [
            f"warning floor_gives_way: {DEFAULT}: This file sets floor, but it gives way to a "
            "global config.json and to updates.",
            "  What to do: Set floor in the global config.json.",
        ]

    def test_a_floor_in_a_built_in_file(self, folder):
        folder.put(f"{NAME}/config.json", {"protected_servers": WEATHER, "floor": True})
        assert folder.warning()[0] == (
            f"warning floor_gives_way: {NAME}/config.json: This file sets floor, but it gives way "
            "to a global config.json and to updates."
        )

    def test_a_local_service_that_the_global_file_does_not_name(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER, "fixture_guild_origin": "http://[::1]:1"})
        origin = "http://127.0.0.1:8787"
        folder.put(PROJECT, {"protected_servers": WEATHER, "fixture_guild_origin": origin})
        assert folder.warning(*SHOP) == [
            f"warning fixture_ignored: {PROJECT}: The file names a local service that the global "
            "file does not name, so it is ignored, and the service that the global file names is "
            "asked.",
            f"  It names {origin}.",
            "  What to do: Name the same fixture_guild_origin in the global config.json, or remove "
            "it here.",
        ]
        folder.put(GLOBAL, {"protected_servers": WEATHER, "fixture_guild_origin": origin})
        assert folder.lint(*SHOP).count == "no problems, no warnings"

    def test_private_endpoints_that_the_global_file_does_not_permit(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER})
        folder.put(PROJECT, {"protected_servers": WEATHER, "allow_private_hosts": True})
        assert folder.warning(*SHOP) == [
            f"warning private_hosts_ignored: {PROJECT}: The file permits private endpoints, and the "
            "global file does not, so that is ignored.",
            "  What to do: Set allow_private_hosts to true in the global config.json as well, or "
            "remove it here.",
        ]
        folder.put(GLOBAL, {"protected_servers": WEATHER, "allow_private_hosts": True})
        assert folder.lint(*SHOP).count == "no problems, no warnings"

    @pytest.mark.parametrize("protected", [WEATHER, {}])
    def test_a_global_file_that_is_not_valid_and_has_no_floor(self, folder, protected):
        """It says who is told, so it is a problem wherever anything is protected."""
        folder.put(GLOBAL, {"protected_servers": {}, "timeout_seconds": 60})
        folder.put(PROJECT, {"protected_servers": protected})
        said = folder.lint(*SHOP)
        assert said.code == (12 if protected else 0)
        assert said.count == ("1 problem, no warnings" if protected else "no problems, 1 warning")

    def test_unavailable_evidence_is_allowed(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER, "policy": {"on_unavailable": "allow"}})
        assert folder.warning() == [
            f"warning unavailable_allowed: {GLOBAL}: policy.on_unavailable is allow: a call goes on "
            "without any usable evidence.",
            "  What to do: Write deny or allow_unreachable, unless that is meant.",
        ]

    def test_the_floor_allows_unavailable_evidence(self, folder):
        settings = {"protected_servers": WEATHER, "policy": {"on_unavailable": "allow"}}
        folder.put(GLOBAL, {**settings, "floor": True})
        folder.put(PROJECT, {"protected_servers": WEATHER})
        assert folder.warning(*SHOP)[0].startswith(f"warning unavailable_allowed: {GLOBAL}: ")

    def test_unreachable_services_are_allowed(self, folder):
        policy = {"on_unavailable": "allow_unreachable"}
        folder.put(GLOBAL, {"protected_servers": WEATHER, "policy": policy})
        assert folder.lint().count == "no problems, no warnings"


class TestEnvironment:
    LOWER = "A0_SET_agent_guild_preflight__policy__on_caution"
    UPPER = "A0_SET_AGENT_GUILD_PREFLIGHT__PROTECTED_SERVERS"

    def test_a_variable_of_the_environment(self, folder, monkeypatch):
        monkeypatch.setenv(self.LOWER, "SECRET")
        assert folder.warning() == [
            f"warning environment_overrides: {self.LOWER}: This variable overrides a default; the "
            "commands do not read its value.",
            "  In the environment.",
            "  What to do: Write a global config.json; no variable changes that.",
        ]

    @pytest.mark.parametrize("line", ["%s=SECRET", " export %s = 'SECRET'", "'%s'=SECRET"])
    def test_a_variable_in_a_file(self, folder, line):
        folder.put("usr/.env", f"# {self.LOWER}=1\nA=B\n{line % self.UPPER}\n")
        assert folder.warning() == [
            f"warning environment_overrides: {self.UPPER}: This variable overrides a default; the "
            "commands do not read its value.",
            "  In usr/.env.",
            "  What to do: Write a global config.json; no variable changes that.",
        ]

    @pytest.mark.parametrize(
        "name",
        [
            "A0_SET_agent_guild_preflight__POLICY__ON_CAUTION",  # neither of the two spellings
            "A0_SET_agent_guild_preflight__floor",  # a default that is null stays null
            "A0_SET_agent_guild_preflight__polcy",
            "agent_guild_preflight__policy",
        ],
    )
    def test_a_variable_without_effect(self, folder, monkeypatch, name):
        monkeypatch.setenv(name, "1")
        assert folder.lint().count == "no problems, no warnings"

    def test_a_file_of_the_operator_is_not_overridden(self, folder, monkeypatch):
        monkeypatch.setenv(self.LOWER, "allow")
        folder.put(GLOBAL, {"protected_servers": WEATHER})
        assert folder.lint().count == "no problems, no warnings"

    def test_a_default_file_that_leads_back_to_itself(self, folder, monkeypatch):
        monkeypatch.setenv("A0_SET_agent_guild_preflight__policy__policy", "1")
        folder.put(DEFAULT, "protected_servers: {}\npolicy: &policy\n  policy: *policy\n")
        assert folder.lint().count == "1 problem, 1 warning"


# Warnings: what is protected


class TestApprovals:
    @pytest.mark.parametrize(
        ("url", "cause"),
        [
            ("ftp://mcp.example.com/", "scheme: The scheme is not http or https."),
            ("https://me:SECRET@mcp.example.com/", "userinfo: The URL holds a user part."),
            ("https://mcp.example.com/?key=SECRET", "query: The URL holds a question mark."),
            ("", "scheme: The scheme is not http or https."),
        ],
    )
    def test_a_url_that_the_screen_refuses(self, folder, url, cause):
        folder.put(GLOBAL, {"protected_servers": {"weather": url}})
        folder.serve({"weather": {"url": url or URL}})
        output = folder.lint()
        assert output.findings[0] == [
            "warning url_refused: weather: The gate refuses the approved URL.",
            f"  {cause}",
            "  What to do: Write another URL, here and in the MCP settings: one that begins with "
            "http:// or https://, then has a host, and no user part, ? or #.",
        ]
        assert output.code == 0 and "SECRET" not in str(output)

    def test_a_url_in_another_spelling(self, folder):
        folder.put(GLOBAL, {"protected_servers": {"weather": "https://mcp.example.com"}})
        folder.serve({"weather": {"url": "https://mcp.example.com"}})
        assert folder.warning() == [
            "warning url_not_canonical: weather: The gate refuses the approved URL: it is not "
            "written in its one spelling.",
            "  not_canonical: The URL is not written in its one spelling.",
            "  What to do: Here and in the MCP settings: scheme and host in lower case, no default "
            "port, a path that begins with / and has no . or .. in it, percent-encodings in upper "
            "case and only where they are needed.",
        ]

    @pytest.mark.parametrize(
        ("more", "cause"),
        [
            ({}, "host_not_public: The host is not a public one."),
            (
                {"allow_private_hosts": True},
                "private_needs_local_service: A private endpoint is only told to a local "
                "preflight service, and none is in force.",
            ),
        ],
    )
    def test_a_private_url(self, folder, more, cause):
        url = "http://192.168.1.20:8000/mcp"
        folder.put(GLOBAL, {"protected_servers": {"weather": url}, **more})
        folder.serve({"weather": {"url": url}})
        assert folder.warning() == [
            "warning url_private: weather: The gate refuses the approved URL: it is private.",
            f"  {cause}",
            "  What to do: Set allow_private_hosts to true, in this file and in the global "
            "config.json, and name a local service in fixture_guild_origin of the global one.",
        ]

    def test_a_private_url_for_a_local_service(self, folder):
        url = "http://192.168.1.20:8000/mcp"
        settings = {"allow_private_hosts": True, "fixture_guild_origin": "http://127.0.0.1:8787"}
        folder.put(GLOBAL, {"protected_servers": {"weather": url}, **settings})
        folder.serve({"weather": {"url": url}})
        assert folder.lint().count == "no problems, no warnings"

    def test_a_port_that_the_service_refuses(self, folder):
        url = "https://mcp.example.com:8000/mcp"
        folder.put(GLOBAL, {"protected_servers": {"weather": url}})
        folder.serve({"weather": {"url": url}})
        assert folder.warning() == [
            "warning service_refuses_port: weather: The public service refuses this port, so every "
            "call will be refused.",
            "  Port 8000.",
            "  What to do: Serve the endpoint on port 80, 443, 8080 or 8443.",
        ]

    @pytest.mark.parametrize(
        "origin",
        [
            "http://mcp.example.com",
            "https://mcp.example.com",
            "http://mcp.example.com:443",
            "http://mcp.example.com:8080",
            "https://mcp.example.com:8443",
        ],
    )
    def test_a_port_that_it_does_not_refuse(self, folder, origin):
        folder.put(GLOBAL, {"protected_servers": {"weather": f"{origin}/"}})
        folder.serve({"weather": {"url": f"{origin}/"}})
        assert folder.lint().count == "no problems, no warnings"

    def test_a_url_that_is_too_long_for_the_service(self, folder):
        for length, count in ((500, "no warnings"), (501, "1 warning")):
            url = "https://mcp.example.com/".ljust(length, "a")
            folder.put(GLOBAL, {"protected_servers": {"weather": url}})
            folder.serve({"weather": {"url": url}})
            assert folder.lint().count == f"no problems, {count}"
        assert folder.warning() == [
            "warning service_refuses_length: weather: The public service refuses a URL of more "
            "than 500 characters, so every call will be refused.",
            "  501 characters.",
            "  What to do: Serve the endpoint under a shorter URL.",
        ]

    def test_what_a_local_service_does_not_refuse(self, folder):
        url = "https://mcp.example.com:8000/".ljust(501, "a")
        settings = {"fixture_guild_origin": "http://127.0.0.1:8787"}
        folder.put(GLOBAL, {"protected_servers": {"weather": url}, **settings})
        folder.serve({"weather": {"url": url}})
        assert folder.lint().count == "no problems, no warnings"

    def test_an_empty_table_of_tools(self, folder):
        folder.put(GLOBAL, {"protected_servers": {"weather": {"url": URL, "tools": {}}}})
        assert folder.warning() == [
            "warning no_tool_pinned: weather: The table of pinned tools is empty, so every tool is "
            "refused.",
            "  What to do: Fill it from the output of the command pin, or leave tools out.",
        ]

    def test_a_table_with_a_tool(self, folder):
        server = {"url": URL, "tools": {"now": DIGEST}}
        folder.put(GLOBAL, {"protected_servers": {"weather": server}})
        assert folder.lint().count == "no problems, no warnings"


# Warnings: the MCP settings


class TestMcpSettings:
    @pytest.fixture(autouse=True)
    def _protected(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER})

    def test_a_file_that_only_a_lenient_parser_reads(self, folder):
        folder.put(SETTINGS, {"mcp_servers": "{mcpServers: {}}"})
        assert folder.warning() == [
            f"warning mcp_unreadable: {SETTINGS}: The MCP settings in this file cannot be read as "
            "plain JSON; Agent Zero may still read them, but what it makes of them cannot be told "
            "here.",
            "  What to do: Write them as plain JSON, without comments.",
        ]

    def test_a_project_s_file_that_only_a_lenient_parser_reads(self, folder):
        file = "usr/projects/shop/.a0proj/mcp_servers.json"
        folder.put(file, "{'mcpServers': {}}")
        assert folder.warning(*SHOP)[0].startswith(f"warning mcp_unreadable: {file}: ")

    def test_no_server_of_the_name(self, folder):
        folder.serve({})
        assert folder.warning() == [
            "warning server_not_configured: weather: No MCP server carries the protected name.",
            "  What to do: Add the server to the MCP settings, or mend or remove its name in "
            "protected_servers. Where only a project has it, run lint with that project.",
        ]

    def test_no_server_of_the_name_but_one_like_it(self, folder):
        folder.serve({"wether": {"url": "https://other.example.com/"}, "x": {"url": URL + "/"}})
        assert folder.warning()[1] == "  Nearest name in the MCP settings: wether."

    def test_no_server_of_the_name_and_too_many_others(self, folder):
        """The first names are compared with all, the rest with none, and that is said."""
        folder.serve({f"server_{number}": {"url": URL + "x"} for number in range(4_000)})
        names = [f"sever_{number}" for number in range(6)]
        folder.put(GLOBAL, {"protected_servers": dict.fromkeys(names, URL)})
        details = [finding[1] for finding in folder.lint().findings]
        nearest = [f"  Nearest name in the MCP settings: server_{number}." for number in range(6)]
        left_out = "  The nearest name was not looked for: there are too many."
        compared = details.count(left_out)
        assert 0 < compared < 6
        assert details == nearest[: 6 - compared] + [left_out] * compared

    def test_no_mcp_settings_at_all(self, folder):
        (folder.root / SETTINGS).unlink()
        assert folder.warning()[0].startswith("warning server_not_configured: weather: ")

    def test_a_disabled_server(self, folder):
        folder.serve({"weather": {"url": URL, "disabled": True}})
        assert folder.warning() == [
            "warning server_disabled: weather: Only a disabled MCP server carries the protected "
            "name.",
            f"  In {SETTINGS}.",
            "  What to do: Enable it in the MCP settings, or remove its name from "
            "protected_servers.",
        ]

    def test_two_servers_of_one_name(self, folder):
        folder.serve([{"name": "weather", "url": URL}, {"name": "weather", "url": URL}])
        assert folder.warning() == [
            "warning name_repeated: weather: More than one MCP server carries this name, so every "
            "call will be refused.",
            f"  weather. In {SETTINGS}.",
            "  What to do: Rename or remove all but one in the MCP settings.",
        ]

    def test_two_names_that_normalise_alike(self, folder):
        folder.serve({"Weather": {"url": URL}, "weather": {"url": URL}, " weather\u2028": {}})
        assert folder.warning() == [
            "warning names_alike: weather: More than one MCP server carries this name once it is "
            "normalised, so every call will be refused.",
            rf"  Weather, weather,  weather\u2028. In {SETTINGS}.",
            "  What to do: Rename or remove all but one in the MCP settings.",
        ]

    def test_in_a_project_the_last_of_two_names_counts(self, folder):
        folder.serve({"Weather": {"url": "https://old.example.com/"}, "weather": {"url": URL}})
        assert folder.lint(*SHOP).count == "no problems, no warnings"

    def test_a_local_server(self, folder):
        folder.serve({"weather": {"command": "weather", "args": ["SECRET"]}})
        assert folder.warning() == [
            "warning server_local: weather: The MCP server is a local one, without a URL, so every "
            "call will be refused.",
            f"  In {SETTINGS}.",
            "  What to do: Remove its name from protected_servers, or give it a URL in the MCP "
            "settings.",
        ]

    def test_another_url(self, folder):
        folder.serve({"weather": {"url": f"{URL}/"}})
        assert folder.warning() == [
            "warning url_differs: weather: The MCP settings name another URL than the approved "
            "one, so every call will be refused.",
            f"  Different: slash at the end. {SETTINGS} has {URL}/ instead of {URL}",
            "  What to do: Find out which of the two is right; then make both files say the same, "
            "byte for byte.",
        ]

    def test_a_type_that_is_not_named(self, folder):
        """Agent Zero takes it for SSE, which most servers do not speak any more."""
        folder.put(SETTINGS, {"mcp_servers": json.dumps({"mcpServers": {"weather": {"url": URL}}})})
        assert folder.warning() == [
            "warning type_not_named: weather: The MCP settings name no type, so Agent Zero connects "
            "by SSE.",
            f"  In {SETTINGS}.",
            '  What to do: Write "type": "streamable-http" if that is what the server speaks, or '
            '"type": "sse".',
        ]

    def test_a_project_s_other_url(self, folder):
        file = "usr/projects/shop/.a0proj/mcp_servers.json"
        folder.put(file, {"mcpServers": {"WEATHER": {"type": "sse", "url": f"{URL}2"}}})
        assert folder.lint().count == "no problems, no warnings"
        assert folder.warning(*SHOP)[1] == (
            f"  Different: path. {file} has {URL}2 instead of {URL}"
        )

    @pytest.mark.parametrize(
        ("url", "parts"),
        [
            ("http://mcp.example.com/mcp", "scheme"),
            ("https://mcp.example.org/mcp", "host"),
            ("https://mcp.example.com:8443/mcp", "port"),
            ("https://mcp.example.com/mcp/v2", "path"),
            ("https://mcp.example.com/MCP", "upper and lower case of the path"),
            (
                "http://mcp.example.org:8080/Mcp/",
                "scheme, host, port, upper and lower case of the path, slash at the end",
            ),
        ],
    )
    def test_where_urls_differ(self, folder, url, parts):
        folder.serve({"weather": {"url": url}})
        assert folder.warning()[1] == (
            f"  Different: {parts}. {SETTINGS} has {url} instead of {URL}"
        )

    @pytest.mark.parametrize(
        ("url", "parts"),
        [
            ("HTTPS://mcp.example.com/mcp", "scheme"),
            ("https://SECRET@mcp.example.com/mcp", "user part"),
            ("https://MCP.example.com/mcp", "upper and lower case of the host"),
            ("https://mcp.example.com:443/mcp", "port"),
            ("https://mcp.example.com/mcp?key=SECRET", "what follows a ? or #"),
            ("https://mcp.example.com/mcp#SECRET", "what follows a ? or #"),
            ("https://mcp.example.com/mcp ", "white space"),
            ("https://mcp.exam\tple.com/mcp", "white space"),
            ("https://[::1]:8000", "host, port, path"),
            ("SECRET", "one of them is no URL"),
        ],
    )
    def test_where_a_url_differs_that_is_not_shown(self, folder, url, parts):
        folder.serve({"weather": {"url": url}})
        output = folder.warning()
        assert output[1] == f"  Different: {parts}. In {SETTINGS}."
        assert "SECRET" not in str(output)

    def test_of_two_keys_for_the_url_the_later_counts(self, folder):
        folder.serve({"weather": {"serverUrl": f"{URL}/", "url": URL}})
        assert folder.lint().count == "no problems, no warnings"
        folder.serve({"weather": {"url": URL, "serverUrl": f"{URL}/"}})
        assert folder.warning()[0].startswith("warning url_differs: weather: ")

    @pytest.mark.parametrize("verify", [False, None, "true", 1])
    def test_tls_that_is_not_verified(self, folder, verify):
        folder.serve({"weather": {"url": URL, "verify": verify}})
        assert folder.warning() == [
            "warning tls_not_verified: weather: The MCP settings do not have TLS verified, so "
            "every call will be refused.",
            f"  In {SETTINGS}.",
            "  What to do: Set verify to true, or leave it out.",
        ]

    @pytest.mark.parametrize("name", ["X-Team", "author.ization"])
    def test_a_header_that_the_entry_does_not_list(self, folder, name):
        entry = {"url": URL, "headers": ["AUTHORIZATION", "x_key"]}
        folder.put(GLOBAL, {"protected_servers": {"weather": entry}})
        folder.serve(
            {"weather": {"url": URL, "headers": {"Authorization": "SECRET", name: "SECRET"}}}
        )
        assert folder.warning() == [
            "warning header_not_listed: weather: The MCP settings have a header that the entry does "
            "not list, so every call will be refused.",
            f"  {name}. In {SETTINGS}.",
            "  What to do: Find out who wrote it; then add its name to headers of the entry, or "
            "remove the header.",
        ]
        folder.serve({"weather": {"url": URL, "headers": {"Authorization": "SECRET"}}})
        assert folder.lint().count == "no problems, no warnings"

    def test_the_headers_that_a_server_may_get_are_shown(self, folder):
        entries = {
            "weather": {"url": URL, "headers": ["X-Key", "Authorization"]},
            "maps": {"url": f"{URL}/maps", "headers": []},
            "tides": f"{URL}/tides",
        }
        folder.put(GLOBAL, {"protected_servers": entries})
        assert folder.lint().head[-2:] == [
            "headers of weather: authorization, x-key",
            "headers of maps: none",
        ]
        assert folder.as_json()["headers"] == {"weather": ["authorization", "x-key"], "maps": []}

    def test_only_headers_that_both_files_permit_are_shown(self, folder):
        for file, headers in ((GLOBAL, ["x-key", "x-team"]), (PROJECT, ["X-Key", "X-Other"])):
            servers = {"weather": {"url": URL, "headers": headers}}
            folder.put(
                file, {"protected_servers": servers} | ({"floor": True} if file == GLOBAL else {})
            )
        assert folder.lint(*SHOP).head[-1] == "headers of weather: x-key"

    @pytest.mark.parametrize(
        "name", ["Host", "x_forwarded_host", " X-Original-URL ", "X.Real.IP", "l5d-dst-override"]
    )
    def test_a_header_that_names_another_host(self, folder, name):
        headers = {"Authorization": "SECRET", name: "SECRET.example.org"}
        folder.serve({"weather": {"url": URL, "headers": headers}})
        assert folder.warning() == [
            "warning header_names_host: weather: A header in the MCP settings names another host, "
            "or sends calls elsewhere, so every call will be refused.",
            f"  {name}. In {SETTINGS}.",
            "  What to do: Remove the header.",
        ]

    def test_headers_that_name_the_same_host_or_none(self, folder):
        headers = {"Host": "MCP.example.com:443", "Authorization": "Bearer x"}
        folder.serve({"weather": {"url": URL, "headers": headers}})
        assert folder.lint().count == "no problems, no warnings"

    @pytest.mark.parametrize("headers", ["SECRET: 1", 5, [["a"]]])
    def test_headers_that_are_no_object(self, folder, headers):
        folder.serve({"weather": {"url": URL, "headers": headers}})
        assert folder.warning() == [
            "warning headers_unreadable: weather: The headers in the MCP settings are not an "
            "object, so every call will be refused.",
            f"  In {SETTINGS}.",
            "  What to do: Write an object of names and values, or leave headers out.",
        ]

    def test_all_of_that_at_once(self, folder):
        server = {"url": f"{URL}/", "verify": False, "headers": {"Host": "a", "X-Host": "b"}}
        folder.serve({"weather": server})
        assert [block[0].split(":")[0] for block in folder.lint().findings] == [
            "warning url_differs",
            "warning tls_not_verified",
            "warning header_names_host",
            "warning header_names_host",
        ]

    def test_a_server_that_is_protected_by_its_url(self, folder):
        folder.serve({"weather": {"url": URL}, "Forecast": {"url": URL}})
        assert folder.warning() == [
            "warning protected_by_url: forecast: The server is not listed, but has an approved "
            "URL, so it is protected too.",
            "  By weather.",
            "  What to do: Nothing, if that is meant.",
        ]

    def test_such_a_server_is_bound_by_that_entry(self, folder):
        folder.serve({"weather": {"url": URL}, "forecast": {"url": URL, "verify": False}})
        assert [block[0].split(": ")[:2] for block in folder.lint().findings] == [
            ["warning protected_by_url", "forecast"],
            ["warning tls_not_verified", "forecast"],
        ]

    def test_what_two_files_say_alike_is_said_once(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER, "floor": True})
        folder.put(PROJECT, {"protected_servers": WEATHER})
        folder.serve({"weather": {"url": f"{URL}/"}})
        assert folder.warning(*SHOP)[0].startswith("warning url_differs: weather: ")

    def test_of_settings_that_are_not_valid_what_they_protect_counts(self, folder):
        folder.put(GLOBAL, {"protected_servers": {**WEATHER, "notes": 5}})
        folder.serve({"weather": {"url": f"{URL}/"}, "notes": {"url": URL}})
        output = folder.lint()
        assert (output.code, output.count) == (12, "1 problem, 1 warning")
        assert output.findings[1][0].startswith("warning url_differs: weather: ")


# Warnings: whether the gate runs


class TestShadows:
    FORGED = "extensions/python/_functions/helpers/plugins/get_plugin_config"

    @pytest.fixture(autouse=True)
    def _protected(self, folder):
        folder.put(GLOBAL, {"protected_servers": WEATHER})

    def test_the_plugin_is_not_there(self, folder):
        (folder.root / PLUGIN / "plugin.yaml").unlink()
        assert folder.warning(stops=True) == [
            f"problem plugin_missing: {PLUGIN}: The plugin is not there, so nothing is checked.",
            f"  What to do: Put it into the folder {PLUGIN}, with its plugin.yaml.",
        ]

    @pytest.mark.parametrize(
        "place",
        ["usr/plugins/agent-guild-preflight", f"{NAME}", f"{PLUGIN}/agent_guild_preflight"],
    )
    def test_the_plugin_is_elsewhere(self, folder, place):
        folder.put(f"{place}/plugin.yaml", (CHECKOUT / "plugin.yaml").read_text())
        assert folder.warning() == [
            f"warning plugin_misplaced: {place}: This folder holds the plugin, but not where it "
            "works.",
            f"  What to do: Move it to {PLUGIN}, or remove it.",
        ]

    def test_a_plugin_that_only_speaks_of_this_one(self, folder):
        folder.put("usr/plugins/other/plugin.yaml", "name: other\ntitle: agent_guild_preflight\n")
        assert folder.lint().count == "no problems, no warnings"

    def test_the_hook_is_not_there(self, folder):
        (folder.root / PLUGIN / HOOK).unlink()
        assert folder.warning(stops=True) == [
            f"problem hook_missing: {PLUGIN}/{HOOK}: The plugin's hook is not there, so nothing is "
            "checked.",
            "  What to do: Install the plugin anew.",
        ]

    @pytest.mark.parametrize(
        "place",
        [
            PLUGIN,
            NAME,
            f"usr/projects/shop/.a0proj/agents/agent0/{NAME}",
            f"usr/projects/shop/.a0proj/{NAME}",
            f"usr/agents/agent0/{NAME}",
            f"agents/agent0/{NAME}",
        ],
    )
    def test_the_plugin_is_switched_off(self, folder, place):
        folder.put(f"{place}/.toggle-0")
        assert folder.warning(*SHOP, stops=True) == [
            f"problem switched_off: {place}/.toggle-0: This file switches the plugin off, so "
            "nothing is checked.",
            "  What to do: Remove the file, or switch the plugin on in Agent Zero.",
        ]

    def test_it_is_switched_on_again(self, folder):
        folder.put(f"{PLUGIN}/.toggle-0")
        folder.put(f"usr/projects/shop/.a0proj/{NAME}/.toggle-1")
        assert folder.warning(*SHOP) == [
            f"warning switch_overruled: {PLUGIN}/.toggle-0: This file switches the plugin off, but "
            "a more specific one switches it on here.",
            f"  By usr/projects/shop/.a0proj/{NAME}/.toggle-1.",
            "  What to do: Nothing, if that is meant; for other agents the plugin is off.",
        ]

    def test_switches_in_the_order_of_the_framework(self, folder):
        """In one folder the switch counts that changes something; each that is off must go."""
        folder.put(f"{PLUGIN}/.toggle-0")
        folder.put(f"{PLUGIN}/.toggle-1")
        folder.put(f"usr/agents/agent0/{NAME}/.toggle-0")
        assert [block[0].split(": ")[:2] for block in folder.lint().findings] == [
            ["problem switched_off", f"{PLUGIN}/.toggle-0"],
            ["problem switched_off", f"usr/agents/agent0/{NAME}/.toggle-0"],
        ]
        folder.put(f"usr/agents/agent0/{NAME}/.toggle-1")
        assert [block[0].split(": ")[:2] for block in folder.lint().findings] == [
            ["warning switch_overruled", f"{PLUGIN}/.toggle-0"],
        ]

    @pytest.mark.parametrize(
        "place",
        [
            "usr/projects/shop/.a0proj/agents/agent0",
            "usr/projects/shop/.a0proj",
            "usr/agents/agent0",
            "plugins/zzz/agents/agent0",
            "agents/agent0",
            "usr",
            "plugins/_first",
            "usr/plugins/_first",
        ],
    )
    def test_the_hook_is_replaced(self, folder, place):
        if place.endswith("_first"):  # by name before ours
            folder.put(f"{place}/plugin.yaml", "name: _first")
        folder.put("plugins/zzz/plugin.yaml", "name: zzz")
        folder.put(f"{place}/{HOOK}")
        assert folder.warning(*SHOP, stops=True) == [
            f"problem hook_replaced: {place}/{HOOK}: This file takes the place of the plugin's "
            "hook, so nothing is checked.",
            "  What to do: Find out who wrote it; remove or rename it.",
        ]

    @pytest.mark.parametrize(
        "name",
        [
            "_45_agent_guild_preflight.py.py",
            "x._45_agent_guild_preflight.py",
            "_45_agent.py_guild_preflight.py",
        ],
    )
    def test_a_name_that_the_framework_takes_for_the_hook_s(self, folder, name):
        file = f"usr/{HOOK.rpartition('/')[0]}/{name}"
        folder.put(file)
        assert folder.warning(stops=True)[0].startswith(f"problem hook_replaced: {file}: ")

    def test_files_that_do_not_replace_it(self, folder):
        folder.put("plugins/zzz/plugin.yaml", "name: zzz")  # by name after ours
        folder.put(f"plugins/zzz/{HOOK}")
        folder.put(f"plugins/_none/{HOOK}")  # no plugin
        folder.put("plugins/_off/plugin.yaml", "name: _off")
        folder.put(f"plugins/_off/{HOOK}")
        folder.put("plugins/_off/.toggle-0")
        folder.put(HOOK)  # the framework's own come last
        folder.put(f"usr/{HOOK.replace('_45_', '_46_')}")
        folder.put(f"usr/{HOOK}c")
        assert folder.lint().count == "no problems, no warnings"

    @pytest.mark.parametrize(
        "file",
        [
            f"usr/projects/other/.a0proj/{NAME}/.toggle-0",
            f"usr/projects/shop/.a0proj/agents/cook/{NAME}/.toggle-0",
            f"usr/agents/cook/{NAME}/.toggle-0",
            f"agents/cook/{HOOK}",
            f"plugins/_team/agents/cook/{HOOK}",
            f"agents/cook/{FORGED}/start/_10_helpful.py",
        ],
    )
    def test_the_same_for_other_agents(self, folder, file):
        folder.put("plugins/_team/plugin.yaml", "name: _team")
        folder.put(file)
        assert folder.warning() == [
            f"warning shadowed_elsewhere: {file}: For agents of another project or profile this "
            "file switches the plugin off, takes the place of its hook, or may change its settings.",
            "  What to do: Run lint with that project or profile to see more.",
        ]

    def obstacles(self, folder, *arguments, sure=False):
        """Return what may keep the gate from running, each by its code and the file."""
        output = folder.lint(*arguments)
        number = len(output.findings)
        perhaps = "" if sure else "perhaps "
        assert (output.code, output.count) == (
            12,
            f"{number} problem{'s' * (number > 1)}, no warnings; {perhaps}nothing is checked here",
        )
        found = [block[0].removeprefix("problem ").split(": ")[:2] for block in output.findings]
        problems = folder.as_json(*arguments)["problems"]
        assert [[each["problem"], each["file"]] for each in problems] == found
        return found

    IMITATIONS: ClassVar = {
        "a class that says so": 'class A(Extension):\n    __module__ = "_45_agent_guild_preflight"',
        "whatever it says": 'class A(Extension):\n    __module__ = "_45_" + NAME',
        "one that is told": "A.__module__ = NAME",
        "one that is told by name": 'setattr(A, "__module__", NAME)',
        "one that is made": 'A = type("A", (Extension,), {"__module__": NAME})',
        "a module of another name": "__name__ = NAME",
        "one that is given": 'globals()["__name__"] = NAME',
        "one in a loop": "for __name__ in NAMES: pass",
        "one from a namesake": "from usr.plugins.first._45_agent_guild_preflight import A",
        "the namesake itself": "from usr.plugins.first import _45_agent_guild_preflight as other",
        "one that is imported": "import first._45_agent_guild_preflight",
        "one that is called so": "from first import name as __name__",
        "a name in a text": 'load("first._45_agent_guild_preflight")',
        "a file of its name": 'load("_45_agent_guild_preflight.py")',
        "too large to be read": "#" * 300_000,
        "too deep to be read": "x = " + "-" * 100_000 + "1",
    }

    @pytest.mark.parametrize("source", IMITATIONS.values(), ids=IMITATIONS)
    def test_a_hook_that_may_go_by_the_name_of_ours(self, folder, source):
        file = "usr/extensions/python/tool_execute_before/_10_helpful.py"
        folder.put(file, source)
        assert folder.lint().findings == [
            [
                f"problem hook_imitated: {file}: This file can give its hook the name of the "
                "plugin's own, so perhaps nothing is checked.",
                "  What to do: Find out who wrote it, and read it; remove it unless it does "
                "something else.",
            ]
        ]
        assert self.obstacles(folder) == [["hook_imitated", file]]

    @pytest.mark.parametrize(
        "source",
        [
            '"""Runs before _45_agent_guild_preflight."""\nclass A(Extension):\n    pass',
            "# after _45_agent_guild_preflight",
            'NAME = "agent_guild_preflight"',
            "print(A.__module__, __name__, A.__name__)",
            'if __name__ == "__main__": pass',
            'getattr(A, "__name__")',
            'found["name"] = globals()["__name__"]',
            "def (",
            "nul\0",
            "\udc80",
        ],
    )
    def test_hooks_that_do_not(self, folder, source):
        """One that cannot be read as Python gives no class, and the framework fails on it."""
        folder.put("usr/extensions/python/tool_execute_before/_10_helpful.py", source)
        assert folder.lint().count == "no problems, no warnings"

    @pytest.mark.parametrize(
        ("place", "counts"),
        [
            ("usr/projects/shop/.a0proj/agents/agent0", True),
            ("usr/projects/shop/.a0proj", True),
            ("usr/agents/agent0", True),
            ("plugins/zzz/agents/agent0", True),
            ("agents/agent0", True),
            ("usr", True),
            ("plugins/_first", True),
            (PLUGIN, True),
            ("plugins/zzz", False),
            ("", False),
        ],
    )
    def test_hooks_that_come_before_ours(self, folder, place, counts):
        for plugin in ("_first", "zzz"):
            folder.put(f"plugins/{plugin}/plugin.yaml", f"name: {plugin}")
        file = f"{place}/extensions/python/tool_execute_before/_10_helpful.py".lstrip("/")
        folder.put(file, "__name__ = NAME")
        if counts:
            assert self.obstacles(folder, *SHOP) == [["hook_imitated", file]]
        else:
            assert folder.lint(*SHOP).count == "no problems, no warnings"

    def test_a_namesake_is_said_once(self, folder):
        folder.put(f"usr/{HOOK}", "__name__ = NAME")
        assert self.obstacles(folder, sure=True) == [["hook_replaced", f"usr/{HOOK}"]]

    def test_a_plugin_that_is_off_has_no_hook_to_be_replaced(self, folder):
        folder.put(f"{PLUGIN}/.toggle-0")
        folder.put(f"usr/{HOOK}")
        found = self.obstacles(folder, sure=True)
        assert found == [["switched_off", f"{PLUGIN}/.toggle-0"]]

    def test_the_hooks_of_a_plugin_that_is_off_for_this_agent(self, folder):
        """Its hook does not run here; but the global settings are read without any agent."""
        shop = "usr/projects/shop/.a0proj"
        folder.put("plugins/_first/plugin.yaml", "name: _first")
        folder.put(f"plugins/_first/{HOOK}")
        folder.put(f"plugins/_first/agents/agent0/{HOOK}")
        assert len(self.obstacles(folder, *SHOP, sure=True)) == 2
        folder.put(f"{shop}/plugins/_first/.toggle-0")
        assert folder.lint(*SHOP).count == "no problems, no warnings"
        file = f"plugins/_first/{self.FORGED}/end/_10_helpful.py"
        folder.put(file)
        assert self.obstacles(folder, *SHOP) == [["settings_hooked", file]]

    def test_a_namesake_in_the_plugin_s_own_folder(self, folder):
        file = f"{PLUGIN}/{HOOK.replace('_45_', 'A._45_')}"
        folder.put(file)
        assert self.obstacles(folder, sure=True) == [["hook_replaced", file]]

    @pytest.mark.parametrize("moment", ["start", "end"])
    @pytest.mark.parametrize(
        "place",
        [
            "usr/projects/shop/.a0proj/agents/agent0",
            "usr/projects/shop/.a0proj",
            "usr/agents/agent0",
            "plugins/zzz/agents/agent0",
            "agents/agent0",
            "usr",
            "plugins/zzz",
            "usr/plugins/zzz",
            PLUGIN,
            "",
        ],
    )
    def test_settings_that_may_be_forged(self, folder, place, moment):
        """By an extension of the framework's own reading, anywhere it counts."""
        if place.endswith("zzz") or "zzz" in place:
            folder.put(f"{place.split('/agents')[0]}/plugin.yaml", "name: zzz")
        file = f"{place}/{self.FORGED}/{moment}/_10_helpful.py".lstrip("/")
        folder.put(file)
        assert folder.lint(*SHOP).findings == [
            [
                f"problem settings_hooked: {file}: The framework runs this file when it reads "
                "settings, so perhaps other settings are in force than the files say, or none.",
                "  What to do: Find out who wrote it, and read it; remove it unless it leaves this "
                "plugin's settings alone.",
            ]
        ]
        assert self.obstacles(folder, *SHOP) == [["settings_hooked", file]]

    def test_the_plugin_s_own_hooks_may_forge_its_settings(self, folder):
        """It has none."""
        folder.put(f"{PLUGIN}/hooks.py")
        assert self.obstacles(folder) == [["settings_hooked", f"{PLUGIN}/hooks.py"]]
        assert not (CHECKOUT / "hooks.py").exists()

    @pytest.mark.parametrize(
        "file",
        [
            f"{FORGED}/start/_10_helpful.txt",
            f"{FORGED}/_10_helpful.py",
            f"{FORGED.replace('get_', 'save_')}/start/_10_helpful.py",
        ],
    )
    def test_files_that_forge_nothing(self, folder, file):
        folder.put(f"usr/{file}")
        assert folder.lint().count == "no problems, no warnings"

    NAMED_NONE = "usr/projects/none/.a0proj"

    @pytest.mark.parametrize(
        "file",
        [
            f"{NAMED_NONE}/{NAME}/.toggle-0",
            f"{NAMED_NONE}/agents/agent0/{NAME}/.toggle-0",
            f"{NAMED_NONE}/{HOOK}",
            f"{NAMED_NONE}/{FORGED}/end/_10_helpful.py",
        ],
    )
    def test_a_project_that_is_named_none(self, folder, file):
        """The framework keeps one list for it and for chats without a project."""
        folder.put(f"{self.NAMED_NONE}/project.json", "{}")
        assert folder.lint().count == "no problems, no warnings"
        folder.put(file)
        assert folder.lint().findings == [
            [
                f"problem shared_with_none: {file}: The framework confuses agents without a project "
                "or profile with those of one that is named none; this file, which is for the "
                "others, counts for both, so perhaps nothing is checked.",
                "  What to do: Rename the project or the profile that is named none, and restart "
                "Agent Zero.",
            ]
        ]
        assert self.obstacles(folder) == [["shared_with_none", file]]
        within = folder.lint("--project", "none")
        assert (within.code, len(within.findings)) == (12, 1)
        assert "shared_with_none" not in within.findings[0][0]
        assert folder.lint(*SHOP).code == 0

    def test_a_project_named_none_is_off_where_chats_without_one_are(self, folder):
        folder.put(f"{PLUGIN}/.toggle-0")
        folder.put(f"{self.NAMED_NONE}/{NAME}/.toggle-1")
        output = folder.lint("--project", "none")
        assert [block[0].split(": ")[:2] for block in output.findings] == [
            ["problem shared_with_none", f"{PLUGIN}/.toggle-0"],
            ["warning switch_overruled", f"{PLUGIN}/.toggle-0"],
        ]
        assert output.code == 12

    def test_a_profile_that_is_named_none(self, folder):
        file = f"usr/agents/none/{NAME}/.toggle-0"
        folder.put(file)
        assert self.obstacles(folder, "--profile", "") == [["shared_with_none", file]]
        assert folder.warning()[0].startswith(f"warning shadowed_elsewhere: {file}: ")

    @pytest.mark.parametrize("name", ["None", "NONE", "none "])
    def test_no_other_name_is_shared(self, folder, name):
        folder.put(f"usr/projects/{name}/.a0proj/{NAME}/.toggle-0")
        assert folder.warning()[0].startswith("warning shadowed_elsewhere: ")

    def test_a_switch_in_another_plugin_counts_for_nobody(self, folder):
        folder.put("plugins/_team/plugin.yaml", "name: _team")
        for profile in ("cook", "agent0"):
            folder.put(f"plugins/_team/agents/{profile}/{NAME}/.toggle-0")
        assert folder.lint().count == "no problems, no warnings"


# The network


@pytest.fixture
def busy(folder):
    """A folder with findings of many kinds."""
    folder.put(
        GLOBAL,
        {
            "protected_servers": {**WEATHER, "notes": "http://10.0.0.1/", "gone": f"{URL}?SECRET"},
            "policy": {"on_unavailable": "allow"},
            "floor": True,
        },
    )
    folder.put(PROJECT, {"protected_servers": WEATHER, "polcy": "SECRET"})
    headers = {"Host": "SECRET", "Authorization": "SECRET"}
    folder.serve(
        {"weather": {"url": f"{URL}/", "headers": headers}, "notes": {"command": "SECRET"}}
    )
    folder.put("usr/.env", "A0_SET_agent_guild_preflight__policy=SECRET")
    folder.put(f"usr/{HOOK}", "SECRET")
    return folder


class TestNames:
    @pytest.mark.parametrize("host", ["xn--i-7iq.ws", "xn--a.example.com"])
    def test_a_host_that_cannot_be_looked_up(self, folder, host):
        """The screen reads labels as text; the HTTP library decodes them."""
        url = f"http://{host}/mcp"
        folder.serve({"weather": {"url": url}})
        folder.put(GLOBAL, {"protected_servers": {"weather": url}})
        output = folder.lint("--network")
        assert output.findings == [
            [
                f"warning no_answer: {url}: The endpoint gave no HTTP answer.",
                "  Its host is no name that can be looked up.",
                "  What to do: See whether the server runs and can be reached from here.",
            ]
        ]


class TestFilesThatAreNoFiles:
    @pytest.mark.parametrize("file", [GLOBAL, PROJECT])
    def test_a_pipe_is_not_waited_for(self, folder, file):
        folder.put(file, "{}")
        (folder.root / file).unlink()
        os.mkfifo(folder.root / file)
        output = folder.lint()
        assert ["unreadable" in output.findings[0][0], "other_file" in output.findings[0][0]] == [
            file == GLOBAL,
            file == PROJECT,
        ]

    def test_a_long_key_above_a_long_list_costs_no_more_than_they_are(self, folder):
        """Each item of the list would have a copy of the key, a hundred gigabytes in all."""
        folder.put(PROJECT, {"k" * 1_000_000: [0] * 100_000})
        assert folder.lint().code == 0


class TestNothingIsSent:
    def test_no_socket_is_opened(self, busy, monkeypatch):
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("lint must not do that")

        for module, names in (
            (socket, ("socket", "getaddrinfo", "create_connection")),
            (asyncio, ("run", "new_event_loop")),
        ):
            for name in names:
                monkeypatch.setattr(module, name, refuse)
        output = busy.lint(*SHOP)
        assert (output.code, output.count) == (
            12,
            "2 problems, 7 warnings; nothing is checked here",
        )
        assert "SECRET" not in str(output) + json.dumps(busy.as_json(*SHOP))

    def test_nothing_is_written(self, busy):
        before = snapshot(busy.root)
        busy.lint(*SHOP)
        assert snapshot(busy.root) == before

    def test_neither_http_nor_mcp_is_imported(self, busy):
        code = (
            "import os, runpy, sys\n"
            "os._exit = sys.exit\n"
            "try:\n"
            f"    runpy.run_path({str(CHECKOUT / 'helpers' / '__main__.py')!r}, run_name='__main__')\n"
            "except SystemExit as end:\n"
            "    print(end.code, sorted({'httpx', 'httpcore', 'mcp', 'anyio'} & set(sys.modules)))"
        )
        arguments = ["lint", "--root", str(busy.root), *SHOP]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
            env={**os.environ, "PYTHONPATH": ""},
        )
        assert done.stdout.splitlines()[-2:] == [
            "2 problems, 7 warnings; nothing is checked here",
            "12 []",
        ]
        assert done.stderr == ""


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [root, *root.rglob("*")]
    }


def redirecting(location: str, status: bytes = b"307 Temporary Redirect") -> Script:
    return [Send(answer(b"", status=status, headers=[(b"Location", location.encode())]))]


def approve(folder: Folder, urls: Iterable[str], **settings: object) -> None:
    """Approve URLs under names of their own; the MCP settings agree."""
    servers = {f"server_{number}": url for number, url in enumerate(urls)}
    local = {"allow_private_hosts": True, "fixture_guild_origin": "http://127.0.0.1:1"}
    folder.put(GLOBAL, {"protected_servers": servers, **local, **settings})
    headers = {"Authorization": "SECRET"}
    folder.serve({name: {"url": url, "headers": headers} for name, url in servers.items()})


class TestNetwork:
    def test_what_is_sent(self, folder, monkeypatch):
        with (
            WireServer([Send(answer(b"{}"))]) as proxy,
            WireServer([Send(answer(b"{}"))]) as server,
        ):
            monkeypatch.setenv("http_proxy", proxy.origin)
            monkeypatch.setenv("NO_PROXY", "")
            monkeypatch.setenv("no_proxy", "")
            with Tap(int(server.origin.rpartition(":")[2])) as tap:
                host = f"127.0.0.1:{tap.port}"
                approve(folder, [f"http://{host}/mcp"])
                output = folder.lint("--network")
                body = (
                    b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": '
                    b'{"protocolVersion": "2025-06-18", "capabilities": {}, '
                    b'"clientInfo": {"name": "agent_guild_preflight", "version": "0.1.0"}}}'
                )
                assert tap.received == (
                    b"POST /mcp HTTP/1.1\r\n"
                    b"Host: %s\r\n"
                    b"User-Agent: agent_guild_preflight/0.1.0\r\n"
                    b"Accept: application/json, text/event-stream\r\n"
                    b"Content-Type: application/json\r\n"
                    b"Content-Length: %d\r\n"
                    b"\r\n%s" % (host.encode(), len(body), body)
                )
            assert tap.connections == 1 and proxy.connections == 0
        assert output == (
            0,
            [
                f"in force: {GLOBAL} (global)",
                f"counts for nothing here: {DEFAULT} (default)",
                "protected: server_0",
                f"does not redirect: http://{host}/mcp",
            ],
            [],
            "no problems, no warnings",
            f"sends one request to http://{host}, the host of the URL itself\n",
        )

    def test_a_head_of_blanks_is_no_http_and_is_found_out_at_once(self, folder):
        """The HTTP library would read it for half a minute."""
        head = b"HTTP/1.1 200 OK\r\nx:" + b" " * 98_000 + b"\0\r\n\r\n"
        with WireServer([Send(head), Stall()]) as server:
            url = f"{server.origin}/mcp"
            approve(folder, [url])
            began = time.monotonic()
            assert folder.warning("--network")[1] == "  The connection broke, or it was no HTTP."
            assert time.monotonic() - began < 2

    def test_a_slash_at_the_end(self, folder):
        with WireServer(redirecting("/mcp/")) as server:
            url = f"{server.origin}/mcp"
            approve(folder, [url])
            assert folder.warning("--network") == [
                f"warning redirect_slash: {url}: The endpoint redirects to the same URL with a "
                "slash at its end.",
                "  What to do: Write the slash here and in the MCP settings.",
            ]
            assert folder.as_json("--network")["answers"] == [
                {"url": url, "answer": "redirect_slash"}
            ]
            assert [head.split(b"\r\n")[0] for head in server.requests] == [
                b"POST /mcp HTTP/1.1",
                b"POST /mcp HTTP/1.1",
            ]

    def test_another_path(self, folder):
        with WireServer(redirecting("/SECRET")) as server:
            url = f"{server.origin}/mcp"
            approve(folder, [url])
            assert folder.warning("--network") == [
                f"warning redirect_path: {url}: The endpoint redirects to another path.",
                "  What to do: Find out which; approve that URL if it is the right one.",
            ]
            assert server.connections == 1

    def test_another_host(self, folder):
        with WireServer([]) as other, WireServer(redirecting(f"{other.origin}/mcp/")) as server:
            url = f"{server.origin}/mcp"
            approve(folder, [url])
            assert folder.warning("--network") == [
                f"warning redirect_origin: {url}: The endpoint redirects to another scheme, host "
                "or port; Agent Zero follows, and what is there is not checked.",
                "  What to do: Find out where it leads; approve that URL if it is the right one.",
            ]
            assert (server.connections, other.connections) == (1, 0)

    def test_nowhere(self, folder):
        with WireServer(redirecting("/mcp")) as server:
            url = f"{server.origin}/mcp"
            approve(folder, [url])
            assert folder.warning("--network") == [
                f"warning redirect_unclear: {url}: The endpoint redirects to itself, or to what is "
                "no URL.",
                "  What to do: Have the server's operator mend it.",
            ]

    @pytest.mark.parametrize(
        ("location", "finding"),
        [
            ("mcp/", Finding.REDIRECT_SLASH),
            ("https://mcp.example.com/mcp/", Finding.REDIRECT_SLASH),
            ("HTTPS://MCP.example.com:443/mcp/", Finding.REDIRECT_SLASH),
            ("//mcp.example.com/mcp/", Finding.REDIRECT_SLASH),
            ("/mcp//", Finding.REDIRECT_PATH),
            ("/mcp/?a", Finding.REDIRECT_PATH),
            ("/mcp/#a", Finding.REDIRECT_PATH),
            ("/mcp?a", Finding.REDIRECT_PATH),
            ("..", Finding.REDIRECT_PATH),
            ("/MCP/", Finding.REDIRECT_PATH),
            ("http://mcp.example.com/mcp/", Finding.REDIRECT_ORIGIN),
            ("https://mcp.example.com:444/mcp/", Finding.REDIRECT_ORIGIN),
            ("https://mcp.example.com.evil.example/mcp/", Finding.REDIRECT_ORIGIN),
            ("https://mcp.example.com@evil.example/mcp/", Finding.REDIRECT_ORIGIN),
            ("//evil.example/mcp/", Finding.REDIRECT_ORIGIN),
            ("", Finding.REDIRECT_UNCLEAR),
            ("mailto:me", Finding.REDIRECT_UNCLEAR),
            ("https://[/mcp/", Finding.REDIRECT_UNCLEAR),
            ("https://mcp.example.com:x/mcp/", Finding.REDIRECT_UNCLEAR),
            ("/" + "a" * 8191, Finding.REDIRECT_PATH),
            ("/" + "a" * 8192, Finding.REDIRECT_UNCLEAR),
        ],
    )
    def test_kinds_of_redirect(self, location, finding):
        assert redirects.kind_of_redirect(URL, location) is finding

    def test_some_at_the_same_time(self, monkeypatch):
        """A process has only so many connections; each URL has its deadline when its turn comes."""
        asked, most = 0, 0

        async def ask(url):
            nonlocal asked, most
            asked += 1
            most = max(most, asked)
            await asyncio.sleep(0.01)
            asked -= 1

        monkeypatch.setattr(redirects, "_ask", ask)
        urls = [f"https://{number}.example.com/" for number in range(100)]
        endpoints = [screen(url) for url in urls]
        assert redirects.ask(endpoints) == [(url, None) for url in urls]
        assert most == redirects.MAX_CONNECTIONS

    @pytest.mark.parametrize("status", [b"301 M", b"302 F", b"303 S", b"307 T", b"308 P"])
    def test_a_redirect(self, folder, status):
        with WireServer(redirecting("/mcp/", status)) as server:
            approve(folder, [f"{server.origin}/mcp"])
            assert folder.lint("--network").count == "no problems, 1 warning"

    @pytest.mark.parametrize(
        "status", [b"200 OK", b"201 C", b"300 M", b"304 N", b"401 U", b"500 E"]
    )
    def test_no_redirect(self, folder, status):
        with WireServer(redirecting("/mcp/", status)) as server:
            approve(folder, [f"{server.origin}/mcp"])
            assert folder.lint("--network").count == "no problems, no warnings"

    def test_a_body_is_not_waited_for(self, folder):
        head = answer(b"", headers=[(b"X", b"1")]).replace(
            b"Content-Length: 0", b"Content-Length: 9"
        )
        with WireServer([Send(head), Stall()]) as server:
            approve(folder, [f"{server.origin}/mcp"])
            assert folder.lint("--network").count == "no problems, no warnings"
            assert server.wait_until_closed(PATIENCE_SECONDS)

    def test_no_connection(self, folder):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and nobody listens
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
            approve(folder, [url])
            assert folder.warning("--network") == [
                f"warning no_answer: {url}: The endpoint gave no HTTP answer.",
                "  No connection, or TLS did not verify.",
                "  What to do: See whether the server runs and can be reached from here.",
            ]

    def test_tls_that_does_not_verify(self, folder, tmp_path):
        names = [x509.DNSName("localhost")]
        context = Authority(tmp_path, "nobody").server("server", names)
        with WireServer([Send(answer(b""))], tls=context) as server:
            approve(folder, [f"{server.origin}/mcp"])
            assert folder.warning("--network")[1] == "  No connection, or TLS did not verify."
            assert server.requests == []

    @pytest.mark.parametrize(
        "script", [[], [Send(b"no HTTP\r\n\r\n")], [Send(b"HTTP/1.1 200 OK\r\n")]]
    )
    def test_no_http(self, folder, script):
        with WireServer(script) as server:
            approve(folder, [f"{server.origin}/mcp"])
            assert folder.warning("--network")[1] == "  The connection broke, or it was no HTTP."

    def test_the_deadline(self, folder, monkeypatch):
        monkeypatch.setattr(redirects, "DEADLINE_SECONDS", 0.4)
        with WireServer([Stall()]) as server:
            approve(folder, [f"{server.origin}/{path}" for path in "abc"])
            output = folder.lint("--network")
            assert [block[1] for block in output.findings] == ["  None within 0 seconds."] * 3
            assert server.wait_until_closed(PATIENCE_SECONDS)

    def test_each_url_is_asked_once(self, folder):
        with WireServer([Send(answer(b""))]) as server:
            url = f"{server.origin}/mcp"
            approve(folder, [url, f"{url}2"], floor=True)
            local = {"allow_private_hosts": True, "fixture_guild_origin": "http://127.0.0.1:1"}
            folder.put(PROJECT, {"protected_servers": {"server_0": url}, **local})
            output = folder.lint("--network", *SHOP)
            assert output.head[-2:] == [f"does not redirect: {url}", f"does not redirect: {url}2"]
            assert output.errors == 2 * (
                f"sends one request to {server.origin}, the host of the URL itself\n"
            )
            assert sorted(head.split(b" ")[1] for head in server.requests) == [b"/mcp", b"/mcp2"]

    def test_nothing_is_sent_to_what_the_screen_refuses(self, folder):
        with WireServer([]) as server:
            url = f"{server.origin}/mcp"
            refused = [f"{url}?SECRET", f"{url}#SECRET", server.origin, f"{url} ", url.upper()]
            approve(folder, refused)
            assert folder.lint("--network").errors == ""
            approve(folder, [url], allow_private_hosts=False)
            output = folder.lint("--network")
            assert (output.errors, output.count) == ("", "no problems, 1 warning")
            assert folder.as_json("--network")["answers"] == []
            assert server.connections == 0

    def test_nothing_is_sent_for_settings_that_are_not_valid(self, folder):
        with WireServer([]) as server:
            approve(folder, [f"{server.origin}/mcp"], polcy={})
            output = folder.lint("--network")
            assert (output.code, output.errors) == (12, "")
            assert server.connections == 0


# The vocabulary


def test_every_warning_is_shown_here_whole():
    text = Path(__file__).read_text()
    words = {True: "problem", False: "warning"}
    assert [
        finding.value
        for finding in Finding
        if f"{words[finding in STOPS_THE_GATE]} {finding.value}: " not in text
    ] == []


def test_every_finding_has_its_words():
    for finding in Finding:
        assert finding.value == finding.name.lower()
        for words in (finding.sentence, finding.remedy):
            assert words[0].isupper() or words.startswith("policy.")
            assert words.endswith(".")


def test_as_json(folder):
    folder.put(GLOBAL, {"protected_servers": WEATHER})
    folder.serve({"weather": {"url": URL, "verify": False}})
    assert folder.as_json()["warnings"] == [
        {
            "warning": "tls_not_verified",
            "subject": "weather",
            "sentence": "The MCP settings do not have TLS verified, so every call will be refused.",
            "detail": f"In {SETTINGS}.",
            "remedy": "Set verify to true, or leave it out.",
        }
    ]
