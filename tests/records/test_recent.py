"""What a process remembers of records saves it reads, and never decides anything that the store does not confirm."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from interlock import App
from interlock.errors import InvalidTransitionError, RecordNotFoundError
from interlock.records import Machine, Records
from interlock.records.recent import RecentRecords, Turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MACHINE = Machine(initial="open", transitions={"open": ["closed"], "closed": ["open", "gone"]})


class Ticket(BaseModel):
    id: str
    status: str = "open"
    count: int = 0
    version: int = 0


class Process:
    """An app with its records, which counts what it reads."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.tickets: Records[Ticket] = self.app.records(
            Ticket, machine=MACHINE, strategies={"transition": "optimistic"}
        )
        self.reads = 0

    def count_reads(self) -> None:
        store: Any = self.tickets._engine.store_client.store.records
        get = store.get

        async def counted(*args: Any, **options: Any) -> Any:
            self.reads += 1
            return await get(*args, **options)

        store.get = counted


@asynccontextmanager
async def processes(tmp_path: Path) -> AsyncIterator[tuple[Process, Process]]:
    one, two = (Process(f"sqlite:///{tmp_path}/records.db") for _ in range(2))
    async with one.app, two.app:
        for process in (one, two):
            process.count_reads()
        await one.tickets.create(Ticket(id="a"))
        one.reads = 0
        yield one, two


def add_one(ticket: Ticket) -> None:
    ticket.count += 1


async def test_a_record_that_one_process_works_on_is_not_read_again(tmp_path: Path) -> None:
    async with processes(tmp_path) as (one, _):
        for number in range(5):
            await one.tickets.update("a", add_one)
            await one.tickets.transition("a", ("closed", "open")[number % 2])

        assert one.reads == 0
        assert (await one.tickets.get("a")).count == 5


async def test_a_change_by_another_process_is_built_upon(tmp_path: Path) -> None:
    async with processes(tmp_path) as (one, two):
        await two.tickets.update("a", add_one)
        await two.tickets.transition("a", "closed")

        await one.tickets.update("a", add_one)  # it remembers version 0
        record = await one.tickets.transition("a", "gone")  # which the remembered status does not allow

        assert (record.count, record.status, record.version) == (2, "gone", 4)
        assert one.reads == 1, "after the first write it remembers what it read"


async def test_only_what_the_store_has_is_a_reason_to_refuse(tmp_path: Path) -> None:
    async with processes(tmp_path) as (one, two):
        await two.tickets.transition("a", "closed")
        await two.tickets.transition("a", "gone")

        with pytest.raises(InvalidTransitionError):
            await one.tickets.transition("a", "closed")  # allowed for what it remembers
        await two.tickets.delete("a")
        with pytest.raises(RecordNotFoundError):
            await one.tickets.update("a", add_one)


async def test_a_new_record_with_an_old_id_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    async with processes(tmp_path) as (one, two):
        await two.tickets.delete("a")
        await two.tickets.create(Ticket(id="a", count=100))

        assert (await one.tickets.update("a", add_one)).count == 101


async def test_tasks_of_one_process_do_not_lose_to_each_other(tmp_path: Path) -> None:
    async with processes(tmp_path) as (one, _):
        await asyncio.gather(*(one.tickets.update("a", add_one) for _ in range(50)))

        assert (await one.tickets.get("a")).count == 50
        assert one.tickets._engine.metrics.version_conflicts == 0


async def test_a_change_that_waits_holds_up_no_other_task(tmp_path: Path) -> None:
    async with processes(tmp_path) as (one, _):
        may_end = asyncio.Event()

        async def slow(ticket: Ticket) -> None:
            await may_end.wait()
            ticket.count += 10

        waiting = asyncio.ensure_future(one.tickets.update("a", slow))
        await one.tickets.update("a", add_one)
        may_end.set()
        await waiting

        assert (await one.tickets.get("a")).count == 11


async def test_turns_come_in_order_and_survive_cancellation() -> None:
    turns: Turns[str] = Turns()
    order: list[int] = []
    started = asyncio.Event()
    may_go = asyncio.Event()

    async def work(number: int) -> None:
        async with turns.turn("key"):
            order.append(number)
            started.set()
            await may_go.wait()

    tasks = [asyncio.ensure_future(work(number)) for number in range(4)]
    await started.wait()
    tasks[1].cancel()
    may_go.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert order == [0, 2, 3]
    assert not turns._lines


def test_memory_is_bounded() -> None:
    from interlock.ports.records import StoredRecord

    recent: RecentRecords[int] = RecentRecords()
    small = StoredRecord("k", "a", "u", 0, "", "{}", None, 0.0, 0.0)
    for number in range(1500):
        recent.remember(number, small)
    recent.remember(1499, small._replace(body="x" * 20_000))

    assert len(recent._records) == 999
    assert recent.get(1498) is small
    assert recent.get(1499) is None
