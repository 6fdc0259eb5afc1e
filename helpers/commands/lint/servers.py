"""What the settings protect, and whether the MCP settings agree with it.

Rules of this module:

1. The screen and the binding themselves say what the gate will refuse; here it is only named.
   Which tools a server exposes is not known here.
2. An approved URL that the screen refuses is not shown, nor is one of the MCP settings that it
   would refuse. Of a header only the name is shown.
3. While a file of MCP settings cannot be read, nobody can say that a server is not in it.
4. A nearest name is looked for while that is quick, see `nearest`; then it is said that it was not.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from ...binding.approval import Approval
from ...binding.comparison import BindingRefused, classify, require_approved
from ...binding.headers import folded, named_hosts
from ...binding.view import View
from ...guild_preflight.endpoint import DEFAULT_PORTS, EndpointRefused, require_disclosable, screen
from ...reasons import SubReason
from ...settings.configuration import Configuration
from ...settings.in_force import Layer
from ...settings.locations import Locations, normalize_name
from ...untrusted import visible
from ..shared.findings import Finding, Found
from ..shared.mcp_settings import McpServer, McpSettings
from .nearest import NearestName
from .urls import differences

# What the public service probes, as it says itself; it answers `do_not_delegate` to the rest.
SERVICE_PORTS: Final = frozenset({80, 443, 8080, 8443})
SERVICE_MAX_URL_CHARACTERS: Final = 500

_REFUSED: Final[Mapping[SubReason, Finding]] = {
    SubReason.NOT_CANONICAL: Finding.URL_NOT_CANONICAL,
    SubReason.HOST_NOT_PUBLIC: Finding.URL_PRIVATE,
    SubReason.PRIVATE_NEEDS_LOCAL_SERVICE: Finding.URL_PRIVATE,
}


def found_in_approvals(layers: Sequence[Layer]) -> list[Found]:
    """Look at the approved URLs and the pins.

    Args:
        layers: the settings in force; those that are not valid are left aside.

    Returns:
        What was found, in the order of the settings.
    """
    found = []
    for layer in layers:
        if isinstance(layer.settings, Configuration):
            for approval in layer.settings.protected_servers.values():
                found += _found_in_url(approval, layer.settings)
                if approval.pins is not None and not approval.pins:
                    found.append(Found(Finding.NO_TOOL_PINNED, visible(approval.name)))
    return found


def _found_in_url(approval: Approval, settings: Configuration) -> list[Found]:
    name, url = visible(approval.name), approval.url
    service_is_local = settings.fixture_guild_origin is not None
    try:
        endpoint = screen(url, allow_private_hosts=settings.allow_private_hosts)
        require_disclosable(endpoint, service_is_local=service_is_local)
    except EndpointRefused as refused:
        cause = refused.sub_reason
        assert cause is not None
        finding = _REFUSED.get(cause, Finding.URL_REFUSED)
        return [Found(finding, name, f"{cause.value}: {cause.sentence}")]
    if service_is_local:
        return []
    found = []
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    if port not in SERVICE_PORTS:
        found.append(Found(Finding.SERVICE_REFUSES_PORT, name, f"Port {port}."))
    if len(url) > SERVICE_MAX_URL_CHARACTERS:
        found.append(Found(Finding.SERVICE_REFUSES_LENGTH, name, f"{len(url)} characters."))
    return found


def found_in_mcp_settings(
    locations: Locations, layers: Sequence[Layer], settings: McpSettings
) -> list[Found]:
    """Hold what is protected against the MCP settings.

    Args:
        locations: where both are.
        layers: the settings in force; of those that are not valid, what they protect counts.
        settings: the MCP settings.

    Returns:
        What was found, in the order of the settings.
    """
    found = [Found(Finding.MCP_UNREADABLE, locations.shown(file)) for file in settings.unreadable]
    live = [name for name in settings.by_name if settings.live(name)]
    for layer in layers:
        protected = layer.protected or {}
        found += _found_without_servers(locations, protected, settings)
        for name, approval in _protected_here(live, protected, settings):
            view = settings.view(name)
            found += _found_in_servers(locations, settings.live(name), view, approval)
    return found


def _protected_here(
    live: Sequence[str], protected: Mapping[str, Approval], settings: McpSettings
) -> Iterator[tuple[str, Approval]]:
    """Return each live name that is protected, with the approval that protects it.

    The binding decides; of all approvals it is only shown those that may concern the name.
    """
    approvals = list(protected.values())
    first = {each.url: at for at, each in reversed(list(enumerate(approvals)))}
    for name in live:
        urls = {server.url for server in settings.live(name)}
        by_url = [approvals[at] for at in sorted(first[url] for url in urls if url in first)]
        by_name = [protected[name]] if name in protected else []
        concerned = {each.name: each for each in (*by_name, *by_url)}
        approval = classify(settings.view(name), concerned) if concerned else None
        if approval is not None:
            yield name, approval


def _found_without_servers(
    locations: Locations, protected: Mapping[str, Approval], settings: McpSettings
) -> list[Found]:
    found = []
    nearest = NearestName(name for name in settings.by_name if name not in protected)
    for name in protected:
        # A name that is there twice once normalised is kept under one that no server can have.
        if name != normalize_name(name) or settings.live(name):
            continue
        disabled = settings.by_name.get(name)
        if disabled:
            where = _where(locations, disabled)
            found.append(Found(Finding.SERVER_DISABLED, visible(name), where))
        elif not settings.unreadable:
            found.append(Found(Finding.SERVER_NOT_CONFIGURED, visible(name), nearest.words(name)))
    return found


def _found_in_servers(
    locations: Locations, servers: Sequence[McpServer], view: View, approval: Approval
) -> list[Found]:
    name, found = visible(view.server), []
    if view.server != approval.name:
        found.append(Found(Finding.PROTECTED_BY_URL, name, f"By {visible(approval.name)}."))
    if len(servers) > 1:
        names = list(dict.fromkeys(server.name for server in servers))
        finding = Finding.NAMES_ALIKE if len(names) > 1 else Finding.NAME_REPEATED
        listed = ", ".join(visible(each) for each in names)
        return [*found, Found(finding, name, f"{listed}. {_where(locations, servers)}")]
    server, where = servers[0], _where(locations, servers)
    if not server.is_remote:
        return [*found, Found(Finding.SERVER_LOCAL, name, where)]
    if server.url != approval.url and approval.url:
        found.append(
            Found(
                Finding.URL_DIFFERS,
                name,
                _difference(approval.url, server.url, _file(locations, server)),
            )
        )
    if "type" not in server.raw:
        found.append(Found(Finding.TYPE_NOT_NAMED, name, where))
    if not view.servers[0].verifies_tls:
        found.append(Found(Finding.TLS_NOT_VERIFIED, name, where))
    return found + _found_in_headers(server, view, approval, where)


def _found_in_headers(server: McpServer, view: View, approval: Approval, where: str) -> list[Found]:
    name, headers = visible(view.server), server.raw.get("headers") or ()
    try:
        items = headers.items() if isinstance(headers, Mapping) else headers
        pairs = [(key, value) for key, value in items]
    except (TypeError, ValueError):
        return [Found(Finding.HEADERS_UNREADABLE, name, where)]
    if not _is_shown(approval.url):  # such a URL is refused before any header is looked at
        return []
    found = []
    for key, value in pairs:
        detail = f"{visible(str(key))}. {where}"
        if _names_another_host(view, approval, key, value):
            found.append(Found(Finding.HEADER_NAMES_HOST, name, detail))
        if approval.headers is not None and folded(str(key)) not in approval.headers:
            found.append(Found(Finding.HEADER_NOT_LISTED, name, detail))
    return found


def _names_another_host(view: View, approval: Approval, key: object, value: Any) -> bool:
    """Ask the binding about one header, as if there were no other and all else were right."""
    server = view.servers[0]._replace(
        url=approval.url, verifies_tls=True, named_hosts=named_hosts([(key, value)])
    )
    try:
        require_approved(
            view._replace(servers=(server,)), approval._replace(pins=None, headers=None)
        )
    except BindingRefused:
        return True
    return False


def _where(locations: Locations, servers: Sequence[McpServer]) -> str:
    files = dict.fromkeys(_file(locations, server) for server in servers)
    return f"In {' and '.join(files)}."


def _file(locations: Locations, server: McpServer) -> str:
    return locations.shown(server.where)


def _difference(approved: str, configured: str, file: str) -> str:
    parts = ", ".join(differences(approved, configured))
    if _is_shown(approved) and _is_shown(configured):
        return f"Different: {parts}. {file} has {configured} instead of {approved}"
    return f"Different: {parts}. In {file}."


def _is_shown(url: str) -> bool:
    try:
        screen(url, allow_private_hosts=True)
    except EndpointRefused:
        return False
    return True
