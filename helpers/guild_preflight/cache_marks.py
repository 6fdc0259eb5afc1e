"""Did a cache on the way answer? The marks that caches leave in the head of an answer.

The service sends none of these headers, so whatever one of them says was said on the way, and
what cannot be read counts as a mark: a Date that is none, too, for the service writes a date there.
A cache that leaves no mark can only be told by the answer's Date, see `response_head`.

Rules of this module. One mark is enough, whatever the other headers say:

1. `Age`: other than 0.
2. A lifetime: other than 0 in Cache-Control or in one of the headers that speak to one cache only
   (RFC 9213, Surrogate-Control, Edge-Control), or an Expires later than the Date, or longer than
   any date. A shorter one that is no date, such as 0, says that the answer has expired.
3. `Warning` (RFC 7234; obsolete, and still sent): a code of 1xx, as 110 for a stale answer.
4. `Cache-Status` (RFC 9211): hit, collapsed, fwd=stale, fwd=partial, fwd-status=304; and the name
   of a cache that rule 5 would take for a mark, where neither hit nor fwd stands beside it, for
   some write a plain HIT there.
5. Headers named after a cache. Varnish, Squid, nginx, Apache, Souin, LiteSpeed, Kong and the
   networks of Akamai, Azure, Bunny, Cloudflare, CloudFront, Fastly, Fly, Google, Vercel and others
   each have one, with a name and a spelling of their own: a word for a stored answer, or a number
   other than 0, which counts hits or seconds.
6. Headers whose names do not say so: two ids in X-Varnish, a hit in the codes that Traffic Server
   puts into Via, a word of rule 5 in Server-Timing, a page that Next.js had made before.

Every pattern reads a character once. The module imports nothing of the framework and nothing of
the other rooms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

MAX_DATE_CHARACTERS: Final = 40  # the longest form of RFC 9110 has 33
EXPIRES_SLACK_SECONDS: Final = 1  # servers round Date and Expires each for itself

_ZERO = re.compile(r"0+")
_NUMBER = re.compile(r"[0-9.]+")
_WORD = re.compile(r"[a-z]+")
_LIFETIME = re.compile(
    r"(?:maxage|max-age|stale-while-revalidate|stale-if-error)"
    r'(?:\s*+=\s*+"?([^",;\s]*+))?'
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+(")?', re.S)  # its end may be missing
# A letter for what was found stands after each of u, c, s, f, p and e. That of c is about the
# cache: H and R are hits, S is stale.
_TRAFFIC_SERVER_HIT = re.compile(r"\[u.c[hrs]")

_FOR_ONE_CACHE: Final = ("surrogate-control", "edge-control")
_NAMED_AFTER_CACHE: Final = ("cache", "cdn", "edge", "varnish", "server-timing")
_NUMBERED: Final = ("cache", "hits", "varnish-age", "x-nextjs-prerender")
_AFFIRMED: Final = ("cache-hit", "cachehit", "cached", "from-cache")
_STORED: Final = frozenset({"updating", "prerender", "fresh", "cached"})
_YES: Final = frozenset({"true", "yes"})


def has_mark(headers: Iterable[tuple[str, str]], now: float) -> bool:
    """Whether a cache has left a mark.

    Args:
        headers: every name, in lower case, with its value.
        now: stands for the Date of an answer without one, in seconds since 1970.
    """
    found = list(headers)
    told = [to_seconds(value) for name, value in found if name == "date"]
    made = min((date for date in told if date is not None), default=now)
    return any(_is_mark(name, value.lower(), made) for name, value in found)


def to_seconds(value: str) -> float | None:
    """Return a date of HTTP in seconds since 1970, or None when the text is no date."""
    if len(value) > MAX_DATE_CHARACTERS or not value.isascii():
        return None
    try:
        date = parsedate_to_datetime(value)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _is_mark(name: str, value: str, made: float) -> bool:
    """Whether one header is a mark, beside a Date; name and value are in lower case."""
    match name:
        case "age":
            return not all(_ZERO.fullmatch(item.strip()) for item in value.split(","))
        case "date":
            return to_seconds(value) is None
        case "expires":
            expires = to_seconds(value)
            if expires is None:
                return len(value) > MAX_DATE_CHARACTERS
            return expires > made + EXPIRES_SLACK_SECONDS
        case "warning":
            items = _items(value)
            return items is None or any(item.startswith("1") for item in items)
        case "cache-status":
            items = _items(value)
            return items is None or any(map(_is_stored_status, items))
        case "x-varnish":
            return any(len(item.split()) > 1 for item in value.split(","))
        case "via":
            return _TRAFFIC_SERVER_HIT.search(value) is not None
    if name.endswith("cache-control") or name in _FOR_ONE_CACHE:
        return not all(_ZERO.fullmatch(seconds) for seconds in _LIFETIME.findall(value))
    return _says_stored(name, value)


def _says_stored(name: str, value: str) -> bool:
    """Whether a header of no standard says that the answer was stored."""
    if _holds(name, _NUMBERED) and any(map(_is_positive, value.split(","))):
        return True
    if not _holds(name, _NAMED_AFTER_CACHE):
        return False
    words = set(_WORD.findall(value))
    return any(map(_is_stored_word, words)) or (_holds(name, _AFFIRMED) and bool(words & _YES))


def _holds(name: str, parts: Iterable[str]) -> bool:
    return any(part in name for part in parts)


def _is_stored_word(word: str) -> bool:
    """Whether a word says so, as in TCP_HIT, RefreshHit, HitStale and "hit-front"."""
    if word == "hits":
        return False
    is_hit = word.startswith("hit") or word.endswith("hit")
    return is_hit or "stale" in word or word.startswith("revalidat") or word in _STORED


def _is_positive(item: str) -> bool:
    number = item.strip()
    return _NUMBER.fullmatch(number) is not None and number.strip("0.") != ""


def _is_stored_status(item: str) -> bool:
    """Whether one cache of a Cache-Status had the answer, or some of it."""
    cache, *parameters = item.split(";")
    pairs = [parameter.partition("=") for parameter in parameters]
    found = {(key.strip(), value.strip()) for key, _, value in pairs}
    if not any(key in ("hit", "fwd") for key, _ in found) and _names_stored(cache):
        return True
    if any(key in ("hit", "collapsed") and value != "?0" for key, value in found):
        return True
    return not found.isdisjoint({("fwd", "stale"), ("fwd", "partial"), ("fwd-status", "304")})


def _names_stored(cache: str) -> bool:
    """Whether the name of a cache is a word that says so."""
    return any(map(_is_stored_word, _WORD.findall(cache)))


def _items(value: str) -> list[str] | None:
    """Return the items of a list, without quoted texts; None where a quoted one does not end."""
    bare = _QUOTED.sub(lambda quoted: "" if quoted[1] else '"', value)
    return None if '"' in bare else [item.strip() for item in bare.split(",")]
