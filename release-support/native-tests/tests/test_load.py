"""Many calls at once, calls that are cancelled anywhere, and what the plugin's memory does.

The calls go to `gate.guard` as the hook hands them over, with a tool that is bound but never
run: what is under load here is the gate, not the host's own dispatch.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import tracemalloc
import warnings

import pytest
from agent import LoopData
from helpers.mcp_handler import MCPConfig
from local_guild.wire import Wait
from stage import chats
from stage.boot import PLUGIN
from usr.plugins.agent_guild_preflight.helpers import gate, host
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import cache, observe, single_flight

NAME = "tools.echo"
WAIT_SECONDS = 20.0
MAX_STEPS = 60
THREADS, CALLS = 4, 1_000
CACHED_CALLS = 5_000
MAX_GROWTH_BYTES = 64 * 1024
RECORD_KEYS = {"id", "at", "decision", "reason", "server", "tool", "endpoint", "verdict"}


@pytest.fixture
def flights(scene):
    """The gate's requests, under eyes of our own."""
    fresh = single_flight.SingleFlight()
    scene.patch.setattr(observe, "_single_flight", fresh)
    return fresh


def bind(chat):
    """Bind a fresh tool, as a dispatcher does."""
    tool = MCPConfig.get_instance().get_tool(chat.agent, NAME)
    chat.agent.loop_data = LoopData()
    chat.agent.loop_data.current_tool = tool
    return chat.agent


def on_own_loop(work):
    """Run a coroutine on a loop of its own; the framework changes what `asyncio.run` does."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def is_whole(record):
    return record.keys() >= RECORD_KEYS and record["decision"] == "allowed"


def turn(flights):
    """Have the flights' own loop do what is due there, if it runs."""
    with flights._lock:
        loop = flights._loop
    if loop is not None:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(WAIT_SECONDS)


def all_landed(flights):
    """Wait until no flight is left; they land on a loop of their own."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with flights._lock:
            if not flights._active:
                return not flights._by_key
        turn(flights)
    return False


async def steps_then_cancel(agent, steps):
    """Run a call for some turns of the loop, then cancel it; says whether it was through."""
    call = asyncio.create_task(gate.guard(agent, NAME))
    for _ in range(steps):
        await asyncio.sleep(0)
    turn(observe._single_flight)
    turn(observe._single_flight)
    is_done = call.done()
    call.cancel()
    (outcome,) = await asyncio.gather(call, return_exceptions=True)
    assert is_done or isinstance(outcome, asyncio.CancelledError)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return is_done


@pytest.mark.parametrize("ttl", [0, 300], ids=["alone", "shared"])
def test_calls_that_are_cancelled_at_every_step(scene, flights, ttl):
    """While the service is silent: no record, no task and, where it was alone, no flight left."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(cache_ttl_seconds=ttl, timeout_seconds=15)
    for steps in range(8):
        scene.chat = scene.new_chat()
        assert on_own_loop(steps_then_cancel(bind(scene.chat), steps)) is False
        assert scene.chat.records == []
        assert scene.chat.log_lines == []
        assert scene.chat.last_observation is None
        with flights._lock:
            waiters = [one for flight in flights._by_key.values() for one in flight.waiters]
        assert all(waiter.cancelled() for waiter in waiters)
    if ttl == 0:
        assert all_landed(flights)
    # The one that waits to the end is served, whoever began the request that it shares.
    answerable.set()
    scene.chat = scene.new_chat()
    on_own_loop(gate.guard(bind(scene.chat), NAME))
    (record,) = scene.chat.records
    assert is_whole(record)
    assert all_landed(flights)
    if ttl == 300:
        assert scene.preflights == 1


@pytest.mark.parametrize("ttl", [0, 300], ids=["alone", "shared"])
def test_calls_that_are_cancelled_until_one_is_through(scene, flights, ttl):
    """The service answers meanwhile: no record or a whole one, at every point of the way."""
    scene.protect(cache_ttl_seconds=ttl, timeout_seconds=15)

    async def until_through(agent, turns):
        """Cancel a call when its loop has turned that often because something had happened."""
        call = asyncio.create_task(gate.guard(agent, NAME))
        loop = asyncio.get_running_loop()
        select, left = loop._selector.select, [turns]

        def counted(timeout):
            events = select(timeout)
            left[0] -= 1
            if left[0] == 0:
                call.cancel()
            return events

        loop._selector.select = counted
        (outcome,) = await asyncio.gather(call, return_exceptions=True)
        assert outcome is None or isinstance(outcome, asyncio.CancelledError)
        return outcome is None

    for turns in range(1, MAX_STEPS):
        if ttl:
            observe._cache = cache.ObservationCache()
        scene.chat = scene.new_chat()
        is_through = on_own_loop(until_through(bind(scene.chat), turns))
        assert len(scene.chat.records) == len(scene.chat.log_lines) == is_through
        assert all(map(is_whole, scene.chat.records))
        assert all_landed(flights)
        if is_through:
            break
    assert is_through
    assert turns > 1


