"""What the settings of an Agent Zero folder say of a URL: whether it is approved, and its headers.

Rules this module keeps:

1. Everything is read anew for each URL, as data and by the plugin's own rooms. Nothing is kept, and
   nothing is written.
2. A URL is approved if `protected_servers` of a valid `config.json` names it, byte for byte: the
   global one, or one of any project or profile. A more specific file approves nothing while the
   global one is not valid.
3. The headers of a URL are those of every MCP server that has it, byte for byte, and is not switched
   off: in the global MCP settings, and in those of every project laid over them. If one of the
   files cannot be read, there might be others in it: then none are known.
4. Headers by which a call is routed are left out, and those that the probe sets itself.
5. Nothing raises: what an exception says may quote the settings.

The only module of the service that imports the plugin; only `--credentials-of` needs it.
"""

from collections.abc import Iterator
from glob import has_magic
from pathlib import Path

from usr.plugins.agent_guild_preflight.helpers.binding.headers import folded, named_hosts
from usr.plugins.agent_guild_preflight.helpers.commands.shared.mcp_settings import (
    McpServer,
    read_mcp_settings,
)
from usr.plugins.agent_guild_preflight.helpers.settings.configuration import Configuration
from usr.plugins.agent_guild_preflight.helpers.settings.files import entries
from usr.plugins.agent_guild_preflight.helpers.settings.in_force import layers_in_force
from usr.plugins.agent_guild_preflight.helpers.settings.locations import (
    ConfigFile,
    Locations,
    normalize_name,
)

from .credentials import Credentials, Withheld, choose

# What the probe says itself, and what belongs to one hop or to the body; folded.
_OWN = frozenset(
    {
        *("accept", "accept-encoding", "content-encoding", "content-type", "user-agent"),
        *("mcp-session-id", "mcp-protocol-version", "last-event-id"),
        *("connection", "expect", "keep-alive", "te", "trailer"),
        *("proxy-authorization", "proxy-connection"),
    }
)


def credentials_for(root: Path, url: str) -> Credentials:
    """The headers that belong to exactly `url` in the Agent Zero folder `root`, or why none do."""
    try:
        if not _is_approved(root, url):
            return Credentials(withheld=Withheld.NOT_APPROVED)
        held = [server.raw.get("headers") for server in _servers(root) if server.url == url]
        return choose(held, _is_left_out)
    except Exception:
        return Credentials(withheld=Withheld.UNREADABLE)


def _is_approved(root: Path, url: str) -> bool:
    found = [file.read() for file in _config_files(root)]
    return any(_approves(selected, found[0], url) for selected in found)


def _config_files(root: Path) -> list[ConfigFile]:
    """The global settings file, then every other one that is there, for whichever agent.

    A file under a path that the framework takes for a pattern is in force for nobody.
    """
    locations = Locations(root, profile="")
    there = [file for file in locations.foreign_files() if file.exists]
    return [file for file in (locations.everywhere(), *there) if not has_magic(str(file.path))]


def _approves(selected: object, globally: object, url: str) -> bool:
    """Whether a file approves `url`, where it is in force over the global one."""
    layers = layers_in_force(selected, globally, normalize_name=normalize_name)
    settings = [layer.settings for layer in layers if isinstance(layer.settings, Configuration)]
    if len(settings) < len(layers):
        return False
    return any(
        approval.url == url for each in settings for approval in each.protected_servers.values()
    )


def _servers(root: Path) -> Iterator[McpServer]:
    """Every MCP server that is not switched off, as agents of no project and of each project see
    them.

    Raises `ValueError` if MCP settings cannot be read.
    """
    for project in ("", *entries(root / "usr" / "projects")):
        settings = read_mcp_settings(Locations(root, project))
        if settings.unreadable:
            raise ValueError("MCP settings cannot be read")
        yield from (server for server in settings.servers if not server.is_disabled)


def _is_left_out(name: str) -> bool:
    """Whether a header is not sent: it routes, or the probe has its own."""
    return folded(name) in _OWN or bool(named_hosts({name: ""}))
