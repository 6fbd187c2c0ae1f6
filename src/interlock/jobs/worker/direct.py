"""Runs jobs that callers in this process asked for, so that they need no worker.

A direct worker has the parts of every worker: runners, a completer, a watchdog. Only its fetcher differs: it takes the
first jobs of the lanes that callers have asked it to serve, and nothing else. So a caller's job keeps its place behind
the jobs before it, and a run that a dead process left at the head of the lane is continued first.
"""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.jobs.worker.fetcher import Fetcher
from interlock.jobs.worker.worker import Worker
from interlock.ports.jobs import FetchRequest

if TYPE_CHECKING:
    from collections.abc import Generator

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.coordinator import Coordinator
    from interlock.jobs.worker.runner_pool import RunnerPool
    from interlock.jobs.worker.wakeup import FetchSignal
    from interlock.sessions import Session

__all__ = ["DirectWorker", "direct_worker_of", "finish_unused"]


def direct_worker_of(engine: JobEngine, queue: str) -> DirectWorker:
    """The open direct worker of an engine for the jobs of a queue."""
    worker = engine.direct_workers.get(queue)
    if not isinstance(worker, DirectWorker) or not worker.is_working:
        worker = engine.direct_workers[queue] = DirectWorker(engine, queue)
        # Not in the context of the caller that happens to be the first: its edits are not those of other callers.
        contextvars.Context().run(worker.open)
    return worker


async def finish_unused(engine: JobEngine) -> None:
    """Finish the direct workers that serve no caller. One may still have a job that it fetched for a caller."""
    for worker in [*engine.direct_workers.values()]:
        if isinstance(worker, DirectWorker) and not worker.is_wanted:
            await worker.finish()


class DirectWorker(Worker):
    """Serves the lanes that callers want, from :meth:`open` until the engine closes."""

    _serves_queues = False
    _lane_fetcher: DirectFetcher

    def __init__(self, engine: JobEngine, queue: str) -> None:
        super().__init__(engine, concurrency=1, queues=(queue,))

    @property
    def is_wanted(self) -> bool:
        """Whether it serves a lane for any caller."""
        return self._lane_fetcher.is_wanted

    @contextmanager
    def serving(self, lane: str) -> Generator[asyncio.Future[None]]:
        """Run the first jobs of a lane while the block runs.

        Yields a future that is done once the lane was asked for: what could start by then has been fetched.
        """
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lane_fetcher.want(lane, asked)
        try:
            yield asked
        finally:
            self._lane_fetcher.unwant(lane, asked)

    def _new_fetcher(self, signal: FetchSignal) -> DirectFetcher:
        self._lane_fetcher = DirectFetcher(self._engine, self._pool, self._coordinator, signal, self.queues)
        return self._lane_fetcher

    def _join(self) -> None:
        """Do not count as a worker: this process serves no queue."""

    def _part(self) -> None:
        for queue in self.queues:
            if self._engine.direct_workers.get(queue) is self:
                del self._engine.direct_workers[queue]


class DirectFetcher(Fetcher):
    """Fetches the first jobs of the wanted lanes, of all of them at once."""

    def __init__(
        self,
        engine: JobEngine,
        pool: RunnerPool,
        coordinator: Coordinator,
        signal: FetchSignal,
        queues: tuple[str, ...],
    ) -> None:
        super().__init__(engine, pool, coordinator, signal)
        self._queues = queues
        self._wanted: dict[str, list[asyncio.Future[None]]] = {}

    @property
    def is_wanted(self) -> bool:
        """Whether any caller wants a lane."""
        return bool(self._wanted)

    def want(self, lane: str, asked: asyncio.Future[None]) -> None:
        """Serve a lane for one more caller."""
        self._wanted.setdefault(lane, []).append(asked)
        self._signal.announce()

    def unwant(self, lane: str, asked: asyncio.Future[None]) -> None:
        """End the service for one caller."""
        callers = self._wanted[lane]
        callers.remove(asked)
        if not callers:
            del self._wanted[lane]

    async def _round(self, session: Session) -> None:
        """Fetch if a caller wants something and there may be news; otherwise wait for either."""
        await self._coordinator.prepare_fetch(session)
        if session.lost:
            return
        signal, now = self._signal, self._pool.monotonic()
        self._note_poll(now)
        if self._wanted and signal.pending and not self._completer.full and not self._completer.failing:
            callers = [asked for waiting in self._wanted.values() for asked in waiting]
            # A lane has at most one running job, so each lane may need one runner.
            self._pool.grow(len(self._pool.running) + len(self._wanted))
            # One more than there are lanes: the fetch always finds less than it asks for, and waits for news.
            await self._fetch(session, len(self._wanted) + 1, len(self._wanted) + 1, 0)
            for asked in callers:
                if not asked.done():
                    asked.set_result(None)
            return
        recheck = self._engine.settings.recheck_interval
        await signal.wait(min(recheck, self._poll_at - now) if self._wanted else self._poll_at - now)

    def _request(self, session: Session, limit: int, startable: int, within: float) -> FetchRequest:
        names = tuple(sorted(self._engine.direct_names))
        lanes = tuple(self._wanted)
        return FetchRequest(session.id, self._queues, names, limit, startable, 1, start_within=within, lanes=lanes)
