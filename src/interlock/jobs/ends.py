"""Who in this process waits for the end of which job.

A message from the store wakes those who wait for the job it names. As messages are only hints, one statement asks for
all of them now and then, and whenever a message may have been missed.
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

__all__ = ["Ends"]

_log = logging.getLogger("interlock.jobs")
_MOST_AT_ONCE = 1000
_LEAST_PAUSE = 0.05
_MOST_PAUSE = 2.0


class Ends:
    """Those who wait, by job. Several may wait for one."""

    def __init__(self, store_client: StoreClient, jobs: JobStore, look_out: Callable[[int], None]) -> None:
        self._store_client = store_client
        self._jobs = jobs
        self._look_out_for = look_out
        self._sleepers: dict[int, list[asyncio.Future[None]]] = {}
        self._unasked: dict[int, None] = {}
        self._moved = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    async def wait(self, job: int, seconds: float | None) -> bool:
        """Sleep until a job may have ended; False if the time to wait ran out first."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if job not in self._sleepers:
            self._sleepers[job] = []
            self._unasked[job] = None
            self._moved.set()
        self._sleepers[job].append(sleeper)
        if self._asking is None:
            self._look_out_for(1)
            self._asking = asyncio.create_task(self._ask(), name="interlock-results")
        try:
            async with asyncio.timeout(seconds):
                await sleeper
        except TimeoutError:
            return False
        finally:
            self._forget(job, sleeper)
        return True

    def call(self, job: int) -> None:
        """A job may have ended."""
        for sleeper in self._sleepers.get(job, ()):
            if not sleeper.done():
                sleeper.set_result(None)

    def call_all(self) -> None:
        """Let everybody see for themselves."""
        for job in self._sleepers:
            self.call(job)

    def ask_again(self) -> None:
        """A message may have been missed, or the session that would get it is another now."""
        self._unasked.update(dict.fromkeys(self._sleepers))
        self._moved.set()

    def _forget(self, job: int, sleeper: asyncio.Future[None]) -> None:
        sleepers = self._sleepers[job]
        sleepers.remove(sleeper)
        if sleepers:
            return
        del self._sleepers[job]
        self._unasked.pop(job, None)
        if not self._sleepers and self._asking is not None:
            self._asking.cancel()
            self._asking = None
            self._look_out_for(-1)

    async def _ask(self) -> None:
        recheck = self._store_client.settings.recheck_seconds
        pause = _LEAST_PAUSE
        while True:
            if not self._unasked:
                self._moved.clear()
                try:
                    async with asyncio.timeout(recheck):
                        await self._moved.wait()
                except TimeoutError:
                    self.ask_again()
            ids = list(self._unasked)[:_MOST_AT_ONCE]
            for job in ids:
                del self._unasked[job]
            if await self._ask_for(ids):
                pause = _LEAST_PAUSE
            else:
                self._unasked.update((job, None) for job in ids if job in self._sleepers)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MOST_PAUSE)

    async def _ask_for(self, ids: Sequence[int]) -> bool:
        try:
            ended = await self._jobs.watch_end(self._store_client.session.id, ids)
        except Exception as error:  # noqa: BLE001 - whatever it was, those who wait need the next look
            emit(_log, logging.WARNING, "result_look_failed", error=repr(error))
            return False
        for job in ended:
            self.call(job)
        return True
