"""Keys and waiting jobs on PostgreSQL: transactions that are open at the same time."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock.deadlocks import is_deadlock_error
from interlock.errors import MisuseError
from interlock.ports.jobs import Acknowledgement, JobState, Outcome
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, new_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AFTER = "select interlock.enqueue('n', p_queue => 'q', p_after => array[$1::bigint])"
KEYED = "select interlock.enqueue('n', p_queue => 'q', p_key => $1)"


async def waits_for(connection: Any) -> None:
    """Wait until another transaction waits for that of a connection."""
    pid = connection.get_server_pid()
    waiting = "select exists (select from pg_stat_activity a where $1 = any (pg_blocking_pids(a.pid)))"
    async with asyncio.timeout(5):
        while not await connection.fetchval(waiting, pid):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(url: str, connections: int = 2) -> AsyncIterator[tuple[JobDriver, list[Any]]]:
    async with JobSuite().job_driver(url, namespace="default") as driver:
        others = [await asyncpg.connect(url) for _ in range(connections)]
        try:
            yield driver, others
        finally:
            for other in others:
                await other.close()


async def test_an_end_and_an_enqueue_that_is_not_committed_do_not_miss_each_other(interlock_postgres_url: str) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, _)):
        first = await b.add()
        job = await b.one()
        async with mine.transaction():
            waiting = await mine.fetchval(AFTER, first)
            await b.done(job)  # it cannot see who waits
            assert await b.fetch() == []
        assert await b.state(waiting) is JobState.BLOCKED

        assert await b.ids() == [waiting]


async def test_an_enqueue_while_an_end_is_not_committed_does_not_miss_it(interlock_postgres_url: str) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, _)):
        first = await b.add()
        job = await b.one()
        async with mine.transaction():
            await mine.execute(
                "select interlock.job_acknowledge('default', 'a', row(array[$1::bigint], array[$2::bigint],"
                " null, array[0.0::float8], null, null, null, null, null)::interlock.acknowledgements, 3, null)",
                job.id,
                job.fence,
            )
            waiting = await b.add(after=(first,))  # the other has looked for those that wait already
            assert (await b.batch()).recheck_in < 1  # the signal stays
        assert await b.ids() == [waiting]


async def test_an_enqueue_waits_for_no_other_but_for_one_with_its_key(interlock_postgres_url: str) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, other)):
        first = await b.add()
        async with mine.transaction():
            taken = await mine.fetchval(KEYED, "k")
            await mine.fetchval(AFTER, first)
            await asyncio.wait_for(other.fetchval(AFTER, first), 5)
            await asyncio.wait_for(other.fetchval(KEYED, "another"), 5)
            same = asyncio.ensure_future(other.fetchval(KEYED, "k"))
            await asyncio.sleep(0.05)
            assert not same.done()
        assert await asyncio.wait_for(same, 5) == taken


async def test_a_key_of_a_transaction_that_was_rolled_back_is_free(interlock_postgres_url: str) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, other)):
        transaction = mine.transaction()
        await transaction.start()
        await mine.fetchval(KEYED, "k")
        same = asyncio.ensure_future(other.fetchval(KEYED, "k"))
        await asyncio.sleep(0.05)
        await transaction.rollback()

        assert await b.ids() == [await asyncio.wait_for(same, 5)]


async def test_keys_in_opposite_order_give_an_error_that_can_be_retried(interlock_postgres_url: str) -> None:
    async with opened(interlock_postgres_url) as (b, connections):

        async def take(connection: Any, first: str, second: str) -> None:
            async with connection.transaction():
                await connection.execute("set local deadlock_timeout = '100ms'")
                await connection.fetchval(KEYED, first)
                await asyncio.sleep(0.1)
                await connection.fetchval(KEYED, second)

        mine, other = connections
        results = await asyncio.gather(take(mine, "a", "b"), take(other, "b", "a"), return_exceptions=True)
        errors = [result for result in results if result is not None]

        assert len(errors) == 1
        assert isinstance(errors[0], Exception)
        assert is_deadlock_error(errors[0])
        assert len(await b.ids()) == 2


async def test_calls_with_the_same_keys_in_opposite_order_do_not_deadlock(interlock_postgres_url: str) -> None:
    many = "select interlock.enqueue_many((select json_agg(json_build_object('name', 'n', 'queue', 'q', 'key', k::text)"
    up = f"{many} order by k) from generate_series(1, 200) k))"
    down = f"{many} order by k desc) from generate_series(1, 200) k))"
    async with opened(interlock_postgres_url) as (b, (mine, other)):
        for _ in range(3):
            first, second = await asyncio.gather(mine.fetchval(up), other.fetchval(down))
            assert first == second[::-1]
        assert len(await b.ids(limit=1000)) == 200


async def test_a_fetch_that_cancels_waiting_jobs_waits_for_no_session_that_begins_to_watch_them(
    interlock_postgres_url: str,
) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, _)):
        needed = await b.add_many(2)
        jobs = await b.fetch()
        low, high = await b.add(after=(needed[1],)), await b.add(after=(needed[0],))
        for job in jobs:
            await b.end(job, Outcome.FAILED)
        async with mine.transaction():
            # It holds one of the jobs and asks for the other, in the order of their IDs.
            await mine.fetchval("select interlock.job_watch_end('default', 'other', array[$1::bigint])", low)
            batch = await asyncio.wait_for(b.batch(), 5)
            assert batch.recheck_in < 1
            assert await b.states(low, high) == [JobState.BLOCKED, JobState.CANCELLED]
        await b.fetch()

        assert await b.state(low) is JobState.CANCELLED


async def test_a_job_that_comes_back_while_others_expire_expires_too(interlock_postgres_url: str) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, _)):
        last = await b.add(lane="held", expires=5.0)
        job = await b.one("b")
        await b.jobs.hold("held", ANN)
        unseen = await b.add(lane="unseen", expires=1.0)
        others = await b.add_many(20, expires=2.0)
        await b.let_pass(6)
        transaction = mine.transaction()
        await transaction.start()
        await mine.execute("insert into interlock.job_lane (lane, low) values ('default/unseen', 0)")
        fetching = asyncio.ensure_future(b.fetch())  # it knows which jobs are fetched, and waits at the first
        await waits_for(mine)
        await b.end(job, Outcome.RETURNED)
        await transaction.rollback()
        await fetching
        await b.fetch()

        assert set(await b.states(unseen, *others, last)) == {JobState.EXPIRED}


async def test_a_follow_up_whose_key_is_being_taken_holds_up_no_other_acknowledgement(
    interlock_postgres_url: str,
) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, _)):
        await b.add_many(32)
        jobs = await b.fetch()
        ends = [Acknowledgement(job.id, job.fence, Outcome.DONE) for job in jobs]
        new = [new_job(id_, key=key) for id_, key in zip(await b.jobs.ids(3), ("free", "k", "k2"), strict=True)]
        for place, job in zip((3, 7, 11), new, strict=True):
            ends[place] = ends[place]._replace(follow_ups=(job,))
        async with mine.transaction():
            taken = await mine.fetchval(KEYED, "k")
            began = time.perf_counter()
            acknowledged = await b.acknowledged(*ends)
            took = time.perf_counter() - began
            assert list(acknowledged.blocked) == [7]
            assert [place for place, good in enumerate(acknowledged.accepted) if not good] == [7]
            assert took < 1.9  # shorter than the wait for any other row
        assert (await b.acknowledged(ends[7])).accepted == [True]

        assert sorted(await b.ids()) == sorted([taken, new[0].id, new[2].id])


async def test_a_fetch_that_cancels_waiting_jobs_and_a_session_that_ends_do_not_deadlock(
    interlock_postgres_url: str,
) -> None:
    lock = "select id from interlock.job_watch where id = $1 for update"  # as job_end_session does, in this order
    async with opened(interlock_postgres_url) as (b, (mine, _)):
        needed = await b.add_many(2)
        jobs = await b.fetch()
        low, high = await b.add(after=(needed[1],)), await b.add(after=(needed[0],))
        await mine.fetchval("select interlock.job_watch_end('default', 'other', $1::bigint[])", [low, high])
        for job in jobs:
            await b.end(job, Outcome.FAILED)
        async with mine.transaction():
            await mine.fetchval(lock, low)
            fetching = asyncio.ensure_future(b.fetch())  # it ends the higher one first
            await asyncio.wait([fetching], timeout=0.3)
            await mine.fetchval(lock, high)
            await fetching

        assert await b.states(low, high) == [JobState.CANCELLED] * 2


async def test_a_call_that_waits_for_a_key_stores_nothing_that_was_sent_again_meanwhile(
    interlock_postgres_url: str,
) -> None:
    async with opened(interlock_postgres_url) as (b, (mine, _)):
        keyed, plain = [new_job(id_, key=key) for id_, key in zip(await b.jobs.ids(2), ("k", ""), strict=True)]
        transaction = mine.transaction()
        await transaction.start()
        await mine.fetchval(KEYED, "k")
        late = asyncio.ensure_future(b.jobs.enqueue([keyed, plain]))
        await waits_for(mine)
        await b.jobs.enqueue([plain], again=True)
        await b.done(await b.one())
        await transaction.rollback()
        with pytest.raises(MisuseError, match="sent again meanwhile"):
            await late

        assert await b.fetch() == []
        assert await b.state(plain.id) is JobState.DONE


@pytest.mark.full
async def test_ten_thousand_that_wait_do_not_make_an_end_slow(interlock_postgres_url: str) -> None:
    async with opened(interlock_postgres_url, 0) as (b, _):
        first = await b.add()
        for _ in range(10):
            await b.add_many(1000, after=(first,))
        job = await b.one()
        began = time.perf_counter()
        await b.done(job)
        took = time.perf_counter() - began
        found = 0
        while jobs := await b.fetch(limit=1000):
            found += len(jobs)
            await b.done(*jobs)

        assert found == 10_000
        assert took < 1.0
