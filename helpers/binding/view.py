"""What there is under the name that a call goes to, as plain values.

Two views are equal only when nothing differs that decides where the call goes: the URL, the
transport, the scope, every header, and a pinned tool's definition. `host` makes views from the
framework's configuration. A view is made for every call, and a tuple takes a quarter of the time
of a frozen dataclass.
"""

from __future__ import annotations

from typing import NamedTuple


class ServerView(NamedTuple):
    """One live server, as far as it decides where a call goes.

    Attributes:
        name: the normalised name.
        is_remote: reached over the network, not a local process.
        url: the configured URL; empty for a local one.
        transport: the configured kind of connection.
        scope: where the server is configured: global or project.
        verifies_tls: TLS certificates are verified.
        named_hosts: what the headers say by which a call may be routed, lower case.
        headers_digest: changes with any header; tells nothing about them.
        exposes_tool: the tool that is to be called is there and not disabled.
        definitions: the digest of each tool of that name, where tools are pinned.
        header_names: the names of all its headers, folded and sorted.
    """

    name: str
    is_remote: bool
    url: str
    transport: str
    scope: str
    verifies_tls: bool
    named_hosts: tuple[str, ...]
    headers_digest: bytes
    exposes_tool: bool
    definitions: tuple[str, ...] = ()
    header_names: tuple[str, ...] = ()


class View(NamedTuple):
    """What there is under the name that a call goes to: its binding, once it is approved.

    Attributes:
        server, tool: the two parts of the tool's qualified name.
        servers: every live server of that name.
    """

    server: str
    tool: str
    servers: tuple[ServerView, ...]
