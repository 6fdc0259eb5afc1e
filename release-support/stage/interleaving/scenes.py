"""Who acts: each scene has a few dispatches on one agent, and others who act meanwhile.

Rules of this module:

1. `notes` is protected and approved at `NOTES`, of which the service says that it is healthy. Where
   its settings are edited, they name `ROGUE`.
2. A scene's cast is made anew for each schedule and does nothing before its first step.

Import it only after `boot`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from .awaits import HOOK
from .oracle import Ended
from .scheduler import Edit, Scheduler, Script, Task
from .world import LIKE_AN_ALIAS, World

NOTES: Final = "https://notes.example.com/mcp"
OTHERS: Final = "https://others.example.com/mcp"
ROGUE: Final = "https://rogue.example.net/mcp"
SERVICE: Final = "http://127.0.0.1:7001"
STRICTER_SERVICE: Final = "http://127.0.0.1:7002"

HEALTHY: Final[Mapping[str, str]] = {}
DOUBTFUL: Final = {"agent_card_resolves": "failed"}
SAID: Final = {(SERVICE, NOTES): HEALTHY, (STRICTER_SERVICE, NOTES): DOUBTFUL}

SERVERS: Final = {"notes": NOTES, "others": OTHERS}
MOVED: Final = {**SERVERS, "notes": ROGUE}

# Names of which the framework's alias does not hold the whole server: it keeps 52 characters, and
# of those only ASCII letters, digits, "_" and "-".
LONG: Final = "the_archive_of_everything_that_was_ever_written_down_here"
FOREIGN: Final = "архив"


def settings(**changed: Any) -> dict[str, Any]:
    """Return a global config.json that protects `notes`."""
    return {"protected_servers": {"notes": NOTES}, "fixture_guild_origin": SERVICE, **changed}


@dataclass(frozen=True)
class Scene:
    """One scene.

    Attributes:
        about: what it tries, in a line.
        cast: adds its actors.
        config: our global config.json at the start.
        servers: the global MCP servers at the start, each with its URL.
        project: what the chat's project has at the start; None without a project.
        service: what the preflight services say, where that differs.
        bounds: up to how many departures it is exhaustive, in the short form and in the long one.
        is_bound: at the start each dispatch has bound its tool and is about to ask the hooks.
    """

    about: str
    cast: Callable[[Cast], None]
    config: Any = field(default_factory=settings)
    servers: Mapping[str, str] = field(default_factory=lambda: SERVERS)
    project: Mapping[str, Any] | None = None
    bounds: tuple[int, int] = (1, 2)
    is_bound: bool = False
    service: ClassVar[Mapping[Any, Any]] = SAID


class Cast:
    """Adds actors to a schedule, and knows how its dispatches ended."""

    def __init__(self, world: World, scheduler: Scheduler) -> None:
        self.world = world
        self._scheduler = scheduler
        self._dispatches: list[tuple[Task, str, bool]] = []

    def native(self, name: str, **named: Any) -> Task:
        """Add a native call of "server.tool", or of a local tool."""
        return self._dispatch(lambda: self.world.native(name), name, **named)

    def legacy(self, name: str, **named: Any) -> Task:
        """Add a call that is written as text."""
        return self._dispatch(lambda: self.world.legacy(name), name, **named)

    def _dispatch(
        self,
        begin: Callable[[], Coroutine[Any, Any, None]],
        name: str,
        *,
        server: str | None = None,
        is_free: bool = False,
    ) -> Task:
        task = self._scheduler.begin("ABC"[len(self._dispatches)], begin)
        found = name.partition(".")[0] if server is None and "." in name else server or ""
        self._dispatches.append((task, found, is_free))
        return task

    def cancel(self, task: Task) -> None:
        """Add somebody who cancels a dispatch."""

        def script() -> Script:
            yield f"cancels {task.name}"
            task.task.cancel()
            self._scheduler.loop.run_ready()

        edit = Edit("somebody", script(), is_possible=lambda: not task.task.done())
        self._scheduler.add(edit)

    def reload(self) -> None:
        """Add a reload of the plugin's modules."""

        def script() -> Script:
            yield "drops the plugin's modules"
            self.world.generations.drop()

        self._scheduler.add(Edit("framework", script()))

    def lose_aliases(self, *states: Mapping[str, str]) -> None:
        """Add edits of the global MCP settings, after the first of which the aliases are made anew."""

        def script() -> Script:
            for number, state in enumerate(states, 1):
                yield f"edit {number}"
                self.world.set_mcp(state)
                if number == 1:
                    yield "another turn makes the aliases anew"
                    self.world.use_aliases()

        self._scheduler.add(Edit("MCP settings", script()))

    def mcp(self, *states: Mapping[str, str], is_outside: bool = False) -> None:
        """Add edits of the global MCP settings, one after the other; in another thread, outside."""
        self._edits("MCP settings", self.world.set_mcp, states, is_outside=is_outside)

    def project_mcp(self, *states: Mapping[str, str]) -> None:
        """Add edits of the project's MCP settings."""
        self._edits("project's MCP settings", self.world.set_project_mcp, states)

    def config(self, *states: Any) -> None:
        """Add edits of our global settings file."""
        self._edits("our settings", self.world.configure, states)

    def _edits(
        self, name: str, edit: Callable[[Any], None], states: Any, *, is_outside: bool = True
    ) -> None:
        def script() -> Script:
            for number, state in enumerate(states, 1):
                yield f"edit {number}"
                edit(state)

        self._scheduler.add(Edit(name, script(), is_outside=is_outside))

    def ended(self) -> dict[str, Ended]:
        """Return how each dispatch ended, by name."""
        return {
            actor.name: Ended(
                _how(actor.task),
                server,
                HOOK in actor.answered,
                actor.name in self.world.ran,
                is_free,
            )
            for actor, server, is_free in self._dispatches
        }


