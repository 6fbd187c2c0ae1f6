"""Records on PostgreSQL when transactions meet: leases and writers, batches, opposite orders, foreign statements."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock.backends import from_url
from interlock.deadlocks import is_deadlock_error
from interlock.errors import StoreUnavailableError
from interlock.ports.journal import Attribution, JournalFilter, NewEntry
from interlock.ports.locks import Granted, Left, LockRequest
from interlock.ports.records import (
    Busy,
    Conflict,
    LeaseLost,
    RecordChange,
    Skipped,
    StaleFence,
    Written,
    lock_key,
    subject_key,
)
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from interlock.ports.store import Store

GATE = 1195463750
# Whoever adds a journal entry with the reason "stop" waits there: its records are locked and checked, not committed.
INSTALL_GATE = f"""
create function public.wait_at_gate() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared({GATE});
    return new;
end
$$;
create trigger gate before insert on interlock.journal
    for each row when (new.reason = 'stop') execute function public.wait_at_gate()
"""
WAITING = (
    "select count(distinct l.pid) from pg_locks l where not l.granted"
    " and l.pid in (select a.pid from pg_stat_activity a where a.datname = current_database())"
)


def change(id: str, expected: int | None = 0, **changes: Any) -> RecordChange:  # noqa: A002
    reason = changes.pop("reason", "")
    to_version = 0 if expected is None else expected + 1
    entry = NewEntry(
        Attribution("ann", reason), "record.update", "record", subject_key("k", id), "{}", "{}", expected, to_version
    )
    body = '{"by": "create"}' if expected is None else '{"by": "update"}'
    values = {"uid": f"uid-{id}", "status": "open", "body": body, "owner": None, "fence": None} | changes
    return RecordChange(kind="k", id=id, expected=expected, entry=entry, **values)


class Stage:
    """Two processes' stores on one database, a foreign connection, and one that watches and opens the gate."""

    def __init__(self, one: Store, two: Store, foreign: Any, watcher: Any) -> None:
        self.one, self.two, self.foreign, self.watcher = one, two, foreign, watcher

    async def create(self, *ids: str) -> None:
        for id_ in ids:
            assert [type(answer) for answer in await self.one.records.write([change(id_, None)])] == [Written]

    async def version(self, id: str = "a") -> int:  # noqa: A002
        (record,) = await self.two.records.get("k", [id])
        return record.version

    async def entries(self, id: str = "a") -> int:  # noqa: A002
        return len(await self.one.journal.list(JournalFilter("record", subject_key("k", id))))

    def request(self, owner: str, id: str = "a") -> LockRequest:  # noqa: A002
        return LockRequest(lock_key("k", id), owner, owner, owner[0], 300.0, 0.0, False)

    async def lease(self, store: Store, owner: str, id: str = "a", **changes: Any) -> int:  # noqa: A002
        answer = await store.locks.ask(self.request(owner, id))
        assert isinstance(answer, Granted)
        return answer.fence

    async def release(self, store: Store, owner: str, id: str = "a") -> None:  # noqa: A002
        await store.locks.leave(self.request(owner, id))

    @asynccontextmanager
    async def stopped(self, work: Awaitable[Any]) -> AsyncIterator[asyncio.Future[Any]]:
        """Let a write with the reason "stop" come to its journal entry; it goes on at the end of the block."""
        await self.watcher.execute(f"select pg_advisory_lock({GATE})")
        try:
            under_way = asyncio.ensure_future(work)
            await self.waiting(1)
            yield under_way
        finally:
            await self.watcher.execute(f"select pg_advisory_unlock({GATE})")

    async def waiting(self, count: int) -> None:
        """Until so many transactions wait for another one."""
        async with asyncio.timeout(20):
            while await self.watcher.fetchval(WAITING) < count:
                await asyncio.sleep(0.005)


