"""A test driver for the records port: a store on a virtual clock, with short helpers."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from interlock.ports.journal import Attribution, JournalFilter, NewEntry
from interlock.ports.records import RecordChange, Written, lock_key, subject_key
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.driver import Driver, DriverSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.ports.journal import JournalEntry
    from interlock.ports.records import StoredRecord
    from interlock.ports.store import Store

__all__ = ["KIND", "MISS", "RecordDriver", "RecordSuite"]

KIND = "Intent"
MISS = 10**6
"""A version that no record of a test has."""


class RecordDriver(Driver):
    """Changes of records of one kind, whose body is ``{"n": …}``. A change of record ``a`` has the uid ``uid-a``."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.records = store.records

    def change(
        self,
        id: str,  # noqa: A002
        expected: int | None,
        n: int | None = 0,
        *,
        kind: str = KIND,
        status: str = "open",
        uid: str = "",
        owner: str | None = None,
        fence: int | None = None,
        body: str | None = None,
        who: Attribution = Attribution("eva", "because", 4, 7, 11),  # noqa: B008 - it is immutable
    ) -> RecordChange:
        """A change of a record; ``n=None`` deletes it."""
        text = None if n is None else body or json.dumps({"n": n})
        action = "record.create" if expected is None else "record.delete" if n is None else "record.update"
        to_version = None if n is None else 0 if expected is None else expected + 1
        entry = NewEntry(who, action, "record", subject_key(kind, id), None, text, expected, to_version)
        return RecordChange(kind, id, uid or f"uid-{id}", expected, status, text, owner, fence, entry)

    async def write(self, *changes: RecordChange) -> list[Any]:
        return list(await self.records.write(changes))

    async def written(self, id: str, expected: int | None, n: int | None = 0, **options: Any) -> Written:  # noqa: A002
        (answer,) = await self.write(self.change(id, expected, n, **options))
        assert isinstance(answer, Written), answer
        return answer

    async def refused(self, id: str, expected: int | None, n: int | None = 0, **options: Any) -> Any:  # noqa: A002
        (answer,) = await self.write(self.change(id, expected, n, **options))
        assert not isinstance(answer, Written), answer
        return answer

    async def record(self, id: str, *, kind: str = KIND, current: bool = False) -> StoredRecord | None:  # noqa: A002
        found = await self.records.get(kind, [id], current=current)
        return found[0] if found else None

    async def values(self, *ids: str) -> dict[str, tuple[int, int]]:
        """Version and ``n`` of each record that exists."""
        return {one.id: (one.version, json.loads(one.body)["n"]) for one in await self.records.get(KIND, ids)}

    async def ids(self, **wanted: Any) -> list[str]:
        return [one.id for one in await self.records.list(KIND, **wanted)]

    async def lease(self, owner: str, id: str, **changes: Any) -> int:  # noqa: A002
        """Take the lease on a record, and return its fence."""
        return await self.granted(owner, lock_key(KIND, id), **changes)

    async def entries(self) -> list[JournalEntry]:
        """All entries about records, the oldest first."""
        return list(await self.store.journal.list(JournalFilter(subject_kind="record"), limit=1000))[::-1]


class RecordSuite(DriverSuite):
    """Tests that use such a driver, or several that share a store."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.RECORDS,)

    @asynccontextmanager
    async def record_driver(
        self, url: str, clock: VirtualClock | None = None, **settings: Any
    ) -> AsyncIterator[RecordDriver]:
        """A fresh driver on the store."""
        async with self.driver(url, clock, **({"namespace": self.namespace} | settings)) as driver:
            yield RecordDriver(driver.store, driver.clock)

    @asynccontextmanager
    async def record_drivers(self, url: str, count: int) -> AsyncIterator[list[RecordDriver]]:
        """Drivers with separate connections to one store, like processes; one driver if the store allows only one."""
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(self.record_driver(url, clock))
            if Capability.PROCESSES not in first.store.capabilities:
                yield [first] * count
                return
            others = [await stack.enter_async_context(self.record_driver(url, clock)) for _ in range(count - 1)]
            yield [first, *others]
