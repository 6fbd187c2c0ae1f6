"""On SQLite those who wait are served in the order in which they asked, also if they asked while the file was held."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Settings, Slots
from interlock.backends import from_url
from interlock.backends.sqlite.queue_order import RequestTimes, next_ticket
from interlock.errors import StoreUnavailableError
from interlock.ports.locks import Answer, Granted, LockRequest, Waiting
from interlock.ports.sessions import SessionCard
from interlock.testing.clock import VirtualClock, until
from interlock.testing.lookup import get_or_none
from interlock.testing.processes import Worker, receive_async, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from interlock.ports.store import Store

PROCESSES, ASKS = 4, 20
SOON = 60.0
SETTINGS = Settings(session_ttl=120, store_wait=100, stuck_work="report")


async def ask_when_told(url: str, log: str) -> None:
    """In another process: ask for the lock or the limit as often as told, and write down when the turn comes."""
    app = App(url, settings=SETTINGS)

    async def take(what: str, number: int) -> None:
        lock, limit = app.locks.acquire("key", wait=SOON), app.limits.acquire(Slots("s", 1), wait=SOON)
        asking: Any = lock if what == "lock" else limit
        async with asking:
            with Path(log).open("a") as file:
                file.write(f"{what} {number}\n")

    async with app:
        report("ready")
        tasks = []
        while True:
            message = await receive_async()
            if message["name"] == "end":
                break
            tasks.append(asyncio.create_task(take(message["what"], message["number"])))
            for _ in range(5):  # until it is in the hands of the store
                await asyncio.sleep(0)
            report("asked")
        await asyncio.gather(*tasks)


async def ask_in_turn_while_the_file_is_held(workers: list[Worker], path: Path, what: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("begin immediate")
        for number in range(ASKS):
            worker = workers[number % PROCESSES]
            worker.send("ask", what=what, number=number)
            await worker.wait_for("asked", SOON)
        holder.execute("commit")


@pytest.mark.full
async def test_locks_and_limits_are_served_in_the_order_of_asking(tmp_path: Path) -> None:
    path, log = tmp_path / "interlock.db", tmp_path / "log"
    url = f"sqlite:///{path}"
    app = App(url, settings=SETTINGS)

    async def all_wait() -> bool:
        view = await get_or_none(app.locks, "key")
        limited = [user for limit in await app.limits.list() for user in limit.waiting]
        return view is not None and len(view.waiters) == len(limited) == ASKS

    async with app, AsyncExitStack() as stack:
        workers = [Worker.spawn(f"{__name__}:ask_when_told", [url, str(log)]) for _ in range(PROCESSES)]
        for worker in workers:
            await stack.enter_async_context(worker)
        for worker in workers:
            await worker.wait_for("ready", SOON)
        async with app.locks.acquire("key"), app.limits.acquire(Slots("s", 1)):
            await ask_in_turn_while_the_file_is_held(workers, path, "lock")
            await ask_in_turn_while_the_file_is_held(workers, path, "limit")
            await until(all_wait, within=SOON)
        for worker in workers:
            worker.send("end")
        for worker in workers:
            await worker.result(SOON)

    turns = [line.split() for line in log.read_text().splitlines()]
    for what in ("lock", "limit"):
        assert [int(number) for kind, number in turns if kind == what] == list(range(ASKS)), what


# -- one request that arrives after a later one ----------------------------------------------------------------------


class Process:
    """A store with a session and a clock of its own."""

    def __init__(self, store: Store, clock: VirtualClock, name: str) -> None:
        self.store = store
        self.clock = clock
        self.name = name

    async def ask(self, owner: str, *, wait: float | None = 1000.0) -> Answer:
        want = LockRequest("key", f"{self.name}.{owner}", f"{self.name}{owner}", self.name, 1000.0, wait, nested=False)
        return await self.store.locks.ask(want)

    async def leave(self, owner: str) -> None:
        await self.store.locks.leave(LockRequest("key", f"{self.name}.{owner}", "", self.name, 1000.0, 0, nested=False))


@asynccontextmanager
async def two_processes(path: Path) -> AsyncIterator[tuple[Process, Process]]:
    """Two on one file, whose clocks stand still; the second one's monotonic clock is a day behind."""
    async with AsyncExitStack() as stack:
        found = []
        for name, ahead in (("a", 86_400.0), ("b", 0.0)):
            clock = VirtualClock(1_800_000_000.0 - ahead)
            clock.advance(ahead)
            store = from_url(f"sqlite:///{path}", settings=Settings(store_wait=10), clock=clock)
            await store.open()
            stack.push_async_callback(store.close)
            await store.sessions.begin(SessionCard(name, "host", 7, "test"), 1000.0)
            found.append(Process(store, clock, name))
        yield found[0], found[1]