@pytest.fixture
async def stage(complete_postgres_url: str) -> AsyncIterator[Stage]:
    one, two = (from_url(complete_postgres_url, settings=Settings()) for _ in range(2))
    foreign, watcher = [await asyncpg.connect(complete_postgres_url) for _ in range(2)]
    try:
        for store in (one, two):
            await store.open()
        for session in ("a", "b"):
            await one.sessions.begin(SessionCard(session, "host", 7, "test"), 60.0)
        await foreign.execute(INSTALL_GATE)
        yield Stage(one, two, foreign, watcher)
    finally:
        await foreign.close()
        await watcher.close()
        await one.close()
        await two.close()


# -- a writer without a lease, and a lease -----------------------------------------------------------------------------


async def test_a_holder_reads_after_the_writes_that_its_grant_overtook(stage: Stage) -> None:
    await stage.create("a")

    async with stage.stopped(stage.one.records.write([change("a", reason="stop")])) as writing:
        await stage.lease(stage.two, "b1")  # the writer saw no lease, and has not committed
        (overtaken,) = await stage.two.records.get("k", ["a"])
        reading = asyncio.ensure_future(stage.two.records.get("k", ["a"], current=True))
        await stage.waiting(2)
        assert overtaken.version == 0, "without the wait the holder would work on this"
    (read,) = await reading

    assert [type(answer) for answer in await writing] == [Written]
    assert read.version == 1
    (late,) = await stage.one.records.write([change("a", 1)])
    assert isinstance(late, Busy)
    assert late.holder.owner == "b1"
    assert [type(answer) for answer in await stage.two.records.write([change("a", 1, owner="b1")])] == [Written]


async def test_a_writer_that_waited_for_the_record_sees_the_lease_that_was_granted_meanwhile(stage: Stage) -> None:
    await stage.create("a")

    async with stage.foreign.transaction():
        await stage.foreign.execute("select from interlock.record for update")
        writing = asyncio.ensure_future(stage.one.records.write([change("a")]))
        await stage.waiting(1)
        await stage.lease(stage.two, "b1")

    (answer,) = await writing
    assert isinstance(answer, Busy)
    assert await stage.version() == 0


async def test_the_next_holder_reads_what_a_former_one_was_writing(stage: Stage) -> None:
    await stage.create("a")
    await stage.lease(stage.one, "a1")

    async with stage.stopped(stage.one.records.write([change("a", owner="a1", reason="stop")])) as writing:
        # The lease is forced from its holder while that one writes.
        await stage.two.locks.force(lock_key("k", "a"), "it hung", Attribution("ann"))
        await stage.lease(stage.two, "b1")
        reading = asyncio.ensure_future(stage.two.records.get("k", ["a"], current=True))
        await stage.waiting(2)

    assert [type(answer) for answer in await writing] == [Written]
    assert [record.version for record in await reading] == [1]
    assert await stage.one.records.write([change("a", 1, owner="a1")]) == [LeaseLost("it hung")]


async def test_a_current_read_of_many_waits_only_for_what_is_being_written(stage: Stage) -> None:
    await stage.create("a", "b", "c")

    async with stage.stopped(stage.one.records.write([change("b", reason="stop")])) as writing:
        others = await stage.two.records.get("k", ["a", "c"], current=True)
        reading = asyncio.ensure_future(stage.two.records.get("k", ["a", "b", "c", "none"], current=True))
        await stage.waiting(2)
    await writing

    assert [record.id for record in others] == ["a", "c"]
    assert [(record.id, record.version) for record in await reading] == [("a", 0), ("b", 1), ("c", 0)]


# -- several changes ---------------------------------------------------------------------------------------------------


async def test_opposite_writes_of_many_records_never_deadlock(stage: Stage) -> None:
    ids = [f"{number:02}" for number in range(20)]
    await stage.create(*ids)

    async def raise_all(store: Store, order: list[str], times: int) -> None:
        for _ in range(times):
            while True:
                versions = {record.id: record.version for record in await store.records.get("k", ids)}
                answers = await store.records.write([change(id_, versions[id_]) for id_ in order])
                if all(isinstance(answer, Written) for answer in answers):
                    break
                assert not any(isinstance(answer, Written) for answer in answers), "all or nothing"

    await asyncio.gather(*(raise_all(stage.one, ids, 5) for _ in range(2)))
    await asyncio.gather(raise_all(stage.one, ids, 10), raise_all(stage.two, ids[::-1], 10))

    assert {record.version for record in await stage.one.records.get("k", ids)} == {30}
    assert {await stage.entries(id_) for id_ in ids} == {31}


