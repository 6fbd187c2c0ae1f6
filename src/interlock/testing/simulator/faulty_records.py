"""Records as one simulated process sees them, through its wire.

A write keeps its order among the process's operations on the same lock keys, as the connections of a store keep it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.records import lock_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.locks import Answer, Left, LockRequest
    from interlock.ports.records import RecordChange, RecordStore, StoredRecord, WriteAnswer
    from interlock.testing.simulator.watcher import Watcher
    from interlock.testing.simulator.wire import Wire

__all__ = ["FaultyRecords"]


class FaultyRecords:
    """Wrap another store's record port."""

    def __init__(self, records: RecordStore, wire: Wire, watcher: Watcher) -> None:
        self._records = records
        self._call = wire.call
        self._watcher = watcher

    async def get(self, kind: str, ids: Sequence[str], *, current: bool = False) -> Sequence[StoredRecord]:
        """Read records."""
        return await self._call("read_records", (), lambda: self._records.get(kind, ids, current=current))

    async def list(
        self, kind: str, *, status: str = "", where: str = "", prefix: str = "", limit: int = 100, after: str = ""
    ) -> Sequence[StoredRecord]:
        """List records of a kind."""
        listed = self._records.list
        return await self._call(
            "look_records",
            (),
            lambda: listed(kind, status=status, where=where, prefix=prefix, limit=limit, after=after),
        )

    async def kinds(self) -> Sequence[str]:
        """Return the kinds that have records."""
        return await self._call("record_kinds", (), self._records.kinds)

    async def write(self, changes: Sequence[RecordChange]) -> Sequence[WriteAnswer]:
        """Make all changes or none. A connection does not repeat a write by itself; the engine does."""
        return await self._call("write_records", _lanes(changes), lambda: self._records.write(changes), once=True)

    async def ask(self, request: LockRequest, kind: str, id: str) -> tuple[Answer, StoredRecord | None]:  # noqa: A002
        """Ask for a record's lock, and read the record."""

        async def operation() -> tuple[Answer, StoredRecord | None]:
            answer, stored = await self._records.ask(request, kind, id)
            self._watcher.asked(request, answer)
            return answer, stored

        self._watcher.calling(request)
        return await self._call("open_record", (request.key,), operation, last_counts=True)

    async def write_and_release(
        self, changes: Sequence[RecordChange], leases: Sequence[LockRequest]
    ) -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
        """Make all changes or none, and release leases with them."""

        async def operation() -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
            answers, all_left = await self._records.write_and_release(changes, leases)
            for request, left in zip(leases, all_left or (), strict=all_left is not None):
                self._watcher.left(request, left)
            return answers, all_left

        lanes = dict.fromkeys([*_lanes(changes), *(request.key for request in leases)])
        return await self._call("write_records", lanes, operation, once=True)


def _lanes(changes: Sequence[RecordChange]) -> list[str]:
    return [lock_key(change.kind, change.id) for change in changes]
