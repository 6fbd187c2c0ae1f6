"""On PostgreSQL an open fenced transaction holds back only what must come after it."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from interlock import Locks
from interlock.errors import LockTimeoutError, MisuseError


async def test_who_gives_up_waiting_does_not_wait_for_a_fenced_transaction(complete_postgres_url: str) -> None:
    async with Locks.from_url(complete_postgres_url) as one, Locks.from_url(complete_postgres_url) as two:  # noqa: SIM117
        async with one.acquire("key") as lease, lease.fenced():  # until the end of this block
            with pytest.raises(LockTimeoutError):
                await asyncio.wait_for(two.acquire("key", wait=0.3), 8)
            for number in range(8):  # a free key on every lane
                async with two.acquire(f"free-{number}", wait=20):
                    pass


async def test_a_process_can_leave_while_others_are_in_fenced_transactions(complete_postgres_url: str) -> None:
    async with Locks.from_url(complete_postgres_url) as one, Locks.from_url(complete_postgres_url) as three:  # noqa: SIM117
        async with one.acquire("z") as lease, lease.fenced(), three.acquire("a") as other:
            two = Locks.from_url(complete_postgres_url)
            await two.open()
            waiting = [asyncio.create_task(_enter(two, key)) for key in ("a", "z")]
            while sum(len(view.waiters) for view in await one.list()) < 2:
                await asyncio.sleep(0.01)
            started = time.monotonic()
            await two.close()
            assert time.monotonic() - started < 8, "less than it keeps trying to reach the store"
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(error) for error in ended] == [MisuseError, MisuseError]
            assert all(not view.waiters for view in await one.list())
            other.ensure()


async def test_nobody_takes_over_from_the_dead_before_their_last_fenced_transaction_ends(
    complete_postgres_url: str,
) -> None:
    settings = {"session_ttl": 1.0, "stuck_work": "report", "recheck_interval": 0.2}
    order: list[str] = []
    async with Locks.from_url(complete_postgres_url, **settings) as two:
        one = Locks.from_url(complete_postgres_url, **settings)
        await one.open()
        lease = await one.acquire("key", ttl=1)
        fenced = one._store_client.store.locks.fenced("key", lease.owner, lease.fence)
        transaction = await fenced.__aenter__()
        await transaction.execute("create table target (value integer)")
        await one._store_client.keeper.stop()  # the session ends under it
        behind = asyncio.create_task(_enter(two, "key", order))
        while not any(view.waiters for view in await two.list()):
            await asyncio.sleep(0.01)
        async with two.acquire("meanwhile", wait=20):  # its connections stay usable
            pass
        assert order == []
        await fenced.__aexit__(None, None, None)
        order.append("committed")
        await asyncio.wait_for(behind, 20)
        assert order == ["committed", "entered"]
        await one.close()


async def test_an_error_swallowed_inside_is_told_at_the_end(complete_postgres_url: str) -> None:
    async with Locks.from_url(complete_postgres_url) as locks, locks.acquire("key") as lease:
        with pytest.raises(MisuseError, match="swallowed"):  # noqa: PT012
            async with lease.fenced() as transaction:
                await transaction.execute("create table target (value integer)")
                with pytest.raises(Exception, match="nowhere"):
                    await transaction.execute("insert into nowhere values (1)")


LEFT_BEHIND = {
    "setting": ("set search_path = pg_temp", "select current_setting('search_path') = 'pg_temp'"),
    "custom setting": (
        "select set_config('mine.tenant', 'a', false)",
        "select coalesce(current_setting('mine.tenant', true) = 'a', false)",
    ),
    "timeout": ("set statement_timeout = '1ms'", "select current_setting('statement_timeout') = '1ms'"),
    "role": ("set role pg_monitor", "select current_user = 'pg_monitor'"),
    "temporary table": ("create temp table mine (id integer)", "select to_regclass('pg_temp.mine') is not null"),
    "advisory lock": (
        "select pg_advisory_lock(4711)",
        "select exists (select from pg_locks where locktype = 'advisory' and objid = 4711)",
    ),
    "cursor": (
        "declare mine cursor with hold for select 1",
        "select exists (select from pg_cursors where name = 'mine')",
    ),
    "prepared statement": (
        "prepare mine as select 1",
        "select exists (select from pg_prepared_statements where name = 'mine')",
    ),
    "channel": ("listen mine", "select exists (select from pg_listening_channels())"),
}


@pytest.mark.parametrize("act", LEFT_BEHIND)
async def test_the_next_fenced_transaction_finds_nothing_of_the_one_before(
    complete_postgres_url: str, act: str
) -> None:
    leave, is_left = LEFT_BEHIND[act]
    backends = []
    async with Locks.from_url(complete_postgres_url, connections=4) as locks, locks.acquire("key") as lease:
        for _ in range(5):  # more than there are connections
            async with lease.fenced() as transaction:
                backends += await transaction.fetch("select pg_backend_pid()")
                assert await transaction.fetch(is_left) == [(False,)]
                assert await transaction.fetch("select current_setting('application_name')") == [("interlock",)]
                await transaction.execute(leave)

    assert len(set(backends)) < len(backends)


async def test_what_a_fenced_transaction_locks_is_free_when_it_has_ended(complete_postgres_url: str) -> None:
    other = await asyncpg.connect(complete_postgres_url)
    try:
        async with Locks.from_url(complete_postgres_url) as locks, locks.acquire("key") as lease:
            async with lease.fenced() as transaction:
                await transaction.execute("select pg_advisory_lock(4711)")

            assert await other.fetchval("select pg_try_advisory_lock(4711)")
    finally:
        await other.close()


async def _enter(locks: Locks, key: str, order: list[str] | None = None) -> None:
    async with locks.acquire(key, wait=30):
        if order is not None:
            order.append("entered")
