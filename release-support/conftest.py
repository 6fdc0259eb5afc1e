"""One host for the whole run: the real framework when A0_ROOT names a checkout."""

import gc
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from hypothesis import settings
from stage.boot import boot
from stage.inherited import restore_signals

restore_signals()

# Without a database a failing case cannot be kept from one run to the next, nor in the checkout.
settings.register_profile("suite", database=None, deadline=None, derandomize=True)
settings.load_profile("suite")

_ROOT = Path(tempfile.mkdtemp(prefix="agent_guild_preflight-"))
_A0_ROOT = os.environ.get("A0_ROOT")
HOST = boot(_ROOT, Path(_A0_ROOT) if _A0_ROOT else None)


# The framework takes the reference host's place.
collect_ignore = ["unit-tests/test_reference_host.py"] if HOST == "framework" else []


def pytest_configure(config: pytest.Config) -> None:
    if HOST == "framework":  # it leaves event loops open, which the collector tells any test of
        for category in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
            config.addinivalue_line("filterwarnings", f"ignore::{category}")


def pytest_sessionfinish() -> None:
    if HOST == "framework":  # the same, before the last look that pytest takes without filters
        with warnings.catch_warnings(action="ignore"):
            for _ in range(5):
                gc.collect()


def pytest_report_header() -> str:
    return f"host: {HOST}"


def pytest_unconfigure() -> None:
    shutil.rmtree(_ROOT, ignore_errors=True)


def host_root() -> Path:
    return _ROOT
