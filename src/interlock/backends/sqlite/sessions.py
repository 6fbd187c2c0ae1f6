"""Sessions in SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interlock.backends.sqlite.limit_rows import LimitRows
from interlock.backends.sqlite.queries import ClaimQueries, SessionQueries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable

    from interlock.clock import Clock
    from interlock.ports.sessions import SessionCard

__all__ = ["SqliteSessions"]

_sql = SessionQueries()
_claims_sql = ClaimQueries()
T = TypeVar("T")


class _Run(Protocol):
    async def __call__(self, do: Callable[[sqlite3.Connection], T]) -> T: ...


async def _nothing() -> None:
    return None


class SqliteSessions:
    """Implements the sessions port on a given writer."""

    def __init__(
        self, run: _Run, namespace: str, clock: Clock, *, on_close: Callable[[], Awaitable[None]] = _nothing
    ) -> None:
        self._run = run
        self._namespace = namespace
        self._clock = clock
        self._on_close = on_close

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session."""
        about = {"id": card.id, "host": card.host, "pid": card.pid, "program": card.program}
        await self._run(lambda db: db.execute(_sql.add_session, self._values(seconds=seconds, **about)).rowcount)

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Renew a live session."""
        values = self._values(id=id, seconds=seconds)
        return bool(
            await self._run(lambda db: db.execute(_sql.renew_session, values | {"now": self._clock.now()}).rowcount)
        )

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Record whether the event loop of the session's process is blocked."""
        values = self._values(id=id, seconds=seconds, by=by)
        await self._run(lambda db: db.execute(_sql.set_blocked, values).rowcount)

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session and free what it held. Other processes notice the commit."""
        values = self._values(id=id)
        await self._run(lambda db: self._end(db, values))

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Record that the process is shutting down."""
        values = self._values(id=id, leaving=leaving)
        await self._run(lambda db: db.execute(_sql.mark_leaving, values).rowcount)

    async def sweep(self) -> int:
        """Delete sessions that ended more than an hour ago, idle locks, and claims past their retention."""
        return await self._run(self._sweep)

    async def close(self) -> None:
        """Close the writer, if it belongs to these sessions alone."""
        await self._on_close()

    def _end(self, db: sqlite3.Connection, values: dict[str, Any]) -> None:
        LimitRows(db, self._namespace, values["now"]).end_session(values["id"])
        others = (_sql.delete_watches, _sql.end_worker)
        for statement in (_sql.delete_waiters, _sql.free_locks, _sql.delete_messages, *others, _sql.delete_session):
            db.execute(statement, values)

    def _sweep(self, db: sqlite3.Connection) -> int:
        expired = db.execute(_sql.expired_sessions, self._values()).fetchall()
        for (id,) in expired:  # noqa: A001
            self._end(db, self._values(id=id))
        db.execute(_sql.delete_old_messages, self._values())
        statements = (_sql.delete_idle_locks, _claims_sql.sweep_claims)
        swept = len(expired) + sum(db.execute(statement, self._values()).rowcount for statement in statements)
        return swept + LimitRows(db, self._namespace, self._clock.now()).sweep()

    def _values(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, "now": self._clock.now(), **values}