def _how(task: asyncio.Task[Any]) -> str:
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if error is None:
        return "answered"
    return "refused" if type(error).__name__ == "GuildPreflightError" else type(error).__name__


def two_calls(cast: Cast) -> None:
    first = cast.native("notes.echo")
    cast.legacy("notes.echo")
    cast.mcp(MOVED, SERVERS)
    cast.cancel(first)


def one_tool(cast: Cast) -> None:
    cast.native("notes.echo")
    cast.native("notes.echo")
    cast.mcp(MOVED)


def another_thread(cast: Cast) -> None:
    cast.native("notes.echo")
    cast.legacy("notes.read")
    cast.mcp(MOVED, SERVERS, is_outside=True)


def three_calls(cast: Cast) -> None:
    first = cast.native("notes.echo")
    cast.native("others.echo")
    cast.legacy("notes.read")
    cast.mcp(MOVED)
    cast.config(settings(fixture_guild_origin=STRICTER_SERVICE))
    cast.cancel(first)
    cast.reload()


def reload(cast: Cast) -> None:
    first = cast.native("notes.echo")
    cast.native("notes.echo")
    cast.mcp(MOVED)
    cast.reload()
    cast.cancel(first)


def project(cast: Cast) -> None:
    first = cast.native("notes.echo")
    cast.legacy("notes.read")
    cast.project_mcp({"notes": ROGUE}, {})
    cast.cancel(first)


def project_reload(cast: Cast) -> None:
    cast.native("notes.echo")
    cast.native("notes.read")
    cast.project_mcp({"notes": ROGUE})
    cast.mcp({**SERVERS, "others": ROGUE})
    cast.reload()


def our_settings(cast: Cast) -> None:
    cast.native("notes.echo")
    second = cast.native("notes.echo")
    cast.config(
        settings(fixture_guild_origin=STRICTER_SERVICE),
        settings(protected_servers={"notes": ROGUE}),
    )
    cast.cancel(second)


