"""The head of an answer: whether the service itself gave a whole, plain JSON answer just now."""

import httpx
import pytest
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.response_head import refuse_head
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

JSON = ("Content-Type", "application/json")


def refused(*headers: tuple[str, str], status: int = 200) -> SubReason | None:
    found = refuse_head(httpx.Response(status, headers=list(headers)))
    assert found is None or found.reason is Reason.EVIDENCE_UNAVAILABLE
    return found


def test_a_plain_answer_is_usable() -> None:
    assert refused(JSON) is None
    assert refused(JSON, ("Content-Length", "2"), ("Date", "x"), ("Server", "HIT")) is None


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


FRESH = [
    ("Age", "0"),
    ("Age", "00"),
    ("Cache-Control", "no-store"),
    ("Cache-Control", "private, no-cache, must-revalidate"),
    ("Cache-Control", "max-age=0"),
    ("Cache-Control", "no-cache, max-age=0, s-maxage=0"),
    ("Cache-Control", 'max-age="0"'),
    ("X-Cache", "MISS"),
    ("X-Cache", "Miss from cloudfront"),
    ("X-Cache", "MISS, MISS"),
    ("X-Cache", "TCP_MISS"),
    ("X-Cache", "BYPASS"),
    ("X-Cache", "EXPIRED"),
    ("X-Cache", "Error from cloudfront"),
    ("CF-Cache-Status", "DYNAMIC"),
    ("CF-Cache-Status", "MISS"),
    ("CF-Cache-Status", "BYPASS"),
    ("CF-Cache-Status", "EXPIRED"),
    ("CF-Cache-Status", "NONE/UNKNOWN"),
    ("Cache-Status", "Edge; fwd=miss"),
    ("Cache-Status", "Edge; fwd=uri-miss; stored"),
    ("Cache-Status", "Edge; hit=?0"),
    ("Cache-Status", "Edge; hit = ?0; fwd=stale"),
    ("Cache-Status", "Edge; fwd=bypass, Shield; fwd=miss"),
    ("Cache-Status", 'Edge; fwd=miss; detail="; hit; x"'),
    ("Cache-Status", 'Edge; fwd=miss; detail="a\\"; hit; x"'),
    ("Cache-Status", "hit; fwd=miss"),  # the name of a cache
    ("Cache-Status", "Edge; fwd=miss; hits=3"),
    ("Cache-Status", "Edge; fwd=miss; no-hit"),
    ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
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
    ("Cache-Control", "max-age=1"),
    ("Cache-Control", "public, max-age=300"),
    ("Cache-Control", "MAX-AGE=300"),
    ("Cache-Control", "max-age = 300"),
    ("Cache-Control", 'max-age="300"'),
    ("Cache-Control", "max-age=0, max-age=300"),
    ("Cache-Control", "max-age=-1"),
    ("Cache-Control", "max-age=soon"),
    ("Cache-Control", "max-age="),
    ("Cache-Control", "s-maxage=1"),
    ("Cache-Control", "max-age=0,s-maxage=60"),
    ("X-Cache", "HIT"),
    ("X-Cache", "hit"),
    ("X-Cache", "Hit from cloudfront"),
    ("X-Cache", "RefreshHit from cloudfront"),
    ("X-Cache", "MISS, HIT"),
    ("X-Cache", "HIT, MISS"),
    ("X-Cache", "TCP_HIT"),
    ("X-Cache", "TCP_MEM_HIT from a.example"),
    ("X-Cache", "STALE"),
    ("X-Cache", "UPDATING"),
    ("X-Cache", "REVALIDATED"),
    ("CF-Cache-Status", "HIT"),
    ("CF-Cache-Status", "STALE"),
    ("CF-Cache-Status", "UPDATING"),
    ("CF-Cache-Status", "REVALIDATED"),
    ("CF-Cache-Status", "revalidated"),
    ("Cache-Status", "Edge; hit"),
    ("Cache-Status", "Edge;hit"),
    ("Cache-Status", "Edge; hit; ttl=30"),
    ("Cache-Status", "Edge; hit=?1"),
    ("Cache-Status", "Edge; ttl=1; hit"),
    ("Cache-Status", "Origin; fwd=miss, Edge; hit"),
    ("Cache-Status", "Edge; hit, Outer; fwd=miss"),
    ("Cache-Status", '"an edge"; hit'),
    ("Cache-Status", 'Edge; detail="a"; hit; key="b"'),
]


@pytest.mark.parametrize("header", FRESH)
def test_marks_of_a_fresh_answer(header: tuple[str, str]) -> None:
    assert refused(JSON, header) is None


@pytest.mark.parametrize("header", STORED)
def test_marks_of_a_stored_answer(header: tuple[str, str]) -> None:
    assert refused(JSON, header) is SubReason.STALE


@pytest.mark.parametrize(
    "header",
    [("Age", "5"), ("X-Cache", "HIT"), ("Cache-Status", "A; hit"), ("Cache-Control", "max-age=9")],
)
def test_a_fresh_mark_does_not_outweigh_a_stored_one(header: tuple[str, str]) -> None:
    fresh = {
        "Age": "0",
        "X-Cache": "MISS",
        "Cache-Status": "B; fwd=miss",
        "Cache-Control": "max-age=0",
    }
    beside = (header[0], fresh[header[0]])

    assert refused(JSON, header, beside) is SubReason.STALE
    assert refused(JSON, beside, header) is SubReason.STALE


def test_the_first_rule_that_fails_names_the_sub_reason() -> None:
    html = ("Content-Type", "text/html")
    gzip = ("Content-Encoding", "gzip")
    stored = ("X-Cache", "HIT")

    assert refused(html, gzip, stored, status=302) is SubReason.REDIRECT
    assert refused(html, gzip, stored, status=500) is SubReason.HTTP_STATUS
    assert refused(html, gzip, stored) is SubReason.MEDIA_TYPE
    assert refused(JSON, gzip, stored) is SubReason.CONTENT_ENCODING
    assert refused(JSON, stored) is SubReason.STALE
