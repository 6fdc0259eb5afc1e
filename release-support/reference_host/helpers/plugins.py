"""Plugins: which are on for an agent, and the configuration each one is given."""

from __future__ import annotations

import glob
import json
import os
from typing import TYPE_CHECKING, Any

import yaml
from helpers import files, scopes

if TYPE_CHECKING:
    from agent import Agent


def get_plugin_config(
    plugin_name: str,
    agent: Agent | None = None,
    project_name: str | None = None,
    agent_profile: str | None = None,
) -> Any:
    """Return the most specific `config.json`, whole and as it is; else the plugin's defaults.

    Nothing is merged and nothing is checked: whatever JSON the file holds is returned, and malformed
    JSON raises. `None` when the plugin or its defaults are missing. The file is read on every call.
    """
    plugin = _plugin_path(plugin_name)
    if not os.path.isdir(plugin):
        return None
    project, profile = scopes.of_agent(agent)
    project = project if project_name is None else project_name
    profile = profile if agent_profile is None else agent_profile
    for folder in _config_folders(project, profile, plugin_name):
        path = os.path.join(folder, "config.json")
        # A path with *, ? or [ in it is a pattern, and does not always match itself.
        for found in sorted(glob.glob(path)) if glob.has_magic(path) else [path]:
            if os.path.exists(found):  # a link to nothing does not exist
                return files.read_json(found)
    return _read_defaults(plugin, plugin_name)


def _config_folders(project: str, profile: str, plugin_name: str) -> list[str]:
    """Return where a `config.json` may be, the most specific first: the folders of `scopes`, with
    those of other plugins' and the framework's own profiles before the last of them."""
    *own, everywhere = scopes.folders(project, profile, "plugins", plugin_name)
    bases = [*get_enabled_plugin_paths(None), files.get_abs_path()] if profile else []
    of_profile = [os.path.join(base, "agents", profile, "plugins", plugin_name) for base in bases]
    return [*own, *of_profile, everywhere, files.get_abs_path("plugins", plugin_name)]


def get_enabled_plugins(agent: Agent | None) -> list[str]:
    """Return the names of the plugins that are on for this agent, sorted."""
    folder = files.get_abs_path("usr", "plugins")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [name for name in names if _is_plugin(name) and _is_on(name, agent)]


def get_enabled_plugin_paths(agent: Agent | None) -> list[str]:
    """Return the folders of the plugins that are on for this agent."""
    return [_plugin_path(name) for name in get_enabled_plugins(agent)]


def _plugin_path(name: str) -> str:
    return files.get_abs_path("usr", "plugins", name)


def _is_plugin(name: str) -> bool:
    return os.path.isfile(os.path.join(_plugin_path(name), "plugin.yaml"))


def _is_on(name: str, agent: Agent | None) -> bool:
    for folder in scopes.folders(*scopes.of_agent(agent), "plugins", name):
        for mark, on in ((".toggle-0", False), (".toggle-1", True)):
            if os.path.exists(os.path.join(folder, mark)):
                return on
    return True


def _read_defaults(plugin: str, plugin_name: str) -> Any:
    path = os.path.join(plugin, "default_config.yaml")
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        return _override(yaml.safe_load(file), f"A0_SET_{plugin_name}")


def _override(default: Any, variable: str) -> Any:
    """Return the default, or what the environment sets in its place; below an object each key has its own
    variable."""
    if variable in os.environ:
        return _convert(os.environ[variable], default)
    if isinstance(default, dict):
        return {key: _override(value, f"{variable}__{key}") for key, value in default.items()}
    return default


def _convert(text: str, default: Any) -> Any:
    """Text from the environment in the type of the default, which stays when the text does not
    fit."""
    try:
        if isinstance(default, bool):
            return text.strip().lower() in ("true", "1", "yes", "on")
        if isinstance(default, (int, float)):
            return type(default)(text.strip())
        if isinstance(default, (list, dict)):
            return json.loads(text)
    except ValueError:
        return default
    return text
