"""What the tests that go through a host share: one scene, set up in plain words.

A scene is one chat, a real tool server that the operator protects under the name `tools`,
a tap in front of it that counts, and a preflight service that plays a script. What a
refusal must look like everywhere is stated once, in `Scene.expect_refused`; the sentences
there are written out again on purpose.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from helpers.extension import call_extensions_async
from helpers.mcp_handler import MCPConfig, MCPServerRemote, MCPTool
from helpers.tool import Response
from local_guild.answers import CHECKS, ESSENTIAL_CHECKS, answer_body, verdict
from local_guild.wire import Play, Script, Send, WireServer, answer
from mcp.types import CallToolResult, TextContent
from stage import chats
from stage.boot import PLUGIN
from stage.chats import Chat, Operator
from stage.tap import Tap
from stage.tool_server import HOSTILE_TOOLS, SPECIAL_TOOLS, running
from usr.plugins.agent_guild_preflight.helpers import evaluation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import cache, observe
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason

# Public, and never connected to: a live server object is only made to name it.
PUBLIC_URL = "https://tools.example.com/mcp"
PUBLIC_ENDPOINT = "https://tools.example.com"

HEADER = "Traceback (most recent call last):"
NEXT_STEPS = {
    "operator": "Do not repeat this call; only the operator can change this. Tell the user.",
    "retry_later": "The same call may be tried again later.",
    "retry_after": "The same call gives the same answer until then.",
}
WAIT_SECONDS = 10.0

LOCAL_TOOL = """
from helpers.tool import Response, Tool

class Note(Tool):
    async def execute(self, **kwargs):
        return Response(message="noted", break_loop=False)
