"""Entries that share a statement on PostgreSQL."""

from __future__ import annotations

import asyncio

from interlock.backends import from_url
from interlock.errors import InterlockError
from interlock.ports.journal import Attribution, JournalFilter, NewEntry
from interlock.settings import Settings


async def test_an_entry_that_cannot_be_stored_fails_alone(interlock_postgres_url: str) -> None:
    store = from_url(interlock_postgres_url, settings=Settings())
    await store.open()
    try:
        who = Attribution("ann", "because")
        entries = [NewEntry(who, "order.ship", "order", key) for key in ("a", "b\0", "c")]
        added = await asyncio.gather(*(store.journal.add(entry) for entry in entries), return_exceptions=True)
        found = await store.journal.list(JournalFilter(subject_kind="order"))
    finally:
        await store.close()

    assert [isinstance(one, InterlockError) for one in added] == [False, True, False]
    assert {entry.subject_key: entry.id for entry in found} == {"a": added[0], "c": added[2]}