async def test_two_writes_that_wait_for_each_others_records_take_turns(stage: Stage) -> None:
    await stage.create("a", "b")

    async with stage.foreign.transaction():
        await stage.foreign.execute("select from interlock.record for update")
        writing = [
            asyncio.ensure_future(stage.one.records.write([change("a"), change("b")])),
            asyncio.ensure_future(stage.two.records.write([change("b"), change("a")])),
        ]
        await stage.waiting(2)

    answers = await asyncio.gather(*writing)
    assert sorted(type(answer).__name__ for pair in answers for answer in pair) == ["Conflict"] * 2 + ["Written"] * 2
    assert await stage.entries("a") == await stage.entries("b") == 2


async def test_records_are_locked_in_the_order_of_their_keys_by_any_plan(stage: Stage) -> None:
    await stage.create("c", "b", "a")  # the order in which a plan that reads the table finds them
    settings = " ".join(f"set {name} to off" for name in ("enable_nestloop", "enable_indexscan", "enable_bitmapscan"))
    settings += " set enable_hashjoin to on set enable_seqscan to on"
    (function,) = await stage.foreign.fetchrow(
        "select oid::regprocedure::text from pg_proc where oid::regproc::text = 'interlock.record_write'"
    )
    await stage.foreign.execute(f"alter function {function} {settings}")

    async with stage.foreign.transaction():
        await stage.foreign.execute("select from interlock.record where id = 'b' for update")
        writing = asyncio.ensure_future(stage.one.records.write([change(id_) for id_ in ("c", "b", "a")]))
        await stage.waiting(1)
        free = await stage.watcher.fetch("select id from interlock.record order by id for update skip locked")
        assert [id_ for (id_,) in free] == ["c"], "it waits for b, has a, and comes to c last"

    assert [type(answer) for answer in await writing] == [Written] * 3


async def test_a_stale_fence_is_refused_alone_and_among_others(stage: Stage) -> None:
    await stage.create("a", "b")
    assert [type(one) for one in await stage.one.records.write([change("a", fence=9)])] == [Written]
    assert await stage.one.records.write([change("a", 1, fence=8)]) == [StaleFence(9)]
    assert await stage.one.records.write([change("a", 1, fence=8), change("b")]) == [StaleFence(9), Skipped()]
    assert [type(one) for one in await stage.one.records.write([change("a", 1, fence=9)])] == [Written]


async def test_a_refused_change_refuses_only_its_own_write(stage: Stage) -> None:
    await stage.create("a", "b", "c", "d")
    await stage.lease(stage.two, "b1", "c")
    fresh = [change("n", None), change("a", 7)]

    first, *others = await asyncio.gather(
        stage.one.records.write([change("d")]),  # sent alone; the others share a batch behind it
        *(stage.one.records.write([change(f"new-{number}", None)]) for number in range(20)),
        stage.one.records.write(fresh),
        stage.one.records.write([change("c"), change("b")]),
    )

    assert isinstance(first[0], Written)
    assert all(isinstance(answer, Written) for answers in others[:20] for answer in answers)
    assert others[20] == [Skipped(), Conflict(0)]
    assert [type(answer) for answer in others[21]] == [Busy, Skipped]
    assert await stage.one.records.get("k", ["n"]) == []
    assert await stage.version("b") == 0
    assert await stage.entries("n") == 0