async def queue(process: Process) -> list[str]:
    (view,) = await process.store.locks.list("key")
    return [waiter.owner for waiter in view.waiters]


async def test_an_earlier_request_goes_before_later_ones_that_wait_but_not_before_the_holder(tmp_path: Path) -> None:
    async with two_processes(tmp_path / "interlock.db") as (late, early):
        assert isinstance(await late.ask("1"), Granted)
        assert isinstance(await late.ask("2"), Waiting)

        assert isinstance(await early.ask("1"), Waiting)

        assert await queue(early) == ["b.1", "a.2"]
        await late.leave("1")
        assert isinstance(await late.ask("2"), Waiting)
        assert isinstance(await early.ask("1"), Granted)


async def test_an_earlier_request_is_granted_a_free_key_that_a_later_one_has_not_taken_yet(tmp_path: Path) -> None:
    async with two_processes(tmp_path / "interlock.db") as (late, early):
        await late.ask("1")
        await late.ask("2")
        await late.leave("1")

        assert isinstance(await early.ask("1", wait=0), Granted)
        assert isinstance(await late.ask("2"), Waiting)


async def test_a_wrong_clock_overtakes_nobody_who_has_waited_for_long(tmp_path: Path) -> None:
    async with two_processes(tmp_path / "interlock.db") as (right, wrong):
        await right.ask("1")
        await right.ask("2")
        for process in (right, wrong):
            process.clock.advance(11)
        await right.ask("3")

        await wrong.ask("1")
        await wrong.ask("2")

        assert await queue(right) == ["a.2", "b.1", "b.2", "a.3"]


async def test_requests_of_one_moment_keep_the_order_of_arrival(tmp_path: Path) -> None:
    async with two_processes(tmp_path / "interlock.db") as (one, _):
        for owner in range(6):
            await one.ask(str(owner))
        await one.leave("2")
        await one.ask("6")

        assert await queue(one) == [f"a.{owner}" for owner in (1, 3, 4, 5, 6)]


# -- tickets ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("create table queue (ticket integer primary key)")
        yield connection


LARGEST = "select max(ticket) from queue where ticket between :first and :last"


def queued(db: sqlite3.Connection, asked: int, floor: int = 0) -> int:
    ticket = next_ticket(db, LARGEST, asked, floor)
    db.execute("insert into queue values (?)", (ticket,))
    return ticket


def test_more_requests_of_one_moment_than_it_has_tickets_all_get_one(db: sqlite3.Connection) -> None:
    tickets = [queued(db, 7) for _ in range(10_000)]
    later = queued(db, 8)

    assert tickets == sorted(set(tickets))
    assert later not in tickets


def test_a_ticket_lies_above_the_floor(db: sqlite3.Connection) -> None:
    oldest = queued(db, 1000)

    assert queued(db, 5, floor=oldest) > oldest
    assert queued(db, 5) < oldest


def test_a_request_that_is_repeated_keeps_its_time() -> None:
    clock = VirtualClock()
    times = RequestTimes(clock)
    clock.advance(1)
    asked = times.of("owner")

    times.keep("owner", asked)
    clock.advance(1)

    assert times.of("owner") == asked
    assert times.of("owner") == 2 * asked
    times.keep("owner", asked)
    times.forget("owner")
    assert times.of("owner") == 2 * asked


async def test_a_request_that_the_file_kept_out_keeps_its_time_when_it_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    async with two_processes(path) as (one, _):
        await one.ask("1")
        quick = from_url(f"sqlite:///{path}", settings=Settings(store_wait=0.1), clock=one.clock)
        await quick.open()
        try:
            first = Process(quick, one.clock, "a")
            with closing(sqlite3.connect(path, isolation_level=None)) as holder:
                holder.execute("begin immediate")
                with pytest.raises(StoreUnavailableError):
                    await first.ask("first")
                holder.execute("rollback")
            one.clock.advance(0.05)
            await one.ask("second")
            await first.ask("first")
        finally:
            await quick.close()

        assert await queue(one) == ["a.first", "a.second"]
