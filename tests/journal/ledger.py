"""A journal whose tables a test can change behind Interlock's back."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.backends import from_url
from interlock.journal.sealer import seal_all
from interlock.journal.verifier import verify
from interlock.ports.journal import Attribution, NewEntry
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.journal import VerificationReport
    from interlock.ports.journal import JournalStore
    from interlock.ports.store import Store

__all__ = ["Ledger", "open_ledger"]


class Ledger:
    """A store's journal, and direct access to its tables."""

    def __init__(self, store: Store, url: str) -> None:
        self.store = store
        self.url = url
        self.postgres = url.startswith("postgres")

    @property
    def journal(self) -> JournalStore:
        """The journal."""
        return self.store.journal

    async def add(self, count: int) -> list[int]:
        """Add entries that have a value in every column."""
        entry = NewEntry(Attribution("ann", "why", 4, 7, 11), "lock.force_release", "lock", "k", '{"a": 1}', "{}", 3, 4)
        return [await self.journal.add(entry._replace(subject_key=f"k{n}")) for n in range(count)]

    async def sealed(self, count: int, size: int) -> list[int]:
        """Add entries and seal them in batches."""
        ids = await self.add(count)
        await seal_all(self.journal, size)
        assert (await self.verify()).ok
        return ids

    async def verify(self, head: str = "") -> VerificationReport:
        """Verify the journal."""
        return await verify(self.journal, head=head)

    async def tamper(self, statement: str) -> None:
        """Execute SQL in the store, with PostgreSQL's names of the tables."""
        if self.postgres:
            connection = await asyncpg.connect(self.url)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()
            return
        statement = statement.replace("interlock.", "interlock_")
        if self.url.startswith("memory"):
            write: Any = self.journal
            await write._write(lambda db: db.execute(statement))
            return
        with sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None) as db:
            db.executescript(statement)
        db.close()


@asynccontextmanager
async def open_ledger(url: str) -> AsyncIterator[Ledger]:
    """Open a store with nothing in it."""
    store = from_url(url, settings=Settings())
    await store.open()
    try:
        yield Ledger(store, url)
    finally:
        await store.close()
