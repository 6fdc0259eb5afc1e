"""The loop of a command: how it ends when its work does, and when the operator interrupts it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator

import pytest
from usr.plugins.agent_guild_preflight.helpers.commands.shared import network

LONG_SECONDS = 5.0


def interrupt() -> None:
    """Do what Ctrl-C does to a loop."""
    raise KeyboardInterrupt


def test_what_the_work_gives_is_given_and_what_it_raises_is_raised() -> None:
    async def give() -> str:
        return "given"

    async def fail() -> None:
        raise ValueError("raised")

    assert network.run(give()) == "given"
    with pytest.raises(ValueError, match="raised"):
        network.run(fail())


def test_an_interrupt_cancels_whatever_is_under_way_and_waits_for_its_end() -> None:
    """Else a request would go on until its deadline, with nobody there who wants its answer."""
    seen: list[str] = []

    async def go_on(name: str) -> None:
        try:
            await asyncio.sleep(LONG_SECONDS)
            seen.append(f"{name} went on")
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            seen.append(f"{name} ended in order")
            raise

    async def work() -> None:
        beside = asyncio.create_task(go_on("what it began"))
        asyncio.get_running_loop().call_later(0.01, interrupt)
        await go_on("the work")
        await beside

    with pytest.raises(KeyboardInterrupt):
        network.run(work())
    assert sorted(seen) == ["the work ended in order", "what it began ended in order"]


def test_a_generator_that_was_left_early_is_closed() -> None:
    seen: list[str] = []
    kept: list[AsyncGenerator[int, None]] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            seen.append("closed")

    async def work() -> int:
        kept.append(numbers())
        return await anext(kept[0])

    assert network.run(work()) == 1
    assert seen == ["closed"]


def test_the_loop_is_closed_and_no_thread_of_it_is_waited_for() -> None:
    release, loops = threading.Event(), []

    async def work() -> None:
        loops.append(asyncio.get_running_loop())
        loops[0].run_in_executor(None, release.wait, LONG_SECONDS)

    try:
        network.run(work())
        assert loops[0].is_closed()
        assert not release.is_set()
        assert any(thread.name.startswith("asyncio_") for thread in threading.enumerate())
    finally:
        release.set()
