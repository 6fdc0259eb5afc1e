"""A stranger's Python files: read within bounds, and nothing of them reaches the terminal."""

from pathlib import Path

import pytest
from usr.plugins.agent_guild_preflight.helpers.commands.shared import hooks


@pytest.mark.filterwarnings("default")
def test_no_warning_quotes_a_foreign_file(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    folder = tmp_path / hooks.HOOK_FOLDER
    folder.mkdir(parents=True)
    (folder / "_10_other.py").write_bytes(b'x = "\\\x1b]0;pwned"\n')

    assert hooks.imitations(tmp_path) == []
    assert [str(warning.message) for warning in recwarn] == []


def test_of_a_folder_so_much_is_parsed_and_the_rest_taken_for_what_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, though lint asks about it twice."""
    folder = tmp_path / hooks.HOOK_FOLDER
    folder.mkdir(parents=True)
    files = [folder / f"_1{number}_other.py" for number in range(5)]
    for number, file in enumerate(files):
        file.write_text(f"value = {number:>32}")  # 40 bytes
    parsed: list[str] = []
    parse = hooks.ast.parse
    monkeypatch.setattr(hooks.ast, "parse", lambda text: (parsed.append(text), parse(text))[1])
    monkeypatch.setattr(hooks, "MAX_SOURCE_BYTES", 120)
    for _ in range(2):
        assert hooks.imitations(tmp_path) == files[3:]
    assert len(parsed) == 3
