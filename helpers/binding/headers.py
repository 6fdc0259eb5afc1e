"""What a server's headers say of where a call goes.

Rules of this module:

1. A header may send a call elsewhere than the URL does. Those that a known server, proxy or mesh
   follows count, by their own names and by families of names. There are others, of whoever
   configured a proxy: an entry that names the headers that its server gets leaves no room for
   them, see `comparison`.
2. Names are compared folded: in lower case, and each run of what is no letter or digit as one
   hyphen. Servers take `X_Forwarded_Host` and `X.Forwarded.Host` for `X-Forwarded-Host`.
3. Header values decide where a call goes, so a binding changes with them; they are secrets,
   so only a keyed digest of them is kept, and the key dies with the process.
4. Headers that cannot be read are taken for ones that name another host.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

# Headers by which a server or a proxy in front of it may choose another host, path or instance;
# folded, by who follows them.
ROUTING_HEADERS: Final = frozenset(
    {
        # HTTP itself, and what frames a message or turns it into another
        *("host", "authority", "forwarded"),
        *("content-length", "transfer-encoding", "upgrade", "http2-settings"),
        # web servers, frameworks and their customs: nginx, IIS, WebSphere, gunicorn
        *("x-host", "x-http-host-override", "x-http-path-override", "forwarded-host"),
        *("x-forward-host", "x-proxy-host", "proxy-host", "x-server-name", "x-scheme"),
        *("x-url-scheme", "x-script-name", "script-name", "path-info", "x-request-uri"),
        *("x-matched-path", "wssn", "wssp"),
        # meshes and proxies: Traefik, Dapr, Kuma
        *("x-replaced-path", "dapr-app-id", "x-kuma-tags"),
        # platforms: AWS, Azure, Cloud Foundry, Cloudflare, OpenFaaS
        *("x-apigw-api-id", "disguised-host", "x-ms-routing-name"),
        *("x-cf-app-instance", "x-cf-process-instance", "x-cf-forwarded-url"),
        *("cloudflare-workers-version-overrides", "cloudflare-workers-version-key"),
        *("cf-workers-preview-token", "x-callback-url"),
    }
)

# Names that begin so, with a hyphen or nothing after it, count as well.
ROUTING_FAMILIES: Final = (
    *("x-forwarded", "x-original", "x-rewrite", "x-real"),  # nearly every proxy
    *("x-envoy-original", "x-envoy-orignal"),  # Envoy and Istio; once misspelled
    *("l5d", "dtab"),  # Linkerd
    "knative-serving",
    *("fly-force", "fly-prefer"),  # Fly.io
)

_FAMILY_PREFIXES: Final = tuple([f"{family}-" for family in ROUTING_FAMILIES])
_SEPARATORS = re.compile("[^a-z0-9]+")

_DIGEST_KEY: Final = secrets.token_bytes(32)


def named_hosts(headers: Any) -> tuple[str, ...]:
    """Return what the headers by which a call may be routed say, lower case, each as configured.

    Args:
        headers: a mapping or pairs of names and values; None or nothing for none.

    Returns:
        Hosts, if the call goes where its URL says; empty when there is no such header.
    """
    if not headers:
        return ()
    return tuple(value.strip().lower() for name, value in _pairs(headers) if _routes(folded(name)))


def header_names(headers: Any) -> tuple[str, ...]:
    """Return the names of headers, folded and sorted.

    Args:
        headers: as for `named_hosts`.
    """
    return tuple(sorted({folded(name) for name, _ in _pairs(headers)})) if headers else ()


@lru_cache(maxsize=256)  # the same few names, for every call
def folded(name: str) -> str:
    """Return a header's name as any server may read it."""
    return _SEPARATORS.sub("-", name.lower()).strip("-")


def _routes(name: str) -> bool:
    """Whether a folded name is one by which a call may be routed."""
    if name in ROUTING_HEADERS or name in ROUTING_FAMILIES:
        return True
    return name.startswith(_FAMILY_PREFIXES)


def headers_digest(headers: Any) -> bytes:
    """Return what changes with any header and tells nothing about them.

    Args:
        headers: as for `named_hosts`.

    Returns:
        16 bytes, or none where there are no headers.
    """
    if not headers:
        return b""
    text = repr(_pairs(headers)).encode("utf-8")  # which has escaped a lone surrogate
    return blake2b(text, digest_size=16, key=_DIGEST_KEY).digest()


def _pairs(headers: Any) -> list[tuple[str, str]]:
    """Return (name, value) pairs; unreadable headers count as naming a foreign host."""
    items = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [(_text(name), _text(value)) for name, value in items]
    except (TypeError, ValueError):
        return [("host", "?")]


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
