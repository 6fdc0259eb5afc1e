"""What is in force where nothing is configured at all? Told without what reading it costs.

Rules of this module:

1. Where no config.json stands, the framework reads and parses the shipped defaults twice for each
   MCP call, which takes milliseconds. `layers_of_defaults` gives the same at once, and only where
   it is sure.
2. It is sure where the framework takes no place of settings for a pattern, the plugin and its
   defaults are where they belong, no variable of the environment changes a default, and nobody
   hooks the framework's reading or has wrapped it. Any doubt is the framework's to answer.
3. Nothing is remembered of any file: the defaults are read at each call. Only what their text
   says is remembered, by the text. That nothing stands at any place of settings is for the
   caller to know.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from glob import has_magic
from pathlib import Path
from typing import Any, Final

import yaml
from helpers import extension, files, plugins
from helpers.mcp_handler import normalize_name

from .product import NAME as PLUGIN_NAME
from .seam import was_written_in
from .settings.in_force import Layer, layers_in_force
from .settings.presence import Place, stands

FIND_HOOKS: Final = "_get_extension_classes"
VARIABLES: Final = f"A0_SET_{PLUGIN_NAME}".upper()

_HOOKS: Final = tuple(
    os.path.join("_functions", "helpers", "plugins", "get_plugin_config", when)
    for when in ("start", "end")
)


def layers_of_defaults(agent: Any, at: Sequence[Place]) -> tuple[Layer, ...] | None:
    """Return what is in force where nothing is configured at all.

    Args:
        agent: the calling agent.
        at: every place where its settings may be; nothing stands at any.

    Returns:
        The layers that the shipped defaults make; None where that is not sure.
    """
    try:
        if _is_overridden() or not _is_plain_reading(agent):
            return None
        if has_magic("\n".join([place.path for place in at])):
            return None
        text = _defaults()
        return None if text is None else _layers_of(text)
    except Exception:  # another version of the framework, or defaults that cannot be read
        return None


def _is_overridden() -> bool:
    """Whether a variable of the environment may change a default."""
    return any(name.upper().startswith(VARIABLES) for name in os.environ)


def _is_plain_reading(agent: Any) -> bool:
    """Whether the framework reads settings as it was written to, and nobody has a say in it."""
    read = plugins.get_plugin_config
    if not hasattr(read, "__wrapped__"):
        return was_written_in(plugins, read)
    if not was_written_in(extension, read) or not was_written_in(plugins, read.__wrapped__):
        return False
    extensible: Any = plugins  # has these, where it lets others have a say
    if extensible.cache.get(extensible.HOOKS_CACHE_AREA, PLUGIN_NAME):
        return False
    find = getattr(extension, FIND_HOOKS)
    return not any(find(hook, agent=whose) for hook in _HOOKS for whose in (agent, None))


def _defaults() -> str | None:
    """Return the text of the defaults; None where the plugin is no plain one in its place."""
    folder = Path(files.get_abs_path("usr", "plugins", PLUGIN_NAME))
    if not os.path.exists(folder / "plugin.yaml") or stands(folder / "hooks.py"):
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
