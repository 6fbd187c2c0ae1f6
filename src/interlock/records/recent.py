"""Records as this process last saw them, and the order in which its tasks change them.

An optimistic write may be computed from any state of the record that the process remembers: the store accepts it only
if the record still has that version. So a record that one process works on is changed in one round trip instead of
two, and its tasks take turns instead of losing to each other and queueing for the lease.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from interlock.ports.records import StoredRecord

__all__ = ["RecentRecords", "Turn", "Turns"]

K = TypeVar("K")
_MAX_RECORDS = 1000
_MAX_BODY = 16_384
_MAX_WAIT = 5.0


class RecentRecords(Generic[K]):
    """A bounded number of small records, the most recently seen ones."""

    def __init__(self) -> None:
        self._records: OrderedDict[K, StoredRecord] = OrderedDict()

    def get(self, key: K) -> StoredRecord | None:
        """Return what is remembered of a record. The store may have a newer version."""
        return self._records.get(key)

    def remember(self, key: K, stored: StoredRecord | None) -> None:
        """Remember a record that was read or written; None forgets it."""
        self._records.pop(key, None)
        if stored is None or len(stored.body) > _MAX_BODY:
            return
        self._records[key] = stored
        if len(self._records) > _MAX_RECORDS:
            self._records.popitem(last=False)


class Turns(Generic[K]):
    """Let the tasks of this process take turns with a record, in the order in which they came.

    A turn lasts for a read and a write of the store, and a task that has one waits for nothing else. A task whose turn
    does not come in time goes on without it: turns save work, the store keeps writes apart.
    """

    def __init__(self) -> None:
        self._lines: dict[K, _Line] = {}

    def turn(self, key: K) -> Turn[K]:
        """Return a context manager that waits for this task's turn."""
        return Turn(self._lines, key)


class Turn(Generic[K]):
    """The turn of one task."""

    __slots__ = ("_came", "_key", "_line", "_lines")

    def __init__(self, lines: dict[K, _Line], key: K) -> None:
        self._lines = lines
        self._key = key
        line = lines.get(key)
        if line is None:
            line = lines[key] = _Line()
        self._line = line
        self._came = False
        line.tasks += 1

    async def __aenter__(self) -> None:
        try:
            self._came = await self._line.wait()
        except BaseException:
            self._end()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        line = self._line
        if self._came:
            line.lock.release()
        line.tasks -= 1
        if not line.tasks:
            del self._lines[self._key]


class _Line:
    """The tasks that want to change one record."""

    __slots__ = ("lock", "tasks")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.tasks = 0

    async def wait(self) -> bool:
        """Return whether the turn came in time."""
        if not self.lock.locked():
            return await self.lock.acquire()
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAX_WAIT):
                return await self.lock.acquire()
        return False
