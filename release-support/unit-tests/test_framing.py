"""What is looked at before the HTTP library reads it: refused is what it refuses, and nothing else."""

from __future__ import annotations

import contextlib
import random

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import framing
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.framing import Framing, Malformed

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SOUND = {
    "a length": OK + b"Content-Length: 3\r\n\r\n\0\r\v",
    "until the end": OK + b"\r\n\0\f 1;\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 1\n\n\0",
    "folds": OK + b"X-A:\r\n  a\r\n\tb\r\nContent-Length: 0\r\n\r\n",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\n\0",
    "chunks": CHUNKED + b"3\r\n\0\n\v\r\n01; a=b \t\r\n\r\r\n0\r\n\r\n",
    "a trailer": CHUNKED + b"1\r\na\r\n0;x\r\nX-A: \r\nX-B:  b\r\n\r\n",
    "chunks in other letters": OK
    + b"tRANSFER-eNCODING:\tChunked\r\n\r\nA\r\n\v123456789\r\n0\r\n\r\n",
    "a size of two digits": CHUNKED + b"1f\r\n" + b"\0" * 31 + b"\r\n0\r\n\r\n",
    "something behind the end": CHUNKED + b"0\r\n\r\n\0\n\n",
    "something behind a bare end": CHUNKED + b"0\r\n\n\0\n\n",
    "blanks": OK + b"X-A:" + b" " * 90_000 + b"a\r\nContent-Length: 0\r\n\r\n",
    "blanks of a size": CHUNKED + b"1;" + b" " * 90_000 + b"\r\na\r\n0\r\n\r\n",
    "blanks of a trailer": CHUNKED + b"0\r\nX-A:" + b" " * 90_000 + b"\r\n\r\n",
}
FAULTS = {
    # What may still be read, and the rest.
    "a NUL": (b"", OK + b"x: \0\r\n\r\n"),
    "a form feed": (b"", OK + b"x: \f\r\n\r\n"),
    "a vertical tab": (b"", OK + b"x: \v\r\n\r\n"),
    "a carriage return": (b"", OK + b"x: \ra\r\n\r\n"),
    "two carriage returns": (b"", OK + b"x:\r\r\n\r\n"),
    "in the status line": (b"", b"HTTP/1.1 200 \0\r\n\r\n"),
    "in the last head": (b"HTTP/1.1 100 C\r\n\r\n", OK + b"x:\0\r\n\r\n"),
    "in a size": (CHUNKED, b"1; \n\r\na\r\n0\r\n\r\n"),
    "a size of a bare line feed": (CHUNKED, b"1\na\r\n0\r\n\r\n"),
    "no size": (CHUNKED, b"\r\n"),
    "in a later size": (CHUNKED + b"1\r\na\r\n", b"1; \n\r\na\r\n"),
    "in the trailer": (CHUNKED + b"1\r\na\r\n0\r\n", b"x: \0\r\n\r\n"),
    "a head that is too long": (b"", OK + b"x:" + b"x" * (100 * 1024) + b"\r\n\r\n"),
    "a head without an end": (b"", OK + b"x:" + b"x" * (100 * 1024)),
    "a size that is too long": (CHUNKED, b"1;" + b"x" * (100 * 1024) + b"\r\na\r\n"),
    "a size without an end": (CHUNKED, b"1;" + b"x" * (100 * 1024)),
}


def read(pieces: list[bytes], look: Framing | None) -> tuple[list[object], bool]:
    """Return what h11 reads, its data in one, and whether it refuses; looked at before or not."""
    state = h11.Connection(h11.CLIENT, max_incomplete_event_size=256 * 1024)
    state.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    state.send(h11.EndOfMessage())
    events: list[object] = []
    data = b""
    try:
        for piece in [*pieces, b""]:
            if look is not None:
                look.check()
            taken = piece if look is None else look.take(piece)
            if piece and not taken:
                continue
            state.receive_data(taken)
            while (event := state.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Data):
                    data += event.data
                elif isinstance(event, h11.EndOfMessage):
                    return [*events, data, event], False
                else:
                    events.append(event)
                    if isinstance(event, h11.ConnectionClosed):
                        return [*events, data], False
    except (h11.RemoteProtocolError, Malformed):
        return [*events, data], True
    return [*events, data], False


def cut(message: bytes, size: int) -> list[bytes]:
    return [message[at : at + size] for at in range(0, len(message), size)]


