"""A record's lease: its holder writes, everybody else is told who holds it."""

from __future__ import annotations

from interlock.ports.records import Busy, Conflict, LeaseLost, lock_key
from interlock.testing.conformance.driver import ANN, SESSION
from interlock.testing.conformance.records.driver import KIND, MISS, RecordSuite

__all__ = ["RecordLeaseConformance"]

_KEY = lock_key(KIND, "a")


class RecordLeaseConformance(RecordSuite):
    """Writes with and without a lease."""

    async def test_while_a_lease_is_live_only_its_holder_writes(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.written("b", None, 1)
            fence = await b.lease("a1", "a")
            answer = await b.refused("a", MISS, 2)

            assert isinstance(answer, Busy), "the lease is checked before the version"
            assert (answer.holder.owner, answer.holder.session, answer.holder.host) == ("a1", "a", "host-a")
            assert answer.holder.fence == fence
            await b.written("a", 0, 2, owner="a1")
            await b.written("a", 1, 3, owner="a1")
            await b.written("b", 0, 2)
            assert await b.values("a", "b") == {"a": (2, 3), "b": (1, 2)}

    async def test_nothing_is_created_or_deleted_past_a_lease(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.lease("a1", "a")
            assert isinstance(await b.refused("a", None), Busy)
            await b.written("a", None, owner="a1")
            assert isinstance(await b.refused("a", 0, None), Busy)
            await b.written("a", 0, None, owner="a1")

    async def test_a_released_lease_lets_everyone_write(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            await b.leave("a1")

            assert isinstance(await b.refused("a", 0, 2, owner="a1"), LeaseLost)
            await b.written("a", 0, 2)

    async def test_waiters_alone_do_not_make_a_record_busy(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            await b.waiting("b1", _KEY)
            await b.leave("a1")

            await b.written("a", 0, 2)
            assert isinstance(await b.refused("a", 1, 3, owner="b1"), LeaseLost), "it is its turn, but it holds nothing"
            await b.lease("b1", "a")
            await b.written("a", 1, 3, owner="b1")

    async def test_an_expired_lease_writes_nothing_and_keeps_nobody_out(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a", ttl=10.0)
            b.clock.advance(11)

            assert await b.refused("a", 0, 2, owner="a1") == LeaseLost("it had expired")
            await b.written("a", 0, 2)

    async def test_a_lease_ends_with_its_session(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a", ttl=300.0)
            b.clock.advance(SESSION + 1)

            assert isinstance(await b.refused("a", 0, 2, owner="a1"), LeaseLost)
            await b.written("a", 0, 2)

    async def test_the_next_holder_refuses_the_last_one(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            await b.locks.force(_KEY, "eva wanted it", ANN)
            await b.lease("b1", "a")

            assert isinstance(await b.refused("a", 0, 2, owner="a1"), LeaseLost)
            await b.written("a", 0, 2, owner="b1")

    async def test_a_forced_release_tells_why(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            await b.waiting("b1", _KEY)
            await b.locks.force(_KEY, "eva wanted it", ANN)

            assert await b.refused("a", 0, 2, owner="a1") == LeaseLost("eva wanted it")

    async def test_a_lease_protects_one_record(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.written("b", None, 1)
            await b.lease("a1", "b")

            assert isinstance(await b.refused("a", 0, 2, owner="a1"), LeaseLost)
            await b.written("a", 0, 2)

    async def test_a_holder_sees_a_foreign_write_as_a_conflict(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.written("a", 0, 2)
            await b.lease("a1", "a")

            assert await b.refused("a", 0, 3, owner="a1") == Conflict(1)

    async def test_leases_on_several_records_write_together(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for id in "abc":  # noqa: A001
                await b.written(id, None, 1)
            await b.lease("a1", "a")
            await b.lease("a2", "b", nested=True)
            answers = await b.write(
                b.change("b", 0, 2, owner="a2"), b.change("c", 0, 2), b.change("a", 0, 2, owner="a1")
            )

            assert [answer.version for answer in answers] == [1, 1, 1]

    async def test_the_fence_of_a_lease_is_not_compared_with_the_records(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            fence = await b.lease("a1", "a")
            await b.written("a", None, fence=fence + 1000, owner="a1")
            await b.written("a", 0, owner="a1")
            record = await b.record("a")

            assert record is not None
            assert record.fence == fence + 1000
