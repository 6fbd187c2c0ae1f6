"""A random workload on the simulator: a few processes, a few keys, and everything that locks can do.

Run as a script with seeds it prints what happened: ``python -m tests.simulation.workload 7``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.errors import ConcurrencyConflictError, DeadlockError, LeaseLostError, MisuseError, StoreUnavailableError
from interlock.locks import FOREVER
from interlock.settings import Settings
from interlock.testing.simulator import (
    Bounds,
    Client,
    Faults,
    FencedTarget,
    SimulationError,
    Verdict,
    Violation,
    WorkError,
    World,
    check,
)
from interlock.testing.simulator.history import LeftOver, Odd
from tests.simulation.disturbance import bring_back_and_see_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from random import Random

    from interlock.arguments import Wait
    from interlock.ports.locks import LockView
    from interlock.service import Service
    from interlock.testing.simulator import SimulatedProcess

SETTINGS = Settings(session_ttl=3.0, recheck_interval=1.0, store_wait=2.0, stuck_work="report")

_CALM = Faults(latency=0.004)
_SLOW = Faults(latency=0.004, slow_request=0.05, slow_reply=0.1, slow_seconds=1.2, message_delayed=0.1)
_FLAKY = Faults(
    latency=0.004,
    refused=0.05,
    failed_after=0.05,
    reply_lost=0.02,
    late=0.02,
    timeout_seconds=0.6,
    late_seconds=1.0,
    duplicated=0.05,
    slow_reply=0.03,
)
_DEAF = Faults(latency=0.004, message_lost=0.4, message_delayed=0.2, message_duplicated=0.2)
_CUT_OFF = Faults(latency=0.004, outage=0.02, outage_seconds=5.0, message_lost=0.05)
_STORM = Faults(
    latency=0.004,
    slow_request=0.03,
    slow_reply=0.03,
    refused=0.02,
    failed_after=0.02,
    reply_lost=0.01,
    late=0.01,
    timeout_seconds=0.6,
    duplicated=0.03,
    paused=0.02,
    pause_seconds=5.0,
    crashed_before=0.002,
    crashed_after=0.003,
    message_lost=0.1,
    message_delayed=0.1,
    message_duplicated=0.05,
)
PROFILES = {"calm": _CALM, "slow": _SLOW, "flaky": _FLAKY, "deaf": _DEAF, "cut off": _CUT_OFF, "storm": _STORM}

EXPECTED = (TimeoutError, DeadlockError, LeaseLostError, StoreUnavailableError, ConcurrencyConflictError, WorkError)


@dataclass
class Run:
    """One seed's run and what the check says about it."""

    world: World
    verdict: Verdict
    profile: str
    test: str = "test_seeds.py"
    module: str = "workload"

    def __str__(self) -> str:
        seed = self.world.seed
        return (
            f"seed {seed} ({self.profile}), digest {self.world.loop.digest}:\n{self.verdict}\n"
            f"Replay: INTERLOCK_SEED={seed} pytest tests/simulation/{self.test}, "
            f"or python -m tests.simulation.{self.module} {seed}"
        )


def simulate(seed: int, **world_options: Any) -> Run:
    """Run the workload of a seed and judge it. Every sixth seed has the same kind of network."""
    profile = list(PROFILES)[seed % len(PROFILES)]
    faults = PROFILES[profile]
    world_options = {"max_seconds": 1000.0, "max_steps": 100_000, **world_options}
    world = World(seed, faults=faults, settings=SETTINGS, **world_options)
    failed = None
    try:
        world.run(Scenario(world).main)
    except SimulationError as error:
        failed = error
    verdict = check(world.history.events, Bounds.of(faults, SETTINGS))
    if failed is not None:
        verdict.violations.append(Violation(world.clock.now(), "bounded", str(failed)))
    return Run(world, verdict, profile)


