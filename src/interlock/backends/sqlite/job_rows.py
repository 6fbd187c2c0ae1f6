"""The rows behind jobs at one moment, inside one transaction, and what is to be told once it is committed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.queries.jobs import JobQueries
from interlock.ports.journal import new_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock.ports.journal import Action, Attribution

__all__ = ["FetchClass", "JobRows", "CommitNotice", "fetcher", "owner", "sql"]

sql = JobQueries()


class FetchClass:
    """How a fetch has to handle a job. What needs more care has the larger number."""

    PLAIN = 0
    SLOTS = 1
    PACED = 2
    SUSPECT = 3


class CommitNotice(NamedTuple):
    """What a committed transaction means to others."""

    queues: frozenset[str]
    """Where there may be something to fetch, now or sooner than was known."""
    ended: Sequence[int]
    """Jobs that are finished."""
    taken: Sequence[tuple[str, str, str]]
    """Fetches that their sessions should hear about: session, owner and why."""


class JobRows:
    """Jobs of one namespace. Everything that happens to a job goes through here, so that nobody is left untold."""

    def __init__(
        self, db: sqlite3.Connection, namespace: str, now: float, draw_fence: Callable[[sqlite3.Connection], int]
    ) -> None:
        self._db = db
        self._draw_fence = draw_fence
        self.namespace = namespace
        self.now = micros(now)
        self._values = {"namespace": namespace, "now": self.now, "now_s": now}
        self.changed_kinds: set[int] = set()
        """Kinds of which there may be something to fetch, now or at a new time."""
        self.made_ready = False
        """Whether anything became ready."""
        self.ended: list[int] = []
        self.interrupted: list[tuple[str, str, str]] = []

    # -- statements ------------------------------------------------------------------------------------------------

    def all(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        return self._db.execute(statement, self._values | values).fetchall()

    def one(self, statement: str, **values: Any) -> Any:
        """Run a statement and return its first row, if it has one."""
        return self._db.execute(statement, self._values | values).fetchone()

    def run(self, statement: str, **values: Any) -> int:
        """Run a statement and say how many rows it changed."""
        return self._db.execute(statement, self._values | values).rowcount

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of several rows of values."""
        self._db.executemany(statement, values)

    def each_named(self, statement: str, values: Iterable[dict[str, Any]]) -> None:
        """The same with values by name."""
        self._db.executemany(statement, [self._values | one for one in values])

    def stream(self, statement: str, *values: Any) -> Iterator[Any]:
        """Rows as they are asked for. Nothing that they come from may be changed meanwhile."""
        return self._db.execute(statement, values)

    def lazily(self, statement: str, **values: Any) -> Iterator[Any]:
        """The same with values by name."""
        return self._db.execute(statement, self._values | values)

    # -- names and numbers -----------------------------------------------------------------------------------------

    def lane(self, name: str) -> str | None:
        """The key of a lane; None for no lane."""
        return f"{self.namespace}/{name}" if name else None

    def lane_name(self, lane: str | None) -> str:
        """And back."""
        return lane[len(self.namespace) + 1 :] if lane else ""

    def numbers(self, what: str, count: int) -> range:
        """So many numbers that nobody else gets, larger than all before."""
        (last,) = self.one(sql.take_numbers, what=what, count=count)
        return range(last - count + 1, last + 1)

    def fence(self) -> int:
        """A fence larger than all before."""
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
        """The number of the jobs of one name in one queue."""
        found = self.one(sql.kind, queue=queue, name=name) or self.one(sql.add_kind, queue=queue, name=name)
        return int(found[0])

    # -- standing --------------------------------------------------------------------------------------------------

    def make_ready(self, ids: Sequence[int], kinds: Iterable[int] = ()) -> None:
        """Make jobs ready, of which it is known that nothing holds them up."""
        if ids:
            self.run(sql.make_ready, ids=json.dumps(ids))
            self.changed_kinds.update(kinds)
            self.made_ready = True

    def schedule(self, ids: Sequence[int], kinds: Iterable[int] = ()) -> None:
        """Let jobs wait for the time that they are due."""
        if ids:
            self.run(sql.schedule, ids=json.dumps(ids))
            self.changed_kinds.update(kinds)

    def advance_lanes(self, lanes: Iterable[str]) -> None:
        """Decide what becomes of lanes to which something happened."""
        wanted = json.dumps(list(lanes))
        if wanted != "[]":
            kinds = {kind for (kind,) in self.all(sql.advance_lanes, lanes=wanted)}
            self.changed_kinds |= kinds
            self.made_ready = self.made_ready or bool(kinds)

    def detach(self, ids: Sequence[int]) -> set[str]:
        """Take jobs out of wherever they stand. The keys of the lines that they stood in."""
        wanted = json.dumps(ids)
        self.run(sql.remove_ready, ids=wanted)
        self.run(sql.unschedule, ids=wanted)
        return {key for (key,) in self.all(sql.leave_limit_queues, ids=wanted)}

    def assign_positions(self, ids: Sequence[int]) -> None:
        """Give jobs the next places in their lanes."""
        if ids:
            self.each(sql.set_position, zip(self.numbers("position", len(ids)), ids, strict=True))

    def notify_interrupted(self, session: str, id: int, fence: int, why: str) -> None:  # noqa: A002
        """Let a session hear that something happened to a job that it has fetched."""
        fetched = fetcher(session, id, fence)
        self.run(sql.add_message, session=session, owner=fetched, why=why)
        self.interrupted.append((session, fetched, why))

    def notice(self) -> CommitNotice:
        """What there is to tell, when all is done."""
        queues: frozenset[str] = frozenset()
        if self.changed_kinds:
            found = self.all(sql.queues_of_kinds, kinds=json.dumps(list(self.changed_kinds)))
            queues = frozenset(queue for (queue,) in found)
        return CommitNotice(queues, self.ended, self.interrupted)


def owner(session: str, id: int) -> str:  # noqa: A002
    """How messages call an awaited job."""
    return f"{session}.j{id}"


def fetcher(session: str, id: int, fence: int) -> str:  # noqa: A002
    """How messages call one fetch of a job."""
    return f"{session}.{fence}.j{id}"
