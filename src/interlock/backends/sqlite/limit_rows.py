"""The rows of limits, inside a transaction in the writer's thread."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.backends.admission import STALE, UNLIMITED, KeyStatus, Room, freed_at
from interlock.backends.limit_sides import quotas_in_force
from interlock.backends.pacing import Quota, micros, seconds
from interlock.backends.sqlite.job_limits import wake
from interlock.backends.sqlite.job_rows import JobRows
from interlock.backends.sqlite.queries import LimitQueries
from interlock.backends.sqlite.queue_order import next_ticket
from interlock.ports.limits import override_names

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

__all__ = ["NO_TICKET", "LimitRows", "sql"]

sql = LimitQueries()
NO_TICKET = 2**63 - 1
"""The ticket of a reservation that has none yet: after all others."""


class LimitRows:
    """The limits of one namespace at one moment."""

    def __init__(self, db: sqlite3.Connection, namespace: str, now: float) -> None:
        self._db = db
        self.now = micros(now)
        self._namespace = namespace
        self._values = {"namespace": namespace, "now": now, "now_us": self.now, "stale": STALE}
        self.freed: set[str] = set()
        """Keys under which this transaction has freed something."""

    def all(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        return self._db.execute(statement, self._values | values).fetchall()

    def one(self, statement: str, **values: Any) -> Any:
        """Run a statement and return its first row, if it has one."""
        return self._db.execute(statement, self._values | values).fetchone()

    def turn(self, keys: Sequence[str], asked: int, longest: int) -> int:
        """Return the turn of a new reservation on these keys."""
        (floor,) = self.one(sql.last_overdue_turn, keys=json.dumps(keys), longest=longest)
        return next_ticket(self._db, sql.largest_turn, asked, floor)

    def standing(
        self, key: str, quota: Quota, ticket: int, turn: int, mark: int, *, drop: bool = True
    ) -> tuple[KeyStatus, int]:
        """Return the status of a key for one reservation, and how many others use it. Dead reservations are dropped."""
        row = self.one(sql.key_status, key=key, ticket=ticket, turn=turn)
        if row[1] and drop:
            self.drop(self.all(sql.dead_reservations, key=key))
            row = self.one(sql.key_status, key=key, ticket=ticket, turn=turn)
        live, _, started, ahead, ends_at, least_most, most_most, least_per, most_per, free_since = row
        quotas = frozenset({quota})
        if live and (least_most, most_most, least_per, most_per) != (
            quota.max_count,
            quota.max_count,
            quota.per,
            quota.per,
        ):
            quotas |= {Quota(*other) for other in self.all(sql.quotas, key=key)}
        jobs = self.all(sql.key_jobs, key=key)
        quotas = quotas_in_force(quotas | {Quota(*other) for *other, _ in jobs}, self.override(key))
        started += sum(count for *_, count in jobs)
        (jobs_ahead,) = self.one(sql.jobs_ahead, key=key, mark=mark)
        starts_after = partial(self._starts_after, key)
        times = partial(self._times, key, ticket)
        nth_start = partial(self._nth_start, key)
        ends_at = math.inf if ends_at is None else ends_at
        status = KeyStatus(
            key, quotas, started, ahead, free_since or 0, ends_at, starts_after, times, jobs_ahead, nth_start
        )
        return status, live

    def override(self, key: str) -> Quota | None:
        """Return the figure that a person set for a key."""
        found = self.one(sql.override, key=key, name=override_names(key)[1])
        return None if found is None else Quota(*found)

    def drop(self, gone: Sequence[tuple[int, int, bool]]) -> list[str]:
        """Drop reservations, each a ticket, a time and whether it had started, in the order of those times.

        Slots that this frees count as free from that time on. Returns the keys that have waiters.
        """
        at_key: dict[str, list[tuple[int, bool]]] = {}
        for ticket, at, started in gone:
            for key, _, _ in self.all(sql.uses_of, ticket=ticket):
                at_key.setdefault(key, []).append((at, started))
        before = {key: self.room(key) for key in at_key}
        self.freed.update(at_key)
        tickets = [{"ticket": ticket} for ticket, _, _ in gone]
        self._db.executemany(sql.delete_uses, tickets)
        self._db.executemany(sql.delete_reservation, tickets)
        awaited = [key for key, (_, waiting) in before.items() if waiting]
        for key in awaited:
            since = freed_at(before[key][0], self.room(key)[0], at_key[key])
            if since is not None:
                self.free(key, since)
        return awaited

    def room(self, key: str) -> tuple[Room, bool]:
        """Return a key's slots as stored, dead reservations included, and whether any reservation waits."""
        slots, started, waiting = self.one(sql.room, key=key)
        jobs = self.all(sql.key_jobs, key=key)
        override = self.override(key)
        if override is not None:
            slots = None if override.per else override.max_count
        else:
            declared = [max_count for max_count, per, _ in jobs if not per]
            slots = min([*([] if slots is None else [slots]), *declared], default=None)
        taken = started + sum(count for *_, count in jobs)
        return Room(UNLIMITED if slots is None else slots, taken), bool(waiting)

    def wake_jobs(self) -> None:
        """Make jobs ready that wait for what this transaction has freed. Processes of their workers notice the
        commit."""
        if self.freed:
            wake(JobRows(self._db, self._namespace, seconds(self.now), _no_fence), self.freed)

    def free(self, key: str, at: int) -> None:
        """Record since when a key has had a free slot."""
        self._db.execute(sql.set_free_since, self._values | {"key": key, "at": at})

    def end_session(self, session: str) -> None:
        """Delete a session's reservations. Processes of the next waiters notice the commit."""
        self.drop(self.all(sql.session_reservations, session=session))
        self.wake_jobs()

    def sweep(self) -> int:
        """Delete a bounded number of dead reservations, old starts and unused keys; return how many."""
        gone = self.all(sql.sweepable_reservations)
        self.drop(gone)
        self.wake_jobs()
        statements = (sql.sweep_starts, sql.sweep_keys)
        return len(gone) + sum(self._db.execute(statement, self._values).rowcount for statement in statements)

    def _starts_after(self, key: str, at: int) -> int:
        return int(self.one(sql.starts_after, key=key, after=at)[0])

    def _nth_start(self, key: str, count: int) -> int | None:
        found = self.one(sql.nth_start, key=key, before=count - 1)
        return None if found is None else int(found[0])

    def _times(self, key: str, ticket: int, after: int) -> list[int]:
        return [at for (at,) in self.all(sql.start_times, key=key, ticket=ticket, after=after)]


def _no_fence(_: sqlite3.Connection) -> int:
    raise AssertionError("no job is fetched here")
