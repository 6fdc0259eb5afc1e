"""`pin`: whom it connects to, the pins that it prints, what it finds to differ, what it survives.

The Agent Zero folder is built by hand. One MCP server is a real one in a process of its own; the
others are raw servers that say, in MCP, whatever a test has them say.
"""

from __future__ import annotations

import gc
import hashlib
import io
import ipaddress
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from helpers.mcp_handler import MCPConfig
from hypothesis import given
from hypothesis import strategies as st
from local_guild.wire import Close, Endless, Reset, Script, Send, Stall, WireServer, answer
from stage.certificates import Authority
from stage.folder import GLOBAL, AgentZero
from stage.tap import Tap
from stage.tool_server import HOSTILE_TOOLS, running
from usr.plugins.agent_guild_preflight.helpers import host
from usr.plugins.agent_guild_preflight.helpers.commands.main import main
from usr.plugins.agent_guild_preflight.helpers.commands.pin import catalogue, difference
from usr.plugins.agent_guild_preflight.helpers.commands.pin.difference import compare, schema_paths

PROJECT = "usr/projects/shop/.a0proj/plugins/agent_guild_preflight/config.json"
GUILD = "http://127.0.0.1:9"  # a local service; nobody is there, and nobody may ask
SECRET = "s3cret"
PASTE = "What is there now, for protected_servers; paste it only once you approve of it:"
NOT_TOLD = (
    "A pin is only a digest: which field of a changed tool differs is told by --against FILE, "
    "where FILE is the output of pin NAME --json from when it was pinned."
)
NOT_SAVED = (
    "Where it is not known what a changed tool differs in, FILE does not hold the definition that "
    "is pinned."
)
ESCAPED = r"\x1b"
HOSTILE = "MARKER\x1b[31m\r\n\u202e\u2028\x9b\\ \U0001f600 <b>"
HOSTILE_SHOWN = r"MARKER\x1b[31m\r\n\u202e\u2028\x9b\\ " + "\U0001f600 <b>"


class Folder(AgentZero):
    """One in which servers on this machine may be protected."""

    def configure(self, path: str = GLOBAL, **settings: Any) -> None:
        """Write a configuration under which servers on this machine may be protected."""
        local = {"allow_private_hosts": True, "fixture_guild_origin": GUILD}
        self.write(path, local | settings)

    def protect(self, url: str, pins: Any = None, path: str = GLOBAL, **settings: Any) -> None:
        """Protect `tools`, with or without pins."""
        approved = {"tools": {"url": url, "tools": pins}}
        self.configure(path, protected_servers=approved, **settings)

    def use(self, url: str, pins: Any = None, **server: Any) -> None:
        """Configure and protect one server."""
        self.set_mcp(tools={"type": "streamable-http", "url": url, **server})
        self.protect(url, pins)


# --- Servers --------------------------------------------------------------------------------


def tool(name: str = "echo", description: Any = "Says it.", **schema: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


def pin_of(definition: dict[str, Any]) -> str:
    """Return the digest of a tool as a server writes it, worked out here."""
    exposed = {
        "description": definition.get("description"),
        "input_schema": definition["inputSchema"],
        "name": definition["name"],
    }
    text = json.dumps(exposed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def pins_of(*definitions: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: pin_of(each) for each in definitions}


def response(number: int, **members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, **members}).encode()


def listing(*tools: dict[str, Any], **more: Any) -> bytes:
    return response(1, result={"tools": tools, **more})


GREETING = response(
    0,
    result={
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "raw", "version": "1"},
    },
)


def mcp_server(last: bytes | Script, **named: Any) -> WireServer:
    """A server that shakes hands and then answers the question for its tools with `last`."""
    posts: list[bytes] = []

    def play(head: bytes) -> Script:
        if not head.startswith(b"POST "):
            return [Send(answer(b"", status=b"405 Not Allowed"))]
        posts.append(head)
        if len(posts) == 1:
            return [Send(answer(GREETING))]
        if len(posts) == 2:
            return [Send(answer(b"", status=b"202 Accepted"))]
        posts.clear()  # the next command begins anew
        return [Send(answer(last))] if isinstance(last, bytes) else last

    return WireServer(play, **named)


