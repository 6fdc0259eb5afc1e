"""Which files does the framework run in the hook's place, or while it reads the settings?

Rules of this module:

1. Of all hooks of one name the framework runs the first that it finds. A hook's name is the last
   part of its class's `__module__`: mostly the file's own, without every ".py" and up to the
   last dot. But a class may say otherwise, or come from a module of another name. So a file is
   read, as text, for what gives its classes the name of ours.
2. The framework lets extensions, and the plugin's own `hooks.py`, change what it read.
3. A file is never run. Where those of a folder are too large together, the rest is taken for what
   it may be: to parse 256 KiB may take a second.

The module imports nothing of the framework. Sources: the framework's
`extension._get_extension_classes`, `extension.extensible`, `modules.import_module` and
`plugins.call_plugin_hook`.
"""

from __future__ import annotations

import ast
import os
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Final

from ...settings.files import entries, read_text

HOOK_FOLDER: Final = Path("extensions", "python", "tool_execute_before")
HOOK: Final = "_45_agent_guild_preflight"
MAX_SOURCE_BYTES: Final = 256 * 1024  # of a folder; ten times the framework's largest extension

_SETTINGS_FOLDER: Final = Path(
    "extensions", "python", "_functions", "helpers", "plugins", "get_plugin_config"
)


def namesakes(folder: Path) -> list[Path]:
    """Return the files in a folder that the framework takes for ones of the hook's name."""
    return [file for file in _sources(folder / HOOK_FOLDER) if _is_ours(file.name[:-3])]


def imitations(folder: Path) -> list[Path]:
    """Return the files in a folder whose classes may have the hook's name, though they have not."""
    left = MAX_SOURCE_BYTES
    found = []
    for file in _sources(folder / HOOK_FOLDER):
        if not _is_ours(file.name[:-3]):
            left -= _size(file)
            if left < 0 or _imitates(file):
                found.append(file)
    return found


def settings_hooks(folder: Path) -> list[Path]:
    """Return the files in a folder that the framework runs when it reads a plugin's settings."""
    return [
        file for moment in ("end", "start") for file in _sources(folder / _SETTINGS_FOLDER / moment)
    ]


def _sources(folder: Path) -> list[Path]:
    return [folder / name for name in entries(folder) if name.endswith(".py")]


def _is_ours(name: object) -> bool:
    """Whether a module's name ends as the hook's does."""
    return isinstance(name, str) and name.replace(".py", "").rpartition(".")[2] == HOOK


def _size(file: Path) -> int:
    try:
        return os.path.getsize(file)
    except OSError:  # nothing that could be parsed
        return 0


def _imitates(file: Path) -> bool:
    try:
        return _gives_it(read_text(file))
    except ValueError:  # not readable, or no text: no class can come of it
        return False


@lru_cache(maxsize=256)
def _gives_it(text: str) -> bool:
    """Whether a program may give a class the hook's name; asked twice of each file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning would quote the file to the terminal
            nodes = ast.walk(ast.parse(text))
        return any(_names_it(node) for node in nodes)
    except (RecursionError, MemoryError):  # nested too deeply
        return True
    except (ValueError, SyntaxError):  # no class can come of it
        return False


def _names_it(node: ast.AST) -> bool:
    """Whether a piece of a program may give a class the hook's name, or any other."""
    if isinstance(node, ast.Constant):
        return node.value == "__module__" or _is_ours(node.value)
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Store) and node.id in ("__module__", "__name__")
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Store) and node.attr == "__module__"
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return isinstance(node.ctx, ast.Store) and key == "__name__"
    if isinstance(node, ast.alias):
        return _is_ours(node.name) or _is_ours(node.asname) or node.asname == "__name__"
    return isinstance(node, ast.ImportFrom) and _is_ours(node.module)
