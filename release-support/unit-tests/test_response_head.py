"""The head of an answer: whether the service itself gave a whole, plain JSON answer just now."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.response_head import refuse_head
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

JSON = ("Content-Type", "application/json")
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DEADLINE = 5.0


def refused(*headers: tuple[str, str], status: int = 200) -> SubReason | None:
    """Return what is wrong with a head that arrives at noon."""
    response = httpx.Response(status, headers=list(headers))
    found = refuse_head(response, NOON.timestamp(), DEADLINE)
    assert found is None or found.reason is Reason.EVIDENCE_UNAVAILABLE
    return found


def test_a_plain_answer_is_usable() -> None:
    assert refused(JSON) is None
    assert refused(JSON, ("Content-Length", "2"), ("Server", "HIT")) is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects(status: int) -> None:
    assert refused(JSON, ("Location", "/"), status=status) is SubReason.REDIRECT


@pytest.mark.parametrize(
    "status", [100, 101, 201, 202, 203, 204, 206, 226, 304, 400, 401, 403, 404, 422, 429, 500, 503]
)
def test_other_statuses(status: int) -> None:
    assert refused(JSON, status=status) is SubReason.HTTP_STATUS


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        'application/json ; charset="utf-8"',
    ],
)
def test_media_types_of_json(value: str) -> None:
    assert refused(("content-type", value)) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "json",
        "text/json",
        "text/plain",
        "text/html; charset=utf-8",
        "application/jsonp",
        "application/json5",
        "application/ld+json",
        "application/problem+json",
        "application/x-ndjson",
        "xapplication/json",
        "text/html, application/json",
        "application/json, text/html",
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
        "application/json charset=utf-8",
    ],
)
def test_other_media_types(value: str) -> None:
    assert refused(("Content-Type", value)) is SubReason.MEDIA_TYPE


def test_one_media_type_and_no_more() -> None:
    assert refused() is SubReason.MEDIA_TYPE
    assert refused(JSON, JSON) is SubReason.MEDIA_TYPE
    assert refused(JSON, ("Content-Type", "text/html")) is SubReason.MEDIA_TYPE


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "zstd", "x-unknown", "gzip, gzip"])
def test_encoded_answers(coding: str) -> None:
    assert refused(JSON, ("Content-Encoding", coding)) is SubReason.CONTENT_ENCODING


def at(seconds: float) -> str:
    """Return a date of HTTP so many seconds after noon."""
    return format_datetime(NOON + timedelta(seconds=seconds), usegmt=True)


FRESH = [
    ("Age", "0"),
    ("Age", "00"),
    ("Age", "0, 0"),
    ("Cache-Control", "no-store"),
    ("Cache-Control", "private, no-cache, must-revalidate"),
    ("Cache-Control", "max-age=0"),
    ("Cache-Control", "no-cache, max-age=0, s-maxage=0, stale-if-error=0"),
    ("Cache-Control", 'max-age="0"'),
    ("Cache-Control", "max-age = 0"),
    ("CDN-Cache-Control", "no-store"),
    ("Surrogate-Control", "max-age=0"),
    ("Edge-Control", "cache-maxage=0"),
    ("Warning", '214 proxy.example "Transformation Applied"'),
    ("Warning", '299 - "a text, 110 of it"'),
    ("X-Cache", "MISS"),
    ("X-Cache", "Miss from cloudfront"),
    ("X-Cache", "MISS, MISS"),
    ("X-Cache", "MISS; hits=0"),
    ("X-Cache", "TCP_MISS"),
    ("X-Cache", "TCP_REFRESH_MISS"),
    ("X-Cache", "CONFIG_NOCACHE"),
    ("X-Cache", "PRIVATE_NOSTORE"),
    ("X-Cache", "BYPASS"),
    ("X-Cache", "EXPIRED"),
    ("X-Cache", "Error from cloudfront"),
    ("X-Cache", "MISS from proxy.example:3128"),
    ("X-Cache-Lookup", "NONE from proxy.example:3128"),
    ("X-Cache-Hits", "0"),
    ("X-Cache-Hits", "0, 0"),
    ("X-Cache-Status", "Refresh"),
    ("X-Cache-Hit", "false"),
    ("X-Cache-Info", "MISS; hits=0"),
    ("X-Cacheable", "YES"),
    ("X-Check-Cacheable", "YES"),
    ("X-Varnish", "32770"),
    ("X-Varnish-Age", "0"),
    ("X-Varnish", "32770, 5"),  # of two caches
    ("X-Rack-Cache", "miss, store"),
    ("X-Vercel-Cache", "MISS"),
    ("X-Nextjs-Prerender", "0"),
    ("CF-Cache-Status", "DYNAMIC"),
    ("CF-Cache-Status", "MISS"),
    ("CF-Cache-Status", "BYPASS"),
    ("CF-Cache-Status", "EXPIRED"),
    ("CF-Cache-Status", "NONE/UNKNOWN"),
    ("CDN-Cache", "MISS"),
    ("Akamai-Cache-Status", "Miss from child, Miss from parent"),
    ("Akamai-Cache-Status", "NotCacheable from child"),
    ("Server-Timing", "cdn-cache; desc=MISS, edge; dur=1, origin; dur=30"),
    ("Via", "1.1 varnish, 1.1 google"),
    ("Via", "http/1.1 proxy.example (ApacheTrafficServer [uScMsSf pSeN:t cCMp sS])"),
    ("Cache-Status", "Edge"),
    ("Cache-Status", "Edge; fwd=miss"),
    ("Cache-Status", "Edge; fwd=uri-miss; stored"),
    ("Cache-Status", "Edge; fwd=miss; fwd-status=200; ttl=30"),
    ("Cache-Status", "Edge; fwd=request"),
    ("Cache-Status", "Edge; hit=?0"),
    ("Cache-Status", "Edge; hit = ?0; fwd=miss; collapsed=?0"),
    ("Cache-Status", "Edge; fwd=bypass, Shield; fwd=miss"),
    ("Cache-Status", 'Edge; fwd=miss; detail="; hit; x"'),
    ("Cache-Status", 'Edge; fwd=miss; detail="a\\"; hit; x"'),
    ("Cache-Status", 'Edge; fwd=miss; detail="a\\\\"; key="fwd=stale"'),
    ("Cache-Status", "hit; fwd=miss"),  # the name of a cache
    ("Cache-Status", "Edge; fwd=miss; hits=3"),
    ("Cache-Status", "Edge; fwd=miss; no-hit"),
    ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("Expires", "0"),
    ("Expires", "-1"),
    ("Expires", "0" * 40),
    ("Expires", at(-30)),
    ("Expires", at(0)),
    ("Expires", at(1)),  # as servers round
    ("Set-Cookie", "cache=hit; Max-Age=300"),
    ("ETag", '"hit"'),
    ("Server", "HIT"),
    ("X-Whitelist", "true"),
]

STORED = [
    ("Age", "1"),
    ("Age", "86400"),
    ("Age", "01"),
    ("Age", "-1"),
    ("Age", "0.5"),
    ("Age", "soon"),
    ("Age", ""),
    ("Age", "0, 1"),
    # Lifetimes
    ("Cache-Control", "max-age=1"),
    ("Cache-Control", "public, max-age=300"),
    ("Cache-Control", "MAX-AGE=300"),
    ("Cache-Control", "max-age = 300"),
    ("Cache-Control", 'max-age="300"'),
    ("Cache-Control", "max-age=0, max-age=300"),
    ("Cache-Control", "max-age=-1"),
    ("Cache-Control", "max-age=soon"),
    ("Cache-Control", "max-age="),
    ("Cache-Control", "max-age"),
    ("Cache-Control", "s-maxage=1"),
    ("Cache-Control", "max-age=0,s-maxage=60"),
    ("Cache-Control", "max-age=0, stale-while-revalidate=60"),
    ("Cache-Control", "max-age=0, stale-if-error=60"),
    ("CDN-Cache-Control", "max-age=60"),
    ("Cloudflare-CDN-Cache-Control", "max-age=60"),
    ("Vercel-CDN-Cache-Control", "s-maxage=60"),
    ("Netlify-CDN-Cache-Control", "public, durable, s-maxage=60"),
    ("Surrogate-Control", "max-age=3600+600"),
    ("Edge-Control", "cache-maxage=1h"),
    ("Expires", at(2)),
    ("Expires", at(3600)),
    ("Expires", f"{at(3600)}, {at(3600)}"),
    ("Expires", "0" * 41),
    ("Expires", "Sunday, 01-Mar-26 13:00:00 GMT"),
    ("Expires", "Sun Mar  1 13:00:00 2026"),
    # RFC 7234 and RFC 9211
    ("Warning", "110"),
    ("Warning", '110 proxy.example "Response is Stale"'),
    ("Warning", '111 - "Revalidation Failed"'),
    ("Warning", '112 - "Disconnected Operation"'),
    ("Warning", '113 - "Heuristic Expiration"'),
    ("Warning", '299 - "a, \\"b", 110 - "c"'),
    ("Warning", '299 - "without an end'),
    ("Cache-Status", "Edge; hit"),
    ("Cache-Status", "Edge;hit"),
    ("Cache-Status", "Edge; hit; ttl=30"),
    ("Cache-Status", "Edge; hit=?1"),
    ("Cache-Status", "Edge; ttl=1; hit"),
    ("Cache-Status", "Edge; fwd=stale"),
    ("Cache-Status", "Edge; fwd=stale; fwd-status=304"),
    ("Cache-Status", "Edge; hit=?0; fwd=stale"),
    ("Cache-Status", "Edge; fwd=miss; fwd-status=304"),
    ("Cache-Status", "Edge; fwd=partial"),
    ("Cache-Status", "Edge; fwd=miss; collapsed"),
    ("Cache-Status", "Origin; fwd=miss, Edge; hit"),
    ("Cache-Status", "Edge; hit, Outer; fwd=miss"),
    ("Cache-Status", '"an edge"; hit'),
    ("Cache-Status", 'Edge; detail="a"; hit; key="b"'),
    ("Cache-Status", 'Edge; fwd=miss; detail="without an end; hit'),
    ("Cache-Status", 'Edge; fwd=miss; detail="a\\'),
    ("Cache-Status", "Souin; hit; ttl=4; key=GET-http-example; detail=DEFAULT"),
    ("Cache-Status", '"Netlify Durable"; fwd=miss, "Netlify Edge"; hit'),
    ("Cache-Status", 'Edge; fwd=miss; "a text where none may be"hit'),
    ("Cache-Status", "HIT"),
    ("Cache-Status", "STALE"),
    ("Cache-Status", "HIT; ttl=30"),
    ("Cache-Status", "Edge; fwd=miss, HIT; detail=memory"),
    # Apache, Squid, Varnish, nginx, LiteSpeed, Traffic Server, Rack and Symfony
    ("X-Cache", "HIT from proxy.example"),
    ("X-Cache", "REVALIDATE from proxy.example"),
    ("X-Cache-Detail", '"conditional cache hit: entity refreshed" from proxy.example'),
    ("X-Cache-Lookup", "HIT"),
    ("X-Cache-Lookup", "HIT from proxy.example:3128"),
    ("X-Varnish", "32770 5"),
    ("X-Varnish", "1, 32770 5"),
    ("X-Varnish-Cache", "HIT"),
    ("X-Varnish-Hits", "2"),
    ("X-Varnish-Age", "30"),
    ("X-Cache-Status", "HIT"),
    ("X-Proxy-Cache", "HIT"),
    ("X-FastCGI-Cache", "UPDATING"),
    ("X-SRCache-Fetch-Status", "HIT"),
    ("X-LiteSpeed-Cache", "hit,private"),
    ("Via", "http/1.1 proxy.example (ApacheTrafficServer [uScHs f p eN:t cCHi p s ])"),
    ("Via", "http/1.1 proxy.example (ApacheTrafficServer [u cRs f ])"),
    ("Via", "http/1.1 proxy.example (ApacheTrafficServer [uScSs f p eN:t cCHi p s ])"),
    ("X-Rack-Cache", "stale, valid, store"),
    ("X-Symfony-Cache", "GET /preflight: fresh"),
    # Networks and gateways
    ("X-Cache", "HIT"),
    ("X-Cache", "hit"),
    ("X-Cache", "Hit from cloudfront"),
    ("X-Cache", "RefreshHit from cloudfront"),
    ("X-Cache", "OriginShieldHit from cloudfront"),
    ("X-Cache", "MISS, HIT"),
    ("X-Cache", "HIT, MISS"),
    ("X-Cache", "TCP_HIT"),
    ("X-Cache", "TCP_MEM_HIT from a.example"),
    ("X-Cache", "TCP_REMOTE_HIT"),
    ("X-Cache", "HIT-CLUSTER"),
    ("X-Cache", "HitLocal"),
    ("X-Cache", "STALE"),
    ("X-Cache", "CACHED"),
    ("X-Cache", "UPDATING"),
    ("X-Cache", "REVALIDATED"),
    ("X-Cache-Remote", "TCP_HIT from a.example"),
    ("X-Cache-Hits", "3"),
    ("X-Cache-Hits", "0, 1"),
    ("X-Cache-Hits", "0,1"),
    ("X-Cache-Hit", "true"),
    ("X-Cache-Info", "cached"),
    ("X-From-Cache", "1"),
    ("X-From-Cache", "0.5"),
    ("X-From-Cache", "true"),
    ("X-CacheHit", "yes"),
    ("X-Cached", "true"),
    ("X-Tyk-Cached-Response", "1"),
    ("X-Swift-CacheTime", "3600"),
    ("Akamai-Cache-Status", "Hit from child"),
    ("Akamai-Cache-Status", "Miss from child, HitStale from parent"),
    ("CDN-Cache", "HIT"),
    ("Fly-Cache-Status", "HIT"),
    ("X-EC-Cache", "TCP_HIT from ECD"),
    ("X-77-Cache", "HIT"),
    ("X-Sucuri-Cache", "HIT"),
    ("Cache", "HIT"),
    ("X-Vercel-Cache", "PRERENDER"),
    ("X-Vercel-Cache", "STALE"),
    ("X-Nextjs-Cache", "HIT"),
    ("X-Nextjs-Prerender", "1"),
    ("CF-Cache-Status", "HIT"),
    ("CF-Cache-Status", "STALE"),
    ("CF-Cache-Status", "UPDATING"),
    ("CF-Cache-Status", "REVALIDATED"),
    ("CF-Cache-Status", "revalidated"),
    ("Server-Timing", 'cfCacheStatus;desc="HIT"'),
    ("Server-Timing", "cdn-cache; desc=HIT, edge; dur=1"),
    ("Server-Timing", 'cache;desc="hit-front", host;desc="x"'),
    ("Server-Timing", "cdn-cache-hit,cdn-pop;desc=X"),
    ("X-A-Cache-Of-Tomorrow", "Hit"),
    ("X-CDN-Status", "Hit"),
    ("X-Edge-Status", "Hit"),
    ("X-Varnish-Status", "Hit"),
]


@pytest.mark.parametrize("header", FRESH)
def test_marks_of_a_fresh_answer(header: tuple[str, str]) -> None:
    assert refused(JSON, header) is None


@pytest.mark.parametrize("header", STORED)
def test_marks_of_a_stored_answer(header: tuple[str, str]) -> None:
    assert refused(JSON, header) is SubReason.STALE


@pytest.mark.parametrize(
    "header",
    [
        ("Age", "5"),
        ("X-Cache", "HIT"),
        ("Cache-Status", "A; hit"),
        ("Cache-Control", "max-age=9"),
        ("Expires", at(60)),
    ],
)
def test_a_fresh_mark_does_not_outweigh_a_stored_one(header: tuple[str, str]) -> None:
    fresh = {
        "Age": "0",
        "X-Cache": "MISS",
        "Expires": "0",
        "Cache-Status": "B; fwd=miss",
        "Cache-Control": "max-age=0",
    }
    beside = (header[0], fresh[header[0]])

    assert refused(JSON, header, beside) is SubReason.STALE
    assert refused(JSON, beside, header) is SubReason.STALE


# Dates


@pytest.mark.parametrize("seconds", [0, 1, -1, 64, -64, 65, -65])
def test_a_date_near_our_clock(seconds: int) -> None:
    """The deadline and a minute: clocks differ a little, and an answer may come late."""
    assert refused(JSON, ("Date", at(seconds))) is None


@pytest.mark.parametrize("date", [at(-66), at(-3600), "Sat, 07 Mar 2015 07:08:09 GMT"])
def test_a_date_of_the_past_is_that_of_a_stored_answer(date: str) -> None:
    assert refused(JSON, ("Date", date)) is SubReason.STALE


@pytest.mark.parametrize("date", [at(66), at(3600), "Thu, 07 Mar 2999 07:08:09 GMT"])
def test_a_date_of_the_future_is_none_of_a_stored_answer(date: str) -> None:
    """Nobody has stored it before it was made: one of the two clocks is wrong."""
    assert refused(JSON, ("Date", date)) is SubReason.CLOCK


def test_a_mark_counts_before_a_clock() -> None:
    assert refused(JSON, ("Date", at(3600)), ("Age", "9")) is SubReason.STALE
    assert refused(JSON, ("Date", at(3600)), ("Date", at(-3600))) is SubReason.STALE
    assert refused(JSON, ("Date", at(0)), ("Date", at(3600))) is SubReason.CLOCK


@pytest.mark.parametrize(
    "date", ["Sunday, 01-Mar-26 11:00:00 GMT", "Sun Mar  1 11:00:00 2026", "1 Mar 2026 11:00 -0000"]
)
def test_older_forms_of_a_date(date: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They name no zone, or none that counts; ours is no matter."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert refused(JSON, ("Date", date)) is SubReason.STALE
        assert refused(JSON, ("Date", date.replace("11:00", "12:00"))) is None
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "date",
    [
        *("", "x", "0", "Sat, 07 Mar 2015", "Sat, 99 Mar 2015 07:08:09 GMT", at(0) + " " * 40),
        f"{at(0)}, {at(0)}",  # two, which a proxy has made one
        f"{at(0)} (stored by the cache of example)",
    ],
)
def test_a_date_that_cannot_be_read_is_a_mark(date: str) -> None:
    assert refused(JSON, ("Date", date)) is SubReason.STALE
    assert refused(JSON, ("Date", at(0)), ("Date", date)) is SubReason.STALE


def test_a_date_may_be_longer_than_any_form_and_no_longer_than_that() -> None:
    longest = "Wednesday, 01-Mar-26 12:00:00 GMT"
    assert len(longest) == 33
    assert refused(JSON, ("Date", longest)) is None
    assert refused(JSON, ("Date", longest + " " * 7)) is None
    assert refused(JSON, ("Date", longest + " " * 8)) is SubReason.STALE


@pytest.mark.parametrize("unread", ["x", "Sat, 99 Mar 2015 07:08:09 GMT", " " * 41])
def test_a_date_counts_beside_one_that_tells_nothing(unread: str) -> None:
    assert refused(JSON, ("Date", unread), ("Date", at(-3600))) is SubReason.STALE


def test_a_date_may_name_another_zone() -> None:
    assert refused(JSON, ("Date", "Sun, 01 Mar 2026 14:00:00 +0200")) is None
    assert refused(JSON, ("Date", "Sun, 01 Mar 2026 12:00:00 +0200")) is SubReason.STALE


@pytest.mark.parametrize(("expires", "stale"), [(-31, None), (-29, None), (-28, SubReason.STALE)])
def test_a_lifetime_begins_with_the_date(expires: int, stale: SubReason | None) -> None:
    assert refused(JSON, ("Date", at(-30)), ("Expires", at(expires))) is stale
    # Of two dates the earlier one.
    assert refused(JSON, ("Date", at(0)), ("Date", at(-30)), ("Expires", at(expires))) is stale


@given(st.text(max_size=50) | st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,9} [A-Z][a-z]{2} [0-9 :+-]+"))
def test_any_text_may_stand_for_a_date(text: str) -> None:
    headers = [
        ("Date", text.encode("utf-8", "replace")),
        ("Expires", text.encode("utf-8", "replace")),
    ]
    response = httpx.Response(200, headers=[(b"Content-Type", b"application/json"), *headers])
    assert refuse_head(response, NOON.timestamp(), 5.0) in (None, SubReason.STALE, SubReason.CLOCK)


# Cache-Status, stated once more: as what a cache would write

TOKENS = st.sampled_from(["Edge", "hit", "a.example", '"an edge"', '"\\"; hit"', '", b; hit"'])
HARMLESS = st.sampled_from(
    [
        *("fwd=miss", "fwd=uri-miss", "fwd=bypass", "fwd=request", "fwd-status=200", "ttl=-3"),
        *("stored", "stored=?0", "hit=?0", "collapsed=?0", "key=hit", "hits=1", "x-hit"),
        *('detail="; hit"', 'detail=", a; fwd=stale"', 'key="\\\\"', 'key=""'),
    ]
)
TELLING = st.sampled_from(
    ["hit", "hit=?1", "collapsed", "fwd=stale", "fwd=partial", "fwd-status=304"]
)
GAPS = st.sampled_from(["", " ", "\t", "  "])


@given(st.data())
def test_a_cache_status_of_any_form(data: st.DataObject) -> None:
    caches, is_stored = [], False
    for _ in range(data.draw(st.integers(1, 4))):
        told = data.draw(st.lists(TELLING, max_size=1))
        parameters = data.draw(st.lists(HARMLESS, min_size=1, max_size=3)) + told
        name = data.draw(TOKENS)
        # A name is only a name where the cache says, too, what it did.
        alone = not any(parameter.startswith(("hit=", "fwd=")) for parameter in parameters)
        is_stored = is_stored or bool(told) or (name == "hit" and alone)
        written = [name, *data.draw(st.permutations(parameters))]
        gap = data.draw(GAPS)
        caches.append(f"{gap};{gap}".join(written))
    header = ("Cache-Status", ", ".join(caches))
    assert refused(JSON, header) is (SubReason.STALE if is_stored else None)


def test_the_first_rule_that_fails_names_the_sub_reason() -> None:
    html = ("Content-Type", "text/html")
    gzip = ("Content-Encoding", "gzip")
    stored = ("X-Cache", "HIT")

    assert refused(html, gzip, stored, status=302) is SubReason.REDIRECT
    assert refused(html, gzip, stored, status=500) is SubReason.HTTP_STATUS
    assert refused(html, gzip, stored) is SubReason.MEDIA_TYPE
    assert refused(JSON, gzip, stored) is SubReason.CONTENT_ENCODING
    ahead = ("Date", at(3600))
    assert refused(JSON, gzip, ahead) is SubReason.CONTENT_ENCODING
    assert refused(JSON, stored, ahead) is SubReason.STALE
    assert refused(JSON, ahead) is SubReason.CLOCK