async def test_a_lost_lease_on_an_unchanged_record_refuses_only_its_own_write_of_a_batch(stage: Stage) -> None:
    ids = [f"{number:02}" for number in range(20)]
    await stage.create("read", *ids)
    await stage.lease(stage.one, "a-read", "read")
    for id_ in ids:
        await stage.lease(stage.one, f"a{id_}", id_)
    await stage.two.locks.force(lock_key("k", "read"), "it hung", Attribution("ann", ""))
    read = stage.request("a-read", "read")

    answers = await asyncio.gather(
        *(
            stage.one.records.write_and_release(
                [change(id_, owner=f"a{id_}")], [stage.request(f"a{id_}", id_), *([read] if id_ == "12" else [])]
            )
            for id_ in ids
        )
    )

    for id_, ((answer,), left) in zip(ids, answers, strict=True):
        if id_ == "12":
            assert (answer, left) == (LeaseLost("it hung", lock_key("k", "read")), None)
        else:
            assert (type(answer), left) == (Written, [Left(True, "", None)])
    assert [await stage.version(id_) for id_ in ("11", "12", "13")] == [1, 0, 1]
    assert await stage.entries("12") == 1


async def test_leases_on_unchanged_records_are_checked_after_a_wait_for_the_changed_one(stage: Stage) -> None:
    await stage.create("a", "b")
    await stage.lease(stage.one, "a1", "a")
    await stage.lease(stage.one, "a2", "b")

    async with stage.foreign.transaction():
        await stage.foreign.execute("select from interlock.record where id = 'a' for update")
        leases = [stage.request("a1", "a"), stage.request("a2", "b")]
        writing = asyncio.ensure_future(stage.one.records.write_and_release([change("a", owner="a1")], leases))
        await stage.waiting(1)
        await stage.two.locks.force(lock_key("k", "b"), "it hung", Attribution("ann", ""))
        assert [type(one) for one in await stage.two.records.write([change("b")])] == [Written]

    assert await writing == ([LeaseLost("it hung", lock_key("k", "b"))], None)
    assert await stage.version("a") == 0


async def test_writes_of_one_record_in_a_batch_are_checked_one_after_the_other(stage: Stage) -> None:
    await stage.create("a")
    writes = [stage.one.records.write([change("a", number)]) for number in (0, 1, 0, 9)]

    answers = [answer for (answer,) in await asyncio.gather(*writes)]

    assert [type(answer) for answer in answers] == [Written, Written, Conflict, Conflict]
    assert await stage.version() == 2


async def test_fifty_tasks_share_commits(stage: Stage) -> None:
    ids = [f"{number:02}" for number in range(50)]
    await asyncio.gather(*(stage.create(id_) for id_ in ids))
    count = "select count(distinct xmin::text) from interlock.record"
    before = await stage.foreign.fetchval(count)

    answers = await asyncio.gather(*(stage.one.records.write([change(id_)]) for id_ in ids))

    assert all(isinstance(answer, Written) for (answer,) in answers)
    assert before <= 16
    assert await stage.foreign.fetchval(count) <= 12


# -- creates and deletes -----------------------------------------------------------------------------------------------


async def test_a_create_waits_for_another_that_may_yet_fail(stage: Stage) -> None:
    async with stage.stopped(stage.one.records.write([change("a", None, reason="stop")])) as first:
        second = asyncio.ensure_future(stage.two.records.write([change("a", None, uid="other")]))
        await stage.waiting(2)

    assert [type(answer) for answer in await first] == [Written]
    assert await second == [Conflict(0)]


async def test_a_create_follows_a_delete_that_is_in_progress(stage: Stage) -> None:
    await stage.create("a")

    async with stage.stopped(stage.one.records.write([change("a", body=None, reason="stop")])) as first:
        second = asyncio.ensure_future(stage.two.records.write([change("a", None, uid="other")]))
        await stage.waiting(2)

    assert [type(answer) for answer in (*await first, *await second)] == [Written, Written]
    assert await stage.two.records.write([change("a", 0)]) == [Conflict(0)], "it was computed from the old record"


# -- fences ------------------------------------------------------------------------------------------------------------


