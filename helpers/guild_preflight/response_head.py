"""Did the service answer, or a cache on the way? What the head of an answer must say.

Rules, in the order in which they are applied:

1. `redirect`, `http_status`: status 200 and no other.
2. `media_type`: one Content-Type, application/json; its charset, if named, is UTF-8.
3. `content_encoding`: no Content-Encoding at all. None was asked for.
4. `stale`: no sign of a stored answer. A positive Age, max-age or s-maxage, one that
   cannot be read, a `hit` in Cache-Status (RFC 9211), or a word for a stored answer in the
   headers that caches commonly add. A cache that leaves no mark cannot be seen.

The module imports nothing of the framework.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..reasons import SubReason

if TYPE_CHECKING:
    import httpx

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_CACHE_HEADERS: Final = (
    "x-cache",
    "cf-cache-status",
    "x-cache-status",
    "x-proxy-cache",
    "x-vercel-cache",
)
# TCP_HIT, RefreshHit and "Hit from ..." are spellings of the first.
_STORED_WORD = re.compile(
    r"(?:^|[^A-Za-z])(?:[A-Za-z]*HIT|STALE|UPDATING|REVALIDATED)(?:$|[^A-Za-z])", re.I
)
_JSON_TYPE = re.compile(r'application/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?', re.I)
_LIFETIME = re.compile(r'(?:s-maxage|max-age)(?:\s*=\s*"?([^",;\s]*))?', re.I)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_HIT_PARAMETER = re.compile(r";\s*hit\s*(?!\s*=\s*\?0)(?:=|;|,|$)", re.I)
_ZERO = re.compile(r"0+")


def refuse_head(response: httpx.Response) -> SubReason | None:
    """Return why an answer is unusable, from its status and headers alone.

    Args:
        response: the answer; its body may be unread.

    Returns:
        The sub-reason of the first rule that fails, or None.
    """
    if response.status_code != 200:
        return SubReason.REDIRECT if response.status_code in REDIRECTS else SubReason.HTTP_STATUS
    types = response.headers.get_list("content-type")
    if len(types) != 1 or not _JSON_TYPE.fullmatch(types[0].strip()):
        return SubReason.MEDIA_TYPE
    if "content-encoding" in response.headers:
        return SubReason.CONTENT_ENCODING
    return SubReason.STALE if _was_stored(response.headers) else None


def _was_stored(headers: httpx.Headers) -> bool:
    ages = headers.get_list("age", split_commas=True)
    lifetimes = _LIFETIME.findall(", ".join(headers.get_list("cache-control")))
    if any(not _ZERO.fullmatch(seconds.strip()) for seconds in (*ages, *lifetimes)):
        return True
    if any(
        _STORED_WORD.search(value) for name in _CACHE_HEADERS for value in headers.get_list(name)
    ):
        return True
    cache_status = ", ".join(headers.get_list("cache-status"))
    return bool(_HIT_PARAMETER.search(_QUOTED.sub("", cache_status)))
