"""The demo's scenes: each sets something up, makes one call, and knows what must come of it.

Import it only after `boot`. Rules of this module:

1. A scene is one function under its expected outcome. Its call goes through real dispatch
   to real servers; what is counted is counted on the wire: preflights where this process
   opens connections, calls where a tool server receives them.
2. Scenes are played in order; what one has set up stands until another changes it.
3. The preflight service is the real one, save where a scene needs it broken or slow.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from local_guild.answers import answer_body
from local_guild.wire import Script, Send, Wait, WireServer, answer

from .chats import Chat, Operator
from .tap import Tap

ARGUMENTS: Final = {"text": "hello"}
RESULT: Final = "echo: hello"
PATIENCE_SECONDS: Final = 15


@dataclass(frozen=True)
class Outcome:
    """What came of a call, or must come of it.

    Attributes:
        decision: "untouched" by the gate, "allowed" or "refused".
        detail: the reason of a refusal, with its sub-reason; else what the tool answered.
        preflights: requests made to the preflight service.
        calls: tool calls that reached a tool server.
    """

    decision: str
    detail: str
    preflights: int
    calls: int


@dataclass(frozen=True)
class Scene:
    """One scene; `play` makes its call in the chat that it is given."""

    title: str
    expected: Outcome
    play: Callable[[Stage, Chat], None]


class Connections:
    """Every connection that this process has opened since this was made."""

    def __init__(self) -> None:
        self._addresses: list[object] = []
        sys.addaudithook(self._note)

    def count(self, port: int) -> int:
        """Return how many were opened to a port of 127.0.0.1."""
        return self._addresses.count(("127.0.0.1", port))

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "socket.connect":
            self._addresses.append(arguments[1])


class Stage:
    """What the scenes find: two tool servers with a tap each, a web page, a service."""

    def __init__(
        self, operator: Operator, notes: Tap, archive: Tap, web_port: int, guild_origin: str
    ) -> None:
        self.operator = operator
        self.notes = notes
        self.archive = archive
        self.web_port = web_port
        self.guild_origin = guild_origin
        self.notes_url = f"http://127.0.0.1:{notes.port}/mcp"
        self.archive_url = f"http://127.0.0.1:{archive.port}/mcp"
        self._connections = Connections()
        self._services: set[int] = set()

    def connect(self, notes: str) -> None:
        """Write the MCP settings: the URL under the name `notes`, and the archive's own."""
        urls = {"notes": notes, "archive": self.archive_url}
        self.operator.set_mcp(
            {name: {"type": "streamable-http", "url": url} for name, url in urls.items()}
        )

    def protect(self, guild_origin: str) -> None:
        """Write the plugin's settings: both servers approved, and the service to ask."""
        self._services.add(urlsplit(guild_origin).port or 0)
        self.operator.configure(
            {
                "protected_servers": {"notes": self.notes_url, "archive": self.archive_url},
                "timeout_seconds": PATIENCE_SECONDS,
                "allow_private_hosts": True,
                "fixture_guild_origin": guild_origin,
            }
        )

    def play(self, scene: Scene) -> tuple[Outcome, str]:
        """Play a scene; give what came of it and what the model was shown."""
        preflights = self._preflights()
        self.notes.reset()
        self.archive.reset()
        chat = Chat()
        try:
            scene.play(self, chat)
            shown, records = chat.shown[-1], chat.records
        finally:
            chat.close()
        decision, detail = "untouched", shown.splitlines()[-1]
        if records:
            decision = records[-1]["decision"]
        if decision == "refused":
            reason, sub_reason = records[-1]["reason"], records[-1]["sub_reason"]
            detail = f"{reason} ({sub_reason})" if sub_reason else reason
        calls = sum(tap.count(b'"tools/call"') for tap in (self.notes, self.archive))
        return Outcome(decision, detail, self._preflights() - preflights, calls), shown

    def _preflights(self) -> int:
        return sum(self._connections.count(port) for port in self._services)


SCENES: Final[list[Scene]] = []


def _scene(
    title: str, decision: str, detail: str, *, preflights: int, calls: int
) -> Callable[[Callable[[Stage, Chat], None]], Scene]:
    """Make a function the next scene, with the outcome that it must have."""

    def add(play: Callable[[Stage, Chat], None]) -> Scene:
        SCENES.append(Scene(title, Outcome(decision, detail, preflights, calls), play))
        return SCENES[-1]

    return add


@_scene("no server is protected", "untouched", RESULT, preflights=0, calls=1)
def nothing_configured(stage: Stage, chat: Chat) -> None:
    stage.connect(notes=stage.notes_url)
    chat.native(("notes.echo", ARGUMENTS))


@_scene("an approved server, healthy", "allowed", RESULT, preflights=1, calls=1)
def healthy(stage: Stage, chat: Chat) -> None:
    stage.protect(stage.guild_origin)
    chat.native(("notes.echo", ARGUMENTS))


@_scene("the same again, from the cache", "allowed", RESULT, preflights=0, calls=1)
def healthy_again(_: Stage, chat: Chat) -> None:
    chat.native(("notes.echo", ARGUMENTS))


@_scene("a web page where the server was", "refused", "do_not_delegate", preflights=1, calls=0)
def web_page_instead(stage: Stage, chat: Chat) -> None:
    tool_server, stage.archive.target_port = stage.archive.target_port, stage.web_port
    try:
        chat.native(("archive.echo", ARGUMENTS))
    finally:
        stage.archive.target_port = tool_server


@_scene("the MCP settings name another URL", "refused", "url_mismatch", preflights=0, calls=0)
def other_url(stage: Stage, chat: Chat) -> None:
    stage.connect(notes=stage.archive_url)
    chat.native(("notes.echo", ARGUMENTS))


@_scene("the same as text, by the tool's alias", "refused", "url_mismatch", preflights=0, calls=0)
def other_url_by_alias(_: Stage, chat: Chat) -> None:
    chat.legacy(chat.use_aliases()["notes.echo"], ARGUMENTS)


@_scene(
    "the preflight service is down",
    "refused",
    "evidence_unavailable (connect)",
    preflights=1,
    calls=0,
)
def service_down(stage: Stage, chat: Chat) -> None:
    stage.connect(notes=stage.notes_url)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # the port is taken, and nobody listens on it
        stage.protect(f"http://127.0.0.1:{silent.getsockname()[1]}")
        chat.native(("notes.echo", ARGUMENTS))


@_scene(
    "the service contradicts itself",
    "refused",
    "evidence_inconsistent (verdict)",
    preflights=1,
    calls=0,
)
def service_contradicts_itself(stage: Stage, chat: Chat) -> None:
    body = answer_body(stage.notes_url, verdict="delegate_with_caution")  # with no failed check
    with WireServer([Send(answer(body))]) as service:
        stage.protect(service.origin)
        chat.native(("notes.echo", ARGUMENTS))


@_scene("the URL changes during the preflight", "refused", "binding_changed", preflights=1, calls=0)
def url_changes_meanwhile(stage: Stage, chat: Chat) -> None:
    changed = threading.Event()
    script: Script = [Wait(changed), Send(answer(answer_body(stage.notes_url)))]
    with WireServer(script) as service:
        stage.protect(service.origin)
        call = threading.Thread(target=chat.native, args=(("notes.echo", ARGUMENTS),), daemon=True)
        call.start()
        service.wait_for_requests(1, PATIENCE_SECONDS)
        stage.connect(notes=stage.archive_url)
        changed.set()
        call.join()


READ_ALOUD: Final = web_page_instead