class Scenario:
    """The processes of one run and what they do."""

    closing_early = 0.1

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.target = FencedTarget()
        self.keys = [f"k{number}" for number in range(self.random.choice((1, 2, 2, 3, 3)))]
        self.bounds = Bounds.of(world.faults, world.settings)
        self.closing = asyncio.Event()

    async def main(self, world: World) -> None:
        for _ in range(self.random.choice((2, 3, 3, 4))):
            self.start_process()
        if world.faults.paused:
            world.loop.create_task(self._disturb(), name="chaos")
        await world.until(partial(bring_back_and_see_end, world, self.random, self.start_process), within=20.0)
        world.heal()
        await world.until(lambda: not any(process.paused for process in world.processes), within=20.0)
        # Those who wait for ever are served once the others have given up, died or ended.
        if not await world.until(self._all_idle, within=60.0 + 2 * self.bounds.handover):
            self._odd("work did not end after the world had healed")
        await self.see_what_is_left()
        closings = [process.start(self.close(process)) for process in world.processes if process.alive]
        if not await world.until(self._all_idle, within=5.0):
            self._odd("not everything could be closed")
        for task in closings:
            if task.done() and (error := task.exception()):
                self._odd(f"closing failed: {error!r}")
        await asyncio.sleep(0.1)
        for process in world.processes:
            for task in process.process.tasks:
                if process.alive and not task.done():
                    self._odd(f"task {task.get_name()} of {process.name} outlived its closing")

    def parts(self, process: SimulatedProcess) -> list[Service[Any]]:
        """What its processes open, in this order."""
        return [process.locks]

    def workers(self, process: SimulatedProcess) -> Sequence[Worker]:
        """The tasks of one process."""
        return [Worker(self, process, number) for number in range(self.random.choice((1, 2, 3, 4)))]

    async def close(self, process: SimulatedProcess) -> None:
        """Close all that a process opened."""
        for part in reversed(self.parts(process)):
            await part.close()

    async def see_what_is_left(self) -> None:
        """Nothing may be left in the store once all work has ended."""
        world = self.world
        if not await world.until(lambda: not self._left_over(), within=self.bounds.tidy + SETTINGS.session_ttl):
            world.history.add(LeftOver(world.clock.now(), "world", self._left_over()))

    async def _disturb(self) -> None:
        """Stop or kill processes also while they compute or wait, not only when they talk to the store."""
        for _ in range(self.random.choice((0, 1, 2, 3))):
            await asyncio.sleep(self.random.random() * 3.0)
            process = self.random.choice(self.world.processes)
            if not self.world.faults.paused:  # healed meanwhile
                return
            if self.random.random() < 0.7:
                process.pause(self.random.random() * 6.0)
            else:
                process.crash()

    def _all_idle(self) -> bool:
        return all(process.idle for process in self.world.processes)

    def _left_over(self) -> list[LockView]:
        views: list[LockView] = at_once(self.world.store.locks.list())
        return [view for view in views if view.holder or any(waiter.live for waiter in view.waiters)]

    def start_process(self, name: str | None = None) -> None:
        process = self.world.spawn(name)
        process.start(self._process_main(process), name=f"main of {process.name}")

    async def _process_main(self, process: SimulatedProcess) -> None:
        while True:
            try:
                for part in self.parts(process):
                    await part.open()
                break
            except StoreUnavailableError:
                await asyncio.sleep(0.5)
        await asyncio.sleep(0.05 + self.random.random() * 0.2)
        working = asyncio.gather(*(worker.begin() for worker in self.workers(process)), return_exceptions=True)
        if self.random.random() < self.closing_early:
            await asyncio.sleep(self.random.random() * 2.0)
            await self.close(process)
        await working

    def _odd(self, what: str) -> None:
        self.world.history.add(Odd(self.world.clock.now(), "world", what))


