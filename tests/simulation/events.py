"""A random workload of events: deliveries that come again and again, at processes to which everything happens.

Run as a script with seeds it prints what happened: ``python -m tests.simulation.events 7``.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.errors import MisuseError, StoreUnavailableError
from interlock.events import Event, Events, Incoming, ReceiptStatus
from interlock.jobs import Retry, current_job
from interlock.jobs.listing import list_jobs
from interlock.ports.events import EventFilter
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.testing.simulator import SimulationError, Violation, World
from interlock.testing.simulator.history import Odd
from interlock.testing.simulator.job_events import EnqueueEnded, HandlerBegan, HandlerEnded, JobsLeft
from interlock.testing.simulator.job_judge import check_jobs
from tests.simulation.disturbance import bring_back_and_see_end, disturb
from tests.simulation.jobs import _PROFILES, SETTINGS
from tests.simulation.workload import PROFILES, Run, at_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.events import Receipt
    from interlock.testing.simulator import SimulatedProcess

GUIDS = tuple(f"g{number}" for number in range(8))
_UNFINISHED = JobFilter(tuple(state for state in JobState if not state.final))


def simulate(seed: int, **world_options: Any) -> Run:
    """Run the workload of a seed and judge it. Networks take turns."""
    profile = list(PROFILES)[seed % len(PROFILES)]
    world_options = {"max_seconds": 1000.0, "max_steps": 200_000, **world_options}
    world = World(seed, faults=_PROFILES[profile], settings=SETTINGS, **world_options)
    scenario = EventScenario(world)
    failed = None
    chance = random.getstate()
    random.seed(f"interlock/{seed}/jitter")
    try:
        world.run(scenario.main)
    except SimulationError as error:
        failed = error
    finally:
        random.setstate(chance)
    verdict = check_jobs(world.history.events)
    if failed is not None:
        verdict.violations.append(Violation(world.clock.now(), "bounded", str(failed)))
    verdict.violations += [Violation(world.clock.now(), "once", what) for what in scenario.wrong]
    verdict.outcomes.update(scenario.verdicts)
    return Run(world, verdict, profile, "test_event_seeds.py", "events")


class _Source:
    """A sender that is believed."""

    name = "src"

    def verify(self, headers: Mapping[str, str], body: bytes) -> None: ...

    def read(self, headers: Mapping[str, str], body: bytes) -> Incoming:
        guid = body.decode()
        return Incoming(guid, "thing.happened", "ann", {"guid": guid, "subject": {"number": int(guid[1:]) % 2}})


class EventScenario:
    """The processes of one run and what they do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.answers: dict[str, set[int | None]] = {guid: set() for guid in GUIDS}
        self.verdicts: list[str] = []
        self.handled: list[tuple[int, str]] = []
        self.wrong: list[str] = []

    async def main(self, world: World) -> None:
        for _ in range(self.random.choice((2, 3))):
            self._start()
        world.loop.create_task(disturb(world, self.random, pauses=0.4), name="chaos")
        await world.until(partial(bring_back_and_see_end, world, self.random, self._start), within=8.0)
        world.heal()
        await world.until(lambda: not any(process.paused for process in world.processes), within=20.0)
        healer = world.spawn("healer")
        healing = healer.start(self._heal(healer), name="healer")
        await world.until(lambda: healing.done() and not self._unfinished(), within=90.0)
        world.history.add(JobsLeft(world.clock.now(), "world", self._jobs()))
        self._judge()
        closings = [process.start(self._close(process)) for process in world.processes if process.alive]
        if not await world.until(lambda: all(task.done() for task in closings), within=10.0):
            world.history.add(Odd(world.clock.now(), "world", "not everything could be closed"))

    # -- processes ---------------------------------------------------------------------------------------------------

    def _start(self, name: str | None = None) -> None:
        process = self.world.spawn(name)
        process.start(self._process(process), name=f"main of {process.name}")

    async def _process(self, process: SimulatedProcess) -> None:
        events = await self._open(process)
        senders = [asyncio.create_task(self._send(process, events)) for _ in range(self.random.choice((1, 2, 3)))]
        if self.random.random() < 0.8:
            async with process.jobs.worker(concurrency=self.random.choice((1, 3))):
                await asyncio.sleep(self.random.random() * 4.0)
        await asyncio.gather(*senders)

    async def _open(self, process: SimulatedProcess) -> Events:
        events = Events(process.jobs._store_client, jobs=process.jobs)
        events.source(_Source())
        for name, lane in (("first", "{subject.number}"), ("second", None)):

            @events.on("src.**", name=name, lane=lane, retry=Retry(attempts=9, delay=0.1, max_delay=0.5))
            async def handle(event: Event) -> None:
                await self._handle(process.name, event)

            assert handle.name == name
        while True:
            try:
                await process.jobs.open()
                break
            except StoreUnavailableError:
                await asyncio.sleep(0.5)
        await events.open()
        return events

    async def _close(self, process: SimulatedProcess) -> None:
        with suppress(MisuseError):
            await process.jobs.close()

    async def _handle(self, process: str, event: Event) -> None:
        history, now, job = self.world.history, self.world.clock.now, current_job()
        history.add(HandlerBegan(now(), process, job.id, job.fence))
        try:
            await asyncio.sleep(self.random.choice((0.0, 0.01, 0.2)) * self.random.random())
            if self.random.random() < 0.1:
                raise ConnectionError("simulated")
            self.handled.append((job.id, event.payload["guid"]))
        finally:
            history.add(HandlerEnded(now(), process, job.id, job.fence))

    async def _send(self, process: SimulatedProcess, events: Events) -> None:
        """Deliver some of the things, each until there is an answer or the sender has had enough."""
        for guid in self.random.sample(GUIDS, 5):
            await asyncio.sleep(self.random.choice((0.0, 0.0, 0.4)) * self.random.random())
            for _ in range(self.random.choice((1, 2, 3))):
                try:
                    receipt = await events.receive("src", {}, guid.encode())
                except (StoreUnavailableError, MisuseError):
                    continue
                self._answered(process, guid, receipt)
                break

    def _answered(self, process: SimulatedProcess, guid: str, receipt: Receipt) -> None:
        self.verdicts.append(str(receipt.status))
        self.answers[guid].add(receipt.event)
        if receipt.status is ReceiptStatus.ACCEPTED:
            self.world.history.add(EnqueueEnded(self.world.clock.now(), process.name, list(receipt.jobs)))

    async def _heal(self, process: SimulatedProcess) -> None:
        """A process in which all is well: the senders deliver everything once more, and all of it is done."""
        events = await self._open(process)
        for guid in GUIDS:
            self._answered(process, guid, await events.receive("src", {}, guid.encode()))
        process.jobs.worker(concurrency=4).open()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _jobs(self) -> Any:
        return at_once(list_jobs(self.world.store.insight, JobFilter(), 10_000))

    def _unfinished(self) -> bool:
        return bool(at_once(list_jobs(self.world.store.insight, _UNFINISHED, 1000)))

    def _judge(self) -> None:
        """One event for each delivery, whoever was told of it; two jobs for each event, done, with its payload."""
        views = at_once(self.world.store.events.list(EventFilter(), limit=1000))
        jobs = {view.id: view for view in self._jobs()}
        found = {view.delivery: view for view in views}
        if len(found) != len(views) or found.keys() != set(GUIDS):
            self.wrong.append(f"the store keeps {sorted(view.delivery for view in views)}")
        for guid, view in found.items():
            if self.answers.get(guid) != {view.id}:
                self.wrong.append(f"{guid} is event {view.id}, and its senders were told {self.answers.get(guid)}")
            if [jobs[job].name for job in view.jobs if job in jobs] != ["first", "second"]:
                self.wrong.append(f"{guid} has the jobs {view.jobs}")
            for job in view.jobs:
                if (job, guid) not in self.handled:
                    self.wrong.append(f"job {job} was never handled with the payload of {guid}")
        if sorted(jobs) != sorted(job for view in views for job in view.jobs):
            self.wrong.append(f"there are jobs that no event caused: {sorted(jobs)}")
        if not {view.state for view in jobs.values()} <= {JobState.DONE, JobState.QUARANTINED, JobState.FAILED}:
            self.wrong.append("not all jobs have ended")


if __name__ == "__main__":
    for seed in map(int, sys.argv[1:]):
        run = simulate(seed)
        print(*run.world.loop.trace, run, sep="\n")
