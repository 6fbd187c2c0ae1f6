"""Jobs as rows. Each operation calls one function in the database: one round trip."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from interlock.backends.handler_versions import encode_versions
from interlock.backends.job_codes import OUTCOME_CODES
from interlock.backends.pacing import micros
from interlock.backends.postgres.batching import new_batcher
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.errors import LOCK_NOT_AVAILABLE, UNIQUE_VIOLATION, sqlstate
from interlock.backends.postgres.job_enqueue import Entry, columns, parts
from interlock.backends.postgres.job_vacuum import JobVacuum
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import JobQueries
from interlock.backends.postgres.ready_notifications import ReadyNotifications
from interlock.backends.postgres.scan_positions import LOWEST, ScanPositions
from interlock.errors import MisuseError, StoreError, StoreUnavailableError
from interlock.ports.jobs import (
    MAX_CRASHES,
    Acknowledged,
    FetchedJob,
    FetchResult,
    JobState,
    Outcome,
    Rescued,
    SessionEnded,
)
from interlock.ports.leases import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from interlock.backends.postgres.messages import PostgresMessages
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.jobs import Acknowledgement, FetchRequest, HandlerVersion, NewJob
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["PostgresJobs"]

_sql = JobQueries()
# The same fetch after unreadable jobs were made ready, and before those are set aside again that it did not take. The
# scan positions come from the first function, so that it runs before the fetch.
_FETCH_UNREADABLE = f"""
with offered as materialized (select * from interlock.job_offer_unreadable($1, $3, $12, $13, $5, $9, $11)),
fetched as materialized ({_sql.fetch.replace("$9", "(select scan_from from offered)")})
select fetched.* from fetched cross join (
    select interlock.job_still_unreadable(
        $1, (select ids from offered), array(select id from fetched where id is not null)) offset 0
) again
"""  # noqa: S608 - not from outside
_DONE = Outcome.DONE
_BULK = 25_000  # longer lists take long, and use a connection of their own
_MAX_BLOCKED = 10_000
_MAX_FETCHERS = 16  # scan positions are kept for so many kinds of requests


class PostgresJobs:
    """Implements the jobs port. Fetches and acknowledgements use separate connections and run concurrently."""

    def __init__(
        self,
        pool: Pool,
        messages: PostgresMessages,
        settings: Settings,
        clock: Clock | None,
    ) -> None:
        wait = settings.store_wait / 2
        self._namespace = settings.namespace
        self._clock = clock_of(clock)
        self._entries, self._bulks, self._fetches, self._ends, self._operations = (
            OrderedConnection(pool, wait) for _ in range(5)
        )
        self._upkeep = OrderedConnection(pool, wait)  # may take long, and a rescue must not wait for it
        self._batcher = new_batcher(partial(self._accept, self._entries), wait)
        self._bulk_batcher = new_batcher(partial(self._accept, self._bulks), math.inf)
        self._scan_positions: dict[tuple[tuple[str, ...], tuple[str, ...]], ScanPositions] = {}
        self._ready_notifications = ReadyNotifications(messages, self._lower)
        self._blocked: set[tuple[int, int]] = set()
        self._vacuum = JobVacuum(pool, self._upkeep, wait)

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

    def enqueued(self, queues: Iterable[str]) -> None:
        """Note that these queues have new jobs, so that this process's fetches scan from the start."""
        for queue in queues:
            self._lower(self._pool(queue), LOWEST)

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Fetch jobs for a session."""
        session, queues, names, limit, at_once, run, fetch_number, start_within, reads = request
        pools = [self._pool(queue) for queue in dict.fromkeys(queues)]
        positions = self._positions_of(queues, names)
        rows = await self._fetches.fetch(
            _FETCH_UNREADABLE if reads else _sql.fetch,
            self._namespace,
            session,
            pools,
            names,
            limit,
            at_once,
            max(1, run),
            fetch_number,
            positions.begin(pools),
            start_within,
            self._clock(),
            *([[read.name for read in reads], [read.fingerprint for read in reads]] if reads else ()),
        )
        first_id, *_, session_ended, recheck_in, scan_from = rows[0]
        if session_ended:
            return SessionEnded()
        positions.end(pools, scan_from)
        jobs = [] if first_id is None else [_fetched(row) for row in rows]
        return FetchResult(jobs, math.inf if recheck_in is None else recheck_in)

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        """Acknowledge fetched jobs in one transaction."""
        if not acknowledgements:
            return Acknowledged((), False)
        # In the order of their IDs, in which every transaction locks them.
        places = sorted(range(len(acknowledgements)), key=[ended.id for ended in acknowledgements].__getitem__)
        blocked: dict[int, str] = {}
        if self._blocked:
            known = [place for place in places if _fetch(acknowledgements[place]) in self._blocked]
            blocked = await self._look_for_locked(acknowledgements, known)
        accepted, ready = [False] * len(acknowledgements), False
        batches = [[place for place in places if place not in blocked]]
        while batches:
            batch = batches.pop()
            if not batch:
                continue
            try:
                refused, some_ready = await self._acknowledge(session, [acknowledgements[place] for place in batch])
            except StoreUnavailableError as error:
                if sqlstate(error) != LOCK_NOT_AVAILABLE:
                    raise
                # Acknowledge the others. If it is unknown which jobs are locked, split the batch in halves.
                locked = await self._look_for_locked(acknowledgements, batch)
                if not locked and len(batch) == 1:
                    locked = {batch[0]: f"{error.message} {error.remedy}"}
                blocked |= locked
                rest = [place for place in batch if place not in locked]
                half = len(rest) if locked else len(rest) // 2
                batches += [rest[half:], rest[:half]]
                continue
            for place in batch:
                accepted[place] = True
            for number in refused:
                accepted[batch[number - 1]] = False
            ready = ready or some_ready
        self._note_blocked(acknowledgements, blocked)
        return Acknowledged(accepted, ready, blocked) if blocked else Acknowledged(accepted, ready)

    async def _acknowledge(
        self, session: str, acknowledgements: Sequence[Acknowledgement]
    ) -> tuple[Sequence[int], bool]:
        """Acknowledge jobs in the order of their IDs. Return which were refused, and whether jobs became ready."""
        ids, fences, outcomes, ran, delays, results, errors, traces = zip(*acknowledgements, strict=True)
        details: tuple[Any, ...] = (None, None, None)
        codes = None
        if any(outcome is not _DONE for outcome in outcomes):
            codes = [OUTCOME_CODES[outcome] for outcome in outcomes]
            details = (delays, [_plain(error) for error in errors], [_plain(trace) for trace in traces])
        kept = results if any(result is not None for result in results) else None
        ((refused, ready),) = await self._ends.fetch(
            _sql.acknowledge,
            self._namespace,
            session,
            ids,
            fences,
            codes,
            ran,
            details[0],
            kept,
            *details[1:],
            MAX_CRASHES,
            self._clock(),
        )
        if ready is not None:
            self._lower_all(ready)
        return refused or (), ready is not None

    async def _look_for_locked(
        self, acknowledgements: Sequence[Acknowledgement], places: Sequence[int]
    ) -> dict[int, str]:
        """Return which of these acknowledgements need a row that another transaction has locked, and the holder."""
        if not places:
            return {}
        ids, fences = zip(*(_fetch(acknowledgements[place]) for place in places), strict=True)
        rows = await self._ends.fetch(_sql.locked, ids, fences)
        return {places[number - 1]: _locked_by(*who) for number, *who in rows}

    def _note_blocked(self, acknowledgements: Sequence[Acknowledgement], blocked: Mapping[int, str]) -> None:
        """Remember blocked acknowledgements: when they are repeated, their locks are checked first."""
        if blocked or self._blocked:
            for place, acknowledgement in enumerate(acknowledgements):
                if place in blocked and len(self._blocked) < _MAX_BLOCKED:
                    self._blocked.add(_fetch(acknowledgement))
                else:
                    self._blocked.discard(_fetch(acknowledgement))

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        """Return the jobs that a session has fetched and not started."""
        args = (self._namespace, session, list(but), fetch_number, MAX_CRASHES, self._clock())
        ((returned, blocked),) = await self._ends.fetch(_sql.return_unstarted, *args)
        self._lower_all()
        if blocked:
            raise StoreUnavailableError(
                f"{blocked} jobs of session {session} could not be returned, because other transactions have locked"
                f" their rows or those of their lanes; {returned} were.",
                remedy="Interlock retries until these transactions have ended.",
            )
        return int(returned)

    async def rescue(self, *, limit: int = 1000) -> Sequence[Rescued]:
        """Rescue the jobs of sessions that have ended."""
        rows = await self._operations.fetch(_sql.rescue, self._namespace, limit, MAX_CRASHES, self._clock())
        if rows:
            self._lower_all()
        return [Rescued(*row) for row in rows]

    async def register_worker(
        self,
        session: str,
        queues: Sequence[str],
        names: Sequence[str],
        runners: int,
        reads: Sequence[HandlerVersion] = (),
    ) -> None:
        """Record what a worker works on."""
        known = (list(queues), list(names), runners, encode_versions(reads))
        await self._operations.fetch(_sql.register_worker, self._namespace, session, *known)

    async def report_started(self, session: str, started: Sequence[tuple[int, int]]) -> None:
        """Record which fetched jobs have started."""
        if started:
            ids, fences = zip(*started, strict=True)
            await self._operations.fetch(_sql.report_started, self._namespace, session, ids, fences)

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Call back when jobs may be ready."""
        return self._ready_notifications.listen([self._pool(queue) for queue in queues], call)

    async def watch_end(self, session: str, ids: Sequence[int]) -> Sequence[int]:
        """Return the jobs that have ended; the session is notified of the others."""
        ((ended,),) = await self._operations.fetch(_sql.watch_end, self._namespace, session, list(ids))
        return list(ended)

    async def turns(self, session: str) -> Turns:
        """Return watched jobs that have ended, in case the notifications were lost."""
        rows = await self._operations.fetch(_sql.ended, self._namespace, session)
        return Turns(tuple(f"{session}.j{row[0]}" for row in rows), math.inf)

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Hold a lane."""
        await self._operations.fetch(_sql.hold, self._namespace, lane, write_attribution(attribution), self._clock())
        self._lower_all()

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """Release a lane."""
        args = (self._namespace, lane, write_attribution(attribution), self._clock())
        ((was_held,),) = await self._operations.fetch(_sql.release, *args)
        self._lower_all()
        return bool(was_held)

    async def cancel(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Cancel a job, or request its cancellation."""
        args = (self._namespace, id, write_attribution(attribution), self._clock())
        ((state,),) = await self._operations.fetch(_sql.cancel, *args)
        self._lower_all()
        return None if state is None else JobState(state)

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Make a job ready now."""
        args = (self._namespace, id, write_attribution(attribution), self._clock())
        ((state,),) = await self._operations.fetch(_sql.retry, *args)
        self._lower_all()
        return None if state is None else JobState(state)

    async def prune(self, keep_history: float, *, limit: int = 10_000) -> int:
        """Remove history and results that were kept long enough."""
        args = (self._namespace, micros(keep_history), limit, self._clock())
        return int((await self._upkeep.fetch(_sql.prune, *args))[0][0])

    async def vacuum(self) -> float:
        """Vacuum the tables that a fetch reads."""
        return await self._vacuum.run()

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._batcher.close()
        await self._bulk_batcher.close()
        for connection in (self._entries, self._bulks, self._fetches, self._ends, self._operations, self._upkeep):
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
        self.enqueued(queues)
        return [None] * len(entries)

    def _pool(self, queue: str) -> str:
        return f"{self._namespace}/{queue}"

    def _positions_of(self, queues: tuple[str, ...], names: tuple[str, ...]) -> ScanPositions:
        positions = self._scan_positions.get((queues, names))
        if positions is None:
            if len(self._scan_positions) >= _MAX_FETCHERS:
                self._scan_positions.clear()
            positions = self._scan_positions[queues, names] = ScanPositions()
        return positions

    def _lower(self, pool: str, sort: int) -> None:
        for positions in self._scan_positions.values():
            positions.lower(pool, sort)

    def _lower_all(self, sort: int = LOWEST) -> None:
        for positions in self._scan_positions.values():
            positions.lower_all(sort)


def _fetch(acknowledgement: Acknowledgement) -> tuple[int, int]:
    return acknowledgement.id, acknowledgement.fence


def _locked_by(what: str, pid: int, program: str, state: str, seconds: float | None) -> str:
    """Describe a locked row and the transaction that locked it."""
    kind, _, name = what.partition(" ")
    about = ", ".join(part for part in (program, state, "" if seconds is None else f"since {seconds:.0f} s") if part)
    return (
        f"The row of {kind} {name!r} is locked by backend {pid}{f' ({about})' if about else ''}."
        f" End its transaction: select pg_terminate_backend({pid})."
    )


def _fetched(row: Any) -> FetchedJob:
    slots = row[13]
    return FetchedJob._make((*row[:13], tuple(slots) if slots else (), row[14], None))


def _plain(text: str) -> str:
    """Replace characters that the database cannot store: NUL and lone surrogates."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode() if text else text
