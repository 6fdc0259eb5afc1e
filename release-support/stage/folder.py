"""An Agent Zero folder, as far as the operator's commands read it, and the commands run on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from usr.plugins.agent_guild_preflight.helpers.commands.main import main

from .boot import CHECKOUT

PLUGIN = "usr/plugins/agent_guild_preflight"
GLOBAL = f"{PLUGIN}/config.json"
HOOK = "extensions/python/tool_execute_before/_45_agent_guild_preflight.py"


class Said(NamedTuple):
    """What a command said: its exit code, its lines, and those on standard error."""

    code: int
    lines: list[str]
    errors: list[str]


class AgentZero:
    """A folder with the plugin installed."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.capsys = capsys
        for name in ("plugin.yaml", "default_config.yaml", HOOK):
            self.write(f"{PLUGIN}/{name}", (CHECKOUT / name).read_text())

    def write(self, path: str, content: object) -> Path:
        """Write a file: a text as it is, anything else as JSON."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def set_mcp(self, everywhere: Any = None, **servers: Any) -> None:
        """Set the MCP servers, a text is the URL of a streamable one; and other settings."""
        named = {
            name: {"type": "streamable-http", "url": chosen} if isinstance(chosen, str) else chosen
            for name, chosen in servers.items()
        }
        text = json.dumps({"mcpServers": named})
        self.write("usr/settings.json", {"mcp_servers": text, **(everywhere or {})})

    def run(self, *arguments: str) -> Said:
        """Run a command on this folder."""
        self.capsys.readouterr()
        try:
            code = main([*arguments, "--root", str(self.root)])
        except SystemExit as ended:
            code = int(str(ended.code))
        output, errors = self.capsys.readouterr()
        return Said(code, output.split("\n")[:-1], errors.split("\n")[:-1])

    def data(self, *arguments: str) -> dict[str, Any]:
        """Return what a command says as data, after checking that it is one JSON text."""
        data = json.loads("\n".join(self.run(*arguments, "--json").lines))
        assert isinstance(data, dict)
        return data