def unreadable(cast: Cast) -> None:
    cast.native("notes.echo")
    cast.native("others.echo")
    cast.config("{", settings())


def floor(cast: Cast) -> None:
    cast.native("notes.echo")
    cast.native("notes.read")
    cast.config(
        settings(floor=True, policy={"required_proven": ["agent_card_resolves"]}),
        settings(floor=True, protected_servers={"notes": ROGUE}),
    )
    cast.project_mcp({"notes": ROGUE})


def lost_alias(server: str) -> Callable[[Cast], None]:
    def cast_of(cast: Cast) -> None:
        alias = cast.world.use_aliases()[f"{server}.echo"]
        cast.native("memo")
        cast.legacy(alias, server=server)
        cast.lose_aliases({"others": OTHERS}, {"others": OTHERS, server: ROGUE})

    return cast_of


def twice_the_alias(cast: Cast) -> None:
    alias = cast.world.use_aliases()["notes.echo"]
    cast.legacy(alias, server="notes")
    cast.legacy(alias, server="notes")
    cast.lose_aliases({"others": OTHERS}, MOVED)


def like_an_alias(cast: Cast) -> None:
    cast.native(LIKE_AN_ALIAS, is_free=True)
    cast.mcp(MOVED, SERVERS)
    cast.config(settings(cache_ttl_seconds=0))
    cast.reload()


def protecting(server: str) -> dict[str, Any]:
    """Return a scene's settings in which that server is the protected one."""
    return {
        "config": settings(protected_servers={server: NOTES}),
        "servers": {server: NOTES, "others": OTHERS},
    }


ALONE: Final = settings(cache_ttl_seconds=0)  # each call has evidence of its own
PROJECT: Final[Mapping[str, Any]] = {"mcp": {}, "config": None}
PROJECT_WITH_SETTINGS: Final[Mapping[str, Any]] = {"mcp": {}, "config": settings()}

SCENES: Final = {
    "two calls": Scene("one tool twice, its server moved and back, a cancel", two_calls),
    "two calls, alone": Scene("the same, each with evidence of its own", two_calls, ALONE),
    "one tool": Scene("one tool twice, its server moved", one_tool, bounds=(2, 2)),
    "one tool, bound": Scene(
        "the same, from when both are bound", one_tool, bounds=(1, 3), is_bound=True
    ),
    "three calls": Scene(
        "three tools, an edit of MCP and of ours, a cancel, a reload", three_calls
    ),
    "another thread": Scene(
        "two tools, their server moved in place and back by another thread", another_thread
    ),
    "reload": Scene("one tool twice, a reload, its server moved, a cancel", reload),
    "project": Scene(
        "two tools in a project, its MCP settings edited and back, a cancel",
        project,
        project=PROJECT,
    ),
    "project, reload": Scene(
        "two tools in a project, edits of its MCP settings and of all, a reload",
        project_reload,
        project=PROJECT,
    ),
    "our settings": Scene("one tool twice, our file edited twice, a cancel", our_settings),
    "unreadable": Scene("two tools, our file unreadable for a while", unreadable),
    "floor": Scene(
        "two tools in a project, a floor set up and edited, the project's MCP settings too",
        floor,
        project=PROJECT_WITH_SETTINGS,
    ),
    "lost alias, long": Scene(
        "an alias that is lost, and holds part of its server's name",
        lost_alias(LONG),
        **protecting(LONG),
        is_bound=True,
    ),
    "lost alias, foreign": Scene(
        "an alias that is lost, and holds no letter of its server's name",
        lost_alias(FOREIGN),
        **protecting(FOREIGN),
        is_bound=True,
    ),
    "alias twice": Scene("one alias twice, lost between the two", twice_the_alias),
    "like an alias": Scene("a local tool named like an alias, alone", like_an_alias),
}
