"""The handlers of one's own app in the simulator: many seeds, several processes, and faults between them and the store.

``simulate`` runs a scenario once for each seed. A seed decides every interleaving and every fault, and the same seed
produces the same run, so a failure that occurs once in a thousand runs can be repeated and understood.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import MisuseError, StoreUnavailableError
from interlock.insight import Insight
from interlock.jobs import current_job
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.service import Service
from interlock.settings import Settings
from interlock.testing.apps import jobs_of
from interlock.testing.simulator import Faults, SimulationError, World
from interlock.testing.simulator.processes import PROCESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from interlock.app import App
    from interlock.jobs.definition import Definition
    from interlock.testing.simulator import SimulatedProcess

__all__ = ["DEFAULT_FAULTS", "Simulation", "SimulationFailedError", "SimulationReport", "simulate"]

DEFAULT_FAULTS = Faults(
    latency=0.01,
    slow_request=0.02,
    slow_reply=0.02,
    refused=0.01,
    failed_after=0.01,
    reply_lost=0.01,
    duplicated=0.01,
    outage=0.001,
    outage_seconds=3.0,
    crashed_before=0.001,
    crashed_after=0.002,
    message_lost=0.05,
    message_delayed=0.05,
    message_duplicated=0.02,
)
"""Requests that are slow, refused or repeated, lost replies and notifications, outages, and killed processes.