def stream(text: str) -> bytes:
    """The beginning of an event stream."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + text.encode()


# The MCP client leaves streams open when it cannot connect; that is no matter of ours.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True, scope="module")
def leftovers() -> Iterator[None]:
    """Have them collected while they may be."""
    yield
    gc.collect()


@pytest.fixture
def zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path, capsys)


@pytest.fixture(scope="module")
def tool_server() -> Iterator[int]:
    """The port of a real MCP server."""
    with running(*HOSTILE_TOOLS) as port:
        yield port


def entry_of(lines: list[str]) -> Any:
    """Return the entry that is to be pasted."""
    return json.loads("\n".join(lines[lines.index(PASTE) + 2 :]))


# --- The pins that are printed --------------------------------------------------------------


def test_fresh_pins_whole(zero: Folder) -> None:
    tools = [tool("b", text={"type": "string"}), tool("a", None)]
    with mcp_server(listing(*tools)) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(tools=url)
        zero.configure()
        code, lines, errors = zero.run("pin", "tools")
    assert lines == [
        "server  tools",
        "tools   2",
        "pins    none in the settings in force",
        "",
        PASTE,
        "",
        "{",
        '  "tools": {',
        f'    "url": "{url}",',
        '    "tools": {',
        f'      "a": "{pin_of(tools[1])}",',
        f'      "b": "{pin_of(tools[0])}"',
        "    }",
        "  }",
        "}",
    ]
    assert (code, errors) == (0, [f"connects to {url}"])


def test_fresh_pins_as_data(zero: Folder) -> None:
    tools = [tool("b", text={"type": "string"}), tool("a", None)]
    with mcp_server(listing(*tools)) as server:
        url = f"{server.origin}/mcp"
        zero.use(url)
        assert zero.data("pin", "tools") == {
            "server": "tools",
            "protected_servers": {"tools": {"url": url, "tools": pins_of(*tools)}},
            "ambiguous": [],
            "not_json": [],
            "has_more": False,
            "compared": [],
            "definitions": [
                {"name": "a", "description": None, "input_schema": {}},
                {
                    "name": "b",
                    "description": "Says it.",
                    "input_schema": {"text": {"type": "string"}},
                },
            ],
        }


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("streamable-http", "mcp"),
        ("http-stream", "mcp"),
        ("Streaming-HTTP", "mcp"),
        ("sse", "sse"),
        ("anything", "sse"),
        (None, "sse"),
    ],
)
def test_a_real_server_is_asked_in_the_way_of_its_type(
    zero: Folder, tool_server: int, kind: str | None, path: str
) -> None:
    with Tap(tool_server) as tap:
        url = f"http://127.0.0.1:{tap.port}/{path}"
        zero.use(url, type=kind)
        if kind is None:
            zero.set_mcp(tools={"url": url})
        code, lines, errors = zero.run("pin", "tools")
        assert tap.count(b'"method":"tools/list"') == 1
        assert tap.count(b'"method":"tools/call"') == 0
    assert (code, errors) == (0, [f"connects to {url}"])
    assert list(entry_of(lines)["tools"]["tools"]) == sorted({"echo", *HOSTILE_TOOLS})


def test_the_pins_are_those_of_the_gate(zero: Folder, tool_server: int) -> None:
    url = f"http://127.0.0.1:{tool_server}/mcp"
    server = {"type": "streamable-http", "url": url, "disabled_tools": ["co:lon"]}
    zero.use(**server)
    printed = entry_of(zero.run("pin", "tools").lines)["tools"]["tools"]
    try:
        MCPConfig.update(json.dumps({"mcpServers": {"tools": server}}))
        servers = MCPConfig.get_instance()
        seen = {
            name: host.look(servers, f"tools.{name}", pinned=True).servers[0].definitions
            for name in ("echo", *HOSTILE_TOOLS)
        }
    finally:
        MCPConfig.update("")
    assert {name: (pin,) for name, pin in printed.items()} == {
        name: found for name, found in seen.items() if found
    }
    assert len(printed) == 1 + len(HOSTILE_TOOLS) - 1


def test_what_is_printed_can_be_pasted(zero: Folder, tool_server: int) -> None:
    url = f"http://127.0.0.1:{tool_server}/mcp"
    zero.use(url)
    zero.configure(protected_servers=entry_of(zero.run("pin", "tools").lines))
    code, lines, _ = zero.run("pin", "tools")
    assert code == 0
    assert lines[3] == f"Compared with selected settings, {GLOBAL}:"
    assert [line.split()[-1] for line in lines[5:10]] == ["unchanged"] * 5


@pytest.mark.parametrize("disabled", [["a", " b "], ["a"], "a", [1], None])
def test_disabled_tools_are_left_out(zero: Folder, disabled: Any) -> None:
    names = {"a", "b", "1"}
    left_out = {str(each).strip() for each in disabled} if isinstance(disabled, list) else set()
    with mcp_server(listing(*map(tool, sorted(names)))) as server:
        zero.use(f"{server.origin}/mcp", disabled_tools=disabled)
        said = zero.run("pin", "tools")
    assert set(entry_of(said.lines)["tools"]["tools"]) == names - left_out


def test_what_cannot_be_pinned_is_left_out_and_named(zero: Folder) -> None:
    not_a_number = tool("c", value=float("nan"))
    with mcp_server(listing(tool("a"), tool("b"), tool("a", "Other."), not_a_number)) as server:
        url = f"{server.origin}/mcp"
        zero.use(url)
        code, lines, _ = zero.run("pin", "tools", "--definitions")
        data = zero.data("pin", "tools")
    assert lines == [
        "server  tools",
        "tools   4",
        '"a" cannot be pinned: more than one tool has this name',
        '"c" cannot be pinned: its definition is no JSON, or too large',
        "pins    none in the settings in force",
        "",
        'tool "a" (untrusted: the server\'s words)',
        '  description  "Says it."',
        "  schema       {}",
        "",
        'tool "a" (untrusted: the server\'s words)',
        '  description  "Other."',
        "  schema       {}",
        "",
        'tool "b" (untrusted: the server\'s words)',
        '  description  "Says it."',
        "  schema       {}",
        "",
        'tool "c" (untrusted: the server\'s words)',
        '  description  "Says it."',
        "  schema       no JSON",
        "",
        PASTE,
        "",
        "{",
        '  "tools": {',
        f'    "url": "{url}",',
        '    "tools": {',
        f'      "b": "{pin_of(tool("b"))}"',
        "    }",
        "  }",
        "}",
    ]
    assert code == 0
    assert (data["ambiguous"], data["not_json"]) == (["a"], ["c"])
    assert [each["name"] for each in data["definitions"]] == ["a", "a", "b"]


def test_a_next_page_is_not_read_but_named(zero: Folder) -> None:
    with mcp_server(listing(tool(), nextCursor="MARKER")) as server:
        zero.use(f"{server.origin}/mcp")
        code, lines, _ = zero.run("pin", "tools")
    assert (code, lines[2]) == (
        0,
        "The server has further tools on a next page, which Agent Zero does not read.",
    )
    assert len([head for head in server.requests if head.startswith(b"POST")]) == 3
    assert "MARKER" not in str(lines)


def test_no_tool_at_all(zero: Folder) -> None:
    with mcp_server(listing()) as server:
        zero.use(f"{server.origin}/mcp")
        code, lines, _ = zero.run("pin", "tools")
    assert (code, lines[1:3]) == (
        0,
        ["tools   0", "The server exposes no tool, and an empty table refuses every tool."],
    )
    assert entry_of(lines) == {"tools": {"url": f"{server.origin}/mcp", "tools": {}}}


# --- What a server says is data -------------------------------------------------------------


def test_hostile_words_are_shown_as_data(zero: Folder) -> None:
    hostile = tool(HOSTILE, HOSTILE, **{HOSTILE: HOSTILE})
    with mcp_server(listing(hostile)) as server:
        zero.use(f"{server.origin}/mcp", pins={"gone" + HOSTILE: pin_of(tool())})
        code, lines, errors = zero.run("pin", "tools", "--definitions")
        data = zero.run("pin", "tools", "--json")
    in_json = r"MARKER\u001b[31m\r\n\u202e\u2028\x9b\\ " + "\U0001f600 <b>"
    rows = [
        f'"{HOSTILE_SHOWN}"{" " * 4}  new',
        f'"gone{HOSTILE_SHOWN}"  gone',
    ]
    assert lines[5:7] == rows
    assert lines[8:11] == [
        f'tool "{HOSTILE_SHOWN}" (untrusted: the server\'s words)',
        f'  description  "{HOSTILE_SHOWN}"',
        f'  schema       {{"{in_json}": "{in_json}"}}',
    ]
    assert entry_of(lines)["tools"]["tools"] == pins_of(hostile)
    assert (code, len(errors)) == (10, 1)
    for said in (*lines, *data.lines, *errors):
        assert "\U0001f600" in said or said.isascii()
        assert said.replace("\U0001f600", "").isprintable()


@pytest.mark.parametrize("blank", ["\U000e0101", "\ufe0f", "\u3164", "\u2800", "\u115f", "\u034f"])
def test_text_that_shows_nothing_is_shown(zero: Folder, blank: str) -> None:
    """A server could hide words for a model in it, and an operator would approve them."""
    with mcp_server(listing(tool("echo", f"Says it.{blank}", type=blank))) as server:
        zero.use(f"{server.origin}/mcp")
        said = zero.run("pin", "tools", "--definitions")
    shown = blank.encode("unicode_escape").decode()
    assert said.lines[5:7] == [
        f'  description  "Says it.{shown}"',
        f'  schema       {{"type": "{shown}"}}',
    ]
    assert blank not in "".join(said.lines)


def test_a_quotation_mark_in_a_name_ends_nothing(zero: Folder) -> None:
    with mcp_server(listing(tool('a"  unchanged'))) as server:
        zero.use(f"{server.origin}/mcp", pins={})
        lines = zero.run("pin", "tools").lines
    assert r'"a\x22  unchanged"  new' in lines


def test_what_has_no_digest_equals_nothing() -> None:
    """Two definitions without one are not the same for that."""
    (found,) = compare({"echo": ""}, [exposed("echo", "evil \ud800")], {})
    assert found.state is difference.State.CHANGED


def test_a_delete_character_is_escaped_in_what_is_pasted(zero: Folder) -> None:
    named = tool("a\x7fb")
    with mcp_server(listing(named)) as server:
        zero.use(f"{server.origin}/mcp")
        lines = zero.run("pin", "tools").lines
    assert f'      "a\\u007fb": "{pin_of(named)}"' in lines
    assert list(entry_of(lines)["tools"]["tools"]) == ["a\x7fb"]


def test_long_names_are_cut_but_where_they_are_pasted(zero: Folder) -> None:
    name = "n" * 81
    with mcp_server(listing(tool(name))) as server:
        zero.use(f"{server.origin}/mcp", pins={})
        code, lines, _ = zero.run("pin", "tools")
    assert (code, lines[5]) == (10, f'"{"n" * 80}..."  new')
    assert list(entry_of(lines)["tools"]["tools"]) == [name]


# --- What differs from the pins -------------------------------------------------------------


OLD = [
    tool("changed", "Old words.", type="object", properties={"text": {"type": "string"}}),
    tool("gone", "It has gone."),
    tool("old_name", "The same.", type="object"),
    tool("same"),
    tool("twice"),
]
NOW = [
    tool("changed", "New words.", type="object", properties={"text": {"type": "number"}, "n": {}}),
    tool("new"),
    tool("new_name", "The same.", type="object"),
    tool("same"),
    tool("twice"),
    tool("twice"),
]
ROWS = [
    "tool        state      differs in",
    '"changed"   changed    not known',
    '"gone"      gone',
    '"new"       new',
    '"new_name"  renamed    name only; was "old_name"',
    '"same"      unchanged',
    '"twice"     ambiguous',
]


def test_differences_from_pins_alone_whole(zero: Folder) -> None:
    with mcp_server(listing(*NOW)) as server:
        url = f"{server.origin}/mcp"
        zero.use(url, pins=pins_of(*OLD))
        code, lines, errors = zero.run("pin", "tools")
    assert lines[: lines.index(PASTE) + 1] == [
        "server  tools",
        "tools   6",
        '"twice" cannot be pinned: more than one tool has this name',
        "",
        f"Compared with selected settings, {GLOBAL}:",
        *ROWS,
        NOT_TOLD,
        "",
        PASTE,
    ]
    assert entry_of(lines) == {"tools": {"url": url, "tools": pins_of(*NOW[:4])}}
    assert (code, errors) == (10, [f"connects to {url}"])


def test_differences_field_by_field_whole(zero: Folder) -> None:
    with mcp_server(listing(*OLD)) as server:
        zero.use(f"{server.origin}/mcp")
        saved = zero.write("saved.json", zero.data("pin", "tools"))
    with mcp_server(listing(*NOW)) as server:
        zero.use(f"{server.origin}/mcp", pins=pins_of(*OLD))
        code, lines, _ = zero.run("pin", "tools", "--against", str(saved))
        data = zero.data("pin", "tools", "--against", str(saved))
    assert lines[3 : lines.index(PASTE)] == [
        "",
        f"Compared with selected settings, {GLOBAL}:",
        ROWS[0],
        '"changed"   changed    description, input_schema',
        *ROWS[2:],
        '  "changed" description (untrusted), from character 0:',
        '    was "Old words."',
        '    is  "New words."',
        '  "changed" input_schema (untrusted):',
        "    added   /properties/n",
        "    changed /properties/text/type",
        "",
    ]
    assert code == 10
    (compared,) = data["compared"]
    assert (compared["with"], compared["file"]) == ("selected", GLOBAL)
    nothing = {"fields": [], "old_name": None, "old_description": None, "schema_paths": None}
    assert compared["tools"] == [
        {
            "tool": "changed",
            "state": "changed",
            "fields": ["description", "input_schema"],
            "old_name": None,
            "old_description": "Old words.",
            "schema_paths": {
                "added": ["/properties/n"],
                "removed": [],
                "changed": ["/properties/text/type"],
                "further": 0,
            },
        },
        {"tool": "gone", "state": "gone", **nothing},
        {"tool": "new", "state": "new", **nothing},
        {
            **nothing,
            "tool": "new_name",
            "state": "renamed",
            "fields": ["name"],
            "old_name": "old_name",
        },
        {"tool": "same", "state": "unchanged", **nothing},
        {"tool": "twice", "state": "ambiguous", **nothing},
    ]


def test_a_file_that_does_not_hold_what_is_pinned_tells_nothing(zero: Folder) -> None:
    with mcp_server(listing(tool(description="Neither."))) as server:
        zero.use(f"{server.origin}/mcp")
        saved = zero.write("saved.json", zero.data("pin", "tools"))
    with mcp_server(listing(tool(description="Now."))) as server:
        zero.use(f"{server.origin}/mcp", pins=pins_of(tool(description="Pinned.")))
        code, lines, _ = zero.run("pin", "tools", "--against", str(saved))
    assert (code, lines[5:7]) == (10, ['"echo"  changed  not known', NOT_SAVED])


def test_without_pins_a_file_is_compared_by_itself(zero: Folder) -> None:
    with mcp_server(listing(tool(), tool("other"))) as server:
        zero.use(f"{server.origin}/mcp")
        saved = zero.write("saved.json", zero.data("pin", "tools"))
        assert zero.run("pin", "tools", "--against", str(saved)).lines[2:7] == [
            "",
            "Compared with the saved file:",
            "tool     state      differs in",
            '"echo"   unchanged',
            '"other"  unchanged',
        ]
    with mcp_server(listing(tool(description=None), tool("other"))) as server:
        zero.use(f"{server.origin}/mcp")
        code, lines, _ = zero.run("pin", "tools", "--against", str(saved))
    assert code == 10
    assert lines[5:10] == [
        '"echo"   changed    description',
        '"other"  unchanged',
        '  "echo" description (untrusted), from character 0:',
        '    was "Says it."',
        "    is  none",
    ]


def test_a_long_description_is_shown_where_it_differs(zero: Folder) -> None:
    old, new = "a" * 1000 + "b" + "\x1b" * 1000, "a" * 1000 + "c" + "\x1b" * 1000
    with mcp_server(listing(tool(description=old))) as server:
        zero.use(f"{server.origin}/mcp")
        saved = zero.write("saved.json", zero.data("pin", "tools"))
    with mcp_server(listing(tool(description=new))) as server:
        zero.use(f"{server.origin}/mcp")
        lines = zero.run("pin", "tools", "--against", str(saved)).lines
    assert lines[6:9] == [
        '  "echo" description (untrusted), from character 960:',
        f'    was "{"a" * 40}b{ESCAPED * 359}..."',
        f'    is  "{"a" * 40}c{ESCAPED * 359}..."',
    ]


def test_a_schema_that_differs_in_much_is_bounded(zero: Folder) -> None:
    old = tool(**{f"key{number:02}": 1 for number in range(30)})
    new = tool(**{f"key{number:02}": 2 for number in range(30)})
    with mcp_server(listing(old)) as server:
        zero.use(f"{server.origin}/mcp")
        saved = zero.write("saved.json", zero.data("pin", "tools"))
    with mcp_server(listing(new)) as server:
        zero.use(f"{server.origin}/mcp")
        lines = zero.run("pin", "tools", "--against", str(saved)).lines
    assert lines[6:28] == [
        '  "echo" input_schema (untrusted):',
        *(f"    changed /key{number:02}" for number in range(20)),
        "    and 10 more",
    ]


def test_a_definition_that_is_no_json_any_more_differs(zero: Folder) -> None:
    with mcp_server(listing(tool())) as server:
        zero.use(f"{server.origin}/mcp")
        saved = zero.write("saved.json", zero.data("pin", "tools"))
    with mcp_server(listing(tool(value=float("inf")))) as server:
        zero.use(f"{server.origin}/mcp", pins=pins_of(tool()))
        code, lines, _ = zero.run("pin", "tools", "--against", str(saved))
    assert (code, lines[2]) == (
        10,
        '"echo" cannot be pinned: its definition is no JSON, or too large',
    )
    assert '"echo"  changed  not known' in lines


def test_an_empty_table_pins_nothing(zero: Folder) -> None:
    with mcp_server(listing(tool())) as server:
        zero.use(f"{server.origin}/mcp", pins={})
        code, lines, _ = zero.run("pin", "tools")
    assert (code, lines[5]) == (10, '"echo"  new')


def test_both_files_are_compared(zero: Folder) -> None:
    with mcp_server(listing(tool())) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(tools=url)
        zero.protect(url, pins_of(tool()), floor=True)
        zero.protect(url, {"echo": pin_of(tool("other"))}, PROJECT)
        code, lines, _ = zero.run("pin", "tools", "--project", "shop")
    assert code == 10
    assert lines[2 : lines.index(PASTE)] == [
        "",
        f"Compared with selected settings, {PROJECT}:",
        "tool    state    differs in",
        '"echo"  changed  not known',
        NOT_TOLD,
        "",
        f"Compared with floor settings, {GLOBAL}:",
        "tool    state      differs in",
        '"echo"  unchanged',
        "",
    ]


def test_a_server_that_is_protected_by_its_url_has_the_pins_of_that(zero: Folder) -> None:
    with mcp_server(listing(tool())) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(other=url)
        zero.protect(url, pins_of(tool()))
        code, lines, _ = zero.run("pin", "other")
    assert (code, lines[5]) == (0, '"echo"  unchanged')
    assert list(entry_of(lines)) == ["other"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "no JSON",
        "[]",
        '{"server": "other", "definitions": []}',
        '{"server": "tools"}',
        '{"server": "tools", "definitions": [1]}',
        '{"server": "tools", "definitions": [{"name": "a", "description": 1, "input_schema": 1}]}',
        '{"server": "tools", "definitions": [{"name": 1, "description": "", "input_schema": 1}]}',
        '{"server": "tools", "definitions": [{"name": "a", "description": ""}]}',
    ],
)
def test_a_file_that_is_no_output_of_pin(zero: Folder, content: str | None) -> None:
    file = zero.root / "saved.json"
    if content is not None:
        file.write_text(content)
    with mcp_server(listing()) as server:
        zero.use(f"{server.origin}/mcp")
        said = zero.run("pin", "tools", "--against", str(file))
    assert said == (12, ["--against: the file is no output of pin tools --json"], [])
    assert server.connections == 0


# --- The comparison by itself ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "now", "paths"),
    [
        ({}, {}, ((), (), (), 0)),
        ({"a": 1}, {"a": 1.0}, ((), (), ("/a",), 0)),
        ({"a": 1}, {"a": True}, ((), (), ("/a",), 0)),
        ({"a": 0.0}, {"a": -0.0}, ((), (), ("/a",), 0)),
        ({"a": None}, {}, ((), ("/a",), (), 0)),
        ({}, {"a": None}, (("/a",), (), (), 0)),
        ({"a": {}}, {"a": []}, ((), (), ("/a",), 0)),
        ({"a": {"b": 1}}, {"a": 1}, ((), (), ("/a",), 0)),
        ({"a": [1, 2]}, {"a": [1, 3, 4]}, (("/a/2",), (), ("/a/1",), 0)),
        ({"a/b": {"~": 1}}, {"a/b": {"~": 2}}, ((), (), ("/a~1b/~0",), 0)),
        (1, 2, ((), (), ("",), 0)),
    ],
)
def test_paths_into_a_schema(was: Any, now: Any, paths: Any) -> None:
    assert schema_paths(was, now) == paths


def test_a_deep_schema_is_compared_without_recursion() -> None:
    was: Any = 1
    now: Any = 2
    for _ in range(20_000):
        was, now = {"k": was}, {"k": now}
    (path,) = schema_paths(was, now).changed
    assert path == "/k" * 20_000


def test_long_keys_in_a_wide_schema_cost_no_more_than_they_are() -> None:
    """Paths are written out only where they are shown."""
    key, leaves = "k" * 1_000_000, {str(number): number for number in range(5_000)}
    changed = {name: -number - 1 for name, number in leaves.items()}
    found = schema_paths({key: leaves}, {key: changed})
    assert (len(found.changed), found.further) == (20, 4_980)


def exposed(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": {}}


def test_names_are_not_paired_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    original = difference.canonical

    def count(definition: Any) -> bytes:
        text = original(definition)
        written.append(len(text))
        return text

    old = [exposed(f"old{number}", "d" * 1_000 + str(number)) for number in range(40)]
    new = [exposed(f"new{number}", "d" * 1_000 + str(number)) for number in range(40)]
    pins = {each["name"]: difference.digest(each) for each in old}
    monkeypatch.setattr(difference, "canonical", count)
    assert {each.state for each in compare(pins, new, {})} == {"new", "gone"}
    assert written == []
    few = compare(dict(list(pins.items())[:20]), new[:20], {})
    assert [each.old_name for each in few] == [each.tool.replace("new", "old") for each in few]
    # Each definition is written out once, and for each pair no more than a name.
    assert sum(size > 1_000 for size in written) == 20


DEFINITIONS = st.fixed_dictionaries(
    {
        "name": st.text(),
        "description": st.none() | st.text(),
        "input_schema": st.recursive(
            st.none() | st.text() | st.integers() | st.floats(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    }
)


@given(DEFINITIONS, st.text() | st.just("\ud800"))
def test_a_renamed_tool_is_found_whatever_it_is(tool: dict[str, Any], name: str) -> None:
    """By the digest that it had under the old name; what has none is not found."""
    pin = difference.digest({**tool, "name": name})
    if name == tool["name"]:
        return
    (found, *others) = compare({name: pin}, [tool], {})
    assert [found.state.value, found.old_name] == (
        ["renamed", name] if pin else [found.state, None]
    )
    assert len(others) == (0 if pin else 1)


def test_one_old_name_is_given_to_one_tool_only() -> None:
    pins = {"old": difference.digest(exposed("old"))}
    found = compare(pins, [exposed("b"), exposed("a")], {})
    assert [(each.tool, each.state.value, each.old_name) for each in found] == [
        ("a", "new", None),
        ("b", "renamed", "old"),
    ]


def test_a_pinned_name_that_is_there_twice_is_ambiguous_and_renames_nothing() -> None:
    pins = {"a": difference.digest(exposed("a")), "old": difference.digest(exposed("old"))}
    found = compare(pins, [exposed("a"), exposed("b"), exposed("b")], {})
    assert [(each.tool, each.state.value) for each in found] == [
        ("a", "unchanged"),
        ("b", "ambiguous"),
        ("old", "gone"),
    ]


def test_a_saved_name_that_is_there_twice_tells_nothing() -> None:
    output = {"server": "s", "definitions": [exposed("a"), exposed("a", "x"), exposed("b")]}
    assert difference.read_saved(output, "s") == {"b": exposed("b")}


# --- Whom it connects to --------------------------------------------------------------------


def test_to_whom_it_connects_is_said_before(zero: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = io.StringIO()
    seen: list[str] = []

    def play(_: bytes) -> Script:
        seen.append(errors.getvalue())
        return [Close()]

    monkeypatch.setattr(sys, "stderr", errors)
    with WireServer(play) as server:
        zero.use(f"{server.origin}/mcp")
        assert main(["pin", "tools", "--root", str(zero.root)]) == 11
    assert seen == [f"connects to {server.origin}/mcp\n"]


def test_the_configured_headers_are_sent_and_not_shown(zero: Folder) -> None:
    with mcp_server(listing(tool())) as server:
        headers = {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}
        zero.use(f"{server.origin}/mcp", headers=headers)
        said = [zero.run("pin", "tools", *more) for more in ([], ["--json"], ["--definitions"])]
    assert [each.code for each in said] == [0, 0, 0]
    assert SECRET not in str(said)
    for head in server.requests:
        assert f"authorization: bearer {SECRET}\r\n".encode() in head.lower()
        assert f"x-key: {SECRET}\r\n".encode() in head.lower()
        assert b"accept-encoding: identity\r\n" in head.lower()


def test_the_environment_adds_nothing(
    zero: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login user password {SECRET}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with WireServer([Stall()]) as proxy, mcp_server(listing(tool())) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
            monkeypatch.setenv(name.lower(), proxy.origin)
        zero.use(f"{server.origin}/mcp")
        assert zero.run("pin", "tools").code == 0
        assert proxy.connections == 0
    assert not any(b"uthorization" in head for head in server.requests)


def test_a_redirect_is_not_followed(zero: Folder) -> None:
    with WireServer([Stall()]) as other:
        moved = [(b"Location", f"{other.origin}/mcp".encode())]
        script = [Send(answer(b"", status=b"307 Moved", headers=moved))]
        with WireServer(script) as server:
            zero.use(f"{server.origin}/mcp", headers={"X-Key": SECRET})
            said = zero.run("pin", "tools")
        assert other.connections == 0
    assert said[:2] == (
        11,
        ["tools: redirect 307: The server redirects; that is not followed here."],
    )


PUBLIC = "https://mcp.example.com/mcp"


@pytest.mark.parametrize(
    ("servers", "reason", "sentence"),
    [
        ({}, "server_not_configured", "No live MCP server carries the protected name."),
        (
            {"tools": {"url": PUBLIC, "disabled": True}},
            "server_not_configured",
            "No live MCP server carries the protected name.",
        ),
        (
            {"tools": PUBLIC, "TOOLS": PUBLIC},
            "server_ambiguous",
            "More than one live MCP server carries the protected name.",
        ),
        (
            {"tools": {"command": "tools"}},
            "server_not_remote",
            "The protected name belongs to a server that is not a remote one.",
        ),
    ],
)
@pytest.mark.parametrize("is_protected", [True, False])
def test_a_server_that_cannot_be_asked(
    zero: Folder, servers: Any, reason: str, sentence: str, is_protected: bool
) -> None:
    zero.set_mcp(**servers)
    if is_protected:
        zero.protect(PUBLIC)
    code, lines, errors = zero.run("pin", "tools")
    assert (code, len(lines), errors) == (10, 2, [])
    assert lines[0] == f"tools: {reason}: {sentence}"
    assert lines[1].startswith("What to do: ")
    assert zero.data("pin", "tools") == {"reason": reason, "server": "tools"}


URL_MISMATCH = [
    "tools: url_mismatch: The MCP settings name another URL than the approved one.",
    "What to do: Find out who changed the URL; then make both files say the same, byte for byte.",
]
TRANSPORT_ALTERED = [
    "tools: transport_altered: The URL is the approved one, but TLS verification is off, or a "
    "header sends the call elsewhere or is not permitted.",
    "What to do: Set verify to true in the server's MCP settings, and remove the header there; lint "
    "names it.",
]


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({"url": "{}/other"}, URL_MISMATCH),
        ({"url": "{}/mcp/"}, URL_MISMATCH),
        ({"verify": False}, TRANSPORT_ALTERED),
        ({"headers": {"Host": "other.example.com"}}, TRANSPORT_ALTERED),
        ({"headers": {"X-Forwarded-Host": SECRET}}, TRANSPORT_ALTERED),
    ],
)
@pytest.mark.parametrize("is_protected", [True, False])
def test_a_server_that_the_binding_refuses(
    zero: Folder, changed: Any, lines: list[str], is_protected: bool
) -> None:
    if lines is URL_MISMATCH and not is_protected:
        return  # its own URL is the approved one
    with mcp_server(listing(tool())) as server:
        url = f"{server.origin}/mcp"
        changed = {
            key: value.format(server.origin) if key == "url" else value
            for key, value in changed.items()
        }
        zero.set_mcp(tools={"type": "streamable-http", "url": url, **changed})
        if is_protected:
            zero.protect(url, {"echo": pin_of(tool())})
        else:
            zero.configure()
        assert zero.run("pin", "tools") == (10, lines, [])
        data = zero.data("pin", "tools")
    assert server.connections == 0
    assert data == {
        "reason": lines[0].split(": ")[1],
        "sub_reason": None,
        "refused_by": "selected",
        "server": "tools",
    }


@pytest.mark.parametrize("is_protected", [True, False])
def test_a_server_that_the_screen_refuses(zero: Folder, is_protected: bool) -> None:
    url = "https://user:MARKER@mcp.example.com/mcp"
    zero.set_mcp(tools=url)
    if is_protected:
        zero.protect(url)
    assert zero.run("pin", "tools") == (
        10,
        [
            "tools: endpoint_refused: The approved URL must not be disclosed or is not written in "
            "its one spelling.",
            "userinfo: The URL holds a user part.",
            "What to do: Write the URL in its one spelling, here and in the MCP settings; for a "
            "private host set allow_private_hosts and a local service. See the sub-reason.",
        ],
        [],
    )
    assert zero.data("pin", "tools")["sub_reason"] == "userinfo"


def test_a_private_server_needs_settings_that_allow_it(zero: Folder) -> None:
    with mcp_server(listing()) as server:
        zero.set_mcp(tools=f"{server.origin}/mcp")
        code, lines, errors = zero.run("pin", "tools")
    assert (code, lines[1], errors) == (10, "host_not_public: The host is not a public one.", [])
    assert server.connections == 0


def test_the_floor_is_satisfied_as_well(zero: Folder) -> None:
    with mcp_server(listing()) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(tools=url)
        zero.protect(f"{server.origin}/approved", floor=True)
        zero.protect(url, path=PROJECT)
        code, lines, errors = zero.run("pin", "tools", "--project", "shop")
        refused_by = zero.data("pin", "tools", "--project", "shop")["refused_by"]
    assert (code, lines, errors, refused_by) == (10, URL_MISMATCH, [], "floor")
    assert server.connections == 0


# --- A wrong configuration ------------------------------------------------------------------


def test_settings_that_are_not_valid(zero: Folder) -> None:
    with mcp_server(listing()) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(tools=url, other=url)
        zero.protect(url, {"echo": "sha256:1"}, polcy={})
        for name in ("tools", "other"):
            assert zero.run("pin", name) == (
                12,
                [
                    "invalid_configuration: The gate's settings cannot be read or do not validate.",
                    f"{GLOBAL}:",
                    "  polcy: is not a setting",
                    "  protected_servers.tools.tools.echo: must be sha256: and 64 hexadecimal "
                    "digits in lower case",
                    "What to do: Run lint; it names every key that is wrong and what mends it.",
                    'For new digests, write "tools": {} first, which refuses every tool; run pin.',
                ],
                [],
            )
    assert server.connections == 0


def test_mcp_settings_that_only_the_framework_can_read(zero: Folder) -> None:
    zero.write("usr/settings.json", "{}")
    zero.write("usr/projects/shop/.a0proj/mcp_servers.json", "{mcpServers: {}}")
    assert zero.run("pin", "tools", "--project", "shop") == (
        12,
        [
            "usr/projects/shop/.a0proj/mcp_servers.json: the MCP servers in it cannot be read as "
            "plain JSON",
            "Agent Zero may still read them, but what it makes of them cannot be told here.",
        ],
        [],
    )


def test_a_name_is_needed(zero: Folder) -> None:
    code, lines, errors = zero.run("pin")
    assert (code, lines) == (2, [])
    assert errors[-1].endswith(" pin: error: the following arguments are required: NAME")


# --- Servers that do not answer as they should ----------------------------------------------


def said_of(failure: str, sentence: str) -> list[str]:
    return [f"tools: {failure}: {sentence}"]


PROTOCOL = said_of("protocol", "The server did not speak MCP in the way that its type says.")
TOO_LARGE = said_of("too_large", "The server's answers were larger than 4 MiB.")
MARKED = {"code": -1, "message": "MARKER \x1b[31m"}
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
BLANKS = b" " * 98_000  # the HTTP library would read them for half a minute
FAILURES: dict[str, tuple[bytes | Script, list[str]]] = {
    "an error": (
        response(1, error=MARKED),
        said_of("mcp_error", "The server answered with an MCP error."),
    ),
    "no JSON": (b"MARKER {", PROTOCOL),
    "no list": (response(1, result={"tools": "MARKER"}), PROTOCOL),
    "a tool without a name": (response(1, result={"tools": [{"x": "MARKER"}]}), PROTOCOL),
    "a lone surrogate": (listing(tool(description="\ud800")), PROTOCOL),
    "an answer to something else": (response(77, result={"tools": []}), PROTOCOL),
    "a web page": ([Send(answer(b"MARKER", content_type=b"text/html"))], PROTOCOL),
    "no HTTP": ([Send(b"MARKER\r\n\r\n")], PROTOCOL),
    "a head of blanks": ([Send(OK + b"x:" + BLANKS + b"\0\r\n\r\n"), Stall()], PROTOCOL),
    "a size of blanks": ([Send(CHUNKED + b"1;" + BLANKS + b"\n\r\n"), Stall()], PROTOCOL),
    "a reset": ([Reset()], PROTOCOL),
    "an end": ([Close()], PROTOCOL),
    "a broken event": ([Send(stream("data: MARKER\n\n")), Stall()], PROTOCOL),
    "not allowed": (
        [Send(answer(b"MARKER", status=b"401 MARKER"))],
        said_of("http_status 401", "The server answered with an HTTP error."),
    ),
    "an encoding": (
        [Send(answer(b"MARKER", headers=[(b"Content-Encoding", b"gzip")]))],
        said_of("content_encoding", "The server's answer was encoded."),
    ),
    "too many tools": (
        listing(*(tool(str(number)) for number in range(1001))),
        said_of("too_many", "The server names more than 1,000 tools."),
    ),
    "too much": (listing(tool(description="x" * (4 * 1024 * 1024))), TOO_LARGE),
    "without end": ([Send(stream("")), Endless(b": MARKER\n" * 4096)], TOO_LARGE),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_server_that_fails(zero: Folder, case: str) -> None:
    """It is found out at once, and nothing that the server said is passed on."""
    script, lines = FAILURES[case]
    with mcp_server(script) as server:
        zero.use(f"{server.origin}/mcp", init_timeout=60)
        started = time.monotonic()
        said = zero.run("pin", "tools")
        assert time.monotonic() - started < 15
        data = zero.data("pin", "tools")
    assert said == (11, lines, [f"connects to {server.origin}/mcp"])
    failure = lines[0].split(": ")[1]
    status = int(failure.split()[1]) if " " in failure else None
    assert data == {"error": failure.split()[0], "status": status, "server": "tools"}


def test_a_thousand_tools_are_not_too_many(zero: Folder) -> None:
    with mcp_server(listing(*(tool(str(number)) for number in range(1000)))) as server:
        zero.use(f"{server.origin}/mcp")
        assert zero.run("pin", "tools").lines[1] == "tools   1000"


def test_a_deep_schema_is_pinned_and_saved(zero: Folder) -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {"k": deep}
    with mcp_server(listing(tool(deep=deep))) as server:
        zero.use(f"{server.origin}/mcp")
        saved = zero.write("saved.json", zero.data("pin", "tools"))
        assert zero.run("pin", "tools", "--definitions", "--against", str(saved)).code == 0


@pytest.mark.parametrize(
    ("own", "everywhere", "seconds"),
    [
        (None, None, 10),
        (0, 0, 10),
        (3, 60, 3),
        (None, 0.5, 0.5),
        (0, 4, 4),
        (-1, 4, 4),
        (True, 4, 4),
        ("60", 4, 4),
        (float("nan"), 4, 4),
        (119, None, 119),
        (10**400, None, 120),
        (float("inf"), None, 120),
    ],
)
def test_the_deadline_is_the_configured_one(
    zero: Folder, monkeypatch: pytest.MonkeyPatch, own: Any, everywhere: Any, seconds: float
) -> None:
    given: list[float] = []

    def list_tools(_: object, seconds: float) -> None:
        given.append(seconds)
        raise catalogue.NoCatalogue(catalogue.NotListed.TIMEOUT, None)

    monkeypatch.setattr(catalogue, "list_tools", list_tools)
    zero.use(PUBLIC, init_timeout=own)
    zero.set_mcp(
        {"mcp_client_init_timeout": everywhere},
        tools={"type": "streamable-http", "url": PUBLIC, "init_timeout": own},
    )
    assert zero.run("pin", "tools").code == 11
    assert given == [seconds]


@pytest.mark.parametrize("kind", ["streamable-http", "sse"])
def test_a_server_that_hangs_ends_at_the_deadline(zero: Folder, kind: str) -> None:
    with WireServer([Stall()]) as server:
        zero.use(f"{server.origin}/mcp", type=kind, init_timeout=0.3)
        started = time.monotonic()
        said = zero.run("pin", "tools")
        assert 0.3 <= time.monotonic() - started < 30
    assert said[:2] == (
        11,
        said_of("timeout", "The deadline passed before the server had named its tools."),
    )


@pytest.mark.parametrize("kind", ["streamable-http", "sse"])
def test_nobody_is_there(zero: Folder, kind: str) -> None:
    server = WireServer([])
    server.stop()
    zero.use(f"{server.origin}/mcp", type=kind)
    assert zero.run("pin", "tools")[:2] == (
        11,
        said_of("connect", "No connection to the server."),
    )


def test_a_name_that_does_not_resolve(zero: Folder) -> None:
    zero.use("https://no-such-host.invalid/mcp")
    assert zero.run("pin", "tools")[:2] == (
        11,
        said_of("resolve", "The server's name did not resolve."),
    )


@pytest.mark.parametrize("path", ["mcp", "nowhere"])
def test_an_event_stream_that_is_none(zero: Folder, tool_server: int, path: str) -> None:
    zero.use(f"http://127.0.0.1:{tool_server}/{path}", type="sse")
    code, (line,), _ = zero.run("pin", "tools")
    assert (code, line[:19]) == (11, "tools: http_status ")


@pytest.mark.parametrize(
    "headers", [{"X-Key": 5}, {"X-Key": None}, {"X-Key": f"{SECRET} é"}, ["X-Key"]]
)
def test_headers_that_cannot_be_sent(zero: Folder, headers: Any) -> None:
    with mcp_server(listing()) as server:
        zero.use(f"{server.origin}/mcp", headers=headers)
        code, lines, errors = zero.run("pin", "tools")
    if isinstance(headers, list):  # taken for headers that name another host
        assert (code, lines, errors) == (10, TRANSPORT_ALTERED, [])
    else:
        said = said_of("headers", "The configured headers cannot be sent.")
        assert (code, lines) == (11, said)
    assert server.connections == 0


def test_a_header_that_would_break_the_request(zero: Folder) -> None:
    with mcp_server(listing()) as server:
        zero.use(f"{server.origin}/mcp", headers={"X-Key": f"a\r\nX-Other: {SECRET}"})
        said = zero.run("pin", "tools")
    assert said[:2] == (11, said_of("headers", "The configured headers cannot be sent."))
    assert server.requests == []


def test_tls_is_verified_as_the_framework_does(
    zero: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "ours")
    context = authority.server("server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.pem)
    with mcp_server(listing(tool()), tls=context) as server:
        zero.use(f"{server.origin}/mcp")
        assert zero.run("pin", "tools")[:2] == (
            11,
            said_of("tls", "The TLS handshake with the server failed."),
        )
        assert server.requests == []
        keys = tmp_path / "keys"
        monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
        assert zero.run("pin", "tools")[:2] == (
            11,
            said_of("certificates", "SSL_CERT_FILE or SSL_CERT_DIR cannot be read."),
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert zero.run("pin", "tools").code == 0
        assert not keys.exists()


@pytest.mark.parametrize(
    "other",
    [
        [Stall()],
        [Reset()],
        [Send(answer(b"", status=b"405 Not Allowed"))],
        [Send(answer(b"", status=b"302 Moved", headers=[(b"Location", b"/other")]))],
    ],
    ids=["hangs", "breaks", "error", "redirect"],
)
def test_a_stream_and_a_goodbye_that_fail_do_not_lose_the_answer(
    zero: Folder, other: Script
) -> None:
    posts: list[bytes] = []
    session = [(b"Mcp-Session-Id", b"one")]

    def play(head: bytes) -> Script:
        if not head.startswith(b"POST "):
            return other
        posts.append(head)
        bodies = [GREETING, b"", listing(tool())]
        status = b"202 Accepted" if len(posts) == 2 else b"200 OK"
        return [Send(answer(bodies[len(posts) - 1], status=status, headers=session))]

    with WireServer(play) as server:
        zero.use(f"{server.origin}/mcp", init_timeout=2)
        code, lines, _ = zero.run("pin", "tools")
        assert any(head.startswith(b"DELETE ") for head in server.requests)
        assert not any(b" /other " in head for head in server.requests)
    assert (code, lines[1]) == (0, "tools   1")


def test_the_log_is_quiet_for_the_while_only(
    zero: Folder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a handler, what the MCP client logs would go to standard error."""
    monkeypatch.setattr(logging.root.manager, "disable", logging.DEBUG)
    with mcp_server(b"MARKER") as server:
        zero.use(f"{server.origin}/mcp")
        assert zero.run("pin", "tools").errors == [f"connects to {server.origin}/mcp"]
    assert caplog.records == []
    assert logging.root.manager.disable == logging.DEBUG


