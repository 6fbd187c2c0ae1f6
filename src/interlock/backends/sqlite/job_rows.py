"""The rows of jobs inside one transaction, and the notifications to send after its commit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.queries.jobs import JobQueries
from interlock.ports.journal import new_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock.backends.limit_sides import ReservedSide
    from interlock.backends.pacing import Quota
    from interlock.ports.journal import Action, Attribution

__all__ = ["FetchClass", "JobRows", "CommitNotice", "Reservations", "fetcher", "owner", "sql"]

sql = JobQueries()


class FetchClass:
    """What a fetch has to check before it takes a job: nothing, slots, rates too, or whether it may take suspects."""

    PLAIN = 0
    SLOTS = 1
    PACED = 2
    SUSPECT = 3


class Reservations(Protocol):
    """Reservations that are stored elsewhere, as fetches count them."""

    def side(self, key: str) -> ReservedSide | None:
        """Return the live reservations on a key; None if there are none."""
        ...

    def override(self, key: str) -> Quota | None:
        """Return the figure that a person set for a key."""
        ...

    def set_free_since(self, key: str, at: int) -> None:
        """Record since when a key with waiting reservations has had room."""
        ...


class CommitNotice(NamedTuple):
    """The notifications of a committed transaction."""

    queues: frozenset[str]
    """Queues with jobs to fetch, now or sooner than was known."""
    ended: Sequence[int]
    """Jobs that ended."""
    taken: Sequence[tuple[str, str, str]]
    """Interrupted jobs: session, owner and cause."""
    limits: Sequence[str] = ()
    """Limits that may have room for reservations that are stored elsewhere."""


class JobRows:
    """The jobs of one namespace. Every change of a job goes through here, so that no notification is missed."""

    def __init__(
        self,
        db: sqlite3.Connection,
        namespace: str,
        now: float,
        draw_fence: Callable[[sqlite3.Connection], int],
        reservations: Reservations | None = None,
    ) -> None:
        self._db = db
        self._draw_fence = draw_fence
        self.reservations = reservations
        """Reservations that are stored elsewhere; None if they are in this database."""
        self.namespace = namespace
        self.now = micros(now)
        self._values = {"namespace": namespace, "now": self.now, "now_s": now}
        self.changed_kinds: set[int] = set()
        """Kinds with jobs to fetch, now or at a new time."""
        self.made_ready = False
        """Whether any job became ready."""
        self.ended: list[int] = []
        self.interrupted: list[tuple[str, str, str]] = []
        self.open_limits: list[str] = []
        """Limits that may have room for reservations that are stored elsewhere."""

    # -- statements ------------------------------------------------------------------------------------------------

    def all(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        return self._db.execute(statement, self._values | values).fetchall()

    def one(self, statement: str, **values: Any) -> Any:
        """Run a statement and return its first row, if it has one."""
        return self._db.execute(statement, self._values | values).fetchone()

    def run(self, statement: str, **values: Any) -> int:
        """Run a statement and return how many rows it changed."""
        return self._db.execute(statement, self._values | values).rowcount

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of values."""
        self._db.executemany(statement, values)

    def each_named(self, statement: str, values: Iterable[dict[str, Any]]) -> None:
        """The same with named values."""
        self._db.executemany(statement, [self._values | one for one in values])

    def stream(self, statement: str, *values: Any) -> Iterator[Any]:
        """Return rows one by one. Their tables must not change meanwhile."""
        return self._db.execute(statement, values)

    def lazily(self, statement: str, **values: Any) -> Iterator[Any]:
        """The same with named values."""
        return self._db.execute(statement, self._values | values)

    # -- names and numbers -----------------------------------------------------------------------------------------

    def lane(self, name: str) -> str | None:
        """Return the key of a lane; None for no lane."""
        return f"{self.namespace}/{name}" if name else None

    def lane_name(self, lane: str | None) -> str:
        """The reverse."""
        return lane[len(self.namespace) + 1 :] if lane else ""

    def numbers(self, what: str, count: int) -> range:
        """Reserve so many numbers, larger than all before."""
        (last,) = self.one(sql.take_numbers, what=what, count=count)
        return range(last - count + 1, last + 1)

    def fence(self) -> int:
        """Return a fence larger than all before."""
        return self._draw_fence(self._db)

    def journal(
        self,
        action: Action,
        subject_key: object,
        attribution: Attribution,
        before: object,
        after: object,
        *,
        from_version: int | None = None,
    ) -> None:
        """Write the entry of a change in its transaction."""
        entry = new_entry(attribution, action, subject_key, before, after, from_version)
        add_entry(self._db, self.namespace, seconds(self.now), entry)

    def kind(self, queue: str, name: str) -> int:
        """Return the number of a queue and job name; add it if it is new."""
        found = self.one(sql.kind, queue=queue, name=name) or self.one(sql.add_kind, queue=queue, name=name)
        return int(found[0])

    # -- standing --------------------------------------------------------------------------------------------------

    def make_ready(self, ids: Sequence[int], kinds: Iterable[int] = ()) -> None:
        """Make jobs ready that nothing blocks."""
        if ids:
            self.run(sql.make_ready, ids=json.dumps(ids))
            self.changed_kinds.update(kinds)
            self.made_ready = True

    def schedule(self, ids: Sequence[int], kinds: Iterable[int] = ()) -> None:
        """Schedule jobs for their due times."""
        if ids:
            self.run(sql.schedule, ids=json.dumps(ids))
            self.changed_kinds.update(kinds)

    def advance_lanes(self, lanes: Iterable[str]) -> None:
        """Make the first jobs of lanes ready where possible, after the lanes changed."""
        wanted = json.dumps(list(lanes))
        if wanted != "[]":
            kinds = {kind for (kind,) in self.all(sql.advance_lanes, lanes=wanted)}
            self.changed_kinds |= kinds
            self.made_ready = self.made_ready or bool(kinds)

    def detach(self, ids: Sequence[int]) -> set[str]:
        """Remove jobs from the ready, scheduled and waiting ones; return the limits they waited for."""
        wanted = json.dumps(ids)
        self.run(sql.remove_ready, ids=wanted)
        self.run(sql.unschedule, ids=wanted)
        return {key for (key,) in self.all(sql.leave_limit_queues, ids=wanted)}

    def assign_positions(self, ids: Sequence[int]) -> None:
        """Give jobs the next positions in their lanes."""
        if ids:
            self.each(sql.set_position, zip(self.numbers("position", len(ids)), ids, strict=True))

    def notify_interrupted(self, session: str, id: int, fence: int, why: str) -> None:  # noqa: A002
        """Notify a session that a job it has fetched was interrupted."""
        fetched = fetcher(session, id, fence)
        self.run(sql.add_message, session=session, owner=fetched, why=why)
        self.interrupted.append((session, fetched, why))

    def notice(self) -> CommitNotice:
        """Return the notifications of this transaction."""
        queues: frozenset[str] = frozenset()
        if self.changed_kinds:
            found = self.all(sql.queues_of_kinds, kinds=json.dumps(list(self.changed_kinds)))
            queues = frozenset(queue for (queue,) in found)
        return CommitNotice(queues, self.ended, self.interrupted, self.open_limits)


def owner(session: str, id: int) -> str:  # noqa: A002
    """Return the owner that messages use for a watched job."""
    return f"{session}.j{id}"


def fetcher(session: str, id: int, fence: int) -> str:  # noqa: A002
    """Return the owner that messages use for one fetch of a job."""
    return f"{session}.{fence}.j{id}"
