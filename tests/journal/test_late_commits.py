"""Entries whose transactions commit late, on PostgreSQL: an ID that is drawn early can appear late."""

from __future__ import annotations

import asyncpg

from interlock.journal.sealer import seal_all, seal_next
from tests.journal.ledger import open_ledger

ADD = """select interlock.journal_add('default', $1, '["late", "", null, null, null]', 'lane.hold', 'l', null, null)"""


async def test_an_entry_that_commits_after_its_successors_were_sealed_is_sealed_in_the_next_batch(
    complete_postgres_url: str,
) -> None:
    async with open_ledger(complete_postgres_url) as ledger:
        connection = await asyncpg.connect(complete_postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            late = await connection.fetchval(ADD, 1)
            before = await ledger.sealed(3, 10)
            assert late < min(before), "it drew its ID first"
            await transaction.commit()
        finally:
            await connection.close()
        after = await ledger.add(1)
        assert await seal_all(ledger.journal, 10) == 2

        batches = await ledger.journal.batches(0, 100)
        assert [[row[0] for row in batch.rows] for batch in batches] == [before, [late, *after]]
        report = await ledger.verify()
        assert report.ok, report.problems
        assert (report.entries, report.unsealed) == (5, 0)
        await ledger.tamper(f"delete from interlock.journal where id = {late}")
        assert [problem.entry for problem in (await ledger.verify()).problems] == [late]


async def test_an_entry_whose_transaction_is_rolled_back_is_missed_by_nobody(complete_postgres_url: str) -> None:
    async with open_ledger(complete_postgres_url) as ledger:
        connection = await asyncpg.connect(complete_postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.fetchval(ADD, 1)
            await ledger.sealed(1, 10)
            await transaction.rollback()
        finally:
            await connection.close()
        await ledger.add(1)
        assert await seal_next(ledger.journal, 10) is not None
        report = await ledger.verify()
        assert (report.ok, report.entries, report.batches) == (True, 2, 2)
