"""May this URL be disclosed at all? The screen in front of the preflight service.

Listing a server is the operator's consent that its URL is sent to the service and
actively probed from elsewhere. The screen refuses what must not be sent, and it refuses
every second spelling of a URL, so that "approved, byte for byte" means one endpoint.

Rules, in the order in which they are applied:

1. At most 2,048 characters; no white space, no control character, none of \\ " < > ^ ` { | }.
2. http or https, no user part, no query, no fragment; an empty one neither. Then a path of nothing
   but the characters that RFC 3986 permits.
3. A host: a DNS name or a strict address. Whatever a resolver would read as an
   IPv4 number in another spelling (inet_aton; WHATWG URL, "ends in a number") is refused.
4. A port from 1 to 65535, or none.
5. One spelling only (RFC 3986 section 6.2): lower-case scheme and host, no default
   port, compressed lower-case IPv6 (RFC 5952), a path that begins with "/", no dot
   segment, upper-case percent-encodings, none of an unreserved character.
6. A public host: no private name, and no address that the IANA special-purpose registries do not
   call globally reachable.

Names are screened as text; the screen resolves nothing. A refusal carries its
sub-reason and never the URL. The module imports nothing of the framework.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from ..reasons import Reason, Refusal, SubReason

MAX_URL_CHARACTERS: Final = 2048
MAX_HOST_CHARACTERS: Final = 253  # RFC 1035 section 2.3.4, in text form
MAX_LABEL_CHARACTERS: Final = 63
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
# White space (Unicode's too), control characters, and what RFC 3986 keeps out of URLs.
_FORBIDDEN = re.compile(r"[\s\x00-\x20\x7f-\x9f\\\"<>^`{|}]")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")
# A last label that inet_aton or a browser would read as a number: decimal, octal or hexadecimal.
_NUMBER_LABEL = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*)*")
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# Special-use names (RFC 6761, 6762, 7686, 8375; .internal by ICANN), and what networks use
# inside without having been given it.
_PRIVATE_SUFFIXES: Final = (
    *("localhost", "local", "internal", "home.arpa", "test", "invalid", "onion"),
    *("lan", "localdomain", "home", "corp", "intranet", "private"),
)

# IANA IPv4 Special-Purpose Address Registry, and the blocks outside of unicast.
_REFUSED_IPV4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # "this network", the unspecified address
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared address space
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relay
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# IPv6 is public only inside global unicast; mapped, compatible, NAT64, loopback,
# unique-local, link-local and multicast addresses all lie outside.
_GLOBAL_UNICAST_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_IPV6: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
# RFC 5214: an interface identifier of this form holds an IPv4 address (ISATAP).
_ISATAP_IDENTIFIERS: Final = frozenset({0x00005EFE, 0x02005EFE})


class EndpointRefused(Refusal):
    """The URL fails the screen; `sub_reason` says how. Never holds the URL."""

    def __init__(self, sub_reason: SubReason) -> None:
        super().__init__(Reason.ENDPOINT_REFUSED, sub_reason)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL that passed the screen.

    Attributes:
        url: the URL, exactly as it was given.
        redacted: scheme, host and port: what may be shown.
        is_private: the host is not public and passed only because that was allowed.
    """

    url: str
    redacted: str
    is_private: bool


@lru_cache(maxsize=256)  # a pure function; a refusal is worked out anew each time
def screen(url: str, *, allow_private_hosts: bool = False) -> Endpoint:
    """Screen a URL before anyone is told of it.

    Args:
        url: the approved URL.
        allow_private_hosts: lift the rules on addresses and private names (rule 6), and
            nothing else.

    Returns:
        The endpoint, with the URL unchanged.

    Raises:
        EndpointRefused: with the sub-reason of the first rule that fails.
    """
    if len(url) > MAX_URL_CHARACTERS:
        _refuse(SubReason.TOO_LONG)
    scheme, authority, path = _split(url)
    host, port = _split_authority(authority)
    address = _parse_host(host)
    _check_port(port)
    _require_one_spelling(scheme, host, port, address, path)
    is_private = not _is_public(host, address)
    if is_private and not allow_private_hosts:
        _refuse(SubReason.HOST_NOT_PUBLIC)
    return Endpoint(url=url, redacted=f"{scheme}://{authority}", is_private=is_private)


def require_disclosable(endpoint: Endpoint, *, service_is_local: bool) -> None:
    """Keep a private endpoint from a service that is not on this machine.

    A remote service would refuse it anyway: the address would be disclosed for nothing.

    Args:
        endpoint: a screened endpoint.
        service_is_local: the preflight service in force listens on loopback.

    Raises:
        EndpointRefused: `private_needs_local_service`.
    """
    if endpoint.is_private and not service_is_local:
        _refuse(SubReason.PRIVATE_NEEDS_LOCAL_SERVICE)


