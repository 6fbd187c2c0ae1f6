"""Finds the IDs of the jobs that a list shows, reading a bounded number of rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.browsing import MAX_AT_ONCE, Found
from interlock.backends.sqlite.job_rows import JobRows
from interlock.backends.sqlite.job_rows import sql as jobs_sql
from interlock.backends.sqlite.job_situation import sql
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.ports.job_views import JobFilter

__all__ = ["browse", "kinds_of"]

_SCAN = 10_000
_SCAN_STATES = 2_000
_FEW = {
    JobState.FETCHED: sql.some_fetched,
    JobState.RUNNING: sql.some_running,
    JobState.WAITING: sql.some_waiting,
    JobState.BLOCKED: sql.some_blocked,
    JobState.SCHEDULED: sql.some_scheduled,
    JobState.PARKED: sql.some_parked,
    JobState.HELD: sql.some_held,
    JobState.READY: sql.some_ready,
}


def kinds_of(rows: JobRows, wanted: JobFilter) -> set[int]:
    """Return the kinds that match a filter."""
    return {
        kind
        for kind, queue, name in rows.all(jobs_sql.namespace_kinds)
        if wanted.queue in ("", queue) and wanted.name in ("", name)
    }


def browse(rows: JobRows, wanted: JobFilter, before: int, limit: int) -> Iterator[Found]:
    """Return what each source finds below an ID."""
    kinds = kinds_of(rows, wanted)
    states = frozenset(wanted.states)
    if not kinds:
        return
    walk = _Walk(rows, kinds, before, limit)
    unfinished = {state for state in states if not state.final}
    ended = states - unfinished
    if wanted.lane:
        lane = rows.lane(wanted.lane)
        if not states or unfinished:
            yield walk.unfinished(sql.lane_unfinished, unfinished, lane=lane)
        if not states or ended:
            yield walk.along(sql.lane_ended, ended, lane=lane)
    elif not states:
        yield walk.along(sql.unfinished)
        yield walk.along(sql.ended)
    else:
        yield from walk.by_state(unfinished)
        for state in ended - {JobState.DONE}:
            yield walk.along(sql.ended_in_state, state=state)
        if JobState.DONE in ended:
            yield walk.along(sql.ended, {JobState.DONE})


class _Walk:
    """Finds jobs of some kinds below an ID."""

    def __init__(self, rows: JobRows, kinds: set[int], before: int, limit: int) -> None:
        self._rows = rows
        self._kinds = kinds
        self._before = before
        self._limit = limit

    def along(self, statement: str, states: frozenset[JobState] | set[JobState] = frozenset(), **values: Any) -> Found:
        """Scan a table in the order of IDs. Rows are an ID, a kind, and perhaps a state."""
        found: list[int] = []
        last = looked_at = 0
        for number, kind, *state in self._rows.lazily(statement, **self._values(_SCAN), **values):
            last = number
            looked_at += 1
            if kind in self._kinds and (not states or state[0] in states):
                found.append(number)
                if len(found) > self._limit:
                    return Found(found, last)
        return Found(found, last if looked_at >= _SCAN else None)

    def by_state(self, states: set[JobState]) -> Iterator[Found]:
        """Read each state from its own table unless it has many rows; scan all jobs for the others."""
        many: set[JobState] = states & {JobState.BEHIND}
        for state in states - many:
            rows = self._scan(_FEW[state], MAX_AT_ONCE + 1)
            if len(rows) > MAX_AT_ONCE:
                many.add(state)
                continue
            mine = (number for number, kind in rows if number < self._before and kind in self._kinds)
            ids = sorted(mine, reverse=True)
            if state in (JobState.HELD, JobState.BLOCKED):
                ids = self._in_states(ids[:MAX_AT_ONCE], {state})
            yield Found(ids, None)
        if many:
            yield self.along_states(many)

    def along_states(self, states: set[JobState]) -> Found:
        """Scan all unfinished jobs and their states."""
        rows = self._scan(sql.unfinished_with_states, _SCAN_STATES)
        found = [number for number, kind, state in rows if kind in self._kinds and state in states]
        return Found(found, rows[-1][0] if len(rows) >= _SCAN_STATES else None)

    def unfinished(self, statement: str, states: set[JobState], **values: Any) -> Found:
        """Read rows in about the order of IDs."""
        rows = self._scan(statement, _SCAN, **values)
        ids = sorted((number for number, kind in rows if kind in self._kinds), reverse=True)
        if states:
            ids = ids[:_SCAN_STATES]
            floor = ids[-1] if len(ids) >= _SCAN_STATES else None
            return Found(self._in_states(ids, states), floor)
        return Found(ids, ids[-1] if len(rows) >= _SCAN and ids else None)

    def _in_states(self, ids: list[int], states: set[JobState]) -> list[int]:
        found_states = self._rows.all(sql.states, ids=json.dumps(ids))
        return [number for number, state in found_states if state in states]

    def _scan(self, statement: str, scan: int, **values: Any) -> list[Any]:
        return self._rows.all(statement, **self._values(scan), **values)

    def _values(self, scan: int) -> dict[str, Any]:
        bounds = {"first": f"{self._rows.namespace}/", "beyond": f"{self._rows.namespace}0"}
        return {"before": self._before, "scan": scan, "kinds": json.dumps(list(self._kinds)), **bounds}
