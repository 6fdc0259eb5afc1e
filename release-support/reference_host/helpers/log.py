"""A chat's log, as the operator sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HEADING_LIMIT = 120  # characters
VALUE_LIMIT = 5_000  # characters
CONTENT_LIMIT = 15_000  # characters


def _cut_values(kvps: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value[:VALUE_LIMIT] if isinstance(value, str) else value for key, value in kvps.items()
    }


@dataclass
class LogItem:
    """One entry.

    Whoever made it may fill it in later.
    """

    type: str
    no: int
    id: str | None = None
    heading: str = ""
    content: str = ""
    kvps: dict[str, Any] = field(default_factory=dict)

    def update(self, heading: str | None = None, content: str | None = None, **kvps: Any) -> None:
        """Replace what is given, cut to size."""
        if heading is not None:
            self.heading = heading[:HEADING_LIMIT]
        if content is not None:
            self.content = content[:CONTENT_LIMIT]
        self.kvps.update(_cut_values(kvps))

    def output(self) -> dict[str, Any]:
        """Return the entry as plain values."""
        return {
            "no": self.no,
            "id": self.id,
            "type": self.type,
            "heading": self.heading,
            "content": self.content,
            "kvps": dict(self.kvps),
        }


class Log:
    """The entries of one context, oldest first."""

    def __init__(self) -> None:
        self.logs: list[LogItem] = []
        self.progress = ""

    def log(
        self,
        type: str,
        heading: str | None = None,
        content: str | None = None,
        kvps: dict[str, Any] | None = None,
        update_progress: str | None = None,
        id: str | None = None,
        **kwargs: Any,
    ) -> LogItem:
        """Add an entry; its heading becomes the progress text unless `update_progress` is
        "none"."""
        item = LogItem(type=type, no=len(self.logs), id=id)
        item.update(heading, content)
        item.kvps = _cut_values({**(kvps or {}), **kwargs})
        self.logs.append(item)
        if item.heading and update_progress != "none":
            self.progress = item.heading
        return item

    def output(self) -> list[dict[str, Any]]:
        """Return all entries as plain values."""
        return [item.output() for item in self.logs]

    def reset(self) -> None:
        """Forget every entry."""
        self.logs = []
        self.progress = ""
