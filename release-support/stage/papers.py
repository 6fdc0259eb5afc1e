"""The papers of this checkout, read as a test needs them: links, tables, samples.

Rules of this module:

1. A paper is a Markdown file of the checkout. Folders whose names begin with a dot hold
   environments and the like, but for .github.
2. What stands between fences is a sample, and no part of the page's own text.
3. Anchors are those that GitHub gives to headings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from .boot import CHECKOUT

DOCS: Final = CHECKOUT / "release-support" / "docs"

_FENCED = re.compile(r"^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.M | re.S)
_HEADING = re.compile(r"^#{1,6} +(.+?)$", re.M)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`[^`]*`")
_CELL = re.compile(r"(?<!\\)\|")


class Link(NamedTuple):
    """Where a link leads: a path relative to its page, empty for the page itself; an anchor."""

    path: str
    anchor: str


class Sample(NamedTuple):
    """A command of a page, and what the page says that it prints.

    Attributes:
        page: the page's path in the checkout.
        command: what follows the prompt.
        output: the lines after it.
        exit_code: what `echo $?` shows behind it; None where the page does not ask.
    """

    page: str
    command: str
    output: tuple[str, ...]
    exit_code: int | None = None


def papers() -> list[Path]:
    """Return every paper of the checkout, sorted."""
    return sorted(path for path in CHECKOUT.rglob("*.md") if _is_ours(path))


def _is_ours(path: Path) -> bool:
    folders = path.relative_to(CHECKOUT).parts[:-1]
    return all(not name.startswith(".") or name == ".github" for name in folders)


def shown(page: Path) -> str:
    """Return a page's path in the checkout."""
    return page.relative_to(CHECKOUT).as_posix()


def blocks(page: Path, kind: str) -> list[str]:
    """Return what stands between the fences of one kind."""
    return [block["text"] for block in _FENCED.finditer(page.read_text()) if block["kind"] == kind]


def prose(page: Path) -> list[str]:
    """Return the lines of a page that are neither samples nor tables."""
    lines = _FENCED.sub("", page.read_text()).splitlines()
    return [line for line in lines if not line.startswith("|")]


def links(page: Path) -> list[Link]:
    """Return every link of a page that leads to no other site."""
    text = _SPAN.sub("", _FENCED.sub("", page.read_text()))
    targets = [target for target in _LINK.findall(text) if not re.match(r"[a-z]+:", target)]
    return [Link(*target.partition("#")[::2]) for target in targets]


def anchors(page: Path) -> set[str]:
    """Return every anchor of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def section(page: Path, heading: str) -> str:
    """Return the text below a heading, up to the next one of its level or above.

    Raises:
        ValueError: the page does not have the heading.
    """
    text = page.read_text()
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    if found is None:
        raise ValueError(f"{shown(page)} has no heading {heading}")
    rest = text[found.start(2) :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of the first table in a text, each as cells by their column's title."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("|"):
            lines.append(line)
        elif lines:
            break
    titles, _, *rows = [_cells(line) for line in lines]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line)[1:-1]]


def code(cell: str) -> list[str]:
    """Return what a cell has between backticks."""
    return [span.strip("`") for span in _SPAN.findall(cell)]


def samples(page: Path) -> Iterator[Sample]:
    """Return every command of a page with what it is said to print."""
    for block in blocks(page, "console"):
        found: list[Sample] = []
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *output = part.splitlines()
            if command == "echo $?":
                found[-1] = found[-1]._replace(exit_code=int(output[0]))
            else:
                found.append(Sample(shown(page), command, tuple(output)))
        yield from found
