"""Did the service answer, and just now? What the head of an answer must say.

Rules, in the order in which they are applied:

1. `redirect`, `http_status`: status 200 and no other.
2. `media_type`: one Content-Type, application/json; its charset, if named, is UTF-8.
3. `content_encoding`: no Content-Encoding at all. None was asked for.
4. `stale`: no mark of a cache (see `cache_marks`), and no Date that lies too far behind our clock.
5. `clock`: no Date that lies too far ahead of our clock.

Too far is more than the time that the request has taken, which its deadline bounds, and a
minute: so no settings file decides what counts as stale. A stored answer cannot be dated ahead of
our clock, so then one of the two clocks is wrong, and nearly always it is ours. A Date behind it,
without a mark, is either one: a stored answer, or a clock of ours that runs ahead. It counts as
stale, which is the case that hides something; the remedy of `stale` names the clock, too.

The module imports nothing of the framework.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..reasons import SubReason
from .cache_marks import has_mark, to_seconds

if TYPE_CHECKING:
    import httpx

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
CLOCK_SLACK_SECONDS: Final = 60.0

_JSON_TYPE = re.compile(r'application/json\s*+(?:;\s*+charset\s*+=\s*+"?utf-8"?\s*+)?', re.I)


def refuse_head(response: httpx.Response, now: float, seconds: float) -> SubReason | None:
    """Return why an answer is unusable, from its status and headers alone.

    Args:
        response: the answer; its body may be unread.
        now: what our clock says, in seconds since 1970.
        seconds: how long the request has taken so far.

    Returns:
        The sub-reason of the first rule that fails, or None.
    """
    if response.status_code != 200:
        return SubReason.REDIRECT if response.status_code in REDIRECTS else SubReason.HTTP_STATUS
    headers = response.headers
    types = headers.get_list("content-type")
    if len(types) != 1 or not _JSON_TYPE.fullmatch(types[0].strip()):
        return SubReason.MEDIA_TYPE
    if "content-encoding" in headers:
        return SubReason.CONTENT_ENCODING
    dates = map(to_seconds, headers.get_list("date"))
    ahead = [date - now for date in dates if date is not None]  # any other is a mark
    most = seconds + CLOCK_SLACK_SECONDS
    if has_mark(headers.multi_items(), now) or any(each < -most for each in ahead):
        return SubReason.STALE
    return SubReason.CLOCK if any(each > most for each in ahead) else None
