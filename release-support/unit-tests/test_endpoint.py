"""The screen, against a table of spellings, against the machine's resolver, and by properties."""

import socket
import sys
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from pathlib import Path

import httpx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import endpoint
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

sys.path.insert(0, str(Path(__file__).parent))

import endpoint_table as table

ROWS = table.rows()
NEVER_IN_A_ROW = {SubReason.HOST_NOT_PUBLIC, SubReason.PRIVATE_NEEDS_LOCAL_SERVICE}

bounded = settings(max_examples=120, deadline=None, derandomize=True)


def answer(url: str, *, allow_private_hosts: bool = False) -> str:
    """Return a table's word for what the screen says."""
    try:
        passed = endpoint.screen(url, allow_private_hosts=allow_private_hosts)
    except endpoint.EndpointRefused as refused:
        return str(refused.sub_reason)
    assert passed.url == url
    return table.PRIVATE if passed.is_private else table.ALLOWED


# The table


@pytest.mark.parametrize("rule", ROWS)
def test_screen_gives_the_answer_of_the_rules(rule: str) -> None:
    expected = [
        (SubReason.HOST_NOT_PUBLIC if word == table.PRIVATE else word, url)
        for word, url in ROWS[rule]
    ]

    assert [(answer(url), url) for _, url in expected] == expected


@pytest.mark.parametrize("rule", ROWS)
def test_allowing_private_hosts_lifts_address_and_name_rules_only(rule: str) -> None:
    answers = [(answer(url, allow_private_hosts=True), url) for _, url in ROWS[rule]]

    assert answers == ROWS[rule]


def test_table_is_wide_enough() -> None:
    urls = [url for rows in ROWS.values() for _, url in rows]
    answers = {word for rows in ROWS.values() for word, _ in rows}
    family = {sub for sub in SubReason if sub.reason is Reason.ENDPOINT_REFUSED}

    assert len(urls) == len(set(urls)) >= 250
    assert answers == {table.ALLOWED, table.PRIVATE} | (family - NEVER_IN_A_ROW)


# What passes


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("https://example.com/", "https://example.com"),
        ("https://example.com/secret/path", "https://example.com"),
        ("http://example.com:8080/secret", "http://example.com:8080"),
        ("https://8.8.8.8/x", "https://8.8.8.8"),
        ("https://[2606:4700:4700::1111]:8443/x", "https://[2606:4700:4700::1111]:8443"),
        ("https://example.com/http://other.example:1/", "https://example.com"),
    ],
)
def test_redacted_form_is_scheme_host_and_port(url: str, redacted: str) -> None:
    assert endpoint.screen(url).redacted == redacted


@pytest.mark.parametrize("host", ["localhost", "10.0.0.1", "[::1]", "printer.local", "intranet"])
def test_private_endpoint_is_told_to_a_local_service_only(host: str) -> None:
    private = endpoint.screen(f"http://{host}/", allow_private_hosts=True)

    endpoint.require_disclosable(private, service_is_local=True)
    with pytest.raises(endpoint.EndpointRefused) as refused:
        endpoint.require_disclosable(private, service_is_local=False)

    assert refused.value.sub_reason is SubReason.PRIVATE_NEEDS_LOCAL_SERVICE
    assert refused.value.reason is Reason.ENDPOINT_REFUSED
    assert host not in repr(refused.value)


@pytest.mark.parametrize("service_is_local", [True, False])
@pytest.mark.parametrize("allow_private_hosts", [True, False])
def test_public_endpoint_is_told_to_any_service(
    service_is_local: bool, allow_private_hosts: bool
) -> None:
    public = endpoint.screen("https://example.com/", allow_private_hosts=allow_private_hosts)

    endpoint.require_disclosable(public, service_is_local=service_is_local)


# Against the machine's own reading of numbers

PRIVATE_ADDRESSES = [
    (127, 0, 0, 1),
    (10, 0, 0, 1),
    (192, 168, 1, 254),
    (172, 16, 5, 9),
    (169, 254, 169, 254),
    (100, 64, 0, 1),
    (0, 0, 0, 0),
]
RADICES = [
    str,
    hex,
    lambda part: f"0X{part:X}",
    lambda part: f"0{part:o}",
    lambda part: f"000{part:o}",
]


def number_like_spellings() -> list[str]:
    """Return every address in one to four parts, every part in every radix."""
    spellings = []
    for a, b, c, d in PRIVATE_ADDRESSES:
        one = a << 24 | b << 16 | c << 8 | d
        for parts in [(one,), (a, one & 0xFFFFFF), (a, b, one & 0xFFFF), (a, b, c, d)]:
            for radices in product(RADICES, repeat=len(parts)):
                labels = (write(part) for write, part in zip(radices, parts, strict=True))
                spellings.append(".".join(labels))
    plain = {".".join(map(str, address)) for address in PRIVATE_ADDRESSES}
    return sorted(set(spellings) - plain)


