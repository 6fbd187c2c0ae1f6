"""``app.journal``: the journal as a program sees it."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest

from interlock import App
from interlock.errors import CapabilityError, InvalidArgumentError, NotFoundError


async def test_entries_are_listed_got_sealed_and_verified() -> None:
    app = App("memory://", seal_limit=2)
    async with app:
        for lane in ("a", "b", "c"):
            await app.lanes.hold(lane, by="ann", reason="looking")
        first = await app.journal.list(limit=2)
        rest = await app.journal.list(before=first[-1])
        assert [entry.subject_key for entry in (*first, *rest)] == ["c", "b", "a"]
        assert await app.journal.seal() == 3
        entry = await app.journal.get(rest[0].id)
        assert (entry.batch, entry.after["held_by"], entry.at.tzinfo) == (1, "ann", UTC)
        report = await app.journal.verify()
        assert (report.ok, report.batches, report.entries) == (True, 2, 3)
        status = await app.journal.status()
        assert status.verification is not None
        assert status.verification.problems == 0
        lines = [line async for line in app.journal.export(subject_key="a", subject_kind="lane")]
        assert len(lines) == 5


async def test_lists_are_narrowed() -> None:
    app = App("memory://")
    async with app:
        await app.lanes.hold("a", by="ann", reason="looking")
        await app.lanes.release("a", by="bob")
        now = datetime.now(UTC)
        assert len(await app.journal.list(kind="lane", key="a")) == 2
        assert [entry.action for entry in await app.journal.list(actor="bob")] == ["lane.release"]
        assert len(await app.journal.list(action="lane.hold", since=now - timedelta(hours=1))) == 1
        assert list(await app.journal.list(until=now - timedelta(hours=1))) == []
        assert list(await app.journal.list(job=7)) == []
        with pytest.raises(InvalidArgumentError, match="A key needs the kind"):
            await app.journal.list(key="a")
        with pytest.raises(InvalidArgumentError, match="since has no time zone"):
            await app.journal.list(since=datetime(2026, 1, 1))  # noqa: DTZ001
        with pytest.raises(InvalidArgumentError, match="Invalid hash"):
            await app.journal.verify(head="xyz")
        with pytest.raises(NotFoundError, match="The journal entry 999 does not exist"):
            await app.journal.get(999)


async def test_a_program_adds_an_entry_of_its_own() -> None:
    app = App("memory://")
    async with app:
        id_ = await app.journal.add("order.ship", 7, by="eva", reason="paid", after={"on": date(2026, 1, 2)})
        entry = await app.journal.get(id_)

        assert (entry.actor, entry.reason, entry.subject_kind, entry.subject_key) == ("eva", "paid", "order", "7")
        assert entry.after == {"on": "2026-01-02"}
        with pytest.raises(InvalidArgumentError, match="looks like an operation of Interlock's own"):
            await app.journal.add("record.update", 7, by="eva")


def test_a_store_without_a_journal_says_so() -> None:
    with pytest.raises(CapabilityError, match="redis offers no journal"):
        _ = App("redis://localhost").journal


async def test_a_worker_seals_the_journal() -> None:
    app = App("memory://", seal_interval=0.1)

    @app.job()
    async def idle() -> None: ...

    async with app:
        await app.lanes.hold("a", by="ann", reason="looking")
        async with asyncio.timeout(20), app.worker():
            while (await app.journal.status()).unsealed:
                await asyncio.sleep(0.01)
        assert (await app.journal.verify()).entries == 1
