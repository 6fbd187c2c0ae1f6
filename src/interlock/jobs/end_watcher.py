"""Waiting in this process for the ends of jobs.

A message from the store wakes the callers that wait for the job it names. Since messages are only hints, one statement
asks about all awaited jobs from time to time, and whenever a message may have been missed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.jobs import JobStore
    from interlock.store_client import StoreClient

__all__ = ["EndWatcher"]

_log = logging.getLogger("interlock.jobs")
_MAX_JOBS = 1000
_MIN_PAUSE = 0.05
_MAX_PAUSE = 2.0


class EndWatcher:
    """The callers that wait, by job. Several may wait for the same job."""

    def __init__(self, store_client: StoreClient, jobs: JobStore, watch_messages: Callable[[int], None]) -> None:
        self._store_client = store_client
        self._jobs = jobs
        self._watch_messages = watch_messages
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}
        self._unchecked: dict[int, None] = {}
        self._changed = asyncio.Event()
        self._checking: asyncio.Task[None] | None = None

    async def wait(self, job: int, seconds: float | None) -> bool:
        """Wait until a job may have ended; False if the time ran out first."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if job not in self._waiters:
            self._waiters[job] = []
            self._unchecked[job] = None
            self._changed.set()
        self._waiters[job].append(waiter)
        if self._checking is None:
            self._watch_messages(1)
            self._checking = asyncio.create_task(self._check(), name="interlock-results")
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._remove(job, waiter)
        return True

    def wake(self, job: int) -> None:
        """Wake the callers that wait for a job: it may have ended."""
        for waiter in self._waiters.get(job, ()):
            if not waiter.done():
                waiter.set_result(None)

    def wake_all(self) -> None:
        """Wake every caller."""
        for job in self._waiters:
            self.wake(job)

    def check_again(self) -> None:
        """Ask the store about all jobs: a message may have been missed, or there is a new session to send it to."""
        self._unchecked.update(dict.fromkeys(self._waiters))
        self._changed.set()

    def _remove(self, job: int, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiters[job]
        waiters.remove(waiter)
        if waiters:
            return
        del self._waiters[job]
        self._unchecked.pop(job, None)
        if not self._waiters and self._checking is not None:
            self._checking.cancel()
            self._checking = None
            self._watch_messages(-1)

    async def _check(self) -> None:
        recheck = self._store_client.settings.recheck_interval
        pause = _MIN_PAUSE
        while True:
            if not self._unchecked:
                self._changed.clear()
                try:
                    async with asyncio.timeout(recheck):
                        await self._changed.wait()
                except TimeoutError:
                    self.check_again()
            ids = list(self._unchecked)[:_MAX_JOBS]
            for job in ids:
                del self._unchecked[job]
            if await self._check_jobs(ids):
                pause = _MIN_PAUSE
            else:
                self._unchecked.update((job, None) for job in ids if job in self._waiters)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)

    async def _check_jobs(self, ids: Sequence[int]) -> bool:
        try:
            ended = await self._jobs.watch_end(self._store_client.session.id, ids)
        except Exception as error:  # noqa: BLE001 - the callers need the next check, whatever the error
            emit(_log, logging.WARNING, "result_check_failed", error=repr(error))
            return False
        for job in ended:
            self.wake(job)
        return True
