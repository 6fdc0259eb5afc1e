"""The running preflight service, and a process that probes, for the tests of both."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from local_guild_probing import PATIENCE_SECONDS, PROBER, RELEASE_SUPPORT, Probed, process


@pytest.fixture(scope="module")
def guild() -> Iterator[str]:
    with process(str(RELEASE_SUPPORT / "local_guild"), "--port", "0") as (origin, _):
        yield origin


@pytest.fixture(scope="module")
def probed() -> Iterator[Probed]:
    """Probe in a process of its own, which must stay silent: loops in this one may be patched by
    the suites beside this file."""
    with process("-c", PROBER, str(RELEASE_SUPPORT)) as (_, running):
        assert running.stdin and running.stdout
        requests, results = running.stdin, running.stdout

        def ask_prober(target: str, deadline_seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
            print(json.dumps([target, deadline_seconds]), file=requests, flush=True)
            answered: dict[str, Any] = json.loads(results.readline())
            return answered

        yield ask_prober
        assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")