"""


class Scene:
    """One chat on stage.

    Attributes:
        chat, tap, operator, patch: the players; `patch` takes back what it did at the end.
        url: the tool server's approved URL, through the tap.
        guild: the preflight service that was started last.
    """

    public_url = PUBLIC_URL

    def __init__(
        self, operator: Operator, tap: Tap, patch: pytest.MonkeyPatch, closing: ExitStack
    ) -> None:
        self.operator, self.tap, self.patch = operator, tap, patch
        self._closing = closing
        self.url = f"http://127.0.0.1:{tap.port}/mcp"
        self.guild: WireServer | None = None
        self.chat = self.new_chat()

    # Setting up

    def new_chat(self, *arguments: Any, **named: Any) -> Chat:
        """Open a chat that is closed at the end."""
        chat = Chat(*arguments, **named)
        self._closing.callback(chat.close)
        return chat

    def serve(self, script: Script | Play | None = None, **named: Any) -> WireServer:
        """Start a preflight service; without a script it finds every server healthy."""
        chosen = self.answers() if script is None else script
        self.guild = self._closing.enter_context(WireServer(chosen, **named))
        return self.guild

    @staticmethod
    def answers(
        statuses: Mapping[str, str] | None = None,
        before: Callable[[], object] = lambda: None,
        **overrides: Any,
    ) -> Play:
        """Return a script that answers about what it is asked; `before` runs just before."""

        def play(head: bytes) -> Script:
            before()
            return [Send(answer(answer_body(asked(head), statuses, **overrides)))]

        return play

    @staticmethod
    def edits(edit: Callable[[dict[str, Any]], object]) -> Play:
        """Return a script that answers after `edit` has changed the healthy answer."""

        def play(head: bytes) -> Script:
            document = json.loads(answer_body(asked(head)))
            edit(document)
            return [Send(answer(json.dumps(document).encode()))]

        return play

    def use_mcp(self, **servers: Any) -> None:
        """Set the MCP servers: settings by name, or the URL of a streamable one."""
        self.operator.set_mcp(
            {
                name: {"type": "streamable-http", "url": chosen}
                if isinstance(chosen, str)
                else chosen
                for name, chosen in servers.items()
            }
        )

    def settings(self, **changed: Any) -> dict[str, Any]:
        """Return a configuration that protects `tools` and asks the service of this scene."""
        return {
            "protected_servers": {"tools": self.url},
            "allow_private_hosts": True,
            "fixture_guild_origin": self.guild.origin if self.guild else None,
            "cache_ttl_seconds": 0,
            **changed,
        }

    def protect(self, **changed: Any) -> None:
        """Configure the server and the plugin; starts a healthy service if there is none."""
        if self.guild is None:
            self.serve()
        self.use_mcp(tools=self.url)
        self.operator.configure(self.settings(**changed))
        self.tap.reset()

    def protect_publicly(self, origin: str | None = None, **changed: Any) -> None:
        """Approve a public URL that nothing ever connects to; `origin` is the public service."""
        public = {"protected_servers": {"tools": PUBLIC_URL}, "fixture_guild_origin": None}
        self.protect(**{**public, **changed})
        self.alter(url=PUBLIC_URL)
        if origin is not None:
            self.patch.setattr(evaluation, "PUBLIC_ORIGIN", origin)

    @property
    def live(self) -> Any:
        """The live server object of `tools`."""
        return self.operator.live_server("tools")

    @staticmethod
    def servers_of(chat: Chat) -> list[Any]:
        """Return the live server objects that a chat's calls go to."""
        return list(MCPConfig.get_for_agent(chat.agent).servers)

    @staticmethod
    def definitions(server: Any) -> list[dict[str, Any]]:
        """Return the tools that a live server has been told of: the host's own objects, to be altered."""
        client = getattr(server, "_MCPServerRemote__client", None)
        tools: list[dict[str, Any]] = server._tools if client is None else client.tools
        return tools

    @staticmethod
    def digest(text: str) -> str:
        """Return the digest of a text in the form of a pin."""
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @classmethod
    def pins(cls, server: Any) -> dict[str, str]:
        """Pin every tool of a live server as it is now; how a digest is made is stated again."""
        return {
            tool["name"]: cls.digest(
                json.dumps(
                    {key: tool[key] for key in ("description", "input_schema", "name")},
                    sort_keys=True,
                    ensure_ascii=False,
                    separators=(",", ":"),
                )
            )
            for tool in cls.definitions(server)
        }

    def alter(self, **fields: Any) -> None:
        """Change the live server object of `tools`."""
        for name, value in fields.items():
            self.patch.setattr(self.live, name, value)

    def replace_servers(self, *servers: Any) -> None:
        """Put other live server objects in place."""
        self.patch.setattr(MCPConfig.get_instance(), "servers", list(servers))

    def between(self, change: Callable[[], object]) -> None:
        """Change something after the host has resolved an MCP tool and before it asks the hooks."""
        original = MCPTool.before_execution

        async def before_execution(tool: MCPTool, **arguments: Any) -> None:
            await original(tool, **arguments)
            change()

        self.patch.setattr(MCPTool, "before_execution", before_execution)

    def add_hook(self, point: str, work: Callable[..., object]) -> None:
        """Add an extension of the user's own, which runs after ours, until the end."""
        path = self.operator.add_hook(point, work)
        self._closing.callback(self.operator.forget_extensions)
        self._closing.callback(path.unlink)

    def as_it_looks_up(self, change: Callable[[], object]) -> None:
        """Change something after the gate's last check, just before the host looks the server up."""
        original = MCPTool.execute

        async def execute(tool: MCPTool, **arguments: Any) -> Response:
            change()
            response: Response = await original(tool, **arguments)
            return response

        self.patch.setattr(MCPTool, "execute", execute)

    def stub_execution(self) -> list[str]:
        """Keep remote servers from being called; gives the names of the tools that would have been."""
        called: list[str] = []

        async def call_tool(server: MCPServerRemote, tool_name: str, _: Any) -> CallToolResult:
            called.append(f"{server.name}.{tool_name}")
            return CallToolResult(content=[TextContent(type="text", text="echo: stub")])

        self.patch.setattr(MCPServerRemote, "call_tool", call_tool)
        return called

    def open_project(self, servers: dict[str, Any], name: str = "harbour") -> Chat:
        """Open a chat in a project with MCP servers of its own; they are connected to already."""
        self.operator.set_project_mcp(name, servers)
        self.chat = self.new_chat(project=name)
        MCPConfig.get_for_agent(self.chat.agent)
        self.tap.reset()
        return self.chat

    # Playing

    def call(self, name: str = "tools.echo", text: str = "hello") -> None:
        """Make one native call."""
        self.chat.native((name, {"text": text}))

    def hook(self, tool_name: str, current_tool: Any) -> None:
        """Run the hooks as a dispatcher does, with a bound tool of our choice."""

        async def dispatch() -> None:
            self.chat.agent.loop_data.current_tool = current_tool
            await self.chat._turn(
                call_extensions_async(
                    "tool_execute_before", self.chat.agent, tool_args={}, tool_name=tool_name
                )
            )

        chats.run(dispatch())

    # Looking

    @property
    def preflights(self) -> int:
        """How many requests have reached the service."""
        return len(self.guild.requests) if self.guild else 0

    @property
    def asked(self) -> list[str]:
        """The URLs that the service was asked about."""
        return [asked(head) for head in self.guild.requests] if self.guild else []

    @property
    def endpoint(self) -> str:
        """What may be shown of the tool server's URL."""
        return self.url.removesuffix("/mcp")

    def line(
        self,
        cause: str,
        next_step: str,
        *,
        server: str | None = "tools",
        endpoint: str | None = "",
        statuses: Mapping[str, str] | None = None,
        unlisted: int = 0,
        age: str = "",
        is_withheld: bool = False,
    ) -> str:
        """Return the line that a model must be shown, with `<time>` for its time.

        An empty `endpoint` stands for the tool server's own; `statuses` are those of the
        valid answer that the decision rests on, None when there was none.
        """
        sentence = Reason(cause.partition(" ")[0]).sentence
        what = "withheld the result of" if is_withheld else "refused"
        parts = [f"Agent Guild preflight {what} this call: {cause}. {sentence}"]
        if server is not None:
            parts.append(f"Server: {server}.")
        if endpoint is not None:
            parts.append(f"Endpoint: {endpoint or self.endpoint}.")
        if statuses is not None:
            full = complete(statuses)
            parts.append(f"Verdict: {verdict(full)}.")
            for status in ("failed", "unknown", "proven"):
                if names := [name for name in CHECKS if full[name] == status]:
                    parts.append(f"{status.capitalize()}: {', '.join(names)}.")
            if unlisted:
                parts.append(f"+{unlisted} unlisted.")
            parts.append(f"Observed at <time>{age}.")
        parts.append(f"Next step: {next_step}. {NEXT_STEPS[next_step.split()[0]]}")
        others = "Local tools" if server is None else "Tools of other servers"
        parts.append(f"{others} are not concerned.")
        return " ".join(parts)

    def told(self, chat: Chat | None = None) -> str:
        """Return the denial shown last, after checking that at most a bare header is with it."""
        first, *rest = (chat or self.chat).shown[-1].splitlines()
        assert [text for text in rest if text.strip()] in ([], [HEADER])
        prefix, _, line = first.partition(": ")
        assert re.fullmatch(r"[\w.]+Error", prefix)
        return self.without_times(line)

    @staticmethod
    def without_times(text: str) -> str:
        """Put `<time>` in the place of every time."""
        return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>", text)

    def expect_refused(
        self,
        reason: str,
        sub_reason: str | None = None,
        next_step: str = "operator",
        *,
        preflights: int = 0,
        chat: Chat | None = None,
        unforeseen: str | None = None,
        superseded: bool = False,
        told: str | None = None,
        was_called: bool = False,
        refused_by: str | None = None,
        is_withheld: bool | None = None,
        **shown: Any,
    ) -> dict[str, Any]:
        """Check everything that a refusal of the latest call must leave, and nothing else.

        `superseded` says that the call had been allowed before, `was_called` that it was made;
        `told` is what the model is told, where that is not in the chat; `refused_by` whose demand
        it was, where that is looked at. Gives its record.
        """
        chat = chat or self.chat
        cause = reason if sub_reason is None else f"{reason} ({sub_reason})"
        is_withheld = was_called if is_withheld is None else is_withheld
        told = self.told(chat) if told is None else self.without_times(told)
        assert told == self.line(cause, next_step, is_withheld=is_withheld, **shown)
        if was_called:
            self.expect_reached()
        else:
            assert self.tap.connections == 0
        assert self.preflights == preflights
        (record,) = chat.records
        assert record["decision"] == "refused"
        assert (record["reason"], record["sub_reason"]) == (reason, sub_reason)
        assert record["next_step"] == next_step
        if refused_by is not None:
            assert record["refused_by"] == refused_by
        self._expect_log(
            chat,
            "refused",
            cause,
            next_step,
            unforeseen,
            superseded=superseded,
            is_floor=refused_by == "floor",
            **shown,
        )
        return record

    def expect_invalid(
        self,
        *problems: str,
        server: str | None = "tools",
        told: str | None = None,
        calls: int = 1,
        refused_by: str = "selected",
    ) -> dict[str, Any]:
        """Check all that refusals over invalid settings leave: for each a record, a line for the
        operator that says what is wrong, and one that says what was decided.

        `problems` are the operator's lines, where they are looked at; for `told`, see
        `expect_refused`. Gives the latest record.
        """
        line = self.line("invalid_configuration", "operator", server=server, endpoint=None)
        assert (self.told() if told is None else told) == line
        assert (self.tap.connections, self.preflights) == (0, 0)
        assert len(self.chat.records) == calls
        record = self.chat.records[-1]
        assert (record["decision"], record["next_step"]) == ("refused", "operator")
        assert (record["reason"], record["sub_reason"]) == ("invalid_configuration", None)
        assert (record["server"], record["refused_by"]) == (server, refused_by)
        assert self.chat.last_observation is not None
        assert self.chat.last_observation["verdict"] is None
        wrong, decided = self.chat.log_lines[0::2], self.chat.log_lines[1::2]
        assert [item["heading"] for item in wrong] == [
            "Agent Guild preflight: the settings are not valid"
        ] * calls
        assert {item["type"] for item in wrong} == {"warning"}
        if problems:
            assert wrong[-1]["content"].splitlines() == list(problems)
        assert [item["heading"] for item in decided] == ["Agent Guild preflight: refused"] * calls
        shown = {"server": server, "endpoint": None, "is_floor": refused_by == "floor"}
        self._expect_line(decided[-1], "refused", "invalid_configuration", "operator", **shown)
        return record

    def expect_superseded(self, told: str | None = None) -> dict[str, Any]:
        """Check that the latest call was allowed, and then refused as its tool began."""
        return self.expect_refused(
            "binding_changed",
            None,
            "retry_later",
            preflights=1,
            statuses={},
            superseded=True,
            told=told,
        )

    def expect_allowed(
        self,
        *,
        preflights: int = 1,
        tolerated: Sequence[str] = (),
        chat: Chat | None = None,
        told: str | None = None,
        **shown: Any,
    ) -> dict[str, Any]:
        """Check everything that one allowed call must leave. Gives its record.

        `told` is what the model is told, where that is not in the chat.
        """
        chat = chat or self.chat
        assert "echo: " in (told or chat.shown[-1])
        assert self.preflights == preflights
        (record,) = chat.records
        assert record["decision"] == "allowed"
        keys = ("reason", "sub_reason", "next_step", "refused_by")
        assert [record[key] for key in keys] == [None] * 4
        assert record["tolerated"] == list(tolerated)
        self._expect_log(chat, "allowed", "none", "none", tolerated=tolerated, **shown)
        return record

    def expect_reached(self, calls: int = 1) -> None:
        """Check how many calls have reached the tool server."""
        assert self.tap.count(b'"method":"tools/call"') == calls

    def expect_untouched(self, chat: Chat | None = None) -> None:
        """Check that the gate left no trace of any call."""
        chat = chat or self.chat
        assert self.preflights == 0
        assert chat.records == []
        assert chat.last_observation is None
        assert chat.log_lines == []

    def _expect_log(
        self,
        chat: Chat,
        decision: str,
        cause: str,
        next_step: str,
        unforeseen: str | None = None,
        *,
        superseded: bool = False,
        **shown: Any,
    ) -> None:
        *earlier, item = chat.log_lines
        assert [line["kvps"]["decision"] for line in earlier] == ["allowed"] * superseded
        assert item["kvps"]["tool"] == chat.records[-1]["tool"]
        if unforeseen is not None:
            # The class, and the line of ours where it was raised: never the text.
            place = rf"{unforeseen} in [a-z_.]+, line [0-9]+"
            assert re.fullmatch(place, item["kvps"]["unforeseen"])
            assert chat.records[-1]["unforeseen"] == item["kvps"].pop("unforeseen")
        self._expect_line(item, decision, cause, next_step, **shown)

    def _expect_line(
        self,
        item: dict[str, Any],
        decision: str,
        cause: str,
        next_step: str,
        *,
        is_floor: bool = False,
        server: str | None = "tools",
        endpoint: str | None = "",
        statuses: Mapping[str, str] | None = None,
        unlisted: int = 0,
        age: str = "",
        tolerated: Sequence[str] = (),
    ) -> None:
        """Check one line of the chat log about a decision."""
        assert item["type"] == ("info" if decision == "allowed" else "warning")
        assert item["heading"] == f"Agent Guild preflight: {decision}"
        assert not item["content"]
        assert item["kvps"] == {
            "decision": decision,
            "reason": cause,
            "server": server or "unknown",
            "tool": item["kvps"]["tool"],  # held to the record by whoever has it
            "endpoint": "not shown" if endpoint is None else endpoint or self.endpoint,
            "verdict": "none" if statuses is None else verdict(complete(statuses)),
            "evidence": "none" if statuses is None else age.strip(" ()") or "fresh",
            "tolerated": ", ".join(tolerated) or "nothing",
            "next_step": next_step,
            **({"refused_by": "floor"} if is_floor else {}),
        }


