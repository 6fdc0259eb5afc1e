"""Which headers belong to exactly this URL, and may they be sent there?

Rules this module keeps:

1. Several servers with one URL must have the same headers, whatever the case of their names. Else it
   is not known with which of them a call goes, and none are sent.
2. Headers are sent all or none, but for those that the caller leaves out by name. One that holds a
   placeholder, or that cannot be sent, withholds them all.
3. Plain http carries them to this machine only: the URL must say so, and every address of the probe
   must be one of this machine.
4. Values are secrets. They are in no sentence, no exception, and no `repr`.

Nothing of the plugin is imported: `agent_zero` reads its settings.
"""

import ipaddress
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import httpx

from .addresses import Addresses

MAX_HEADER_CHARACTERS = 16 * 1024

# RFC 9110 section 5.6.2.
_NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")
# What people write where another program fills in a value; Agent Zero fills in none of them here.
_PLACEHOLDER = re.compile(
    r"§§|\$\{|\$\(|\{\{|\{env:|%[A-Z_][A-Z0-9_]+%"
    r"|(?<!\S)(?:\$[A-Za-z_][A-Za-z0-9_]*|<[A-Za-z][A-Za-z0-9_ -]*>)(?!\S)"
)


class Withheld(Enum):
    """Why no headers are sent; the value is the sentence that says it."""

    NOT_APPROVED = "No credentials were sent: no valid settings file approves this URL."
    NONE_HELD = "No credentials were sent: the MCP settings hold none for exactly this URL."
    PLAIN_HTTP = "The headers of the MCP settings were not sent: plain http carries them to this machine only."
    DIFFERENT = (
        "The MCP settings hold different headers for this URL, so none were sent: "
        "which of them a call carries is not known."
    )
    PLACEHOLDER = (
        "A header of the MCP settings holds a placeholder that Agent Zero does not resolve, "
        "so none were sent."
    )
    NOT_SENDABLE = "A header of the MCP settings cannot be sent as it stands, so none were sent."
    UNREADABLE = "Not all MCP settings can be read, so no headers were sent; lint names the file."

    @property
    def sentence(self) -> str:
        return self.value

    @property
    def leaves_unknown(self) -> bool:
        """Whether a handshake without the headers says nothing of the one that a call makes."""
        return self not in (Withheld.NOT_APPROVED, Withheld.NONE_HELD, Withheld.PLAIN_HTTP)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The headers to send with a probe, or why there are none."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    withheld: Withheld | None = None


CredentialsFor = Callable[[str], Credentials]


def choose(held: Sequence[Any], is_left_out: Callable[[str], bool]) -> Credentials:
    """The headers to send to a URL for which each of `held` is what one server's settings say.

    `is_left_out` tells the names of headers that are not sent.
    """
    first = held[0] if held else None
    if not any(held):
        return Credentials(withheld=Withheld.NONE_HELD)
    if any(_comparable(other) != _comparable(first) for other in held):
        return Credentials(withheld=Withheld.DIFFERENT)
    if not isinstance(first, Mapping):
        return Credentials(withheld=Withheld.NOT_SENDABLE)
    headers = {name: value for name, value in first.items() if not is_left_out(name)}
    if not headers:
        return Credentials(withheld=Withheld.NONE_HELD)
    if any(_PLACEHOLDER.search(value) for value in headers.values() if isinstance(value, str)):
        return Credentials(withheld=Withheld.PLACEHOLDER)
    if not _are_sendable(headers):
        return Credentials(withheld=Withheld.NOT_SENDABLE)
    return Credentials(headers)


def may_travel(url: httpx.URL, addresses: Addresses) -> bool:
    """Whether headers may be sent to `url` at these addresses."""
    if url.scheme == "https":
        return True
    return _is_loopback(url.raw_host.decode("ascii")) and addresses.are_loopback


def _comparable(headers: Any) -> Any:
    """What is the same for headers that are sent alike."""
    if not headers:
        return []
    if not isinstance(headers, Mapping):
        return headers
    return sorted((name.lower(), repr(value)) for name, value in headers.items())


def _are_sendable(headers: Mapping[str, Any]) -> bool:
    """Whether every name is a token, and every value a text that goes over the wire as it stands."""
    if not all(isinstance(value, str) for value in headers.values()):
        return False
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEADER_CHARACTERS:
        return False
    return all(
        name
        and _NAME_CHARACTERS.issuperset(name)
        and value.isascii()
        and value.isprintable()
        and value == value.strip()
        for name, value in headers.items()
    )


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine by its text: a loopback address or a name for it (RFC 6761)."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
