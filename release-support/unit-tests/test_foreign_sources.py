"""Nothing of a stranger's Python file reaches the operator's terminal."""

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