def asked(head: bytes) -> str:
    """Return the URL that a preflight request asks about."""
    return unquote(head.split(b" ")[1].split(b"url=", 1)[1].decode("ascii"))


def complete(statuses: Mapping[str, str]) -> dict[str, str]:
    """Return the status of every check, as `answer_body` completes them."""
    assumed = {name: "proven" if name in ESSENTIAL_CHECKS else "unknown" for name in CHECKS}
    return assumed | dict(statuses)


@pytest.fixture(scope="session")
def operator() -> Operator:
    root = Path(sys.modules["usr"].__path__[0]).parent
    operator = Operator(root)
    operator.tool_path("note").parent.mkdir(exist_ok=True)
    operator.tool_path("note").write_text(LOCAL_TOOL)
    return operator


@pytest.fixture(scope="session")
def tool_server() -> Iterator[int]:
    """Return the port of a real MCP server in a process of its own."""
    with running(*HOSTILE_TOOLS, *SPECIAL_TOOLS) as port:
        yield port


@pytest.fixture(scope="session")
def session_taps(tool_server: int) -> Iterator[tuple[Tap, Tap]]:
    with Tap(tool_server) as tap, Tap(tool_server) as other:
        yield tap, other


@pytest.fixture
def other_tap(session_taps: tuple[Tap, Tap]) -> Tap:
    """Return a second way to the same tool server, by another URL."""
    session_taps[1].reset()
    return session_taps[1]


@pytest.fixture
def other_url(other_tap: Tap) -> str:
    return f"http://127.0.0.1:{other_tap.port}/mcp"


@pytest.fixture
def scene(
    operator: Operator, session_taps: tuple[Tap, Tap], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    """Return a fresh scene: nothing is configured, nothing is remembered."""
    operator.unconfigure()
    operator.forget_extensions()
    monkeypatch.setattr(observe, "_cache", cache.ObservationCache())
    with ExitStack() as closing:
        yield Scene(operator, session_taps[0], monkeypatch, closing)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the clock that evidence ages on; it stands still otherwise."""
    now = [1000.0]
    monkeypatch.setattr(cache, "boot_seconds", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


@pytest.fixture
def look_ups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the look-ups of the MCP configuration that the plugin makes, by the module that asks."""
    original = MCPConfig.get_for_agent.__func__  # type: ignore[attr-defined]
    counted: list[str] = []

    def get_for_agent(cls: type[MCPConfig], agent: Any) -> Any:
        caller = sys._getframe(1).f_globals["__name__"]
        if f".{PLUGIN}." in caller:
            counted.append(caller)
        return original(cls, agent)

    monkeypatch.setattr(MCPConfig, "get_for_agent", classmethod(get_for_agent))
    return counted