def _refuse(sub_reason: SubReason) -> NoReturn:
    raise EndpointRefused(sub_reason)


def _split(url: str) -> tuple[str, str, str]:
    """Return scheme, authority and path; refuse every part that a URL of ours never has."""
    if _FORBIDDEN.search(url):
        _refuse(SubReason.FORBIDDEN_CHARACTER)
    match = _SCHEME.match(url)
    if match is None or match.group(1).lower() not in DEFAULT_PORTS:
        _refuse(SubReason.SCHEME)
    if match.group(2) is None:
        _refuse(SubReason.HOST_MISSING)
    rest = url[match.end() :]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        _refuse(SubReason.USERINFO)
    mark = re.search(r"[?#]", rest)
    if mark:
        _refuse(SubReason.QUERY if mark.group() == "?" else SubReason.FRAGMENT)
    path = rest[len(authority) :]
    if not _PATH.fullmatch(path):
        _refuse(SubReason.FORBIDDEN_CHARACTER)
    return match.group(1), authority, path


def _split_authority(authority: str) -> tuple[str, str | None]:
    """Return the host (IPv6 in its brackets) and the port text, None where there is no colon."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            _refuse(SubReason.HOST_SYNTAX)
        return host + bracket, rest[1:] if rest else None
    host, colon, port = authority.partition(":")
    if not host:
        _refuse(SubReason.HOST_MISSING)
    if ":" in port:
        _refuse(SubReason.HOST_SYNTAX)
    return host, port if colon else None


def _parse_host(host: str) -> Address | None:
    """Return the address that the host is, or None for a well-formed DNS name."""
    if host.startswith("["):
        return _parse_ipv6(host[1:-1])
    labels = host.split(".")
    if _NUMBER_LABEL.fullmatch(labels[-1]):
        return _parse_ipv4(host)
    if len(host) > MAX_HOST_CHARACTERS:
        _refuse(SubReason.HOST_SYNTAX)
    for label in labels:
        if len(label) > MAX_LABEL_CHARACTERS or not _LABEL.fullmatch(label):
            _refuse(SubReason.HOST_SYNTAX)
    return None


def _parse_ipv4(text: str) -> ipaddress.IPv4Address:
    # Refused after the block: the library's error quotes the host.
    with contextlib.suppress(ValueError):
        return ipaddress.IPv4Address(text)
    _refuse(SubReason.NUMBER_LIKE_HOST)


def _parse_ipv6(text: str) -> ipaddress.IPv6Address:
    # The library accepts a zone id; it means something on one machine only.
    if "%" not in text:
        with contextlib.suppress(ValueError):
            return ipaddress.IPv6Address(text)
    _refuse(SubReason.HOST_SYNTAX)


def _check_port(port: str | None) -> None:
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        _refuse(SubReason.PORT)


def _require_one_spelling(
    scheme: str, host: str, port: str | None, address: Address | None, path: str
) -> None:
    """Refuse every spelling but the one of rule 5."""
    canonical = (
        scheme == scheme.lower()
        and host == (host.lower() if address is None else _address_text(address))
        and (port is None or not port.startswith("0"))
        and port != str(DEFAULT_PORTS[scheme.lower()])
        and path.startswith("/")
        and _path_is_canonical(path)
    )
    if not canonical:
        _refuse(SubReason.NOT_CANONICAL)


def _address_text(address: Address) -> str:
    """Return the one spelling of an address, the same under every version of the library."""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:  # RFC 5952 section 5
        return f"[::ffff:{address.ipv4_mapped}]"
    return f"[{address.compressed}]"


def _path_is_canonical(path: str) -> bool:
    for code in _PERCENT.findall(path):
        if code != code.upper() or chr(int(code, 16)) in _UNRESERVED:
            return False
    # An encoded dot is an encoded unreserved character, so only plain ones are left here.
    return not any(segment in (".", "..") for segment in path.split("/"))


def _is_public(host: str, address: Address | None) -> bool:
    """Whether the host is one that anybody may be told of."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in block for block in _REFUSED_IPV4)
    if isinstance(address, ipaddress.IPv6Address):
        return (
            address in _GLOBAL_UNICAST_IPV6
            and not any(address in block for block in _REFUSED_IPV6)
            and (int(address) >> 32) & 0xFFFFFFFF not in _ISATAP_IDENTIFIERS
        )
    if "." not in host:
        return False
    return not any(host == suffix or host.endswith(f".{suffix}") for suffix in _PRIVATE_SUFFIXES)
