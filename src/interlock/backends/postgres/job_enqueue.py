"""Enqueuing jobs: as parallel arrays, in which what jobs have in common is sent once."""

from __future__ import annotations

import contextlib
import json
import math
import zlib
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.composition import KEY_CONFLICT_REMEDY, UNKNOWN_NEED_REMEDY, any_keys, unknown_need
from interlock.backends.job_codes import IF_FAILED_CODES, ON_FAILURE_CODES
from interlock.backends.pacing import micros
from interlock.backends.postgres.batching import new_batcher
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.errors import UNIQUE_VIOLATION, sqlstate
from interlock.backends.postgres.queries import JobQueries
from interlock.errors import InvalidArgumentError, KeyConflictError, MisuseError, NotFoundError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from interlock.backends.postgres.pool import Pool
    from interlock.ports.jobs import NewJob
    from interlock.ports.limits import Use

__all__ = ["PART", "PART_BYTES", "Entry", "JobEnqueue", "check_keyed", "columns", "parts", "refused"]

_sql = JobQueries()
_BULK = 25_000  # longer lists take long, and use a connection of their own
PART = 5000
PART_BYTES = 16 * 1024 * 1024
_KEYED = 4  # connections for calls with keys
_UNKNOWN_NEED = "IL002"  # what job_enqueue_after raises
_KEY_CONFLICT = "IL003"  # what job_take_keys raises


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
        # A key may wait for a transaction of somebody else, and the others need not wait with it.
        self._keyed = [OrderedConnection(pool, wait) for _ in range(_KEYED)]
        self._batcher = new_batcher(partial(self._accept, self._entries), wait)
        self._bulk_batcher = new_batcher(partial(self._accept, self._bulks), math.inf)

    async def ids(self, count: int) -> range:
        """Draw unique IDs."""
        ((first,),) = await self._entries.fetch(_sql.ids, max(1, count))
        return range(first, first + count)

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> Mapping[int, int]:
        """Accept jobs. Calls that come at the same time are batched; short lists do not wait for long ones.

        A call with keys may have to wait for another transaction, and has a statement and a connection of its own.
        """
        if not jobs:
            return {}
        if any_keys(jobs):
            return await self._enqueue_keyed(jobs, again=again)
        batcher = self._batcher if len(jobs) <= _BULK else self._bulk_batcher
        await batcher.submit(Entry(jobs, again), alone=again)
        return {}

    async def _enqueue_keyed(self, jobs: Sequence[NewJob], *, again: bool) -> Mapping[int, int]:
        check_keyed(jobs)
        queues, accepted = columns(jobs)
        with _refusals():
            connection = self._keyed[zlib.crc32(min(job.key for job in jobs if job.key).encode()) % _KEYED]
            ((holders,),) = await connection.fetch(_sql.enqueue_keyed, self._namespace, *accepted, again, self._clock())
        self._enqueued(queues)
        held = zip(jobs, holders, strict=True)
        return {job.id: holder for job, holder in held if holder is not None and holder != job.id}

    async def close(self) -> None:
        """Wait for submitted jobs."""
        await self._batcher.close()
        await self._bulk_batcher.close()
        await self._entries.close()
        await self._bulks.close()
        for connection in self._keyed:
            await connection.close()

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
        with _refusals():
            if following is None:
                await connection.fetch_here(sql, *first)
            else:
                await connection.run_each(sql, chain([first], map(call, parts(chain([following], jobs)))))
        self._enqueued(queues)
        return [None] * len(entries)


def check_keyed(jobs: Sequence[NewJob]) -> None:
    """Raise an error if jobs with keys do not fit into one statement, which takes all keys in order."""
    if len(jobs) > PART or sum(len(job.arguments) for job in jobs) > PART_BYTES:
        raise InvalidArgumentError(
            f"{len(jobs):,} jobs with keys are too many for one call.",
            remedy=f"Enqueue at most {PART:,} at once, with at most {PART_BYTES // 2**20} MB of arguments.",
        )


@contextlib.contextmanager
def _refusals() -> Generator[None]:
    """Translate what the functions raise if they cannot accept jobs."""
    try:
        yield
    except StoreError as error:
        refusal = refused(sqlstate(error), str(error.__cause__))
        if refusal is None:
            raise
        raise refusal from error


def refused(code: str | None, message: str) -> MisuseError | NotFoundError | None:
    """Return the error for an SQLSTATE of ``interlock.job_enqueue`` and its kin; None if it is another one."""
    message = message.partition("\n")[0]
    message = f"{message[:1].upper()}{message[1:]}"
    if code == UNIQUE_VIOLATION:
        return MisuseError(
            f"A job with this ID was accepted before: {message}.", remedy="Use a new ID, or pass again=True."
        )
    if code == _UNKNOWN_NEED:
        return NotFoundError(f"{message}.", remedy=UNKNOWN_NEED_REMEDY)
    if code == _KEY_CONFLICT:
        return KeyConflictError(f"{message}.", remedy=KEY_CONFLICT_REMEDY)
    return None


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
    composed: dict[int, NewJob] = {}
    for job in jobs:
        (
            id_, name, queue, lane, priority, delay, at, uses, on_failure, coalesce, keep_result, text, options, hooks,
            cause, key, _, after, _, expires, expires_at,
        ) = job  # fmt: skip
        if key or after or expires is not None or expires_at is not None:
            composed[len(ids)] = job
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
        *_composition(composed, len(ids)),
    )


def _composition(composed: Mapping[int, NewJob], count: int) -> Iterator[list[Any] | None]:
    """Yield the columns of keys, of jobs to wait for, and of expiry, each None if no job has any."""
    later = {job.id for job in composed.values() if job.after}
    for job in composed.values():
        for needs in job.after:
            if needs in later:
                raise unknown_need(job.id, needs)
        later.discard(job.id)
    fields: tuple[Callable[[NewJob], Any], ...] = (
        lambda job: job.key or None,
        lambda job: job.keep_key if job.key else None,
        lambda job: f"{{{','.join(map(str, job.after))}}}" if job.after else None,
        lambda job: IF_FAILED_CODES[job.if_failed] if job.after else None,
        lambda job: job.expires,
        lambda job: job.expires_at,
    )
    for field in fields:
        values = {place: value for place, job in composed.items() if (value := field(job)) is not None}
        yield [values.get(place) for place in range(count)] if values else None


def _limits(uses: tuple[Use, ...]) -> tuple[str | None, int | None, int | None, str | None, bool]:
    """Return a single limit as columns, or several as JSON; and whether one of them is a rate or cooldown."""
    paced = any(use.per for use in uses)
    if len(uses) == 1:
        ((key, max_count, per),) = uses
        return key, max_count, micros(per), None, paced
    if uses:
        return None, None, None, json.dumps([[use.key, use.max_count, micros(use.per)] for use in uses]), paced
    return None, None, None, None, False
