"""Durable positions of pollers: ``app.cursors``, or alone ``Cursors.from_url(url)``.

A poller reads its position, handles what is new, and only then moves the cursor. The move is refused if another poller
has moved it meanwhile, so that two pollers can never undo each other's progress.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock.arguments import checked_key, checked_limit
from interlock.clock import as_datetime, as_text
from interlock.errors import ConcurrencyConflictError, NotFoundError
from interlock.explanation import Explanation, Subject, brief
from interlock.ports.cursors import Move, Overtaken
from interlock.ports.store import Capability
from interlock.service import Service
from interlock.sessions import program
from interlock.store_client import repeat
from interlock.values import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from interlock.operations import Operations
    from interlock.ports.cursors import CursorView, Moved
    from interlock.sessions import Session
    from interlock.store_client import StoreClient

__all__ = ["Cursor", "Cursors", "Position", "Reason"]

T = TypeVar("T")
R = TypeVar("R")
_MAX_VALUE = 64 * 1024


class Reason(StrEnum):
    """Why a cursor is where it is."""

    NEVER_MOVED = "never-moved"
    """No poller has moved it yet."""
    MOVED = "moved"
    """A poller moved it."""


@dataclass(frozen=True, slots=True)
class Position(Generic[T]):
    """The position of a cursor, now or after an earlier move."""

    name: str
    """The cursor's name."""
    value: T
    version: int
    moved_at: datetime
    by: str


class Cursor(Generic[T]):
    """One durable position. ``Cursor[datetime]`` says what its values are; plain JSON values and datetimes can be."""

    def __init__(self, name: str, engine: CursorEngine) -> None:
        self.name = name
        self._engine = engine

    async def read(self) -> Position[T] | None:
        """Where it stands; None if it was never moved."""
        view = await self._engine.read(self.name)
        return None if view is None else _position(view)

    async def move(self, value: T, *, after: Position[T] | None) -> Position[T]:
        """Move it from the position that was read (None: there was none) to ``value``; durable when this returns.

        Raises :class:`ConcurrencyConflictError` if it stands elsewhere by now, and changes nothing then.
        """
        text = encoded("The position of a cursor", value, max_bytes=_MAX_VALUE)
        answer = await self._engine.move(self.name, 0 if after is None else after.version, text)
        if isinstance(answer, Overtaken):
            where = "does not exist any more" if answer.view is None else f"was moved by {answer.view.by} meanwhile"
            raise ConcurrencyConflictError(f"The cursor {self.name!r} {where}.")
        return _position(answer.view)

    async def history(self) -> Sequence[Position[T]]:
        """Its last moves, the newest first; 20 are kept."""
        return [_position(view) for view in await self._engine.history(self.name)]


class CursorEngine:
    """The cursors of one process in one store."""

    owner_tag = "p"

    def __init__(self, store_client: StoreClient) -> None:
        self.store = store_client.store
        self._store_client = store_client
        self._cursors = store_client.store.cursors
        self._by = f"{program()}@{socket.gethostname()}:{os.getpid()}"

    async def open(self) -> None:
        """Open the store, unless another concept has already."""
        await self._store_client.open(self)

    async def close(self) -> None:
        """Close the store, unless another concept still needs it."""
        await self._store_client.close(self)

    async def read(self, name: str) -> CursorView | None:
        """Where a cursor stands."""
        return await self._repeat(lambda: self._cursors.read(name))

    async def move(self, name: str, expected: int, value: str) -> Moved | Overtaken:
        """Move a cursor; repeating it after a lost answer finds it done."""
        move = Move(name, expected, value, secrets.token_hex(8), self._by)
        return await self._repeat(lambda: self._cursors.move(move))

    async def history(self, name: str) -> Sequence[CursorView]:
        """Its last moves."""
        return await self._repeat(lambda: self._cursors.history(name))

    @property
    def operations(self) -> Operations:
        """The journaled operations on this store."""
        return self._store_client.operations

    async def _repeat(self, operation: Callable[[], Awaitable[R]]) -> R:
        return await repeat(operation, self._store_client.settings.store_wait, self._store_client.clock.monotonic)

    def session_began(self, session: Session) -> None:
        """Do nothing: cursors do not belong to a session."""

    def session_lost(self, session: Session) -> None:
        """Do nothing: cursors do not belong to a session."""

    def turn(self, owner: str | None) -> None:
        """Do nothing: cursors have no waiters."""

    def taken(self, owner: str, why: str) -> None:
        """Do nothing: cursors have no owners."""


class Cursors(Service[CursorEngine]):
    """Durable positions, in one store."""

    needs = Capability.CURSORS
    _these = "These cursors"

    def _new_engine(self, store_client: StoreClient) -> CursorEngine:
        return CursorEngine(store_client)

    def __getitem__(self, name: str) -> Cursor[Any]:
        """The cursor of that name, whether it was ever moved or not: ``app.cursors["gitlab:notes"]``."""
        return Cursor(checked_key(name), self._running)

    async def list(self, *, limit: int = 1000) -> Sequence[Position[Any]]:
        """List the positions of all cursors, by name."""
        return [_position(row) for row in await self._running.store.cursors.list(limit=checked_limit(limit))]

    async def get(self, name: str) -> Position[Any]:
        """Return a cursor's position. Raises :class:`NotFoundError` if it was never moved."""
        row = await self._running.read(checked_key(name))
        if row is None:
            raise NotFoundError(f"The cursor {name!r} was never moved.", remedy="See: interlock cursors list.")
        return _position(row)

    async def explain(self, name: str) -> Explanation[Reason]:
        """Explain where a cursor stands, and who moved it there."""
        subject, row = Subject("cursor", checked_key(name)), await self._running.read(name)
        if row is None:
            lines = [f"The cursor {name!r} was never moved: its poller starts from the beginning."]
            return Explanation.of(subject, Reason.NEVER_MOVED, "was never moved", lines, "", {"name": name})
        at = as_text(row.moved_at)
        lines = [f"The cursor {name!r} was moved to {brief(row.value)} by {row.by} at {at}."]
        data = {**row._asdict(), "value": decoded(row.value), "moved_at": at}
        return Explanation.of(subject, Reason.MOVED, brief(f"was moved by {row.by} at {at}"), lines, "", data)

    async def forget(self, name: str, *, by: str, reason: str) -> CursorView | None:
        """Remove a cursor and its history; return its last position, or None if there was none."""
        return await self._running.operations.forget_cursor(name, by=by, reason=reason)


def _position(view: CursorView) -> Position[Any]:
    return Position(view.name, decoded(view.value), view.version, as_datetime(view.moved_at), view.by)
