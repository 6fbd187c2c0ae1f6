"""Find the jobs of a list by their IDs, reading a bounded number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.browsing import MAX_AT_ONCE, Found
from interlock.backends.postgres.queries import InsightQueries
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

    from interlock.ports.job_views import JobFilter

    Fetch = Callable[..., Awaitable[Sequence[Any]]]

__all__ = ["ENDED", "browse", "sql"]

sql = InsightQueries()
ENDED = {
    JobState.DONE: 0,
    JobState.FAILED: 1,
    JobState.DISCARDED: 2,
    JobState.CANCELLED: 3,
    JobState.SUPERSEDED: 4,
    JobState.QUARANTINED: 5,
    JobState.EXPIRED: 6,
}
_FEW = {
    JobState.FETCHED: sql.few_fetched,
    JobState.RUNNING: sql.few_running,
    JobState.WAITING: sql.few_waiting,
    JobState.BLOCKED: sql.few_blocked,
    JobState.SCHEDULED: sql.few_scheduled,
    JobState.PARKED: sql.few_parked,
    JobState.HELD: sql.few_held,
    JobState.READY: sql.few_ready,
}
_SCAN = 10_000
_SCAN_STATES = 2_000
_MAX_SIGNALS = 1_000
_MAX_HELD = 2_000


async def browse(
    fetch: Fetch, namespace: str, wanted: JobFilter, before: int, limit: int, rounds: int
) -> AsyncIterator[Found]:
    """Yield what each source finds below an ID, in the n-th round."""
    unfinished = {state for state in wanted.states if not state.final}
    ended = set(wanted.states) - unfinished
    walk = _Walk(fetch, (namespace, wanted.name, wanted.queue, before))
    # Without a filter every row matches, except those of other namespaces.
    scan = _SCAN if wanted.name or wanted.queue or rounds else limit + 1
    if wanted.lane:
        if unfinished or not ended:
            yield await walk.lane(wanted.lane, unfinished)
        if ended or not unfinished:
            states = [ENDED[state] for state in ended] or None
            yield await walk.along(sql.walk_ended_lane, _SCAN, wanted.lane, states)
    elif not wanted.states:
        yield await walk.along(sql.walk, scan)
        yield await walk.along(sql.walk_ended, scan, None)
    else:
        async for found in walk.by_state(unfinished):
            yield found
        for state in ended - {JobState.DONE}:
            yield await walk.along(sql.walk_state, scan, ENDED[state])
        if JobState.DONE in ended:
            yield await walk.along(sql.walk_ended, _SCAN, ENDED[JobState.DONE])


class _Walk:
    """Searches for jobs below an ID. ``wanted`` is the first parameters of every statement."""

    def __init__(self, fetch: Fetch, wanted: tuple[str, str, str, int]) -> None:
        self._fetch = fetch
        self._wanted = wanted

    async def along(self, statement: str, scan: int, *more: Any) -> Found:
        """Walk a table in the order of IDs."""
        ((ids, last, looked_at),) = await self._fetch(statement, *self._wanted, scan, *more)
        return Found(ids, last if looked_at >= scan else None)

    async def lane(self, lane: str, states: Collection[JobState]) -> Found:
        """Walk a lane, roughly in the order of IDs."""
        found = await self.along(sql.walk_lane, _SCAN, lane)
        ids = list(found.ids)
        if not states:
            return found
        floor = found.floor
        if len(ids) > _SCAN_STATES:
            floor, ids = ids[_SCAN_STATES - 1], ids[:_SCAN_STATES]
        rows = await self._fetch(sql.states, self._wanted[0], ids, list(states))
        return Found([number for (number,) in rows], floor)

    async def by_state(self, states: set[JobState]) -> AsyncIterator[Found]:
        """Read each state from the table that holds it unless there are many; find the others among all jobs."""
        many: set[JobState] = states & {JobState.BEHIND}
        if JobState.READY in states:
            ((signals,),) = await self._fetch(sql.many_signals, self._wanted[0], _MAX_SIGNALS)
            many |= {JobState.READY} if signals else set()
        for state in states - many:
            limit = _MAX_HELD if state is JobState.HELD else MAX_AT_ONCE
            ((ids,),) = await self._fetch(_FEW[state], *self._wanted, limit + 1)
            if len(ids) > limit:
                many.add(state)
            else:
                yield Found(ids, None)
        if many:
            yield await self.along(sql.walk_states, _SCAN_STATES, list(many))
