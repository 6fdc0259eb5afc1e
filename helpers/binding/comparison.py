"""Which server would really be called, and is it the approved one?

Rules of this module:

1. A call is protected when its server carries a protected name or an approved URL,
   whatever its name.
2. For a protected call there is exactly one live server of that name, it is remote, its
   URL is the approved one byte for byte, it verifies TLS, none of its headers sends the call
   elsewhere, it has only approved headers where the approval names them, and it exposes the
   tool. Where tools are pinned, this one is, there is one of its name, and its definition is
   the pinned one. The first of these that fails is the reason.

The comparison is pure: it works on views. The module imports nothing of the framework.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..reasons import Reason, Refusal
from .approval import Approval
from .view import View


class BindingRefused(Refusal):
    """The server that would be called is not the approved one; `reason` says how."""


def classify(view: View, protected_servers: Mapping[str, Approval]) -> Approval | None:
    """Return the approval that protects a call, or None.

    Args:
        view: what there is under the name that the call goes to.
        protected_servers: what is approved, by normalised name.

    Returns:
        The approval of that name, else one with that URL; None for a call that is not protected.
    """
    if view.server in protected_servers:
        return protected_servers[view.server]
    urls = {server.url for server in view.servers if server.is_remote}
    for approval in protected_servers.values():
        if approval.url in urls:
            return approval
    return None


def require_approved(view: View, approval: Approval) -> None:
    """Hold what would be called against what was approved.

    Args:
        view: what there is under the name that the call goes to.
        approval: the approval that protects the call; its URL has passed the screen.

    Raises:
        BindingRefused: with the first reason that applies.
    """
    if not view.servers:
        raise BindingRefused(Reason.SERVER_NOT_CONFIGURED)
    if len(view.servers) > 1:
        raise BindingRefused(Reason.SERVER_AMBIGUOUS)
    server = view.servers[0]
    if not server.is_remote:
        raise BindingRefused(Reason.SERVER_NOT_REMOTE)
    if server.url != approval.url:
        raise BindingRefused(Reason.URL_MISMATCH)
    if not server.verifies_tls:
        raise BindingRefused(Reason.TRANSPORT_ALTERED)
    if server.named_hosts and not _same_host(approval.url).issuperset(server.named_hosts):
        raise BindingRefused(Reason.TRANSPORT_ALTERED)
    if approval.headers is not None and not approval.headers.issuperset(server.header_names):
        raise BindingRefused(Reason.TRANSPORT_ALTERED)
    if not server.exposes_tool:
        raise BindingRefused(Reason.TOOL_NOT_EXPOSED)
    if approval.pins is not None:
        _require_pinned(approval.pins.get(view.tool), server.definitions)


def _require_pinned(pin: str | None, definitions: tuple[str, ...]) -> None:
    if pin is None:
        raise BindingRefused(Reason.TOOL_NOT_PINNED)
    if len(definitions) > 1:
        raise BindingRefused(Reason.TOOL_AMBIGUOUS)
    if definitions != (pin,):
        raise BindingRefused(Reason.DEFINITION_CHANGED)


def _same_host(url: str) -> frozenset[str]:
    """Return every spelling in which a header may name the host of a canonical URL."""
    scheme, _, authority, _ = url.split("/", 3)
    host, port = re.fullmatch(r"(.*?)(?::([0-9]+))?", authority).groups()  # type: ignore[union-attr]
    default = {"http:": "80", "https:": "443"}[scheme]
    return frozenset({authority, host, f"{host}:{port or default}"})
