"""Messages in SQLite: the watcher reads them from the file after each commit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.backends.sqlite.queries import MessageQueries
from interlock.backends.sqlite.watcher import Watcher

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from interlock.backends.sqlite.file import DatabaseFile

__all__ = ["SqliteMessages"]

_sql = MessageQueries()


class SqliteMessages:
    """Implements the messages port."""

    def __init__(self, file: DatabaseFile, namespace: str) -> None:
        self._namespace = namespace
        self._watcher = Watcher(file, self._check)
        self._listener: tuple[str, asyncio.AbstractEventLoop, Any, Any] | None = None
        self.sources: list[Callable[[sqlite3.Connection, str], Iterable[str]]] = []
        """Functions that return the owners of a session that should ask again. They run in the watcher's thread."""
        self.watchers: list[Callable[[sqlite3.Connection], None]] = []
        """Functions that check the file for themselves. They run in the watcher's thread."""
        self._waiting = self._watching_closely = False

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Call back when the watcher finds something for the session."""
        self._listener = (session, asyncio.get_running_loop(), on_turn, on_lost)
        self._watcher.start()

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        if self._listener is not None and self._listener[0] == session:
            self._listener = None

    def watch(self, *, waiting: bool) -> None:
        """Check the file often while a caller waits."""
        self._waiting = waiting
        self._watcher.eager(self._waiting or self._watching_closely)

    def watch_closely(self, eagerly: bool) -> None:
        """Check the file often while a part of the store itself waits."""
        if eagerly != self._watching_closely:
            self._watching_closely = eagerly
            self._watcher.eager(self._waiting or self._watching_closely)

    def check_now(self) -> None:
        """Check the file once, as if there had been a commit."""
        self._watcher.check_now()

    def turn(self, session: str, owner: str) -> None:
        """Notify the listening session that it may be the owner's turn."""
        listener = self._listener
        if listener is not None and listener[0] == session:
            _, loop, on_turn, _ = listener
            _call(loop, on_turn, owner)

    def lost(self, session: str, owner: str, why: str) -> None:
        """Notify the listening session that an owner's lease or job was interrupted."""
        listener = self._listener
        if listener is not None and listener[0] == session:
            _, loop, _, on_lost = listener
            _call(loop, on_lost, owner, why)

    async def close(self) -> None:
        """Stop the watcher's thread."""
        await asyncio.to_thread(self._watcher.stop)

    def _check(self, db: sqlite3.Connection) -> None:
        for look in self.watchers:
            look(db)
        listener = self._listener
        if listener is None:
            return
        session, loop, on_turn, on_lost = listener
        owners = [owner for source in self.sources for owner in source(db, session)]
        forced = db.execute(_sql.messages_of_session, {"namespace": self._namespace, "session": session}).fetchall()
        try:
            for owner in owners:
                loop.call_soon_threadsafe(on_turn, owner)
            for owner, why in forced:
                loop.call_soon_threadsafe(on_lost, owner, why)
        except RuntimeError:  # the event loop is closed
            self._listener = None


def _call(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: str) -> None:
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(call, *args)
