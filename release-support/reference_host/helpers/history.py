"""What a model is shown of a chat so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Message:
    """One message; `responses_item` is the function output that answers a native call."""

    ai: bool
    content: Any
    responses_item: dict[str, Any] | None = None

    def output(self) -> dict[str, Any]:
        """Return the message as plain values."""
        return {"ai": self.ai, "content": self.content}


class History:
    """The messages of one agent, oldest first."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def add_message(
        self, ai: bool, content: Any, responses_item: dict[str, Any] | None = None
    ) -> Message:
        """Add a message at the end."""
        message = Message(ai, content, responses_item)
        self.messages.append(message)
        return message

    def output(self) -> list[dict[str, Any]]:
        """Return all messages as plain values."""
        return [message.output() for message in self.messages]