async def test_a_stale_fence_is_refused_after_a_wait_for_a_newer_one(stage: Stage) -> None:
    await stage.create("a")

    async with stage.stopped(stage.one.records.write([change("a", fence=9, reason="stop")])) as first:
        second = asyncio.ensure_future(stage.two.records.write([change("a", 1, fence=8)]))
        await stage.waiting(2)

    assert [type(answer) for answer in await first] == [Written]
    assert await second == [StaleFence(9)]
    await stage.one.records.write([change("a", 1)])
    (record,) = await stage.one.records.get("k", ["a"])
    assert (record.version, record.fence) == (2, 9)


# -- foreign statements ------------------------------------------------------------------------------------------------


async def test_a_foreign_update_that_leaves_the_version_is_a_conflict(stage: Stage) -> None:
    await stage.create("a")
    await stage.lease(stage.one, "a1")
    await stage.one.records.get("k", ["a"], current=True)

    await stage.foreign.execute("""update interlock.record set body = '{"by": "psql"}'""")

    assert await stage.one.records.write([change("a", owner="a1")]) == [Conflict(1)]
    (record,) = await stage.one.records.get("k", ["a"])
    assert (record.version, record.body) == (1, '{"by": "psql"}')


async def test_a_foreign_lock_delays_only_its_record_and_then_fails_clearly(stage: Stage) -> None:
    await stage.create("a", *(f"other-{number}" for number in range(41)))

    async with stage.foreign.transaction():
        await stage.foreign.execute("select from interlock.record where id = 'a' for update")
        blocked = [
            asyncio.ensure_future(stage.one.records.write([change("a")])),
            asyncio.ensure_future(stage.one.records.write([change("other-0"), change("a")])),
            asyncio.ensure_future(stage.one.records.get("k", ["a"], current=True)),
        ]
        await stage.waiting(3)
        answers = await asyncio.gather(
            *(stage.one.records.write([change(f"other-{number}")]) for number in range(1, 41)),
            *(stage.one.records.get("k", [f"other-{number}"], current=True) for number in range(1, 41)),
        )
        assert not any(work.done() for work in blocked)
        for work in blocked:
            with pytest.raises(StoreUnavailableError, match=r"has kept record:k:.* locked.*pg_stat_activity"):
                await work

    assert len(answers) == 80
    assert all(isinstance(answer, Written) for (answer,) in answers[:40])
    assert [type(answer) for answer in await stage.one.records.write([change("a")])] == [Written]


async def test_a_deadlock_with_a_foreign_transaction_is_recognized(stage: Stage) -> None:
    await stage.create("a", "b")
    await stage.foreign.execute("set deadlock_timeout = '1h'")  # so that it is the library's that is ended

    async with stage.foreign.transaction():
        await stage.foreign.execute("select from interlock.record where id = 'b' for update")
        writing = asyncio.ensure_future(stage.one.records.write([change("a"), change("b")]))
        await stage.waiting(1)
        closing = asyncio.ensure_future(stage.foreign.execute("select from interlock.record where id = 'a' for update"))
        with pytest.raises(StoreUnavailableError) as caught:
            await writing
        await closing

    assert is_deadlock_error(caught.value)
    assert await stage.version("a") == await stage.version("b") == 0


# -- reads -------------------------------------------------------------------------------------------------------------


async def test_reads_inside_a_snapshot_see_its_state(stage: Stage) -> None:
    await stage.create("a")

    async with stage.one.snapshot():
        before = await stage.one.records.get("k", ["a"])
        await stage.two.records.write([change("a")])
        within = await stage.one.records.get("k", ["a"])

    assert before == within
    assert await stage.version() == 1


async def test_a_list_reads_an_index_in_its_order(stage: Stage) -> None:
    await asyncio.gather(*(stage.create(f"{number:03}") for number in range(300)))
    await stage.one.records.write([change("200", status="closed")])

    some = await stage.one.records.list("k", prefix="2", limit=3, after="2")
    closed = await stage.one.records.list("k", status="closed")

    assert [record.id for record in some] == ["200", "201", "202"]
    assert [record.id for record in closed] == ["200"]
