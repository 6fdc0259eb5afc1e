"""Files of settings: what is read of them, and what is told where that cannot be done."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from usr.plugins.agent_guild_preflight.helpers.settings import files as room


def told(path: Path) -> str:
    with pytest.raises(ValueError, match="cannot be read") as caught:
        room.read_bytes(path)
    return str(caught.value)


def test_a_file_is_read_whole_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "MARKER"
    file.write_bytes(b" " * room.MAX_FILE_BYTES)
    assert len(room.read_bytes(file)) == room.MAX_FILE_BYTES
    file.write_bytes(b" " * (room.MAX_FILE_BYTES + 1))
    assert told(file) == "the file cannot be read"


def test_what_is_no_file_is_told_without_its_path(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "MARKER", tmp_path / ("M" * 300)):
        assert told(path) == "the file cannot be read"


def test_a_file_that_grows_while_it_is_read_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(-1 if size is None else size)
            return b""

    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(Path, "open", lambda *_: Endless())
    room.read_bytes(file)
    assert asked == [room.MAX_FILE_BYTES + 1]