Processes are not suspended by default: code of a process that was suspended past the end of its session may run for a
moment when it wakes, which only a fence can make harmless.
"""
_SHOWN = 40
_CHECK_EVERY = 0.25
_FAULTY_SECONDS = 30.0
"""For how long :meth:`Simulation.finish` leaves the faults on."""
_UNFINISHED = tuple(state for state in JobState if not state.final)


class SimulationReport(NamedTuple):
    """What passed."""

    seeds: int
    jobs: int
    """How many jobs ended."""
    faults: dict[str, int]
    """The faults that happened, by kind."""


class SimulationFailedError(AssertionError):
    """A scenario failed under a seed: ``error`` is why, and ``trace`` the last steps before it."""

    def __init__(self, seed: int, error: BaseException, trace: list[str], faults: dict[str, int]) -> None:
        self.seed = seed
        self.error = error
        self.trace = trace
        self.faults = faults
        happened = ", ".join(f"{name} {count}" for name, count in sorted(faults.items())) or "none"
        steps = "\n".join(f"  {line}" for line in trace[-_SHOWN:])
        super().__init__(
            f"Seed {seed} failed: {type(error).__name__}: {error}\nFaults: {happened}\nThe last steps:\n{steps}\n"
            f"To repeat it: simulate(app, scenario, seeds=[{seed}])"
        )


class Simulation:
    """One run of a scenario, in which the app is open and its workers work."""

    def __init__(self, world: World, keep_up: Callable[[], None]) -> None:
        self._world = world
        self._keep_up = keep_up

    @property
    def seed(self) -> int:
        """The seed that decides everything in this run."""
        return self._world.seed

    @property
    def random(self) -> random.Random:
        """Random choices for the scenario; the same for the same seed."""
        return self._world.random

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self._world.loop.note(text)

    async def finish(self, *, within: float = 600.0) -> None:
        """Wait until every job has ended, in virtual seconds. Faults end after a while, so that it comes to that."""
        if not await self._ended(min(within, _FAULTY_SECONDS)):
            self._world.heal()
            if not await self._ended(within):
                left = await self._world.store.insight.jobs(JobFilter(_UNFINISHED), limit=5)
                jobs = ", ".join(f"{one.job.id} ({one.job.name}) is {one.job.state}" for one in left.situations)
                raise TimeoutError(f"jobs did not end within {within:g} s: {jobs}")

    async def _ended(self, within: float) -> bool:
        give_up = self._world.loop.time() + within
        while (await self._world.store.insight.numbers(JobFilter(_UNFINISHED), limit=1)).ids:
            if self._world.loop.time() >= give_up:
                return False
            self._keep_up()
            await asyncio.sleep(_CHECK_EVERY)
        return True


def simulate(
    app: App,
    scenario: Callable[[Simulation], Awaitable[object]],
    *,
    seeds: int | Iterable[int] = 1000,
    processes: int = 2,
    concurrency: int = 4,
    faults: Faults = DEFAULT_FAULTS,
    settings: Settings | None = None,
) -> SimulationReport:
    """Run a scenario with the handlers of an app once for each seed, and raise for the first one that fails.

    ``scenario(run)`` is a coroutine function. It begins in a process of its own in which the app is open, on an empty
    store; ``processes`` more run the workers, and are started again when a fault kills them. It enqueues what it likes,
    waits for the end of all jobs with ``await run.finish()`` and asserts what has to hold. What lives outside the
    store, such as a fake of a remote service, is shared by all processes; the scenario has to reset it. All time is
    virtual. Handlers have to be coroutine functions. Must not be called from a running event loop.

    Raises :class:`SimulationFailedError` with the seed and the trace. ``seeds`` is how many, or which.
    """
    chosen = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    if app.is_open:
        raise MisuseError("The app is open.", remedy="Leave `async with app` before you simulate it.")
    for job in jobs_of(app):
        if not job.definition.is_async:
            raise MisuseError(
                f"The handler of {job.name!r} is a plain function, and the simulator has no threads.",
                remedy="Simulate an app whose handlers are coroutine functions.",
            )
    count, jobs, happened = 0, 0, Counter[str]()
    for seed in chosen:
        run = _Run(app, scenario, seed, processes, concurrency, faults, settings)
        jobs += run.simulate()
        happened.update(run.world.fault_counts)
        count += 1
    return SimulationReport(count, jobs, dict(happened))


class _Run:
    """One seed."""

    def __init__(
        self,
        app: App,
        scenario: Callable[[Simulation], Awaitable[object]],
        seed: int,
        processes: int,
        concurrency: int,
        faults: Faults,
        settings: Settings | None,
    ) -> None:
        self._app = app
        self._scenario = scenario
        self._processes = processes
        self._concurrency = concurrency
        chosen = settings or Settings(session_ttl=3.0, recheck_interval=1.0, store_wait=2.0, stuck_work="report")
        self.world = World(seed, faults=faults, settings=chosen, max_seconds=7200.0)
        self._layers = _Layers()
        self._workers: list[SimulatedProcess] = []

    def simulate(self) -> int:
        """Run the scenario; return how many jobs ended."""
        chance = random.getstate()
        random.seed(f"interlock/{self.world.seed}/jitter")
        try:
            with ExitStack() as stack:
                for one in _parts(self._app):
                    stack.enter_context(self._layers.over(one))
                for job in jobs_of(self._app):
                    stack.enter_context(self._traced(job.definition))
                return self.world.run(self._main)
        except (SimulationError, Exception) as error:
            if isinstance(error, MisuseError):
                raise
            trace, faults = list(self.world.loop.trace), dict(self.world.fault_counts)
            raise SimulationFailedError(self.world.seed, error, trace, faults) from error
        finally:
            random.setstate(chance)

    async def _main(self, world: World) -> int:
        for _ in range(self._processes):
            self._start_worker()
        director = world.spawn("scenario")
        director.dice.faults = world.faults.calmed()
        self._enter(director)
        task = director.start(self._direct(), name="scenario")
        while not task.done():
            self._keep_up()
            await asyncio.sleep(_CHECK_EVERY)
        task.result()
        counts = await world.store.insight.counts()
        return sum(count for state, count in counts.states.items() if state.final)

    async def _direct(self) -> None:
        async with self._app:
            await self._scenario(Simulation(self.world, self._keep_up))

    def _start_worker(self) -> None:
        process = self.world.spawn()
        self._workers.append(process)
        self._enter(process)
        process.start(self._work(), name=f"main of {process.name}")

    def _keep_up(self) -> None:
        """Replace the processes that were killed."""
        for process in list(self._workers):
            if process.idle:
                self._workers.remove(process)
                self._start_worker()

    async def _work(self) -> None:
        while True:
            try:
                async with self._app:
                    queues = sorted({job.chosen.queue for job in jobs_of(self._app)} | {"default"})
                    await self._app.jobs.worker(concurrency=self._concurrency, queues=queues).run()
            except StoreUnavailableError:
                await asyncio.sleep(0.5)

    def _enter(self, process: SimulatedProcess) -> None:
        """Give a process its own state of the app: clients and engines, as if it had imported the program itself."""
        app, client = self._app, process.store_client
        client.journal = self.world.store.journal
        for one in _parts(app):
            values: dict[str, Any] = {"_store_client": client}
            if one is app:
                insight = Insight(self.world.store, clock=self.world.clock)
                values = {"_store_clients": (client,), "_durable": client, "insight": insight, "_declaring": set()}
            elif one is app.resources:
                values = {"_provided": {}}
            elif one is app._record_engine:  # noqa: SLF001
                values |= {"_recent": type(app._record_engine._recent)(), "_turns": type(app._record_engine._turns)()}  # noqa: SLF001
            elif isinstance(one, Service):
                values |= {"_engine": None, "_loop": None, "_explainer": None}
            self._layers.put(process.process, one, values)

    @contextmanager
    def _traced(self, definition: Definition) -> Iterator[None]:
        """Have the starts and ends of a handler in the trace."""
        handler, note = definition.function, self.world.loop.note

        async def traced(**arguments: Any) -> Any:
            where, job = PROCESS.get().name, current_job()
            about = f"{where} {definition.name} job {job.id} attempt {job.attempt}"
            note(f"{about} begins {arguments}")
            try:
                result = await handler(**arguments)
            except BaseException as error:
                note(f"{about} ends with {type(error).__name__}: {error}")
                raise
            note(f"{about} ends")
            return result

        definition.function = traced
        try:
            yield
        finally:
            definition.function = handler


def _parts(app: App) -> list[Any]:
    """The objects of an app that belong to one process: those whose state changes when it is opened and used."""
    services = [one for one in vars(app).values() if isinstance(one, Service)]
    others = [one for one in (app._record_engine, app.resources) if one is not None]  # noqa: SLF001
    return [app, *services, *others]


class _Layers:
    """Attributes of shared objects that differ by simulated process.

    While :meth:`over` is entered, a process reads its own values where it has some, and writes only those.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[object, int], dict[str, Any]] = {}

    def put(self, process: object, one: object, values: dict[str, Any]) -> None:
        """Set attributes of an object for a process."""
        self._values[process, id(one)] = dict(values)

    @contextmanager
    def over(self, one: Any) -> Iterator[None]:
        """Put the layers over an object."""
        former: Any = object.__getattribute__(one, "__class__")
        values, here = self._values, id(one)

        def read(self: Any, name: str) -> Any:
            layer = values.get((PROCESS.get(None), here))
            if layer is not None and name in layer:
                return layer[name]
            return former.__getattribute__(self, name)

        def write(self: Any, name: str, value: Any) -> None:
            layer = values.get((PROCESS.get(None), here))
            if layer is None:
                former.__setattr__(self, name, value)
            else:
                layer[name] = value

        layered = type(former.__name__, (former,), {"__getattribute__": read, "__setattr__": write})
        object.__setattr__(one, "__class__", layered)
        try:
            yield
        finally:
            object.__setattr__(one, "__class__", former)
