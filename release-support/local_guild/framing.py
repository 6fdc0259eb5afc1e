"""What the plugin looks at before the HTTP library reads it; the service looks at the same.

Rules this module keeps:

1. There is one file for both, the plugin's: it is read from its place, beside this folder, and
   needs nothing but Python itself. So the service still knows no other room of the plugin.
2. No byte code is written of it: the plugin's folder belongs to Agent Zero.
"""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from usr.plugins.agent_guild_preflight.helpers.guild_preflight.framing import Framing, Malformed
else:
    _FILE = Path(__file__).resolve().parents[2] / "helpers" / "guild_preflight" / "framing.py"
    _room = ModuleType("framing")
    exec(compile(_FILE.read_bytes(), str(_FILE), "exec"), vars(_room))
    Framing, Malformed = _room.Framing, _room.Malformed

__all__ = ["Framing", "Malformed"]
