"""A random workload of jobs: processes that enqueue and work, people who interfere, and everything going wrong.

Run as a script with seeds it prints what happened: ``python -m tests.simulation.jobs 7``.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from interlock.errors import InterlockError, MisuseError, StoreUnavailableError
from interlock.jobs import Discard, Lanes, Queues, Retry, RetryLater, Snooze, current_job
from interlock.jobs.definition import Definition
from interlock.jobs.end_hooks import EndHookDefinition, JobEnd, hook_of
from interlock.jobs.listing import list_jobs
from interlock.jobs.options import JobOptions
from interlock.limits import Cooldown, Rate, Slots
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.settings import Settings
from interlock.testing.conformance.driver import ANN
from interlock.testing.simulator import SimulationError, Violation, World
from interlock.testing.simulator.history import Odd
from interlock.testing.simulator.job_events import (
    EnqueueEnded,
    FollowUpsAsked,
    HandlerBegan,
    HandlerEnded,
    HandlerRan,
    HandlerResisted,
    JobsLeft,
    QueueResumed,
)
from interlock.testing.simulator.job_judge import check_jobs
from interlock.testing.simulator.processes import PROCESS
from tests.simulation.disturbance import bring_back_and_see_end, disturb
from tests.simulation.workload import PROFILES, Run, at_once

if TYPE_CHECKING:
    from interlock.jobs import CurrentJob, Job
    from interlock.jobs.worker import Worker
    from interlock.testing.simulator import Process, SimulatedProcess

SETTINGS = Settings(session_ttl=3.0, recheck_interval=1.0, store_wait=2.0, stuck_work="report")
_RETRY = Retry(attempts=3, delay=0.3, max_delay=1.0, jitter=0.2)
_UNUSUAL = ("fails once", "fails", "scheduled", "snoozes", "discards", "slow", "stubborn", "follows", "follows in vain")
_BEHAVIOURS = (*["well"] * 4, *_UNUSUAL)
_LANES = ("", "a", "a", "b")
_PAUSED = 0.2
"""In how many of the runs somebody pauses the queue."""
_PROFILES = {**PROFILES, "storm": replace(PROFILES["storm"], crashed_before=0.008, crashed_after=0.012)}
_UNFINISHED = JobFilter(tuple(state for state in JobState if not state.final))


def simulate_shared(seed: int, **world_options: Any) -> Run:
    """The same, with reservations under the limits of the jobs."""
    return simulate(seed, reserving=True, **world_options)


def simulate(seed: int, *, reserving: bool = False, **world_options: Any) -> Run:
    """Run the workload of a seed and judge it. Networks take turns."""
    profile = list(PROFILES)[seed % len(PROFILES)]
    world_options = {"max_seconds": 1000.0, "max_steps": 200_000, **world_options}
    world = World(seed, faults=_PROFILES[profile], settings=SETTINGS, **world_options)
    failed = None
    chance = random.getstate()
    random.seed(f"interlock/{seed}/jitter")  # that of workers, which spread out by chance
    try:
        world.run(JobScenario(world, reserving=reserving).main)
    except SimulationError as error:
        failed = error
    finally:
        random.setstate(chance)
    verdict = check_jobs(world.history.events)
    if failed is not None:
        verdict.violations.append(Violation(world.clock.now(), "bounded", str(failed)))
    return Run(world, verdict, profile, "test_job_seeds.py", "jobs")


async def handler(number: int, behaviour: str, pieces: list[float], lane: str = "") -> int:
    """The handler of all jobs: what it does is told by its arguments, where by the process that it runs in."""
    process = PROCESS.get()
    await _scenes[process].run(process.name, behaviour, pieces)
    return number


@cache
def _definitions(limit: int, seconds: float) -> list[Definition]:
    slots, cooldown, rate = Slots("s", limit), Cooldown("c", seconds), Rate("r", 2, per=1.0)
    options: dict[str, dict[str, Any]] = {
        "plain": {},
        "timed": {"timeout": 0.4},
        "laned": {"lane": "{lane}"},
        "laned2": {"lane": "{lane}"},
        "skipping": {"lane": "{lane}", "on_failure": "skip"},
        "slotted": {"limits": [slots]},
        "paced": {"limits": [cooldown]},
        "both": {"limits": [slots, rate]},
        "all": {"lane": "{lane}", "limits": [slots, cooldown]},
        "hooked": {},
        "hooked in lane": {"lane": "{lane}"},
    }
    found: list[Definition] = []
    hook = EndHookDefinition(after_end, JobOptions.of({"retry": _RETRY}))
    for name, one in options.items():
        definition = Definition(handler, JobOptions.of({"retry": _RETRY, **one}), name=name.replace(" ", "-"))
        if "hooked" in name:
            definition.add_hook(hook_of(hook, tuple(state for state in JobState if state.final)))
        found.append(definition)
    return [*found, hook, Definition(step, JobOptions.of({"retry": _RETRY}))]


async def after_end(end: JobEnd) -> None:
    """The end hook of some jobs."""
    if end.job % 3 == 0:
        await asyncio.sleep(0.05)


async def step(number: int) -> None:
    """What follows some jobs."""
    await asyncio.sleep(0.01 * (number % 3))


_scenes: WeakKeyDictionary[Process, JobScenario] = WeakKeyDictionary()


class JobScenario:
    """The processes of one run and what they do."""

    def __init__(self, world: World, *, reserving: bool = False) -> None:
        self.world = world
        self.random = world.random
        self.reserving = reserving
        self.slots = self.random.choice((1, 1, 2))
        self.cooldown = self.random.choice((0.2, 0.5))
        self.pauses = random.Random(f"interlock/{world.seed}/pauses")
        self.snoozed: Counter[int] = Counter()
        self.steps: dict[str, Job[..., Any]] = {}
        """The follow-up of each process."""
        self.ids: list[int] = []
        self.workers: list[tuple[SimulatedProcess, Worker]] = []

    async def main(self, world: World) -> None:
        for _ in range(self.random.choice((2, 2, 3))):
            self.start_process()
        if self.pauses.random() < _PAUSED:
            operator = world.spawn("operator")
            operator.start(self._pause(operator), name="operator")
        world.loop.create_task(disturb(world, self.random, pauses=0.6), name="chaos")
        await world.until(partial(bring_back_and_see_end, world, self.random, self.start_process), within=8.0)
        world.heal()
        await world.until(lambda: not any(process.paused for process in world.processes), within=20.0)
        healer = world.spawn("healer")
        healing = healer.start(self._heal(healer), name="healer")
        await world.until(lambda: healing.done() and self._all_ended(), within=90.0)
        world.history.add(JobsLeft(world.clock.now(), "world", self._views()))
        closings = [process.start(self._close(process)) for process in world.processes if process.alive]
        if not await world.until(lambda: all(task.done() for task in closings), within=10.0):
            self._odd("not everything could be closed")
        for task in [healing, *closings]:
            if task.done() and not task.cancelled() and (error := task.exception()):
                self._odd(f"closing failed: {error!r}")
        self._see_what_is_left()

    # -- processes ---------------------------------------------------------------------------------------------------

    def start_process(self, name: str | None = None) -> None:
        process = self.world.spawn(name)
        process.start(self._process_main(process), name=f"main of {process.name}")

    async def _process_main(self, process: SimulatedProcess) -> None:
        jobs = self._define(process)
        await self._open(process)
        acts = [asyncio.create_task(self._enqueue(process, jobs)) for _ in range(self.random.choice((0, 1, 1, 2)))]
        acts += [asyncio.create_task(self._interfere(process)) for _ in range(self.random.choice((0, 0, 1)))]
        if self.reserving:
            acts += [asyncio.create_task(self._reserve(process)) for _ in range(self.random.choice((1, 2)))]
        if self.random.random() < 0.9:
            await self._work(process)
        await asyncio.gather(*acts)

    async def _open(self, process: SimulatedProcess) -> None:
        while True:
            try:
                await process.jobs.open()
                if self.reserving:
                    await process.limits.open()
            except StoreUnavailableError:
                await asyncio.sleep(0.5)
            else:
                return

    async def _close(self, process: SimulatedProcess) -> None:
        with suppress(MisuseError):
            await process.jobs.close()
        if self.reserving:
            with suppress(MisuseError):
                await process.limits.close()

    async def _work(self, process: SimulatedProcess) -> None:
        for _ in range(self.random.choice((1, 1, 2))):
            worker = process.jobs.worker(concurrency=self.random.choice((1, 2, 4)))
            self.workers.append((process, worker))
            worker.open()
            await asyncio.sleep(self.random.choice((0.5, 3.0, 8.0)) * self.random.random())
            await (worker.finish() if self.random.random() < 0.6 else worker.stop())

    async def _heal(self, process: SimulatedProcess) -> None:
        """A process in which all is well sees to it that everything ends."""
        self._define(process)
        await self._open(process)
        for lane in _LANES:
            if lane:
                await Lanes(process.jobs).release(lane, by="people")
        worker = process.jobs.worker(concurrency=4)
        self.workers.append((process, worker))
        worker.open()

    # -- what they do ------------------------------------------------------------------------------------------------

    def _define(self, process: SimulatedProcess) -> list[Job[..., Any]]:
        _scenes[process.process] = self
        *jobs, _, following = [process.jobs.define(one) for one in _definitions(self.slots, self.cooldown)]
        self.steps[process.name] = following
        return jobs

    async def run(self, process: str, behaviour: str, pieces: list[float]) -> None:
        """What a handler does."""
        history, now, job = self.world.history, self.world.clock.now, current_job()
        about = (process, job.id, job.fence)
        history.add(HandlerBegan(now(), *about))
        try:
            for piece in pieces:
                try:
                    await asyncio.sleep(piece)
                except asyncio.CancelledError:
                    if behaviour != "stubborn":
                        raise
                    behaviour = "well"
                    history.add(HandlerResisted(now(), *about))
                    continue
                history.add(HandlerRan(now(), *about))
            if behaviour.startswith("follows"):
                self._follow(process, job)
            await self._behave(behaviour, job.id, job.attempt)
        finally:
            history.add(HandlerEnded(now(), *about))

    def _follow(self, process: str, job: CurrentJob) -> None:
        count = 1 + job.id % 2
        following = self.steps[process]
        job.follow_up(*(following.call(number) for number in range(count)))
        self.world.history.add(FollowUpsAsked(self.world.clock.now(), process, job.id, job.fence, count))

    async def _behave(self, behaviour: str, number: int, attempt: int) -> None:
        if behaviour == "fails" or (behaviour == "fails once" and attempt == 1):
            raise ConnectionError("simulated")
        if behaviour == "scheduled" and attempt == 1:
            raise RetryLater(0.2)
        if behaviour == "snoozes" and self.snoozed[number] < 2:
            self.snoozed[number] += 1
            raise Snooze(0.2)
        if behaviour == "follows in vain" and attempt == 1:
            raise ConnectionError("simulated")
        if behaviour == "discards":
            raise Discard("simulated")
        if behaviour == "slow":
            await asyncio.sleep(0.6)

    async def _enqueue(self, process: SimulatedProcess, jobs: list[Job[..., Any]]) -> None:
        for _ in range(self.random.choice((1, 2, 3))):
            await asyncio.sleep(self.random.choice((0.0, 0.0, 0.3)) * self.random.random())
            calls = [self._call(self.random.choice(jobs)) for _ in range(self.random.choice((1, 1, 3, 5)))]
            try:
                handles = await process.jobs.enqueue_many(calls)
            except (StoreUnavailableError, MisuseError):
                continue
            ids = [handle.id for handle in handles]
            self.ids += ids
            self.world.history.add(EnqueueEnded(self.world.clock.now(), process.name, ids))
            if self.random.random() < 0.2:
                with suppress(InterlockError):
                    await self.random.choice(handles).result(wait=self.random.choice((0.1, 2.0)))

    async def _reserve(self, process: SimulatedProcess) -> None:
        """Start and finish reservations under the limits of the jobs."""
        slots, cooldown = Slots("s", self.slots), Cooldown("c", self.cooldown)
        for _ in range(self.random.choice((2, 4))):
            await asyncio.sleep(self.random.random() * 0.3)
            wanted = self.random.choice(([slots], [cooldown], [slots, cooldown]))
            with suppress(InterlockError):
                async with process.limits.acquire(*wanted, wait=self.random.choice((0.5, 2.0, 10.0))):
                    await asyncio.sleep(self.random.random() * 0.3)

    def _call(self, job: Job[..., Any]) -> Any:
        lane = self.random.choice(_LANES)
        if "lane" in job.name or job.name in ("skipping", "all"):
            lane = lane or "b"
        if self.random.random() < 0.15:
            job = job.options(delay=self.random.random())
        if self.random.random() < 0.2:
            job = job.options(priority=self.random.choice((0, 100)))
        longest = self.random.choice((0.0, 0.02, 0.02, 0.1, 0.5))
        if (self.world.faults.paused or self.world.faults.outage) and self.random.random() < 0.25:
            pieces = [0.3] * 15  # at work for so long that some stand still or lose their session in the middle
            return job.call(len(self.ids), "well", pieces, lane)
        pieces = [round(self.random.random() * longest, 4) for _ in range(self.random.choice((0, 1, 2, 3)))]
        return job.call(len(self.ids), self.random.choice(_BEHAVIOURS), pieces, lane)

    async def _interfere(self, process: SimulatedProcess) -> None:
        jobs = process.jobs
        for _ in range(3):
            await asyncio.sleep(self.random.random())
            number = self.random.choice(self.ids) if self.ids else 0
            with suppress(InterlockError):
                match self.random.randrange(4):
                    case 0 if number:
                        await jobs.cancel(number, reason="simulated", by="people")
                    case 1 if number:
                        await jobs.retry(number, by="people")
                    case 2:
                        lane = self.random.choice(("a", "b"))
                        await Lanes(jobs).hold(lane, reason="simulated", by="people")
                        await asyncio.sleep(self.random.random())
                        await Lanes(jobs).release(lane, by="people")
                    case _ if number:
                        await jobs.explain(number)

    async def _pause(self, process: SimulatedProcess) -> None:
        """Pause the queue for a while, and resume it."""
        await self._open(process)
        for _ in range(2):
            await asyncio.sleep(self.pauses.random() * 2)
            with suppress(InterlockError):
                await Queues(process.jobs).pause("default", reason="simulated", by="people")
                await asyncio.sleep(self.pauses.random())
                await Queues(process.jobs).resume("default", by="people")

    # -- the end -----------------------------------------------------------------------------------------------------

    def _views(self) -> Any:
        return at_once(list_jobs(self.world.store.insight, JobFilter(), 10_000))

    def _all_ended(self) -> bool:
        unfinished = at_once(list_jobs(self.world.store.insight, _UNFINISHED, 1000))
        if unfinished:  # there may be a pause that took effect late, or whose operator died
            self.world.history.add(QueueResumed(self.world.clock.now(), "world", "default"))
            at_once(self.world.store.jobs.resume("default", ANN))
        for view in unfinished:
            if view.state is JobState.HELD:  # a hold that took effect late
                at_once(self.world.store.jobs.release(view.lane, ANN))
        return not unfinished

    def _see_what_is_left(self) -> None:
        for process, worker in self.workers:
            if process.alive:
                status = worker.status()
                if status.running or status.buffered:
                    self._odd(f"a worker of {process.name} was closed with {status}")

    def _odd(self, what: str) -> None:
        self.world.history.add(Odd(self.world.clock.now(), "world", what))


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
