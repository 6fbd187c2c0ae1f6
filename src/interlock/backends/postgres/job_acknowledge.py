"""Acknowledging jobs, and taking back those that were not started or whose session has ended."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from interlock.backends.job_codes import OUTCOME_CODES
from interlock.backends.postgres.errors import LOCK_NOT_AVAILABLE, sqlstate
from interlock.backends.postgres.job_enqueue import columns
from interlock.backends.postgres.queries import JobQueries
from interlock.errors import StoreUnavailableError
from interlock.ports.jobs import MAX_CRASHES, Acknowledged, Outcome, Rescued

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.backends.postgres.job_fetch import JobFetch
    from interlock.ports.jobs import Acknowledgement

__all__ = ["JobAcknowledge"]

_sql = JobQueries()
_DONE = Outcome.DONE
_MAX_BLOCKED = 10_000


class JobAcknowledge:
    """Acknowledges jobs on a connection of its own, and rescues on another, so that neither waits for the other.

    Jobs that become ready lower the scan positions of ``fetches``.
    """

    def __init__(
        self,
        connection: OrderedConnection,
        rescues: OrderedConnection,
        namespace: str,
        clock: Callable[[], float | None],
        fetches: JobFetch,
    ) -> None:
        self._connection = connection
        self._rescues = rescues
        self._namespace = namespace
        self._clock = clock
        self._fetches = fetches
        self._blocked: set[tuple[int, int]] = set()

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
        # Those that take keys come last and apart: they may have to wait for transactions of others.
        followed = [place for place in places if acknowledgements[place].follow_ups]
        keyed = {place for place in followed if any(job.key for job in acknowledgements[place].follow_ups)}
        batches = [
            [place for place in places if place in keyed and place not in blocked],
            [place for place in places if place not in keyed and place not in blocked],
        ]
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
        ids, fences, outcomes, ran, delays, results, errors, traces, follow_ups = zip(*acknowledgements, strict=True)
        details: tuple[Any, ...] = (None, None, None)
        codes = None
        if any(outcome is not _DONE for outcome in outcomes):
            codes = [OUTCOME_CODES[outcome] for outcome in outcomes]
            details = (delays, [_plain(error) for error in errors], [_plain(trace) for trace in traces])
        kept = results if any(result is not None for result in results) else None
        sql, followed, queues = _sql.acknowledge, (), set[str]()
        if any(follow_ups):
            sql = _sql.acknowledge_followed
            parents = [number for number, jobs in zip(ids, follow_ups, strict=True) for _ in jobs]
            queues, jobs = columns(chain.from_iterable(follow_ups))
            followed = (parents, *jobs)
        ((refused, ready),) = await self._connection.fetch(
            sql,
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
            *followed,
        )
        if ready is not None:
            self._fetches.lower_all(ready)
        for queue in queues:
            self._fetches.lower(f"{self._namespace}/{queue}")
        return refused or (), ready is not None

    async def _look_for_locked(
        self, acknowledgements: Sequence[Acknowledgement], places: Sequence[int]
    ) -> dict[int, str]:
        """Return which of these acknowledgements need a row that another transaction has locked, and the holder."""
        if not places:
            return {}
        ids, fences = zip(*(_fetch(acknowledgements[place]) for place in places), strict=True)
        rows = await self._connection.fetch(_sql.locked, ids, fences)
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
        ((returned, blocked),) = await self._connection.fetch(_sql.return_unstarted, *args)
        self._fetches.lower_all()
        if blocked:
            raise StoreUnavailableError(
                f"{blocked} jobs of session {session} could not be returned, because other transactions have locked"
                f" their rows or those of their lanes; {returned} were.",
                remedy="Interlock retries until these transactions have ended.",
            )
        return int(returned)

    async def rescue(self, limit: int) -> Sequence[Rescued]:
        """Rescue the jobs of sessions that have ended."""
        rows = await self._rescues.fetch(_sql.rescue, self._namespace, limit, MAX_CRASHES, self._clock())
        if rows:
            self._fetches.lower_all()
        return [Rescued(*row) for row in rows]


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


def _plain(text: str) -> str:
    """Replace characters that the database cannot store: NUL and lone surrogates."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode() if text else text
