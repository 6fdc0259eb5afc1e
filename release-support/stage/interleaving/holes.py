"""Opens again what was found open once, so that the explorer can be seen to find it.

Rules of this module:

1. A hole is opened in our own modules, just after they were loaded: what closes it is there and
   takes no part.
2. Where a module that closes a hole does not exist, the hole is open as it is.

The module imports nothing of the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

Namespace = dict[str, Any]


class Hole(NamedTuple):
    """One hole.

    Attributes:
        about: what it was, in a line.
        scenes: in each of these it is found.
        opens: by the end of a module's path, what opens it in that module's namespace.
    """

    about: str
    scenes: tuple[str, ...]
    opens: Mapping[str, Callable[[Namespace], None]]


def _look_up_anew(namespace: Namespace) -> None:
    """Let the framework look its servers up itself when a tool that is held runs."""

    def answers(hold: Any, *_: Any, **__: Any) -> bool:
        hold.was_called = True
        return False

    namespace["Hold"].answers = answers


def _hold_what_changes(namespace: Namespace) -> None:
    """Hold a call to the framework's own object, which an update changes in place."""
    frozen = namespace["frozen"]

    def alive(servers: Any) -> Any:
        found = frozen(servers)
        object.__setattr__(found, "call_tool", servers.call_tool)
        return found

    namespace["frozen"] = alive


def _guess_aliases(namespace: Namespace) -> None:
    """Take what begins with the whole name of a server for its alias, and nothing else."""
    others = re.compile(r"[^A-Za-z0-9_-]+")

    def may_be_of(alias: str, server: str) -> bool:
        return alias.startswith(others.sub("_", server).strip("_") + "_")

    namespace["may_be_of"] = may_be_of
    namespace["_Lookup"].is_plain = False


def _know_no_tools(namespace: Namespace) -> None:
    """Resolve no alias but by the agent's own map."""
    namespace["tool_behind"] = lambda *_: None


def _watch_the_bound_tool(namespace: Namespace) -> None:
    """Watch the tool that the hook has found bound, which may be that of another dispatch."""
    namespace["_Check"].is_for = lambda *_: False


HOLES: Final = {
    "swap": Hole(
        "the framework looks its servers up once more, after our last look",
        ("project", "project, reload", "floor"),
        {"helpers/look_up.py": _look_up_anew},
    ),
    "bound tool": Hole(
        "of two calls of one tool, one runs a tool that is not the one that is watched",
        ("one tool, bound",),
        {"helpers/execution.py": _watch_the_bound_tool},
    ),
    "in place": Hole(
        "another thread changes the servers in place, after our last look",
        ("another thread",),
        {"helpers/look_up.py": _hold_what_changes},
    ),
    "alias": Hole(
        "not every alias of a server begins with its name, and not all that does is one",
        ("lost alias, long", "lost alias, foreign", "like an alias"),
        {"helpers/gate.py": _guess_aliases, "helpers/host.py": _know_no_tools},
    ),
}


def opener(names: Sequence[str]) -> Callable[[str, Namespace], None]:
    """Return what opens these holes when it is told of a module that was loaded."""
    opens = [each for name in names for each in HOLES[name].opens.items()]

    def loaded(end: str, namespace: Namespace) -> None:
        for module, open_it in opens:
            if end.endswith(module):
                open_it(namespace)

    return loaded
