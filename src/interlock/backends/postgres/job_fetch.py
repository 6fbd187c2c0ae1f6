"""Fetching jobs. Each kind of request remembers where its last fetch stopped scanning."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from interlock.backends.postgres.queries import JobQueries
from interlock.backends.postgres.scan_positions import LOWEST, ScanPositions
from interlock.ports.jobs import FetchedJob, FetchResult, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.ports.jobs import FetchRequest

__all__ = ["JobFetch"]

_sql = JobQueries()
# The same fetch after unreadable jobs were made ready, and before those are set aside again that it did not take. The
# scan positions come from the first function, so that it runs before the fetch.
_FETCH_UNREADABLE = f"""
with offered as materialized (select * from interlock.job_offer_unreadable($1, $3, $13, $14, $5, $9, $11)),
fetched as materialized ({_sql.fetch.replace("$9", "(select scan_from from offered)")})
select fetched.* from fetched cross join (
    select interlock.job_still_unreadable(
        $1, (select ids from offered), array(select id from fetched where id is not null)) offset 0
) again
"""  # noqa: S608 - not from outside
_MAX_FETCHERS = 16  # scan positions are kept for so many kinds of requests


class JobFetch:
    """Fetches jobs on a connection of its own."""

    def __init__(self, connection: OrderedConnection, namespace: str, clock: Callable[[], float | None]) -> None:
        self._connection = connection
        self._namespace = namespace
        self._clock = clock
        self._scan_positions: dict[tuple[tuple[str, ...], tuple[str, ...]], ScanPositions] = {}

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Fetch jobs for a session."""
        session, queues, names, limit, at_once, run, fetch_number, start_within, reads, lanes = request
        pools = [f"{self._namespace}/{queue}" for queue in dict.fromkeys(queues)]
        # A fetch of some lanes does not scan, so it says nothing about where the next scan has to begin.
        positions = ScanPositions() if lanes else self._positions_of(queues, names)
        rows = await self._connection.fetch(
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
            [f"{self._namespace}/{lane}" for lane in lanes] or None,
            *([[read.name for read in reads], [read.fingerprint for read in reads]] if reads else ()),
        )
        first_id, *_, session_ended, recheck_in, scan_from = rows[0]
        if session_ended:
            return SessionEnded()
        positions.end(pools, scan_from)
        jobs = [] if first_id is None else [_fetched(row) for row in rows]
        return FetchResult(jobs, math.inf if recheck_in is None else recheck_in)

    def lower(self, pool: str, sort: int = LOWEST) -> None:
        """Have the next fetches of a pool scan from this sort key, because a job became ready there."""
        for positions in self._scan_positions.values():
            positions.lower(pool, sort)

    def lower_all(self, sort: int = LOWEST) -> None:
        """Have the next fetches of all pools scan from this sort key."""
        for positions in self._scan_positions.values():
            positions.lower_all(sort)

    def _positions_of(self, queues: tuple[str, ...], names: tuple[str, ...]) -> ScanPositions:
        positions = self._scan_positions.get((queues, names))
        if positions is None:
            if len(self._scan_positions) >= _MAX_FETCHERS:
                self._scan_positions.clear()
            positions = self._scan_positions[queues, names] = ScanPositions()
        return positions


def _fetched(row: Any) -> FetchedJob:
    slots = row[13]
    return FetchedJob._make((*row[:13], tuple(slots) if slots else (), row[14], row[15] or "", row[16], None))