class Worker:
    """One task: a few random acts in a row, perhaps cancelled on the way."""

    def __init__(self, scenario: Scenario, process: SimulatedProcess, number: int) -> None:
        self.random: Random = scenario.random
        self.keys = scenario.keys
        self.process = process
        self.client = Client(process, scenario.target)
        self.name = f"{process.name}.{number}"
        self.cancelled = False

    def begin(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._run(), name=self.name)
        if self.random.random() < 0.2:
            asyncio.get_running_loop().call_later(self.random.random() * 4.0, self._cancel, task)
        return task

    def _cancel(self, task: asyncio.Task[None]) -> None:
        if not task.done():
            self.cancelled = True
            task.cancel()

    def acts(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """What it does, the more often the more usual."""
        acts = [self._acquire, self._acquire, self._nested, self._ring, self._ring, self._many, self._try]
        return [*acts, self._hold, self._enter_late, self._force]

    async def _run(self) -> None:
        acts = self.acts()
        try:
            for _ in range(self.random.choice((1, 2, 3, 4))):
                await asyncio.sleep(self.random.choice((0.0, 0.01, 0.3)) * self.random.random())
                if self.cancelled:
                    self._odd("a cancellation was swallowed")
                with suppress(*EXPECTED):
                    await self.random.choice(acts)()
        except asyncio.CancelledError:
            if not self.cancelled:
                self._odd("a task was cancelled that nobody had cancelled")
            raise
        except MisuseError:
            pass  # the process has closed what it opened
        except Exception as error:
            self._odd(f"unexpected {error!r}")

    async def _acquire(self) -> None:
        async with self.client.acquire(self._key(), self._ttl(), self._wait()) as request:
            await request.work(self._pieces())

    async def _nested(self) -> None:
        async with self.client.acquire(self._key(), self._ttl(), self._wait()) as outer:
            await outer.work(self._pieces())
            async with self.client.acquire(self._key(), self._ttl(), self._wait()) as inner:
                await inner.work(self._pieces())
                if self.random.random() < 0.3:
                    async with self.client.acquire(self._key(), self._ttl(), self._wait()) as innermost:
                        await innermost.work(self._pieces())
            await outer.work([0.01])

    async def _ring(self) -> None:
        """Take a key and then the one after it, so that each may end up waiting for the next all around."""
        first = self.random.randrange(len(self.keys))
        async with self.client.acquire(self.keys[first], self._ttl(), 8.0) as outer:
            await outer.work([0.05 + self.random.random() * 0.3])
            second = self.keys[(first + 1) % len(self.keys)]
            async with self.client.acquire(second, self._ttl(), 8.0) as inner:
                await inner.work(self._pieces())

    async def _many(self) -> None:
        count = self.random.randint(1, len(self.keys))
        async with self.client.acquire_many(self.random.sample(self.keys, count), self._ttl(), self._wait()) as request:
            await request.work(self._pieces())

    async def _try(self) -> None:
        async with self.client.try_acquire(self._key(), self._ttl()) as request:
            await request.work(self._pieces() if request.leases else [])

    async def _hold(self) -> None:
        async with self.client.hold(self._key(), self._ttl(), self._wait()) as request:
            await request.work(self._pieces())

    async def _enter_late(self) -> None:
        pause = self.random.choice((0.0, 0.5))
        async with self.client.enter_late(self._key(), self._ttl(), self._wait(), pause) as request:
            await request.work(self._pieces())

    async def _force(self) -> None:
        if self.random.random() < 0.5:
            await self.process.locks.force_release(self._key(), reason="simulated", by=self.name)

    def _key(self) -> str:
        return self.random.choice(self.keys)

    def _ttl(self) -> float:
        return self.random.choice((1.0, 1.0, 1.5, 3.0, 60.0))

    def _wait(self) -> Wait:
        return self.random.choice((0.0, 0.05, 0.5, 2.0, 8.0, 8.0, FOREVER))

    def _pieces(self) -> list[float]:
        if self.random.random() < 0.1:
            return [0.06] * 30  # busy for a while, so that not being stopped in time shows
        longest = self.random.choice((0.0, 0.05, 0.05, 0.3, 0.3, 2.5))
        return [self.random.random() * longest for _ in range(self.random.choice((1, 2, 3)))]

    def _odd(self, what: str) -> None:
        world = self.process.world
        world.history.add(Odd(world.clock.now(), self.name, what))


def at_once(looking: Coroutine[Any, Any, Any]) -> Any:
    """What the memory store says, which answers without waiting."""
    try:
        looking.send(None)
    except StopIteration as answer:
        return answer.value
    raise AssertionError("the store waited")


def _main(arguments: list[str]) -> None:
    digest_only = "--digest" in arguments
    for seed in [int(argument) for argument in arguments if argument != "--digest"]:
        run = simulate(seed, logs=bool(os.environ.get("LOGS")))
        if digest_only:
            print(seed, run.world.loop.digest, run.world.loop.steps, len(run.world.history.events))
        else:
            print(*run.world.loop.trace, run, sep="\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
