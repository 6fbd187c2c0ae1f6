"""Apps with records, for the tests of the public class."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, Field

from interlock.app import App
from interlock.ports.store import Capability
from interlock.records import Machine, Records
from interlock.testing.conformance.base import StoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["MACHINE", "Intent", "RecordApp", "RecordAppSuite", "Status"]


class Status(StrEnum):
    """The statuses of an intent."""

    RECEIVED = "received"
    NORMALIZED = "normalized"
    PROCESSED = "processed"
    CORRECTED = "corrected"
    COMPLETED = "completed"
    FAILED = "failed"


MACHINE = Machine(
    initial=Status.RECEIVED,
    transitions={
        Status.RECEIVED: [Status.NORMALIZED, Status.PROCESSED, Status.FAILED],
        Status.NORMALIZED: [Status.PROCESSED, Status.COMPLETED, Status.FAILED],
        Status.PROCESSED: [Status.CORRECTED, Status.COMPLETED, Status.FAILED],
        Status.CORRECTED: [Status.COMPLETED, Status.FAILED],
    },
    corrected=Status.CORRECTED,
)


class Intent(BaseModel):
    """A record with every managed field."""

    id: str
    status: Status = Status.RECEIVED
    version: int = 0
    fence: int | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    count: int = 0
    owner: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)


class RecordApp:
    """An open app and its intents."""

    def __init__(self, app: App, intents: Records[Intent]) -> None:
        self.app = app
        self.intents = intents

    async def new(self, *ids: str, **fields: Any) -> None:
        for id in ids:  # noqa: A001
            await self.intents.create(Intent(id=id, **fields), by="eva")

    async def counts(self, *ids: str) -> list[tuple[int, int]]:
        """Version and count of each."""
        found = [await self.intents.get(id) for id in ids]  # noqa: A001
        return [(one.version, one.count) for one in found]


class RecordAppSuite(StoreSuite):
    """Tests that use such an app, or several that share a store like processes."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.RECORDS,)

    @asynccontextmanager
    async def record_app(self, url: str, **options: Any) -> AsyncIterator[RecordApp]:
        """An open app; ``options`` are those of ``app.records``."""
        app = App(url, namespace=self.namespace)
        defaults: dict[str, Any] = {"machine": MACHINE, "correctable": ["payload"]}
        intents = app.records(Intent, **(defaults | options))
        async with app:
            yield RecordApp(app, intents)

    @asynccontextmanager
    async def record_apps(self, url: str, count: int, **options: Any) -> AsyncIterator[list[RecordApp]]:
        """Several apps on one store."""
        shared = "memory://" + self.namespace if url == "memory://" else url
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(self.record_app(shared, **options)) for _ in range(count)]
