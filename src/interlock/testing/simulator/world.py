"""A world in which the real engine runs: one store, several processes, one virtual clock, all decided by a seed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, TypeVar

from interlock.backends.memory import MemoryStore
from interlock.claims import Claims
from interlock.cursors import Cursors
from interlock.jobs import Jobs
from interlock.limits import Limits
from interlock.locks import Locks
from interlock.records import Records
from interlock.records.engine import RecordEngine
from interlock.settings import Settings
from interlock.store_client import StoreClient
from interlock.testing.simulator.faults import Dice, Faults
from interlock.testing.simulator.faulty_store import FaultyStore
from interlock.testing.simulator.history import CrashedAt, History, Odd, PausedAt
from interlock.testing.simulator.loop import SeededLoop
from interlock.testing.simulator.watcher import ProcessWatcher
from interlock.testing.simulator.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pydantic import BaseModel

    from interlock.clock import Clock
    from interlock.ports.store import Store
    from interlock.testing.simulator.processes import Process

__all__ = ["SimulatedProcess", "VirtualClock", "World"]

T = TypeVar("T")
M = TypeVar("M", bound="BaseModel")
_EPOCH = 1_000_000.0  # small enough for floats to distinguish nanoseconds


class VirtualClock:
    """The loop's virtual time, for both of Interlock's clocks."""

    def __init__(self, loop: SeededLoop, epoch: float = _EPOCH) -> None:
        self._time = loop.time
        self._epoch = epoch

    def monotonic(self) -> float:
        """Virtual seconds, the same in every process."""
        return self._epoch + self._time()

    now = monotonic


class SimulatedProcess:
    """A process with engines of its own, which share one store_client as those of an App do.

    Created by :meth:`World.spawn`.
    """

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.name = process.name
        self.process = process
        self.dice = Dice(world.faults, f"interlock/{world.seed}/faults/{process.name}", world.fault_counts)
        wire = Wire(world.loop, process, self.dice, pause=self._pause, crash=self._crash)
        self.store = FaultyStore(world.store, wire, ProcessWatcher(world.history, process.name))
        store_client = StoreClient(self.store, world.settings, world.clock)
        self.locks = world.make_locks(store_client)
        self.claims = world.make_claims(store_client)
        self.limits = world.make_limits(store_client)
        self.cursors = world.make_cursors(store_client)
        self.store_client = store_client
        self._jobs: Jobs | None = None
        self._record_engine: RecordEngine | None = None
        self.tasks: list[asyncio.Task[Any]] = []

    @property
    def jobs(self) -> Jobs:
        """Its jobs, in the same store_client."""
        if self._jobs is None:
            self._jobs = Jobs(self.store_client)
        return self._jobs

    def records(self, model: type[M], **options: Any) -> Records[M]:
        """Its records of a model, with its locks. The options are those of ``app.records()``."""
        if self._record_engine is None:
            self._record_engine = RecordEngine(self.store_client, self.locks)
        return Records(self._record_engine, model, **options)

    @property
    def alive(self) -> bool:
        """Whether it is alive."""
        return not self.process.crashed

    @property
    def paused(self) -> bool:
        """Whether it is suspended."""
        return self.alive and self.process.paused_until > self.world.loop.time()

    @property
    def idle(self) -> bool:
        """Whether nothing that was started in it is still running. A killed process is idle."""
        return not self.alive or all(task.done() for task in self.tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine in this process. Do not await the task from outside: the process may be killed."""
        task = self.world.loop.create_task(work, name=name, context=self.process.context())
        self.tasks.append(task)
        return task

    def pause(self, seconds: float) -> None:
        """Send SIGSTOP, and SIGCONT after the given number of seconds."""
        self._pause(self.process, seconds)

    def crash(self) -> None:
        """SIGKILL."""
        self._crash(self.process)

    def _pause(self, process: Process, seconds: float) -> None:
        if not process.crashed:
            now = self.world.clock.now()
            self.world.history.add(PausedAt(now, self.name, now + seconds))
            self.world.loop.pause(process, seconds)

    def _crash(self, process: Process) -> None:
        if not process.crashed:
            self.world.history.add(CrashedAt(self.world.clock.now(), self.name))
            self.world.loop.crash(process)


class World:
    """Everything that a simulated run consists of.

    ``make_store`` and the other ``make_…`` replace the store, made with the virtual clock, and the parts under test.
    """

    def __init__(
        self,
        seed: int,
        *,
        faults: Faults | None = None,
        settings: Settings | None = None,
        make_store: Callable[[Clock], Store] = MemoryStore,
        make_locks: Callable[[StoreClient], Locks] = Locks,
        make_claims: Callable[[StoreClient], Claims] = Claims,
        make_limits: Callable[[StoreClient], Limits] = Limits,
        make_cursors: Callable[[StoreClient], Cursors] = Cursors,
        jitter: float = 0.0001,
        max_seconds: float = 3600.0,
        max_steps: int = 1_000_000,
        logs: bool = False,
    ) -> None:
        self.seed = seed
        self.faults = faults or Faults()
        self.settings = settings or Settings(stuck_work="report")
        self.random = Random(f"interlock/{seed}/workload")
        """Randomness for the workload, separate from that of the network and the scheduler."""
        self.loop = SeededLoop(seed, jitter=jitter, max_seconds=max_seconds, max_steps=max_steps)
        self.clock = VirtualClock(self.loop)
        self.store = make_store(self.clock)
        self.make_locks = make_locks
        self.make_claims = make_claims
        self.make_limits = make_limits
        self.make_cursors = make_cursors
        self.history = History(self.loop, self.clock)
        self.fault_counts: Counter[str] = Counter()
        """The faults that really happened, with their counts."""
        self.processes: list[SimulatedProcess] = []
        self._logs = logs

    def spawn(self, name: str | None = None) -> SimulatedProcess:
        """Create a process. Open its ``locks`` and other concepts inside it."""
        process = SimulatedProcess(self, self.loop.new_process(name or f"p{len(self.processes) + 1}"))
        self.processes.append(process)
        return process

    def heal(self) -> None:
        """End all faults from here on."""
        self.faults = self.faults.calmed()
        for process in self.processes:
            process.dice.faults = self.faults

    async def until(self, condition: Callable[[], bool], within: float, *, every: float = 0.25) -> bool:
        """Advance virtual time until the condition holds; False if it does not hold in time."""
        give_up = self.loop.time() + within
        while not condition():
            if self.loop.time() >= give_up:
                return False
            await asyncio.sleep(every)
        return True

    def run(self, main: Callable[[World], Coroutine[Any, Any, T]]) -> T:
        """Run the main coroutine to its end. A world runs once."""
        logger = logging.getLogger("interlock")
        level = logger.level
        if not self._logs:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            result = self.loop.run_until_complete(main(self))
            for complaint in self.loop.complaints:
                text = f"{complaint.get('message')} {complaint.get('exception')!r}"
                self.history.add(Odd(self.clock.now(), "world", text))
            return result
        finally:
            self.loop.close()
            logger.setLevel(level)
