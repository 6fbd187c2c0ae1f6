"""Workers are real processes under the test's control, and none outlives the test."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from interlock.testing import processes
from interlock.testing.processes import (
    Barrier,
    Worker,
    WorkerFailedError,
    receive,
    receive_async,
    report,
    wait_at_barrier,
    wait_at_barrier_async,
)
from interlock.testing.servers.process import state

if TYPE_CHECKING:
    from collections.abc import Callable


def worker(function: Callable[..., Any], *args: Any, **env: str) -> Worker:
    return Worker.spawn(f"{__name__}:{function.__name__}", args, env=env)


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    return state(pid) in "XZ"


def describe(*args: object) -> dict[str, object]:
    print("printed, not a message")
    return {"pid": os.getpid(), "args": args, "env": os.environ.get("GIVEN"), "stdin": sys.stdin.read()}


async def test_a_worker_is_a_fresh_process_with_its_own_arguments() -> None:
    async with worker(describe, 1, "two", None, GIVEN="environment") as process:
        result = await process.result()

        assert result == {
            "pid": process.pid,
            "args": [1, "two", None],
            "env": "environment",
            "stdin": "",
        }
        assert process.pid != os.getpid()
        assert await process.wait() == 0
        assert "printed, not a message" in process.stderr


def echo() -> None:
    while (message := receive())["name"] != "end":
        report("echo", of=message)


async def echo_async() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(tick())
        while (message := await receive_async())["name"] != "end":
            report("echo", of=message, ticks=ticks)
        ticking.cancel()


@pytest.mark.parametrize("function", [echo, echo_async])
async def test_messages_go_both_ways(function: Callable[..., Any]) -> None:
    async with worker(function) as process:
        process.send("first", number=1)
        process.send({"name": "second", "text": "ünï"})

        second = await process.wait_for(lambda message: message["of"]["name"] == "second")
        first = await process.wait_for("echo")

        assert second["of"] == {"name": "second", "text": "ünï"}
        assert first["of"] == {"name": "first", "number": 1}
        process.send("end")
        assert await process.wait() == 0


async def test_receiving_does_not_block_the_workers_event_loop() -> None:
    async with worker(echo_async) as process:
        for _ in range(1000):  # a message that is there already is received without waiting
            process.send("one")
            if (await process.wait_for("echo"))["ticks"] > 0:
                return
        pytest.fail("nothing else ran while it waited for messages")


def count_forever() -> None:
    number = 0
    while True:
        number += 1
        report("count", number=number)
        time.sleep(0.001)


async def test_a_paused_worker_stands_still_until_resumed() -> None:
    async with worker(count_forever) as process:
        await process.wait_for("count")

        process.pause()
        assert state(process.pid) == "T"
        with pytest.raises(WorkerFailedError, match="sent no 'never'"):
            await process.wait_for("never", timeout=0.05)
        seen = len(process._inbox._messages)
        with pytest.raises(WorkerFailedError):
            await process.wait_for("never", timeout=0.05)
        assert len(process._inbox._messages) == seen

        process.resume()
        last_before = seen + 1
        await process.wait_for(lambda message: message["number"] > last_before)
        process.pause()
        assert state(process.pid) == "T"


async def test_a_paused_worker_can_be_killed() -> None:
    process = worker(count_forever)
    await process.wait_for("count")

    process.pause()
    process.kill()

    assert process.returncode == -signal.SIGKILL
    assert await process.wait() == -signal.SIGKILL
    process.kill()
    process.pause()
    with pytest.raises(WorkerFailedError, match="was gone"):
        process.send("anything")


async def test_a_worker_can_be_asked_to_end() -> None:
    async with worker(count_forever) as process:
        await process.wait_for("count")
        process.terminate()
        assert await process.wait() == -signal.SIGTERM


def fail(noise: int) -> None:
    print("x" * noise, file=sys.stderr)
    raise ValueError("on purpose")


async def test_a_failed_worker_shows_its_stderr_at_once() -> None:
    async with worker(fail, 1_000_000) as process:
        with pytest.raises(WorkerFailedError, match=r"status 1 without 'ready'[\s\S]*ValueError: on purpose"):
            await process.wait_for("ready", timeout=60)
        assert len(process.stderr) <= processes.STDERR_BYTES


async def test_a_target_that_does_not_exist_fails() -> None:
    with pytest.raises(ValueError, match=r"package\.module:function"):
        Worker.spawn("no_function")
    async with Worker.spawn("no.such.module:function") as process:
        with pytest.raises(WorkerFailedError, match="ModuleNotFoundError"):
            await process.wait_for("ready", timeout=60)


def test_worker_functions_refuse_to_run_outside_a_worker() -> None:
    with pytest.raises(RuntimeError, match=r"Worker\.spawn"):
        report("anything")


def pass_barrier(rounds: int) -> list[float]:
    passed = []
    for number in range(rounds):
        wait_at_barrier(f"round {number}")
        passed.append(time.monotonic())
    return passed


async def pass_barrier_async(rounds: int) -> list[float]:
    passed = []
    for number in range(rounds):
        await wait_at_barrier_async(f"round {number}")
        passed.append(time.monotonic())
    return passed


async def test_workers_leave_a_barrier_together_and_not_before() -> None:
    async with (
        worker(pass_barrier, 3) as one,
        worker(pass_barrier, 3) as two,
        worker(pass_barrier_async, 3) as three,
    ):
        released = []
        for number in range(3):
            barrier = Barrier(one, two, three, name=f"round {number}")
            released.append(time.monotonic())
            await barrier.release()
        results = await asyncio.gather(one.result(), two.result(), three.result())

    for number, times in enumerate(zip(*results, strict=True)):
        assert min(times) > released[number]
        assert max(times) - min(times) < 1.0  # loose, for a busy machine


async def test_a_barrier_says_who_is_missing() -> None:
    async with worker(count_forever) as one, worker(count_forever) as another:
        with pytest.raises(WorkerFailedError) as failure:
            await Barrier(one, another, name="round 0").release(timeout=0.1)

        for absent in (one, another):
            assert re.search(rf"worker {absent.pid} .* arrived at barrier 'round 0'", str(failure.value))


async def test_a_barrier_does_not_speak_of_those_who_are_there() -> None:
    async with worker(pass_barrier, 1) as present, worker(count_forever) as absent:
        await present.wait_for(lambda message: message.get("step") == "arrived")
        present._inbox.put({"name": "barrier", "barrier": "round 0", "step": "arrived"})  # as if not taken yet
        with pytest.raises(WorkerFailedError, match=f"worker {absent.pid} ") as failure:
            await Barrier(present, absent, name="round 0").release(timeout=0.1)

        assert f"worker {present.pid} " not in str(failure.value)


async def own_a_worker(paused: bool) -> None:
    async with worker(count_forever) as child:
        await child.wait_for("count")
        if paused:
            child.pause()
        report("child", pid=child.pid)
        await receive_async("end")


@pytest.mark.parametrize("paused", [False, True])
async def test_a_worker_ends_when_its_parent_is_killed(paused: bool) -> None:
    async with worker(own_a_worker, paused) as parent:
        child = (await parent.wait_for("child"))["pid"]
        assert not gone(child)

        parent.kill()

        await until(lambda: gone(child))


def sleep_forever() -> None:
    report("asleep")
    time.sleep(3600)


async def test_a_sleeping_worker_ends_when_its_input_ends() -> None:
    async with worker(sleep_forever) as process:
        await process.wait_for("asleep")
        assert process._process.stdin is not None
        process._process.stdin.close()
        assert await process.wait() == processes.ORPHAN_STATUS


async def test_workers_started_from_a_thread_outlive_the_thread() -> None:
    process = await asyncio.to_thread(worker, echo)
    async with process:
        process.send("hello")
        await process.wait_for("echo")


def flood(messages: int) -> None:
    for number in range(messages):
        report("flood", number=number)


async def test_messages_that_nobody_takes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "UNREAD_MESSAGES", 100)
    async with worker(flood, 1000) as process:
        with pytest.raises(WorkerFailedError, match="more than 100 unread messages"):
            await process.wait_for("never")
        assert len(process._inbox._messages) == 100