@pytest.mark.parametrize("headers", [[], ["authorization", "x-key"]])
def test_the_entry_keeps_the_headers_that_are_named(zero: Folder, headers: list[str]) -> None:
    """Whoever pastes it takes nothing away."""
    with mcp_server(listing(tool())) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(tools={"type": "streamable-http", "url": url})
        approved = {"tools": {"url": url, "tools": {}, "headers": headers}}
        zero.configure(protected_servers=approved)
        data = zero.data("pin", "tools")
    assert data["protected_servers"]["tools"]["headers"] == headers


def test_the_entry_keeps_what_it_has_besides_pins_as_it_is_written(zero: Folder) -> None:
    """What comes from the top level is not written into it."""
    own = {
        "policy": {"on_caution": "allow", "required_proven": None},
        "timeout_seconds": 3,
        "cache_ttl_seconds": 0.5,
        "headers": ["X-Key", "Authorization"],
    }
    with mcp_server(listing(tool())) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(Tools={"type": "streamable-http", "url": url})
        settings = {"policy": {"on_unavailable": "allow"}, "cache_ttl_seconds": 9}
        zero.configure(protected_servers={"TOOLS": {"url": url, "tools": {}, **own}}, **settings)
        data = zero.data("pin", "tools")
        pasted = entry_of(zero.run("pin", "tools").lines)
    expected = {"tools": {"url": url, "tools": pins_of(tool()), **own}}
    assert data["protected_servers"] == pasted == expected


def test_the_entry_of_the_floor_is_kept_where_no_other_file_has_one(zero: Folder) -> None:
    with mcp_server(listing(tool())) as server:
        url = f"{server.origin}/mcp"
        zero.set_mcp(tools={"type": "streamable-http", "url": url})
        zero.configure(protected_servers={"tools": {"url": url, "timeout_seconds": 3}}, floor=True)
        zero.configure(PROJECT, protected_servers={})
        data = zero.data("pin", "tools", "--project", "shop")
    assert data["protected_servers"]["tools"]["timeout_seconds"] == 3