@pytest.mark.parametrize("size", [1, 2, 7, 10**6])
@pytest.mark.parametrize("kind", SOUND)
def test_what_is_sound_passes_as_it_is(kind: str, size: int) -> None:
    look = Framing()
    for piece in cut(SOUND[kind], size):
        assert look.take(piece) == piece
    look.check()
    events, is_refused = read([SOUND[kind]], None)
    assert not is_refused
    assert read(cut(SOUND[kind], size if size > 1 else 5), Framing()) == (events, False)


def passed_by(look: Framing, pieces: list[bytes]) -> bytes:
    """Return what passes, up to a fault."""
    passed = b""
    with contextlib.suppress(Malformed):
        for piece in pieces:
            passed += look.take(piece)
    return passed


@pytest.mark.parametrize("size", [1, 2, 7, 10**6])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_ends_it_and_what_stood_before_is_read(kind: str, size: int) -> None:
    sound, fault = FAULTS[kind]
    look = Framing()
    passed = passed_by(look, cut(sound + fault, size))
    assert passed.startswith(sound)
    assert len(passed) < len(sound + fault)
    with pytest.raises(Malformed):
        look.check()
    with pytest.raises(Malformed):
        look.take(b"")


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if "too long" not in kind])
def test_the_library_refuses_each_fault_too(kind: str) -> None:
    sound, fault = FAULTS[kind]
    assert read([sound + fault], None)[1]


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    ("before", "begin", "end"),
    [
        (b"", OK + b"x:", b"\r\n\r\n"),
        (CHUNKED, b"1;", b"\r\n"),
        (CHUNKED + b"0\r\n", b"x:", b"\r\n\r\n"),
    ],
    ids=["head", "size", "trailer"],
)
def test_the_largest_section(before: bytes, begin: bytes, end: bytes, more: int) -> None:
    filler = b"a" * (framing.MAX_SECTION_BYTES - len(begin) - len(end) + more)
    message = before + begin + filler + end
    assert passed_by(Framing(), [message]) == (before if more else message)


def test_of_a_request_only_the_head_is_looked_at() -> None:
    look = Framing(is_request=True)
    sent = b"GET / a1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\0\r\n\r\n"
    assert look.take(sent) == sent
    assert look.take(b"\0\n\n") == b"\0\n\n"
    with pytest.raises(Malformed):
        Framing(is_request=True).take(b"GET / HTTP/1.1\r\nx:\0\r\n\r\n")


PARTS = [
    *(OK, b"HTTP/1.1 100 C\r\n", b"HTTP/1.0 204 N\n", b"HTTP/1.1 304\r\n", b"\r\n", b"\n", b"\r"),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"transfer-encoding:chunked\n",
        b"Transfer-Encoding:x\r\n",
    ),
    *(b"Content-Length: 4\r\n", b"x: \r\n", b"x:", b" ", b"\t", b"\0", b"\v", b"a", b" a\r\n"),
    *(b"1", b"0\r\n", b"2\r\n", b"1\r\na\r\n", b"1;x\r\n", b"0\r\n\r\n", b"a0\r\n", b";", b"g"),
]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([[OK], [OK + b"Transfer-Encoding: chunked\r\n\r\n"], []]), max_size=2),
    st.lists(st.sampled_from(PARTS), max_size=12),
    st.integers(1, 40),
)
def test_the_library_reads_the_same_behind_it(
    begin: list[list[bytes]], parts: list[bytes], size: int
) -> None:
    """Whatever the message: the same events, the same data, the same refusal."""
    message = b"".join(part for some in begin for part in some) + b"".join(parts)
    events, is_refused = read(cut(message, size), None)
    looked_at, is_refused_so = read(cut(message, size), Framing())
    assert is_refused_so == is_refused
    assert [repr(event) for event in looked_at] == [repr(event) for event in events]


def test_a_message_in_any_pieces() -> None:
    """Cut anywhere, it comes to the same."""
    rng = random.Random(1)
    for sound, fault in FAULTS.values():
        if len(fault) > 1000:
            continue
        message = sound + fault
        for _ in range(20):
            at = sorted(rng.sample(range(len(message)), 3))
            pieces = [message[i:j] for i, j in zip([0, *at], [*at, len(message)], strict=True)]
            assert read(pieces, Framing())[1]
