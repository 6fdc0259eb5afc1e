"""Copies of the plugin's modules, so that thousands of reloads take no thousand imports.

Rules of this module:

1. The framework drops the modules from memory; whoever runs goes on with what it has, and the next
   hook imports them anew. One import takes about as long as twenty schedules.
2. So a second copy is imported once, kept, and handed out by the import system when the modules of
   a schedule have been dropped; what its import changes in the host's classes is done again then.
3. `really` has the modules imported each time.

Import it only after `boot`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from ..boot import PLUGIN
from . import hosts

PLUGINS: Final = "usr.plugins."
ROOMS: Final = f"{PLUGINS}{PLUGIN}.helpers."


class Generations:
    """The plugin as it is first imported, and as it is imported after a reload.

    Args:
        find_hook: has the host load the hook, and thereby everything of the plugin.
        classes: the host's classes whose changes are taken back, and done again.
    """

    def __init__(self, find_hook: Callable[[], None], classes: tuple[type, ...]) -> None:
        self.really = False
        self._find_hook = find_hook
        hosts.forget_extensions()
        find_hook()
        self._first, self._found = modules(), hosts.extensions_found()
        self._before = {cls: dict(vars(cls)) for cls in classes}
        self.drop()
        find_hook()
        self._second = {
            name: module for name, module in modules().items() if getattr(module, "__file__", None)
        }
        self._changed = {cls: _changed(cls, attributes) for cls, attributes in self._before.items()}
        self._is_first = False
        sys.meta_path.insert(0, _Finder(self._given))

    def drop(self) -> None:
        """Drop the modules of all user plugins, as the framework does when one's Python changes."""
        self._is_first = False
        for name in modules():
            del sys.modules[name]
        hosts.forget_extensions()

    def take_back(self) -> None:
        """Make everything as it was when the plugin had been imported first."""
        if not self._is_first:
            for name in modules():
                del sys.modules[name]
            sys.modules.update(self._first)
            hosts.remember_extensions(self._found)
            self._is_first = True
        for cls, attributes in self._before.items():
            _set(cls, attributes)
        for generation in (self._first, self._second):
            _empty(generation)

    def _given(self, name: str) -> ModuleType | None:
        module = None if self.really else self._second.get(name)
        if module is not None and name == ROOMS + "gate":
            for cls, attributes in self._changed.items():
                _set(cls, attributes)
        return module


def modules() -> dict[str, ModuleType]:
    """Return the modules of all user plugins."""
    return {name: sys.modules[name] for name in list(sys.modules) if name.startswith(PLUGINS)}


def _changed(cls: type, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a class that are not what they were before."""
    return {name: value for name, value in vars(cls).items() if before.get(name) is not value}


def _set(cls: type, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        if not name.startswith("__") and vars(cls).get(name) is not value:
            setattr(cls, name, value)


def _empty(generation: Mapping[str, ModuleType]) -> None:
    """Forget observations, requests, and what stood at the places of settings."""
    observe: Any = generation[f"{ROOMS}guild_preflight.observe"]
    observe._cache._kept.clear()
    host: Any = generation[f"{ROOMS}host"]
    host._seen.clear()
    observe._single_flight = observe.SingleFlight()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Hands out modules that were imported before."""

    def __init__(self, given: Callable[[str], ModuleType | None]) -> None:
        self._given = given

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        module = self._given(fullname) if fullname.startswith(ROOMS) else None
        return module and importlib.machinery.ModuleSpec(fullname, self)  # type: ignore[return-value]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._given(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""
