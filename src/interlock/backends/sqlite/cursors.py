"""Cursors in SQLite: rows with the last moves of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.queries import CursorQueries, LockQueries
from interlock.ports.cursors import MOVES_KEPT, CursorView, Move, Moved, Overtaken
from interlock.ports.journal import Action, cursor_data, new_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from interlock.backends.sqlite.reader import Reader
    from interlock.backends.sqlite.writer import Writer
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["SqliteCursors"]

_sql = CursorQueries()
_locks_sql = LockQueries()


class SqliteCursors:
    """Implements the cursors port. Reads never wait for writers."""

    def __init__(self, writer: Writer, reader: Reader, settings: Settings, clock: Clock) -> None:
        self._run = writer.run
        self._read = reader.run
        self._namespace = settings.namespace
        self._now = clock.now

    async def read(self, name: str) -> CursorView | None:
        """Read a cursor."""
        return next(iter(await self._views(_sql.history, name=name, limit=1)), None)

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move a cursor if it is still at the expected version."""
        return await self._run(lambda db: self._move(db, move))

    async def history(self, name: str) -> Sequence[CursorView]:
        """Return a cursor's last moves."""
        return await self._views(_sql.history, name=name, limit=MOVES_KEPT)

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """List cursors by name."""
        return await self._views(_sql.list_cursors, limit=limit)

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Delete a cursor and its history."""
        return await self._run(lambda db: self._forget(db, name, attribution))

    def _move(self, db: sqlite3.Connection, move: Move) -> Moved | Overtaken:
        values = self._values(name=move.name, value=move.value, id=move.id, by=move.by, now=self._now())
        current = self._current(db, move.name)
        if move.expected != (current.version if current else 0):
            done = db.execute(_sql.find_move, values).fetchone()
            return Overtaken(current) if done is None else Moved(CursorView(*done))
        (version,) = db.execute(_locks_sql.next_fence, values).fetchone()
        db.execute(_sql.add_move, values | {"version": version})
        db.execute(_sql.trim_history, values | {"kept": MOVES_KEPT})
        return Moved(CursorView(move.name, move.value, version, values["now"], move.by))

    def _forget(self, db: sqlite3.Connection, name: str, attribution: Attribution) -> CursorView | None:
        current = self._current(db, name)
        db.execute(_sql.delete_cursor, self._values(name=name))
        if current is not None:
            before = cursor_data(current)
            entry = new_entry(attribution, Action.CURSOR_FORGET, name, before, from_version=current.version)
            add_entry(db, self._namespace, self._now(), entry)
        return current

    def _current(self, db: sqlite3.Connection, name: str) -> CursorView | None:
        row = db.execute(_sql.history, self._values(name=name, limit=1)).fetchone()
        return None if row is None else CursorView(*row)

    async def _views(self, sql: str, **values: Any) -> Sequence[CursorView]:
        args = self._values(**values)
        return await self._read(lambda db: [CursorView(*row) for row in db.execute(sql, args)])

    def _values(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, **values}
