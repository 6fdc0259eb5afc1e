"""Is nothing configured anywhere? Told without what the framework's own reading costs.

Rules of this module:

1. Where no config.json stands, the framework reads and parses the shipped defaults twice for each
   MCP call, which takes milliseconds. `layers_without_settings` gives the same at once, and only
   where it is sure.
2. It is sure where nothing at all stands at any place where the framework looks for a
   config.json, the plugin and its defaults are where they belong, no variable of the environment
   changes a default, and nobody hooks the framework's reading or has wrapped it. Anything else,
   and any doubt, is the framework's to answer.
3. Nothing is remembered of any file: at each call every place is looked at, and the defaults are
   read. Only what their text says is remembered, by the text.
"""

from __future__ import annotations

import os
from functools import lru_cache
from glob import has_magic
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import yaml
from helpers import extension, files, plugins, projects
from helpers.mcp_handler import normalize_name

from .product import NAME as PLUGIN_NAME
from .settings.in_force import Layer, layers_in_force

FIND_HOOKS: Final = "_get_extension_classes"
VARIABLES: Final = f"A0_SET_{PLUGIN_NAME}".upper()

_HOOKS: Final = tuple(
    os.path.join("_functions", "helpers", "plugins", "get_plugin_config", when)
    for when in ("start", "end")
)


def layers_without_settings(agent: Any, project: str, profile: str) -> tuple[Layer, ...] | None:
    """Return what is in force where nothing is configured at all.

    Args:
        agent: the calling agent.
        project, profile: its own; empty without one.

    Returns:
        The layers that the shipped defaults make; None where that is not sure.
    """
    try:
        bases = tuple(plugins.get_enabled_plugin_paths(None))
        if any(map(_stands, _places(files.get_abs_path(""), project, profile, bases))):
            return None
        if _is_overridden() or not _is_plain_reading(agent):
            return None
        text = _defaults()
        return None if text is None else _layers_of(text)
    except Exception:  # another version of the framework, or defaults that cannot be read
        return None


def _is_plain_reading(agent: Any) -> bool:
    """Whether the framework reads settings as it was written to, and nobody has a say in it."""
    read = plugins.get_plugin_config
    if not hasattr(read, "__wrapped__"):
        return _is_of(plugins, read)
    if not _is_of(extension, read) or not _is_of(plugins, read.__wrapped__):
        return False
    extensible: Any = plugins  # has these, where it lets others have a say
    if extensible.cache.get(extensible.HOOKS_CACHE_AREA, PLUGIN_NAME):
        return False
    find = getattr(extension, FIND_HOOKS)
    return not any(find(hook, agent=whose) for hook in _HOOKS for whose in (agent, None))


def _is_of(module: ModuleType, function: Any) -> bool:
    return bool(function.__code__.co_filename == module.__file__)


def _is_overridden() -> bool:
    """Whether a variable of the environment may change a default."""
    return any(name.upper().startswith(VARIABLES) for name in os.environ)


@lru_cache(maxsize=64)
def _places(root: str, project: str, profile: str, bases: tuple[str, ...]) -> tuple[str, ...]:
    """Return every place where the framework would look for what changes the settings.

    Args:
        root: the framework's folder.
        project, profile: the agent's.
        bases: the folders of the plugins that are switched on.

    Raises:
        ValueError: the framework would take one of them for a pattern.
    """
    folders = [os.path.join(root, "usr"), root]
    if project:
        folders.append(projects.get_project_meta(project))
    if profile:
        agents = [*folders, *bases]
        folders += [os.path.join(folder, "agents", profile) for folder in agents]
    places = [os.path.join(folder, "plugins", PLUGIN_NAME, "config.json") for folder in folders]
    places += [os.path.join(folder, "plugins", PLUGIN_NAME, "hooks.py") for folder in folders[:2]]
    if any(map(has_magic, places)):
        raise ValueError("a pattern")
    return tuple(places)


def _stands(place: str) -> bool:
    """Whether anything stands at a place, be it a link to nothing, or may stand there."""
    try:
        os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _defaults() -> str | None:
    """Return the text of the plugin's defaults; None where the plugin is not in its place."""
    folder = Path(files.get_abs_path("usr", "plugins", PLUGIN_NAME))
    if not os.path.exists(folder / "plugin.yaml"):
        return None
    return (folder / "default_config.yaml").read_text(encoding="utf-8")


@lru_cache(maxsize=4)
def _layers_of(text: str) -> tuple[Layer, ...] | None:
    values = yaml.safe_load(text)
    if not _has_names_only(values):  # the framework fails on it
        return None
    return layers_in_force(values, values, normalize_name=normalize_name)


def _has_names_only(values: object) -> bool:
    """Whether values are an object, and every key in it and below is a text."""
    return isinstance(values, dict) and all(
        isinstance(key, str) and (not isinstance(value, dict) or _has_names_only(value))
        for key, value in values.items()
    )
