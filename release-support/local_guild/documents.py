"""JSON from a probed server, bounded before it is parsed.

A list or an object costs the parser, and the collector after it, a hundred times what its two bytes
say, so their number is bounded, not only the size of the text.
"""

from .allowance import BoundReached

MAX_CONTAINERS = 4096


def refuse_costly(text: bytes) -> None:
    """Raise `BoundReached` if a JSON text may hold more than `MAX_CONTAINERS` lists and objects.

    Brackets in strings count too: this is done without parsing.
    """
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS:
        raise BoundReached
