"""Who we are: the plugin's name and version, as they stand in `plugin.yaml`.

A constant, so that the gate needs no file to start; a test holds both against `plugin.yaml`.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "agent_guild_preflight"
VERSION: Final = "0.1.0"
USER_AGENT: Final = f"{NAME}/{VERSION}"
