"""Notices that the event loop is blocked, names the handler that blocks it, and measures the loop's lag.

A thread pings the loop twice a second. While the loop does not answer, no other handler of the process advances and no
job is fetched or acknowledged. So the thread logs what the loop's thread is doing, and the heartbeat, which has its own
thread, records it in the store for those who ask elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from interlock.jobs.current import CURRENT
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.jobs.engine import JobEngine
    from interlock.ports.jobs import FetchedJob

__all__ = ["LoopMonitor"]

_log = logging.getLogger("interlock.jobs")
_INTERVAL = 0.5
_BLOCKED = 1.0
_MAX_PAUSE = 60.0
_MAX_FRAMES = 20
_MAX_STOPPING = 1.0
_MAX_TEXT = 200


class LoopMonitor:
    """Monitors one event loop from its own thread, from :meth:`start` to :meth:`stop`."""

    def __init__(self, engine: JobEngine, job_of: Callable[[asyncio.Task[Any]], FetchedJob | None]) -> None:
        self._metrics = engine.metrics
        self._keeper = engine.store_client.keeper
        self._job_of = job_of
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._lag = 0.0
        self._loop: asyncio.AbstractEventLoop
        self._loop_thread = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Monitor the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._monitor, name="interlock-loop-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop monitoring."""
        self._stopping.set()
        self._answered.set()
        if self._thread is not None:
            self._thread.join(_MAX_STOPPING)  # a log handler that blocks may delay it
            self._thread = None

    # -- on the monitoring thread ------------------------------------------------------------------------------------

    def _monitor(self) -> None:
        while not self._stopping.wait(_INTERVAL):
            asked = time.monotonic()
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(self._answer, asked)
            except RuntimeError:  # the loop is closed
                return
            if self._answered.wait(_BLOCKED):
                if self._lag > _BLOCKED and not self._stopping.is_set():
                    # No thread of this process ran meanwhile: it was paused, or a handler did not release the GIL.
                    emit(_log, logging.WARNING, "process_stood_still", seconds=round(self._lag, 3))
                continue
            self._follow(asked)

    def _follow(self, asked: float) -> None:
        """Report a blocked loop at growing intervals until it runs again."""
        pause, by = _BLOCKED, ""
        while not self._stopping.is_set():
            seconds = time.monotonic() - asked
            job, by, stack = self._inspect()
            self._metrics.loop_blocked = seconds
            self._keeper.note_blocked(seconds, by)
            emit(
                _log,
                logging.WARNING,
                "event_loop_blocked",
                seconds=round(seconds, 3),
                id=None if job is None else job.id,
                job=None if job is None else job.name,
                by=by,
                stack=stack,
            )
            if self._answered.wait(pause):
                break
            pause = min(pause * 2, _MAX_PAUSE)
        self._metrics.loop_blocked = 0.0
        self._keeper.note_blocked(None, "")
        if not self._stopping.is_set():
            emit(_log, logging.WARNING, "event_loop_recovered", seconds=round(self._lag, 3), by=by)

    def _inspect(self) -> tuple[FetchedJob | None, str, list[str]]:
        """The job that blocks the loop, if a job does; a short description of what blocks it; and the stack."""
        task = asyncio.current_task(self._loop)
        job = None if task is None else self._job_of(task) or _job_in(task)
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        frames = [] if frame is None else traceback.extract_stack(frame)[-_MAX_FRAMES:]
        stack = [f"{at.filename}:{at.lineno} in {at.name}"[-_MAX_TEXT:] for at in frames]
        by = f"job {job.id} ({job.name})" if job is not None else "a callback" if task is None else task.get_name()
        return job, f"{by} at {stack[-1]}"[:_MAX_TEXT] if stack else by[:_MAX_TEXT], stack

    # -- on the loop -------------------------------------------------------------------------------------------------

    def _answer(self, asked: float) -> None:
        self._lag = time.monotonic() - asked
        self._metrics.loop_lag.observe(self._lag)
        self._answered.set()


def _job_in(task: asyncio.Task[Any]) -> FetchedJob | None:
    """The job whose handler started a task; known from Python 3.12 on."""
    context = getattr(task, "get_context", None)
    current = None if context is None else context().get(CURRENT)
    return None if current is None else current.fetched
