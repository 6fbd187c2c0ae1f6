"""Notices that the event loop is blocked, names the handler that blocks it, and measures the loop's lag.

A thread asks the loop for a sign of life twice a second. While none comes, no other handler of the process goes on, no
job is fetched and none is acknowledged, so the thread logs what the loop's thread is doing, and the heartbeat, which
has a thread of its own, records it in the store for those who ask elsewhere.
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

    from interlock.ports.jobs import FetchedJob
    from interlock.telemetry.jobs import JobMetrics

__all__ = ["LoopWatch"]

_log = logging.getLogger("interlock.jobs")
_EVERY = 0.5
_BLOCKED = 1.0
_MOST_PAUSE = 60.0
_MOST_FRAMES = 20
_MOST_STOPPING = 1.0
_MOST_TEXT = 200


class LoopWatch:
    """Watches one event loop from a thread of its own, from :meth:`start` to :meth:`stop`.

    ``job_of`` gives the job whose handler runs in a task. ``report`` is called, on the watching thread, with the
    seconds that the loop has been blocked and what blocks it, and with None and an empty text when it runs again.
    """

    def __init__(
        self,
        metrics: JobMetrics,
        job_of: Callable[[asyncio.Task[Any]], FetchedJob | None],
        report: Callable[[float | None, str], None],
        *,
        every: float = _EVERY,
        blocked: float = _BLOCKED,
    ) -> None:
        self._metrics = metrics
        self._job_of = job_of
        self._report = report
        self._every = every
        self._blocked = blocked
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._lag = 0.0
        self._loop: asyncio.AbstractEventLoop
        self._loop_thread = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._watch, name="interlock-loop-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopping.set()
        self._answered.set()
        if self._thread is not None:
            self._thread.join(_MOST_STOPPING)  # a log handler that blocks may hold it up
            self._thread = None

    # -- on the watching thread --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stopping.wait(self._every):
            asked = time.monotonic()
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(self._answer, asked)
            except RuntimeError:  # the loop is closed
                return
            if self._answered.wait(self._blocked):
                if self._lag > self._blocked and not self._stopping.is_set():
                    # No thread of this process ran meanwhile: it was paused, or a handler did not release the GIL.
                    emit(_log, logging.WARNING, "process_stood_still", seconds=round(self._lag, 3))
                continue
            self._follow(asked)

    def _follow(self, asked: float) -> None:
        """Report a blocked loop at growing intervals until it runs again."""
        pause, by = self._blocked, ""
        while not self._stopping.is_set():
            seconds = time.monotonic() - asked
            job, by, stack = self._look()
            self._metrics.loop_blocked = seconds
            self._report(seconds, by)
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
            pause = min(pause * 2, _MOST_PAUSE)
        self._metrics.loop_blocked = 0.0
        self._report(None, "")
        if not self._stopping.is_set():
            emit(_log, logging.WARNING, "event_loop_recovered", seconds=round(self._lag, 3), by=by)

    def _look(self) -> tuple[FetchedJob | None, str, list[str]]:
        """The job that blocks the loop, if one does; what blocks it, in a few words; and the end of the stack."""
        task = asyncio.current_task(self._loop)
        job = None if task is None else self._job_of(task) or _job_in(task)
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        frames = [] if frame is None else traceback.extract_stack(frame)[-_MOST_FRAMES:]
        stack = [f"{at.filename}:{at.lineno} in {at.name}"[-_MOST_TEXT:] for at in frames]
        who = f"job {job.id} ({job.name})" if job is not None else "a callback" if task is None else task.get_name()
        return job, f"{who} at {stack[-1]}"[:_MOST_TEXT] if stack else who[:_MOST_TEXT], stack

    # -- on the loop -------------------------------------------------------------------------------------------------

    def _answer(self, asked: float) -> None:
        self._lag = time.monotonic() - asked
        self._metrics.loop_lag.observe(self._lag)
        self._answered.set()


def _job_in(task: asyncio.Task[Any]) -> FetchedJob | None:
    """The job whose handler started a task; Python tells from 3.12 on."""
    context = getattr(task, "get_context", None)
    current = None if context is None else context().get(CURRENT)
    return None if current is None else current.fetched
