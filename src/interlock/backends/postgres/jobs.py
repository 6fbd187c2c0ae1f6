"""Jobs as rows. Each operation is one call of a function in the database, one round trip."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from interlock.backends.job_reads import write_reads
from interlock.backends.pacing import micros
from interlock.backends.postgres.batching import new_batcher
from interlock.backends.postgres.given import given_by
from interlock.backends.postgres.job_entries import Entry, columns, parts
from interlock.backends.postgres.job_marks import LOWEST, Marks
from interlock.backends.postgres.job_news import JobNews
from interlock.backends.postgres.job_vacuum import JobVacuum
from interlock.backends.postgres.job_views import job_view, lane_view, queue_view, situation
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.lane import LOCK_NOT_AVAILABLE, UNIQUE_VIOLATION, Lane, sqlstate
from interlock.backends.statements import Statements
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
    import builtins
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from interlock.backends.postgres.lane import Lanes
    from interlock.backends.postgres.messages import PostgresMessages
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.job_views import JobFilter, JobSituation, JobView, LaneView, QueueView
    from interlock.ports.jobs import Acknowledgement, FetchRequest, HandlerVersion, NewJob
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["PostgresJobs"]

_sql = Statements("interlock.backends.postgres", "jobs")
# The same fetch between readmitting refused jobs and refusing those again that it did not take. The marks come from the
# first of these, so that it is done before the fetch begins.
_FETCH_REFUSED = f"""
with admitted as materialized (select * from interlock.job_offer_unreadable($1, $3, $12, $13, $5, $9, $11)),
fetched as materialized ({_sql.fetch.replace("$9", "(select marks from admitted)")})
select fetched.* from fetched cross join (
    select interlock.job_still_unreadable(
        $1, (select ids from admitted), array(select id from fetched where id is not null)) offset 0
) again
"""  # noqa: S608 - texts of our own
_OUTCOMES = {
    Outcome.DONE: 0,
    Outcome.FAILED: 1,
    Outcome.RETRY: 2,
    Outcome.SNOOZED: 3,
    Outcome.DISCARDED: 4,
    Outcome.CANCELLED: 5,
    Outcome.PARKED: 6,
    Outcome.RETURNED: 7,
    Outcome.UNREADABLE: 11,
}
_DONE = Outcome.DONE
_BULK = 25_000  # what has more jobs takes long, and goes aside
_MOST_BLOCKED = 10_000
_MOST_FETCHERS = 16  # marks are kept for so many kinds of request


class PostgresJobs:
    """Keeps the jobs port. Fetches and acknowledgements have lanes of their own, so that they go side by side."""

    def __init__(
        self, lanes: Lanes, pool: Pool, messages: PostgresMessages, settings: Settings, clock: Clock | None
    ) -> None:
        wait = settings.store_wait / 2
        self._namespace = settings.namespace
        self._given = given_by(clock)
        self._aside = lanes.aside
        self._entries, self._bulks, self._fetches, self._ends, self._acts = (Lane(pool, wait) for _ in range(5))
        self._upkeep = Lane(pool, wait)  # takes long at times, and rescue must not wait for it
        self._batcher = new_batcher(partial(self._accept, self._entries), wait)
        self._bulk_batcher = new_batcher(partial(self._accept, self._bulks), math.inf)
        self._marks: dict[tuple[tuple[str, ...], tuple[str, ...]], Marks] = {}
        self._news = JobNews(messages, self._lower)
        self._blocked: set[tuple[int, int]] = set()
        self._vacuum = JobVacuum(pool, self._upkeep, wait)

    async def ids(self, count: int) -> range:
        """Ids that nobody else gets."""
        ((first,),) = await self._entries.fetch(_sql.ids, max(1, count))
        return range(first, first + count)

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> None:
        """Accept jobs. Those that are handed in at the same time go together; nobody waits for a long list."""
        if not jobs:
            return
        batcher = self._batcher if len(jobs) <= _BULK else self._bulk_batcher
        await batcher.submit(Entry(jobs, again), alone=again)

    def enqueued(self, queues: Iterable[str]) -> None:
        """There are new jobs in these queues; fetches by this process look for them from the start."""
        for queue in queues:
            self._lower(self._pool(queue), LOWEST)

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Give jobs to a session."""
        session, queues, names, most, at_once, run, fetch_number, start_within, reads = request
        pools = [self._pool(queue) for queue in dict.fromkeys(queues)]
        marks = self._marks_of(queues, names)
        rows = await self._fetches.fetch(
            _FETCH_REFUSED if reads else _sql.fetch,
            self._namespace,
            session,
            pools,
            names,
            most,
            at_once,
            max(1, run),
            fetch_number,
            marks.begin(pools),
            start_within,
            self._given(),
            *([[read.name for read in reads], [read.fingerprint for read in reads]] if reads else ()),
        )
        session_ended, look_again, scan_from, first_id, *_ = rows[0]
        if session_ended:
            return SessionEnded()
        marks.end(pools, scan_from)
        jobs = [] if first_id is None else [_fetched(row) for row in rows]
        return FetchResult(jobs, math.inf if look_again is None else look_again)

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        """End fetches, all in one step."""
        if not acknowledgements:
            return Acknowledged((), False)
        # In the order of their ids, as all lock them.
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
                # The others go on. Where nothing says which of them is locked, each half tells more.
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
        """Acknowledge them all, in the order of their ids. Returns which were refused, and whether jobs became
        ready."""
        ids, fences, outcomes, ran, delays, results, errors, traces = zip(*acknowledgements, strict=True)
        details: tuple[Any, ...] = (None, None, None)
        codes = None
        if any(outcome is not _DONE for outcome in outcomes):
            codes = [_OUTCOMES[outcome] for outcome in outcomes]
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
            self._given(),
        )
        if ready is not None:
            self._lower_all(ready)
        return refused or (), ready is not None

    async def _look_for_locked(
        self, acknowledgements: Sequence[Acknowledgement], places: Sequence[int]
    ) -> dict[int, str]:
        """Which of the acknowledgements at these places need a row that another transaction has locked, and who that
        is."""
        if not places:
            return {}
        ids, fences = zip(*(_fetch(acknowledgements[place]) for place in places), strict=True)
        rows = await self._ends.fetch(_sql.locked, ids, fences)
        return {places[number - 1]: _locked_by(*who) for number, *who in rows}

    def _note_blocked(self, acknowledgements: Sequence[Acknowledgement], blocked: Mapping[int, str]) -> None:
        """Remember the blocked ones: their locks are looked at first when they come again."""
        if blocked or self._blocked:
            for place, acknowledgement in enumerate(acknowledgements):
                if place in blocked and len(self._blocked) < _MOST_BLOCKED:
                    self._blocked.add(_fetch(acknowledgement))
                else:
                    self._blocked.discard(_fetch(acknowledgement))

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        """Return what a session has fetched."""
        args = (self._namespace, session, list(but), fetch_number, MAX_CRASHES, self._given())
        ((returned, blocked),) = await self._ends.fetch(_sql.return_unstarted, *args)
        self._lower_all()
        if blocked:
            raise StoreUnavailableError(
                f"{blocked} jobs of session {session} could not be handed back, because other transactions have locked"
                f" their rows or those of their lanes; {returned} were.",
                remedy="It is tried again until these transactions have ended.",
            )
        return int(returned)

    async def rescue(self, *, most: int = 1000) -> Sequence[Rescued]:
        """Take the jobs of sessions that have ended."""
        rows = await self._acts.fetch(_sql.rescue, self._namespace, most, MAX_CRASHES, self._given())
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
        """Say what a worker works on."""
        known = (list(queues), list(names), runners, write_reads(reads))
        await self._acts.fetch(_sql.attend, self._namespace, session, *known)

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Call back when there may be something to fetch."""
        return self._news.listen([self._pool(queue) for queue in queues], call)

    async def watch_end(self, session: str, ids: Sequence[int]) -> Sequence[int]:
        """Which jobs have ended; the session is told of the others."""
        ((ended,),) = await self._acts.fetch(_sql.watch_end, self._namespace, session, list(ids))
        return list(ended)

    async def turns(self, session: str) -> Turns:
        """The jobs whose end the session was told of and may not have heard."""
        rows = await self._acts.fetch(_sql.ended, self._namespace, session)
        return Turns(tuple(f"{session}.j{row[0]}" for row in rows), math.inf)

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Let no further job of the lane start."""
        await self._acts.fetch(_sql.hold, self._namespace, lane, write_attribution(attribution), self._given())
        self._lower_all()

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """Let the lane go on."""
        args = (self._namespace, lane, write_attribution(attribution), self._given())
        ((was_held,),) = await self._acts.fetch(_sql.release, *args)
        self._lower_all()
        return bool(was_held)

    async def cancel(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """End a job, or ask for its end."""
        args = (self._namespace, id, write_attribution(attribution), self._given())
        ((state,),) = await self._acts.fetch(_sql.cancel, *args)
        self._lower_all()
        return None if state is None else JobState(state)

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Make a job ready now."""
        args = (self._namespace, id, write_attribution(attribution), self._given())
        ((state,),) = await self._acts.fetch(_sql.retry, *args)
        self._lower_all()
        return None if state is None else JobState(state)

    async def get(self, id: int) -> JobView | None:  # noqa: A002
        """One job."""
        rows = await self._aside.fetch(_sql.find, self._namespace, id, self._given())
        return job_view(rows[0]) if rows else None

    async def list(self, filter: JobFilter, *, limit: int = 100) -> Sequence[JobView]:  # noqa: A002
        """Jobs, newest first."""
        states = [state.value for state in filter.states]
        what = (filter.name, filter.queue, filter.lane, limit)
        rows = await self._aside.fetch(_sql.look, self._namespace, self._given(), states, *what)
        return [job_view(row, brief=True) for row in rows]

    async def situation(self, id: int) -> JobSituation | None:  # noqa: A002
        """What decides when a job will run."""
        rows = await self._aside.fetch(_sql.situation, self._namespace, id, self._given())
        return situation(rows[0]) if rows else None

    async def lanes(self, lane: str | None = None, *, limit: int = 100) -> Sequence[LaneView]:
        """Lanes that are not empty or are held."""
        rows = await self._aside.fetch(_sql.lanes, self._namespace, lane, limit, self._given())
        return [lane_view(row) for row in rows]

    async def queues(self) -> Sequence[QueueView]:
        """All queues."""
        return [queue_view(row) for row in await self._aside.fetch(_sql.queues, self._namespace, self._given())]

    async def prune(self, keep_history: float, *, most: int = 10_000) -> int:
        """Remove what was kept long enough."""
        args = (self._namespace, micros(keep_history), most, self._given())
        return int((await self._upkeep.fetch(_sql.prune, *args))[0][0])

    async def vacuum(self) -> float:
        """Vacuum the tables that fetching reads."""
        return await self._vacuum.run()

    async def close(self) -> None:
        """Finish what was handed in."""
        await self._batcher.close()
        await self._bulk_batcher.close()
        for lane in (self._entries, self._bulks, self._fetches, self._ends, self._acts, self._upkeep):
            await lane.close()

    async def _accept(self, lane: Lane, entries: builtins.list[Entry]) -> Sequence[Any]:
        sql = _sql.enqueue_again if entries[0].again else _sql.enqueue
        jobs = chain.from_iterable(entry.jobs for entry in entries)
        queues: set[str] = set()

        def call(part: Iterable[NewJob]) -> tuple[Any, ...]:
            named, accepted = columns(part)
            queues.update(named)
            return self._namespace, *accepted, self._given()

        first = call(next(parts(jobs)))
        following = next(jobs, None)
        try:
            if following is None:
                await lane.fetch_here(sql, *first)
            else:
                await lane.run_each(sql, chain([first], map(call, parts(chain([following], jobs)))))
        except StoreError as error:
            if sqlstate(error) != UNIQUE_VIOLATION:
                raise
            raise MisuseError(
                f"A job of that id was accepted before: {error}.", remedy="Take a fresh id, or say again=True."
            ) from error
        self.enqueued(queues)
        return [None] * len(entries)

    def _pool(self, queue: str) -> str:
        return f"{self._namespace}/{queue}"

    def _marks_of(self, queues: tuple[str, ...], names: tuple[str, ...]) -> Marks:
        marks = self._marks.get((queues, names))
        if marks is None:
            if len(self._marks) >= _MOST_FETCHERS:
                self._marks.clear()
            marks = self._marks[queues, names] = Marks()
        return marks

    def _lower(self, pool: str, sort: int) -> None:
        for marks in self._marks.values():
            marks.lower(pool, sort)

    def _lower_all(self, sort: int = LOWEST) -> None:
        for marks in self._marks.values():
            marks.lower_all(sort)


def _fetch(acknowledgement: Acknowledgement) -> tuple[int, int]:
    return acknowledgement.id, acknowledgement.fence


def _locked_by(what: str, pid: int, program: str, state: str, seconds: float | None) -> str:
    """What is locked and by whom, for people."""
    kind, _, name = what.partition(" ")
    about = ", ".join(part for part in (program, state, "" if seconds is None else f"since {seconds:.0f} s") if part)
    return (
        f"The row of {kind} {name!r} is locked by backend {pid}{f' ({about})' if about else ''}."
        f" End its transaction: select pg_terminate_backend({pid})."
    )


def _fetched(row: Any) -> FetchedJob:
    _, _, _, *values, slots, paced = row
    return FetchedJob._make((*values, tuple(slots) if slots else (), paced, None))


def _plain(text: str) -> str:
    """What the database can keep: no NUL, no half characters."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode() if text else text
