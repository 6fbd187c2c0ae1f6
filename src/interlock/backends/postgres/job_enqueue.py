"""Enqueuing jobs: as parallel arrays, in which what jobs have in common is sent once."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.job_codes import ON_FAILURE_CODES
from interlock.backends.pacing import micros
from interlock.backends.postgres.batching import new_batcher
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.errors import UNIQUE_VIOLATION, sqlstate
from interlock.backends.postgres.queries import JobQueries
from interlock.errors import MisuseError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock.backends.postgres.pool import Pool
    from interlock.ports.jobs import NewJob
    from interlock.ports.limits import Use

__all__ = ["PART", "PART_BYTES", "Entry", "JobEnqueue", "columns", "parts"]

_sql = JobQueries()
_BULK = 25_000  # longer lists take long, and use a connection of their own
PART = 5000
PART_BYTES = 16 * 1024 * 1024


class Entry(NamedTuple):
    """Jobs that are accepted together or not at all."""

    jobs: Sequence[NewJob]
    again: bool


class JobEnqueue:
    """Enqueues jobs. ``enqueued`` is called with the queues that have new jobs."""

    def __init__(
        self,
        pool: Pool,
        wait: float,
        namespace: str,
        clock: Callable[[], float | None],
        enqueued: Callable[[Iterable[str]], None],
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        self._enqueued = enqueued
        self._entries, self._bulks = OrderedConnection(pool, wait), OrderedConnection(pool, wait)
        self._batcher = new_batcher(partial(self._accept, self._entries), wait)
        self._bulk_batcher = new_batcher(partial(self._accept, self._bulks), math.inf)

    async def ids(self, count: int) -> range:
        """Draw unique IDs."""
        ((first,),) = await self._entries.fetch(_sql.ids, max(1, count))
        return range(first, first + count)

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> None:
        """Accept jobs. Calls that come at the same time are batched; short lists do not wait for long ones."""
        if not jobs:
            return
        batcher = self._batcher if len(jobs) <= _BULK else self._bulk_batcher
        await batcher.submit(Entry(jobs, again), alone=again)

    async def close(self) -> None:
        """Wait for submitted jobs."""
        await self._batcher.close()
        await self._bulk_batcher.close()
        await self._entries.close()
        await self._bulks.close()

    async def _accept(self, connection: OrderedConnection, entries: list[Entry]) -> Sequence[Any]:
        sql = _sql.enqueue_again if entries[0].again else _sql.enqueue
        jobs = chain.from_iterable(entry.jobs for entry in entries)
        queues: set[str] = set()

        def call(part: Iterable[NewJob]) -> tuple[Any, ...]:
            named, accepted = columns(part)
            queues.update(named)
            return self._namespace, *accepted, self._clock()

        first = call(next(parts(jobs)))
        following = next(jobs, None)
        try:
            if following is None:
                await connection.fetch_here(sql, *first)
            else:
                await connection.run_each(sql, chain([first], map(call, parts(chain([following], jobs)))))
        except StoreError as error:
            if sqlstate(error) != UNIQUE_VIOLATION:
                raise
            raise MisuseError(
                f"A job with this ID was accepted before: {error}.", remedy="Use a new ID, or pass again=True."
            ) from error
        self._enqueued(queues)
        return [None] * len(entries)


def parts(jobs: Iterator[NewJob]) -> Iterator[Iterator[NewJob]]:
    """Split jobs into parts of one statement each. Read a part to its end before you ask for the next one."""
    return (chain((first,), _rest(first, jobs)) for first in jobs)


def _rest(first: NewJob, jobs: Iterator[NewJob]) -> Iterator[NewJob]:
    size = len(first.arguments)
    for job in islice(jobs, PART - 1):
        yield job
        size += len(job.arguments)
        if size >= PART_BYTES:
            return


def columns(jobs: Iterable[NewJob]) -> tuple[set[str], tuple[Any, ...]]:
    """Return the queues of these jobs, and the fields of ``interlock.new_jobs``."""
    kinds: dict[tuple[Any, ...], int] = {}
    ids: list[int] = []
    of_kind: list[int] = []
    lanes: list[str] = []
    delays: list[float] = []
    ats: list[float | None] = []
    arguments: list[str] = []
    causes: list[str] = []
    for job in jobs:
        id_, name, queue, lane, priority, delay, at, uses, on_failure, coalesce, keep_result, text, options, *rest = job
        hooks, cause = rest
        kind = (name, queue, priority, on_failure, coalesce, keep_result, options, uses, hooks)
        ids.append(id_)
        of_kind.append(kinds.setdefault(kind, len(kinds) + 1))
        lanes.append(lane)
        delays.append(delay)
        ats.append(at)
        arguments.append(text)
        causes.append(cause)
    names, queues, priorities, on_failures, coalesces, keeps, all_options, all_uses, hooks_ = zip(*kinds, strict=True)
    limits = [_limits(uses) for uses in all_uses]
    return set(queues), (
        ids,
        of_kind,
        lanes if any(lanes) else None,
        delays if any(delays) else None,
        ats if any(at is not None for at in ats) else None,
        arguments,
        names,
        queues,
        priorities,
        [ON_FAILURE_CODES[on_failure] for on_failure in on_failures],
        coalesces,
        keeps,
        all_options,
        *(list(column) for column in zip(*limits, strict=True)),
        hooks_ if any(hooks_) else None,
        causes if any(causes) else None,
    )


def _limits(uses: tuple[Use, ...]) -> tuple[str | None, int | None, int | None, str | None, bool]:
    """Return a single limit as columns, or several as JSON; and whether one of them is a rate or cooldown."""
    paced = any(use.per for use in uses)
    if len(uses) == 1:
        ((key, max_count, per),) = uses
        return key, max_count, micros(per), None, paced
    if uses:
        return None, None, None, json.dumps([[use.key, use.max_count, micros(use.per)] for use in uses]), paced
    return None, None, None, None, False
