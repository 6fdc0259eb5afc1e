"""Files of the operator's, read as data.

Rules of this module:

1. Only a plain file is read: a pipe would be waited for. At most 64 MiB.
2. What cannot be read is `UNREADABLE`, a value of its own; it is never taken for empty.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Final

import yaml

MAX_FILE_BYTES: Final = 64 * 1024 * 1024  # a saved chat with images may be large

# Stands for a file that its loader cannot read.
UNREADABLE: Final = object()


def entries(folder: Path) -> list[str]:
    """Return the names of what a folder holds, sorted; none of one that cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read_json(path: Path) -> Any:
    """Return what a file holds as parsed JSON, or `UNREADABLE`."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError):
        return UNREADABLE


def read_yaml(path: Path) -> Any:
    """Return what a file holds as parsed YAML, or `UNREADABLE`."""
    try:
        return yaml.safe_load(read_text(path))
    except (ValueError, RecursionError, yaml.YAMLError):
        return UNREADABLE


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ValueError: it is gone, no plain file, not readable, not UTF-8 or too large.
    """
    return read_bytes(path).decode("utf-8")


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        ValueError: it is gone, no plain file, not readable or too large.
    """
    content = None
    with contextlib.suppress(OSError):
        if path.is_file():  # a pipe would be waited for
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
    if content is None or len(content) > MAX_FILE_BYTES:
        raise ValueError("the file cannot be read")
    return content
