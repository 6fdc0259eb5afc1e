"""Extensions: classes in files below an extension point's folders, run in the order of their file
names."""

from __future__ import annotations

import glob
import inspect
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from helpers import modules, plugins, scopes

if TYPE_CHECKING:
    from agent import Agent

_cache: dict[tuple[str, str, str], list[type[Extension]]] = {}


class Extension(ABC):
    """One step of an extension point."""

    def __init__(self, agent: Agent | None, **kwargs: Any):
        self.agent = agent
        self.kwargs = kwargs

    @abstractmethod
    def execute(self, **kwargs: Any) -> Any:
        """Do the step; may be a coroutine function."""


async def call_extensions_async(point: str, agent: Agent | None = None, **kwargs: Any) -> None:
    """Run every extension of `point`, each finished before the next begins.

    The first exception leaves.
    """
    for extension_class in _classes(point, agent):
        result = extension_class(agent=agent).execute(**kwargs)
        if inspect.isawaitable(result):
            await result


def clear_caches() -> None:
    """Forget what was found; needed after files changed."""
    _cache.clear()


def _classes(point: str, agent: Agent | None) -> list[type[Extension]]:
    project, profile = scopes.of_agent(agent)
    key = (profile, project, point)
    if key not in _cache:
        _cache[key] = _load(point, agent)
    return _cache[key]


def _load(point: str, agent: Agent | None) -> list[type[Extension]]:
    below = ("extensions", "python", point)
    folders = scopes.folders(*scopes.of_agent(agent), *below)
    folders += [os.path.join(path, *below) for path in plugins.get_enabled_plugin_paths(agent)]
    found: dict[str, str] = {}
    for folder in folders:
        for path in glob.glob(os.path.join(glob.escape(folder), "*.py")):
            # The first folder wins: a same-named file of an operator replaces a plugin's.
            found.setdefault(os.path.basename(path), path)
    loaded = (modules.load_last_subclass(found[name], Extension) for name in sorted(found))
    return [extension_class for extension_class in loaded if extension_class]
