"""Puts a host on stage: the reference host, or the real framework from a checkout.

Rules of this module:

1. Everything a host writes goes below a root of its own. A framework checkout is only
   linked to, entry by entry; byte code goes to a folder of ours too.
2. One process has one host: both use the same module names.
3. The plugin is installed as an operator would see it, at usr/plugins/<name>.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Final

PLUGIN: Final = "agent_guild_preflight"
SUPPORT: Final = Path(__file__).parents[1]
CHECKOUT: Final = SUPPORT.parent

# What the framework writes to; these are empty folders below the root, never links.
_WRITABLE: Final = ("usr", "tmp", "logs")


def boot(root: Path, framework: Path | None = None, *, install: bool = True) -> str:
    """Make a host importable.

    Args:
        root: an empty folder for all that the host writes.
        framework: a checkout of the framework; None for the reference host.
        install: install the plugin as well.

    Returns:
        "framework" or "reference".
    """
    for name in (*_WRITABLE, "usr/plugins", "usr/projects", "usr/agents"):
        (root / name).mkdir(parents=True, exist_ok=True)
    if install:
        install_plugin(root)
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost,::1"
    sys.path.insert(0, str(root))
    if framework is None:
        os.environ["REFERENCE_HOST_ROOT"] = str(root)
        sys.path.insert(0, str(SUPPORT / "reference_host"))
        return "reference"
    _boot_framework(root, framework.resolve())
    return "framework"


def install_plugin(root: Path) -> None:
    """Install the plugin: link its files into a folder that may get a config.json."""
    folder = root / "usr" / "plugins" / PLUGIN
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("plugin.yaml", "default_config.yaml", "extensions", "helpers", "LICENSE"):
        (folder / name).symlink_to(CHECKOUT / name)


def _boot_framework(root: Path, framework: Path) -> None:
    sys.pycache_prefix = str(root / "tmp" / "bytecode")
    for entry in framework.iterdir():
        if entry.name not in _WRITABLE and not entry.name.startswith("."):
            (root / entry.name).symlink_to(entry)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # The memory plugin loads an embedding model; no test needs one.
    memory = root / "usr" / "plugins" / "_memory"
    memory.mkdir()
    (memory / ".toggle-0").touch()
    stub = types.ModuleType("sentence_transformers")
    stub.SentenceTransformer = type("SentenceTransformer", (), {})  # type: ignore[attr-defined]
    sys.modules.setdefault("sentence_transformers", stub)
