"""The operator's commands; run from Agent Zero's folder or from a bare clone.

python -m usr.plugins.agent_guild_preflight.helpers --help
python path/to/clone/helpers --help
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import types
from pathlib import Path
from typing import NoReturn

sys.dont_write_bytecode = True  # the commands write nothing

PACKAGE = "usr.plugins.agent_guild_preflight.helpers"
CONFIGURATION = 12  # as the commands say it of settings that cannot work
INTERRUPTED = 130  # as a shell says it of a process that Ctrl-C has ended


def forget_byte_code() -> None:
    """Remove what Python itself has written of this file before its first line ran."""
    written = Path(importlib.util.cache_from_source(__file__))
    with contextlib.suppress(OSError):
        written.unlink()
        written.parent.rmdir()  # where it holds nothing else


def name_rooms() -> None:
    """Let the rooms be imported by their one name when this folder is run as it is."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    parts = PACKAGE.split(".")
    for count in range(1, len(parts) + 1):
        package = types.ModuleType(".".join(parts[:count]))
        package.__path__ = [str(here)] if count == len(parts) else []
        sys.modules[package.__name__] = package


def end(code: object) -> NoReturn:
    """End the process at once: a name lookup that still runs would hold it up."""
    with contextlib.suppress(OSError, ValueError):
        if isinstance(code, str):
            print(code, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)


if __name__ == "__main__":
    forget_byte_code()
    is_bare = not __package__
    if is_bare:
        name_rooms()
    if not is_bare and __package__ != PACKAGE:
        print("problem folder_name: rename the plugin's folder to agent_guild_preflight")
        end(CONFIGURATION)
    try:
        from usr.plugins.agent_guild_preflight.helpers.commands.main import (
            BARE_CLONE,
            INSTALLED,
            main,
        )
    except (ImportError, SyntaxError):
        print("problem plugin_incomplete: a file or a package of the plugin is missing or broken")
        end(CONFIGURATION)

    try:
        end(main(program=BARE_CLONE if is_bare else INSTALLED))
    except SystemExit as ended:
        end(ended.code)
    except KeyboardInterrupt:
        end(INTERRUPTED)