def test_a_cancelled_leader_and_those_who_wait_with_it(scene, flights):
    """Ten calls share one request; five are cancelled, the first among them."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(cache_ttl_seconds=300, timeout_seconds=15)
    chats_of = [scene.new_chat() for _ in range(10)]

    async def together():
        calls = [asyncio.create_task(gate.guard(bind(chat), NAME)) for chat in chats_of]
        await asyncio.to_thread(scene.guild.wait_for_requests, 1, WAIT_SECONDS)
        for call in calls[:5]:
            call.cancel()
        answerable.set()
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = on_own_loop(together())
    assert [type(outcome) for outcome in outcomes[:5]] == [asyncio.CancelledError] * 5
    assert outcomes[5:] == [None] * 5
    assert [len(chat.records) for chat in chats_of] == [0] * 5 + [1] * 5
    assert scene.preflights == 1
    assert all_landed(flights)


def test_a_loop_that_dies_while_it_leads(scene, flights):
    """Its thread ends in the middle of the wait; a caller on another loop is served."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(cache_ttl_seconds=300, timeout_seconds=15)
    dead, alive = scene.new_chat(), scene.new_chat()
    loop = asyncio.new_event_loop()
    call = loop.create_task(gate.guard(bind(dead), NAME))
    loop.run_until_complete(asyncio.sleep(0))
    assert scene.guild.wait_for_requests(1, WAIT_SECONDS)
    loop.close()
    waiting = chats.begin(gate.guard(bind(alive), NAME))
    chats.run(asyncio.sleep(0))
    answerable.set()
    waiting.result(WAIT_SECONDS)
    assert [len(chat.records) for chat in (dead, alive)] == [0, 1]
    assert scene.preflights == 1
    assert all_landed(flights)
    call._log_destroy_pending = False
    call.get_coro().close()


def test_a_thousand_calls_on_four_loops(scene, flights):
    """One preflight for all; each has a record of its own, whole."""
    answerable = threading.Event()
    healthy = scene.answers()
    scene.serve(lambda head: [Wait(answerable), *healthy(head)])
    scene.protect(cache_ttl_seconds=300, timeout_seconds=15)
    opened = [scene.new_chat() for _ in range(CALLS)]
    agents = [bind(chat) for chat in opened]
    waiting = threading.Semaphore(0)
    outcomes = [None] * THREADS

    async def batch(mine):
        calls = [asyncio.create_task(gate.guard(agent, NAME)) for agent in mine]
        await asyncio.sleep(0)  # each has begun, and none can have ended
        waiting.release()
        return await asyncio.gather(*calls, return_exceptions=True)

    def work(number):
        outcomes[number] = on_own_loop(batch(agents[number::THREADS]))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for _ in workers:
        assert waiting.acquire(timeout=WAIT_SECONDS)
    answerable.set()
    for worker in workers:
        worker.join(WAIT_SECONDS)
    assert outcomes == [[None] * (CALLS // THREADS)] * THREADS
    assert scene.preflights == 1
    records = [record for chat in opened for record in chat.records]
    assert len(records) == len({record["id"] for record in records}) == CALLS
    assert all(map(is_whole, records))
    assert all(len(chat.log_lines) == 1 for chat in opened)
    assert all_landed(flights)


def test_memory_of_cached_decisions(scene, flights):
    """On one agent: twenty records, one observation, and nothing that grows with the calls."""
    scene.protect(cache_ttl_seconds=300)
    settings = scene.settings(cache_ttl_seconds=300)
    # The host reads a file for every call, and its log grows by itself: neither is ours.
    scene.patch.setattr(host.plugins, "get_plugin_config", lambda *_, **__: settings)
    scene.patch.setattr(scene.chat.context.log, "log", lambda **_: None)

    async def decide(count):
        for _ in range(count):
            await gate.guard(bind(scene.chat), NAME)

    def kept():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # what the host has left open
            gc.collect()
        traces = tracemalloc.take_snapshot().filter_traces([ours]).traces
        return sum(trace.size for trace in traces)

    ours = tracemalloc.Filter(True, f"*{PLUGIN}/helpers/*")
    chats.run(decide(50))
    tracemalloc.start()
    try:
        chats.run(decide(50))
        before = kept()
        chats.run(decide(CACHED_CALLS))
        after = kept()
    finally:
        tracemalloc.stop()
    assert before > 0  # the filter finds what is ours
    assert after - before < MAX_GROWTH_BYTES
    assert scene.preflights == 1
    assert len(scene.chat.records) == 20
    assert all(map(is_whole, scene.chat.records))
