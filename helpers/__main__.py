"""The operator's commands; run from Agent Zero's folder or from a bare clone.

python -m usr.plugins.agent_guild_preflight.helpers --help
python path/to/clone/helpers --help
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

PACKAGE = "usr.plugins.agent_guild_preflight.helpers"


def name_rooms() -> None:
    """Let the rooms be imported by their one name when this folder is run as it is."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    parts = PACKAGE.split(".")
    for count in range(1, len(parts) + 1):
        package = types.ModuleType(".".join(parts[:count]))
        package.__path__ = [str(here)] if count == len(parts) else []
        sys.modules[package.__name__] = package


if __name__ == "__main__":
    is_bare = not __package__
    if is_bare:
        name_rooms()
    from usr.plugins.agent_guild_preflight.helpers.commands.main import (
        BARE_CLONE,
        INSTALLED,
        main,
    )

    sys.exit(main(program=BARE_CLONE if is_bare else INSTALLED))
