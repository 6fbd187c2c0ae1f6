"""A deterministic event loop: a seed decides everything that is left to chance in reality.

Time is virtual: when nothing is ready, it jumps to the next timer. Callbacks belong to simulated processes. Within a
process they run first in, first out, as asyncio guarantees; which process runs next is random. A process can be
suspended (SIGSTOP) or killed between two steps (``kill -9``). The same seed produces the same run.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
from collections import deque
from contextlib import suppress
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast

from interlock.testing.simulator.errors import SimulationOverrunError, SimulationStuckError
from interlock.testing.simulator.handles import Handle
from interlock.testing.simulator.processes import PROCESS, Process

if TYPE_CHECKING:
    from asyncio import BaseEventLoop as EventLoop  # the stubs leave everything abstract in the class below
    from collections.abc import Awaitable, Callable, Coroutine, Generator
else:
    from asyncio import AbstractEventLoop as EventLoop

__all__ = ["SeededLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_JITTER_CHANCE = 0.1
_PRUNE_AT = 64


class SeededLoop(EventLoop):
    """A deterministic event loop without a network, threads or real time.

    ``jitter`` lets up to this many seconds pass after some of the steps; otherwise, steps take no time.
    ``trace`` keeps the last labeled events (:meth:`note`); :attr:`digest` covers all of them, and every decision.
    """

    def __init__(
        self,
        seed: int,
        *,
        jitter: float = 0.0,
        max_steps: int = 1_000_000,
        max_seconds: float = 86_400.0,
        trace_size: int = 400,
    ) -> None:
        self.seed = seed
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=trace_size)
        self.complaints: list[dict[str, Any]] = []
        """Reports of asyncio to the exception handler, such as task errors that were never retrieved."""
        self._draw = Random(f"interlock/{seed}/schedule").random
        self._jitter = jitter
        self._max_steps = max_steps
        self._max_seconds = max_seconds
        self._now = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._timer_count = 0
        self._task_count = 0
        self._decisions = bytearray()
        self._hash = hashlib.blake2b(digest_size=16)
        self._debug = False
        self._running = self._stopping = self._closed = False
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._task_factory: Any = None
        self.world = Process("world", 0)
        """The process of all other callbacks: the network, the store, the main coroutine."""
        self._active = [self.world]
        self._all = [self.world]

    # -- simulated processes ---------------------------------------------------------------------------------------

    def new_process(self, name: str) -> Process:
        """Add a process. Everything that runs in its :meth:`Process.context` belongs to it."""
        process = Process(name, len(self._all))
        self._all.append(process)
        self._active.append(process)
        return process

    def current_process(self) -> Process:
        """The process whose callback is running."""
        return PROCESS.get(self.world)

    def pause(self, process: Process, seconds: float) -> None:
        """Suspend the process for a while: its callbacks and timers accumulate."""
        process.paused_until = max(process.paused_until, self._now + seconds)
        self.call_at(process.paused_until, _nothing, context=self.world.context())

    def crash(self, process: Process) -> None:
        """Kill the process: nothing of it runs again, not even ``finally`` blocks."""
        if not process.crashed and process is not self.world:
            process.crashed = True
            process.queue.clear()
            self._active.remove(process)

    # -- what happened ---------------------------------------------------------------------------------------------

    def note(self, label: str) -> None:
        """Add a labeled event to the trace and the digest."""
        line = f"{self._now:.6f} {label}"
        self.trace.append(line)
        self._hash.update(line.encode())

    @property
    def digest(self) -> str:
        """A hash of every scheduling decision and labeled event so far: equal for equal runs."""
        self._fold()
        return self._hash.copy().hexdigest()

    def _fold(self) -> None:
        self._hash.update(self._decisions)
        self._decisions.clear()

    # -- running ---------------------------------------------------------------------------------------------------

    def run_forever(self) -> None:
        """Run until :meth:`stop` is called."""
        self._enter()
        try:
            while not self._stopping:
                self._step()
        finally:
            self._leave()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until the future or coroutine is done."""
        main = asyncio.ensure_future(cast("Awaitable[T]", future), loop=self)
        self._enter()
        try:
            while not main.done():
                self._step()
        finally:
            self._leave()
        return main.result()

    def _enter(self) -> None:
        if self._closed:
            raise RuntimeError("This loop is closed.")
        if self._running or asyncio._get_running_loop() is not None:  # noqa: SLF001 - asyncio's door for event loops
            raise RuntimeError("A loop is already running.")
        asyncio._set_running_loop(self)  # noqa: SLF001
        self._running = True
        self._stopping = False

    def _leave(self) -> None:
        self._running = False
        asyncio._set_running_loop(None)  # noqa: SLF001

    def _step(self) -> None:
        """Run one callback of one process, or advance time to the next timer."""
        now = self._now
        timers = self._timers
        if timers and timers[0][0] <= now:
            self._ring()
        ready = [process for process in self._active if process.queue and process.paused_until <= now]
        if not ready:
            self._jump()
            return
        count = len(ready)
        process = ready[0] if count == 1 else ready[int(self._draw() * count)]
        self._decisions.append(process.number & 0xFF)
        self.steps += 1
        if self.steps > self._max_steps:
            raise SimulationOverrunError(f"More than {self._max_steps} steps were taken.", self.seed)
        handle = process.queue.popleft()
        if not handle.dropped:
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio does: reported, and the loop goes on
                self.call_exception_handler({"message": f"Exception in {handle!r}", "exception": error})
        if self._jitter and self._draw() < _JITTER_CHANCE:
            self._now += self._draw() * self._jitter

    def _jump(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].dropped or timers[0][2].process.crashed):
            heapq.heappop(timers)
        if not timers:
            raise SimulationStuckError("Nothing is ready and no timer is set, but the run has not ended.", self.seed)
        self._now = max(self._now, timers[0][0])
        if self._now > self._max_seconds:
            raise SimulationOverrunError(f"More than {self._max_seconds:g} virtual seconds passed.", self.seed)
        self._fold()
        self._ring()

    def _ring(self) -> None:
        """Move due timers to the queues of their processes, in order of time."""
        timers = self._timers
        now = self._now
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            if not handle.dropped and not handle.process.crashed:
                handle.process.queue.append(handle)

    def stop(self) -> None:
        """End :meth:`run_forever` after the running callback."""
        self._stopping = True

    def is_running(self) -> bool:
        """Whether the loop is running."""
        return self._running

    def is_closed(self) -> bool:
        """Whether the loop was closed."""
        return self._closed

    def close(self) -> None:
        """Clean up tasks that never ended. Nothing that they still do has an effect."""
        if self._running:
            raise RuntimeError("A running loop cannot be closed.")
        if self._closed:
            return
        for process in self._all:
            process.tasks = [task for task in process.tasks if not task.done()]
        self._closed = True
        self._timers.clear()
        asyncio._set_running_loop(self)  # noqa: SLF001 - for code in `finally` blocks that asks for the loop
        try:
            for process in self._all:
                process.queue.clear()
                process.crashed = True
                for task in process.tasks:
                    _bury(task)
                process.tasks.clear()
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: asynchronous generators are not tracked."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: the loop has no executor."""

    # -- callbacks and timers --------------------------------------------------------------------------------------

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> Handle:
        """Queue a callback in the process that its context belongs to."""
        if context is None:
            context = copy_context()
        process = context.get(PROCESS, self.world)
        handle = Handle(self._now, callback, args, context, process)
        if not process.crashed and not self._closed:
            process.queue.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """The same as :meth:`call_soon`: the loop has no threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """Queue a callback after the given number of virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """Queue a callback at a virtual time."""
        if context is None:
            context = copy_context()
        handle = Handle(when, callback, args, context, context.get(PROCESS, self.world))
        if not self._closed:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._now

    # -- futures and tasks -----------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """A task of the process that its context belongs to."""
        self._task_count += 1
        name = f"task-{self._task_count}" if name is None else str(name)
        if self._task_factory is not None:
            task: asyncio.Task[T] = self._task_factory(self, coro, context=context, **options)
        else:
            task = asyncio.Task(cast("Coroutine[Any, Any, T]", coro), loop=self, name=name, context=context)
        if self._closed:
            coro.close()
            return task
        process = (context or copy_context()).get(PROCESS, self.world)
        # Keep a reference, so that garbage collection does not finalize, and so resume, coroutines of a killed process.
        process.tasks.append(task)
        if len(process.tasks) % _PRUNE_AT == 0:
            process.tasks = [known for known in process.tasks if not known.done()]
        return task

    def set_task_factory(self, factory: Any) -> None:
        """Set a task factory."""
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        """The task factory that was set, if any."""
        return self._task_factory

    # -- errors ----------------------------------------------------------------------------------------------------

    def get_debug(self) -> bool:
        """Whether asyncio's debug mode is on."""
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        """Turn asyncio's debug mode on or off."""
        self._debug = enabled

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        """The handler that was set, if any."""
        return self._handler

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        """Set a handler for errors that reached the loop."""
        self._handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep the report for the check of the run."""
        self.complaints.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass a report on, except for those about leftovers of a closed loop."""
        if self._closed:
            return
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)


def _bury(task: asyncio.Task[Any]) -> None:
    """Unwind a task that never ended. Its ``finally`` blocks run now, when they can no longer change anything.

    From the inside out: a coroutine that awaits again in a ``finally`` block is closed again, as often as needed.
    """
    for _ in range(1000):
        innermost: Any = None
        waits_for: Any = task.get_coro()
        while getattr(waits_for, "cr_frame", None) is not None:
            innermost, waits_for = waits_for, waits_for.cr_await
        if innermost is None:
            return
        with suppress(BaseException):  # its error has no recipient
            innermost.close()


def _nothing() -> None:
    """Sets a timer and does nothing else."""
