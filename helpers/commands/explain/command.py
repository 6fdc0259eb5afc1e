"""`explain`: what the gate decided in a saved chat, and on what."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...settings.files import MAX_FILE_BYTES
from ..shared.output import Exit, Output, quoted
from . import output
from .json_cursor import TooIntricate
from .saved_chats import CHAT_FILE, find_chat, newest_chat

HELP = "say what the gate decided in a saved chat, and why"
EXAMPLE = "explain --last"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run` reads.

    Args:
        parser: the command's own parser.
    """
    parser.add_argument(
        "chat",
        nargs="?",
        metavar="CHAT",
        help="the chat's id: the name of its folder in usr/chats (default: the chat saved last)",
    )
    parser.add_argument(
        "--last", action="store_true", help="show the latest decision in full, and its evidence"
    )
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace) -> Output:
    """Show what the gate decided in a saved chat.

    Args:
        arguments: `locations`; `chat`, an id or None for the chat saved last; `last`.

    Returns:
        The output: no evidence when the chat's file cannot be read; else fine, whatever was
        decided.

    Raises:
        SystemExit: there is no such chat (code 2).
    """
    folder: Path = arguments.locations.root / "usr" / "chats"
    wanted: str | None = arguments.chat
    chat = newest_chat(folder) if wanted is None else find_chat(folder, wanted)
    if chat is None:
        return _no_chat(arguments)
    limit = MAX_FILE_BYTES // 1024**2
    problem = f"Its {CHAT_FILE} is no saved chat, cannot be read or has more than {limit} MiB."
    try:
        contents = chat.read()
    except TooIntricate:
        contents = None
        problem = f"Its {CHAT_FILE} has too many parts to be gone through; all of it is left out."
    data = output.data(chat, contents, last_only=arguments.last)
    if contents is None:
        return Output(Exit.NO_EVIDENCE, [output.title(chat), problem], data)
    lines = (
        output.latest(chat, contents) if arguments.last else output.all_decisions(chat, contents)
    )
    return Output(Exit.FINE, lines, data)


def _no_chat(arguments: argparse.Namespace) -> Output:
    if arguments.chat is not None:
        arguments.usage_error(
            f"there is no saved chat {quoted(arguments.chat)}; a chat's id is the name of its "
            "folder in usr/chats"
        )
    data = output.data(None, None, last_only=arguments.last)
    return Output(Exit.FINE, ["There is no saved chat in usr/chats."], data)
