"""The seals of the journal port: every entry is sealed once, batches form one chain, and retention keeps the seals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interlock.errors import InterlockError
from interlock.journal.hashing import FIRST, draft_seal
from interlock.journal.sealer import seal_all, seal_next
from interlock.journal.verifier import ProblemKind, verify
from interlock.ports.journal import Attribution, JournalFilter, NewEntry, Verification
from interlock.testing.conformance.events.driver import EventDriver, EventSuite
from interlock.testing.conformance.jobs.driver import near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import JournalEntry

__all__ = ["JournalSealConformance"]

ODD = "quotes \"' \\ newline \n tab \t ü 漢 🙂 \x7f \u2028"


async def _add(b: EventDriver, count: int = 1) -> list[int]:
    """Add entries with something in every column, one second apart."""
    ids = []
    for n in range(count):
        b.clock.advance(1.0)
        attribution = Attribution("ann", ODD, 4, 2**62, None)
        entry = NewEntry(attribution, "lock.force_release", "lock", f"k{n}", '{"a":  1.50}', None, 3, None)
        ids.append(await b.store.journal.add(entry))
    return ids


async def _by_batch(b: EventDriver) -> list[list[int]]:
    """The IDs of the entries that are kept, by batch."""
    return [[row[0] for row in batch.rows] for batch in await b.store.journal.batches(0, 100_000)]


async def _entries(b: EventDriver) -> Sequence[JournalEntry]:
    return await b.store.journal.list(JournalFilter())


class JournalSealConformance(EventSuite):
    """Sealing, verification and retention."""

    async def test_entries_are_sealed_in_batches_that_form_a_chain(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            ids = await _add(b, 5)
            assert await seal_all(b.store.journal, 2) == 5
            assert await seal_all(b.store.journal, 2) == 0

            batches = await b.store.journal.batches(0, 100)
            assert [batch.seal.batch for batch in batches] == [1, 2, 3]
            assert await _by_batch(b) == [ids[:2], ids[2:4], ids[4:]]
            assert [batch.seal.previous for batch in batches] == [FIRST, batches[0].seal.hash, batches[1].seal.hash]
            assert [(batch.seal.first_id, batch.seal.last_id) for batch in batches[:2]] == [
                (ids[0], ids[1]),
                (ids[2], ids[3]),
            ]
            assert [entry.batch for entry in await _entries(b)] == [3, 2, 2, 1, 1]
            report = await verify(b.store.journal, head=batches[1].seal.hash.hex())
            assert report.ok, report.problems
            assert (report.batches, report.entries, report.head_batch) == (3, 5, 3)
            assert report.head == batches[-1].seal.hash.hex()

    async def test_an_empty_journal_verifies(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            assert await seal_next(b.store.journal, 10) is None
            report = await verify(b.store.journal)
            assert report.ok
            assert (report.batches, report.head_batch, report.head) == (0, 0, "")

    async def test_batches_are_read_in_parts(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            await _add(b, 6)
            await seal_all(b.store.journal, 2)
            read = b.store.journal.batches
            assert [batch.seal.batch for batch in await read(0, 1)] == [1]
            assert [batch.seal.batch for batch in await read(0, 4)] == [1, 2]
            assert [batch.seal.batch for batch in await read(1, 100)] == [2, 3]
            assert list(await read(3, 100)) == []

    async def test_of_two_sealers_one_seals_the_batch(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            ids = await _add(b, 3)
            journal = b.store.journal
            early, late = await journal.unsealed(2), await journal.unsealed(3)
            assert await journal.seal(draft_seal(late), [row[0] for row in late.rows])
            assert not await journal.seal(draft_seal(early), [row[0] for row in early.rows])

            assert await _by_batch(b) == [ids]
            await _add(b, 50)
            await asyncio.gather(*(seal_all(journal, 3) for _ in range(5)))
            await seal_all(journal, 3)
            report = await verify(journal)
            assert report.ok, report.problems
            assert (report.entries, report.unsealed) == (53, 0)

    async def test_an_entry_that_has_a_batch_is_not_sealed_again(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            await _add(b, 2)
            journal = b.store.journal
            stale = await journal.unsealed(2)
            first = await seal_next(journal, 1)
            with pytest.raises(InterlockError, match="are gone or have a batch"):
                await journal.seal(draft_seal(stale._replace(head=first)), [row[0] for row in stale.rows])

            report = await verify(journal)
            assert report.ok, report.problems
            assert (report.batches, report.unsealed) == (1, 1), "the refused seal left nothing"

    async def test_retention_removes_whole_sealed_batches_and_keeps_their_seals(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            journal = b.store.journal
            ids = await _add(b, 6)
            await seal_all(journal, 2)
            head = (await verify(journal)).head
            assert await journal.prune(2.5) == 2, "batch 2 has an entry that is young enough to be kept"
            assert await _by_batch(b) == [[], ids[2:4], ids[4:]]

            report = await verify(journal, head=head)
            assert report.ok, report.problems
            assert (report.batches, report.entries, report.pruned_batches, report.pruned_entries) == (3, 4, 1, 2)
            assert report.pruned_until == near(b.now - 4.0)
            batch = (await journal.batches(0, 1))[0]
            assert batch.seal.leaves is None
            assert (await journal.status()).pruned_batches == 1

    async def test_retention_is_bounded_and_takes_at_least_one_batch(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            journal = b.store.journal
            await _add(b, 8)
            await seal_all(journal, 2)
            b.clock.advance(100.0)
            assert await journal.prune(50.0, limit=1) == 2
            assert await journal.prune(50.0, limit=5) == 4
            assert await journal.prune(50.0, limit=5) == 2
            assert await journal.prune(50.0, limit=5) == 0
            report = await verify(journal)
            assert report.ok, report.problems
            assert (report.pruned_batches, report.pruned_entries, report.entries) == (4, 8, 0)
            await _add(b, 1)
            await seal_all(journal, 2)
            assert (await verify(journal)).ok, "the chain continues"

    async def test_unsealed_entries_are_never_pruned(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            ids = await _add(b, 2)
            b.clock.advance(100.0)
            assert await b.store.journal.prune(50.0) == 0
            assert sorted(entry.id for entry in await _entries(b)) == ids

    async def test_a_head_that_is_not_in_the_chain_is_reported(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            await _add(b, 1)
            await seal_all(b.store.journal, 2)
            report = await verify(b.store.journal, head="ab" * 32)
            assert [problem.kind for problem in report.problems] == [ProblemKind.HEAD_MISSING]

    async def test_the_status_tells_what_is_unsealed_and_what_was_verified(self, store_url: str) -> None:
        async with self.event_driver(store_url) as b:
            journal = b.store.journal
            status = await journal.status()
            assert status[1:] == (0, None, None, 0, None)
            await _add(b, 3)
            seal = await seal_next(journal, 1)
            assert seal is not None
            for problems in (0, 2):
                b.clock.advance(5.0)
                await journal.verified(Verification(0.0, 1, 1, problems, "entry 7 …", seal.hash))
            status = await journal.status()
            assert (status.unsealed, status.unsealed_since) == (2, near(b.now - 11.0))
            assert status.head == seal._replace(leaves=None)
            assert status.verification == (near(b.now), 1, 1, 2, "entry 7 …", seal.hash)
