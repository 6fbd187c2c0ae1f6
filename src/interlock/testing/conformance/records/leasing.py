"""A record's lease: its holder writes, everybody else is told who holds it."""

from __future__ import annotations

import asyncio

from interlock.ports import locks
from interlock.ports.records import Busy, Conflict, LeaseLost, Skipped, Written, lock_key
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

    # -- the lease and the record in one step --------------------------------------------------------------------------

    async def test_a_request_that_is_granted_reads_the_record(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.written("a", 0, 2)
            answer, record = await b.records.ask(b.request("a1", _KEY), KIND, "a")

            assert isinstance(answer, locks.Granted)
            assert record == await b.record("a")
            assert isinstance(await b.refused("a", 1, 3), Busy), "the lease is held"
            again, record = await b.records.ask(b.wants["a1"], KIND, "a")
            assert isinstance(again, locks.Granted)
            assert again.fence == answer.fence
            assert record is not None
            await b.written("a", record.version, 3, owner="a1")

    async def test_a_request_that_is_not_granted_reads_nothing(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")

            answer, record = await b.records.ask(b.request("b1", _KEY, wait=0.0), KIND, "a")
            assert isinstance(answer, locks.Busy)
            assert answer.holder is not None
            assert (answer.holder.owner, record) == ("a1", None)
            answer, record = await b.records.ask(b.request("b2", _KEY), KIND, "a")
            assert isinstance(answer, locks.Waiting)
            assert record is None
            answer, record = await b.records.ask(b.request("x1", _KEY, session="nobody"), KIND, "a")
            assert (answer, record) == (locks.SessionEnded(), None)
            assert [waiter.owner for waiter in (await b.locks.list(_KEY))[0].waiters] == ["b2"]

    async def test_a_cycle_of_requests_is_refused(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            other = lock_key(KIND, "b")
            await b.records.ask(b.request("a1", _KEY, caller="ann"), KIND, "a")
            await b.records.ask(b.request("b1", other, caller="bob"), KIND, "b")
            await b.records.ask(b.request("a2", other, caller="ann", nested=True), KIND, "b")
            answer, record = await b.records.ask(b.request("b2", _KEY, caller="bob", nested=True), KIND, "a")

            assert isinstance(answer, locks.Deadlocked)
            assert record is None

    async def test_a_request_for_a_record_that_does_not_exist_is_granted(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            answer, record = await b.records.ask(b.request("a1", _KEY), KIND, "a")

            assert isinstance(answer, locks.Granted)
            assert record is None
            await b.written("a", None, 1, owner="a1")

    async def test_a_write_releases_its_lease(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            answers, left = await b.records.write_and_release([b.change("a", 0, 2, owner="a1")], [b.wants["a1"]])

            assert [type(answer) for answer in answers] == [Written]
            assert left == [locks.Left(True, "", None)]
            assert await b.locks.list(_KEY) == []
            assert len(await b.entries()) == 2
            await b.written("a", 1, 3)

    async def test_a_write_that_releases_lets_the_next_waiter_have_the_lease(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            await b.waiting("b1", _KEY)
            _, left = await b.records.write_and_release([b.change("a", 0, 2, owner="a1")], [b.wants["a1"]])

            assert left is not None
            assert left[0].held
            answer, record = await b.records.ask(b.wants["b1"], KIND, "a")
            assert isinstance(answer, locks.Granted)
            assert record is not None
            assert record.version == 1

    async def test_a_write_may_hand_the_lease_to_a_waiter_of_its_session(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            await b.waiting("a2", _KEY)
            await b.waiting("b1", _KEY)
            _, left = await b.records.write_and_release([b.change("a", 0, 2, owner="a1")], [b.wants["a1"]])

            assert left is not None
            assert left[0].next_owner == "a2"
            answer = await b.locks.ask(b.wants["a2"])
            assert isinstance(answer, locks.Granted)
            assert left[0].handed is None or left[0].handed.fence == answer.fence
            assert isinstance(await b.refused("a", 1, 3, owner="a1"), LeaseLost)
            await b.written("a", 1, 3, owner="a2")

    async def test_a_write_that_is_refused_keeps_its_lease(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            answers, left = await b.records.write_and_release([b.change("a", MISS, 2, owner="a1")], [b.wants["a1"]])

            assert (list(answers), left) == ([Conflict(0)], None)
            assert isinstance(await b.refused("a", 0, 2), Busy)
            await b.written("a", 0, 2, owner="a1")

    async def test_a_repeated_write_finds_its_lease_released(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.lease("a1", "a")
            change = b.change("a", 0, 2, owner="a1")
            await b.records.write_and_release([change], [b.wants["a1"]])
            answers, left = await b.records.write_and_release([change], [b.wants["a1"]])

            assert [type(answer) for answer in answers] == [LeaseLost]
            assert left is None
            assert await b.values("a") == {"a": (1, 2)}

    async def test_a_write_of_several_releases_all_leases_or_none(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for id in "abc":  # noqa: A001
                await b.written(id, None, 1)
            owners = {"c": "a1", "a": "a2", "b": "a3"}
            for id, owner in owners.items():  # noqa: A001
                await b.lease(owner, id, nested=True)
            leases = [b.wants[owner] for owner in owners.values()]
            refused = [b.change("c", 0, 2, owner="a1"), b.change("a", MISS, 2, owner="a2")]
            answers, left = await b.records.write_and_release(refused, leases)
            assert (list(answers), left) == ([Skipped(), Conflict(0)], None)
            assert len(await b.locks.list()) == 3

            changes = [b.change("c", 0, 2, owner="a1"), b.change("a", 0, 2, owner="a2")]
            answers, left = await b.records.write_and_release(changes, leases)
            assert [type(answer) for answer in answers] == [Written, Written]
            assert left == [locks.Left(True, "", None)] * 3, "also that of a record that is not written"
            assert await b.locks.list() == []
            assert await b.values("a", "b", "c") == {"a": (1, 2), "b": (0, 1), "c": (1, 2)}

    async def test_a_write_is_refused_unless_every_given_lease_is_held(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            for id in "abc":  # noqa: A001
                await b.written(id, None, 1)
            for owner, id in (("a1", "a"), ("a2", "b"), ("a3", "c")):  # noqa: A001
                await b.lease(owner, id, nested=True)
            leases = [b.wants[owner] for owner in ("a3", "a1", "a2")]
            await b.waiting("b1", lock_key(KIND, "b"))
            await b.locks.force(lock_key(KIND, "b"), "eva wanted it", ANN)
            await b.written("b", 0, 2)
            lost = LeaseLost("eva wanted it", lock_key(KIND, "b"))
            changes = [b.change("c", 0, 2, owner="a3"), b.change("a", MISS, 2, owner="a1")]

            answers, left = await b.records.write_and_release(changes, leases)
            assert (list(answers), left) == ([lost, lost], None), "leases are checked before versions"
            answers, left = await b.records.write_and_release([b.change("a", 0, 2, owner="a1")], leases[1:])
            assert (list(answers), left) == ([lost], None)
            assert await b.values("a", "b", "c") == {"a": (0, 1), "b": (1, 2), "c": (0, 1)}
            assert len(await b.entries()) == 4
            assert isinstance(await b.refused("a", 0, 2), Busy), "nothing was released"
            assert isinstance(await b.refused("c", 0, 2), Busy)

            answers, left = await b.records.write_and_release([b.change("a", 0, 2, owner="a1")], [b.wants["a1"]])
            assert [type(answer) for answer in answers] == [Written]
            assert left == [locks.Left(True, "", None)]

    async def test_nothing_is_created_or_deleted_unless_every_given_lease_is_held(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.written("b", None, 1)
            await b.lease("a1", "a", nested=True)
            await b.lease("a2", "b", nested=True, ttl=10.0)
            await b.lease("a3", "c", nested=True)
            b.clock.advance(11)
            lost = LeaseLost("it had expired", lock_key(KIND, "b"))
            for change in (b.change("a", 0, None, owner="a1"), b.change("c", None, 1, owner="a3")):
                leases = [b.wants[owner] for owner in (change.owner, "a2") if owner is not None]
                answers, left = await b.records.write_and_release([change], leases)
                assert (list(answers), left) == ([lost], None)
            assert await b.values("a", "b", "c") == {"a": (0, 1), "b": (0, 1)}
            assert len(await b.entries()) == 2

    async def test_a_lease_of_another_owner_does_not_replace_the_lost_one(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            await b.written("a", None, 1)
            await b.written("b", None, 1)
            await b.lease("a1", "a")
            await b.lease("a2", "b", nested=True)
            await b.locks.force(lock_key(KIND, "b"), "eva wanted it", ANN)
            await b.lease("b1", "b")
            leases = [b.wants["a1"], b.wants["a2"]]

            (answer,), left = await b.records.write_and_release([b.change("a", 0, 2, owner="a1")], leases)
            assert (type(answer), answer[1:], left) == (LeaseLost, (lock_key(KIND, "b"),), None)
            assert await b.values("a", "b") == {"a": (0, 1), "b": (0, 1)}

    async def test_of_writes_at_the_same_time_only_those_with_a_lost_lease_are_refused(self, store_url: str) -> None:
        async with self.record_driver(store_url) as b:
            ids = [f"{n:02}" for n in range(12)]
            for id in ids:  # noqa: A001
                await b.written(id, None, 1)
                await b.lease(f"a{id}", id, nested=True)
            pairs = list(zip(ids[::2], ids[1::2], strict=True))
            for _, second in pairs[::2]:
                await b.locks.force(lock_key(KIND, second), "eva wanted it", ANN)
            answers = await asyncio.gather(
                *(
                    b.records.write_and_release(
                        [b.change(first, 0, 2, owner=f"a{first}")], [b.wants[f"a{first}"], b.wants[f"a{second}"]]
                    )
                    for first, second in pairs
                )
            )

            for (_, second), ((answer,), left) in zip(pairs[::2], answers[::2], strict=True):
                assert (type(answer), answer[1:], left) == (LeaseLost, (lock_key(KIND, second),), None)
            for (answer,), left in answers[1::2]:
                assert isinstance(answer, Written)
                assert left == [locks.Left(True, "", None)] * 2
            versions = {id: version for id, (version, _) in (await b.values(*ids)).items()}  # noqa: A001
            assert [versions[first] for first, _ in pairs] == [0, 1] * 3
            assert {versions[second] for _, second in pairs} == {0}