def test_whatever_the_system_reads_as_a_number_is_refused() -> None:
    understood = []
    for host in number_like_spellings():
        try:
            socket.inet_aton(host)
        except OSError:
            continue
        understood.append(host)

    assert len(understood) > 1000
    for allow in (False, True):
        answers = {answer(f"http://{host}/", allow_private_hosts=allow) for host in understood}
        assert answers == {SubReason.NUMBER_LIKE_HOST.value}


# Properties

labels = st.text("abz019-", min_size=1, max_size=6)
addresses = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda number: str(IPv4Address(number))),
    st.integers(0, 2**128 - 1).map(lambda number: f"[{IPv6Address(number)}]"),
    st.integers(0, 2**64 - 1).map(lambda number: f"[{IPv6Address(0x2606 << 112 | number)}]"),
)
likely_urls = st.builds(
    "{}://{}{}{}{}".format,
    st.sampled_from(["https", "https", "http", "HTTP", "ftp"]),
    st.sampled_from(["", "", "", "", "user@", "@"]),
    st.one_of(
        st.lists(labels, min_size=1, max_size=4).map(".".join),
        addresses,
        st.sampled_from(
            ["localhost", "EXAMPLE.com", "127.1", "0x7f.1", "a.", "", "b\xfccher.example"]
        ),
    ),
    st.one_of(st.sampled_from(["", ":"]), st.integers(0, 70_000).map(":{}".format)),
    st.lists(
        st.sampled_from(
            ["/", "/mcp", "/~a", "/a:@b", "/%2F", "/.", "/..", "/%2e", "/%41", "/%", "?", "#", " "]
        ),
        max_size=4,
    ).map("".join),
)
good_urls = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https"]),
    st.one_of(
        st.text("abz019", min_size=1, max_size=63).map("{}.example".format),
        st.sampled_from(["8.8.8.8", "[2606:4700:4700::1111]"]),
    ),
    st.sampled_from(["", ":8080", ":1", ":65535"]),
    st.lists(st.sampled_from(["a", "~", "-", "%2F", "%C3%A9", "/", "..."])).map("x".join),
)
any_urls = st.one_of(likely_urls, good_urls, st.text(max_size=60))
forbidden_characters = st.one_of(
    st.characters(categories=["Cc", "Zs", "Zl", "Zp"]), st.sampled_from('\\"<>^`{|}')
)


@bounded
@given(good_urls)
def test_well_spelled_public_url_passes(url: str) -> None:
    assert answer(url) == table.ALLOWED


@bounded
@given(any_urls, st.booleans())
def test_what_passes_is_plain_and_means_the_same_to_everybody(
    url: str, allow_private_hosts: bool
) -> None:
    try:
        passed = endpoint.screen(url, allow_private_hosts=allow_private_hosts)
    except endpoint.EndpointRefused:
        assume(False)

    assert passed.url == url
    assert url.isascii()
    assert not set("?#\\ ") & set(url)
    assert "@" not in url.split("/")[2]
    assert url.startswith(passed.redacted + "/")
    assert passed.redacted.count("/") == 2
    assert allow_private_hosts or not passed.is_private
    # An HTTP client reads the same host and port, and nothing beside the path.
    read = httpx.URL(url)
    host = read.raw_host.decode("ascii")
    port = "" if read.port is None else f":{read.port}"
    assert f"{read.scheme}://{f'[{host}]' if ':' in host else host}{port}" == passed.redacted
    assert not read.userinfo + read.query + read.fragment.encode()


@bounded
@given(good_urls, forbidden_characters, st.data())
def test_forbidden_character_is_refused_wherever_it_stands(
    url: str, character: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(url)))

    spoilt = url[:place] + character + url[place:]

    assert answer(spoilt, allow_private_hosts=True) == SubReason.FORBIDDEN_CHARACTER.value


@bounded
@given(any_urls, st.integers(0, 60))
def test_refusal_never_holds_the_url(url: str, place: int) -> None:
    # Whatever the URL, a mark in it would be found in a refusal that quotes it.
    marked = url[:place] + "zq7mark" + url[place:]
    try:
        endpoint.screen(marked)
    except endpoint.EndpointRefused as refused:
        shown = [str(refused), repr(refused), repr(refused.args), repr(vars(refused))]
        assert not any("zq7mark" in text for text in shown)
    else:
        assume(False)
