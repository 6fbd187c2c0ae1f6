"""The public class ``Locks`` with the whole engine, in real time."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import (
    DeadlockError,
    InterlockError,
    InvalidArgumentError,
    LeaseLostError,
    LockTimeoutError,
    MisuseError,
)
from interlock.locks import FOREVER, Locks
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.clock import until
from interlock.testing.conformance.base import StoreSuite, needs
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["LocksConformance"]

_NO_LOOKS: dict[str, Any] = {"session_ttl": 60.0, "recheck_interval": 600.0}
"""Settings under which nothing happens soon without a notification."""
_SOON = 30.0
"""Far less than it would take without a notification, and enough on a busy machine."""


class LocksConformance(StoreSuite):
    """The promises of ``Locks``."""

    @asynccontextmanager
    async def locks(self, url: str, **settings: Any) -> AsyncIterator[Locks]:
        """Open locks on the store, with settings that keep tests short."""
        short: dict[str, Any] = {"session_ttl": 3.0, "recheck_interval": 0.5, "stuck_work": "report"}
        async with Locks.from_url(url, settings=Settings(**(short | settings))) as locks:
            yield locks

    async def test_one_holder_at_a_time_in_the_order_of_asking(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            inside = 0
            order: list[int] = []

            async def work(number: int) -> None:
                nonlocal inside
                async with locks.acquire("key"):
                    inside += 1
                    assert inside == 1
                    order.append(number)
                    await asyncio.sleep(0)
                    inside -= 1

            tasks = []
            async with locks.acquire("key"):
                for number in range(20):
                    tasks.append(asyncio.create_task(work(number)))
                    await self._waiters(locks, "key", number + 1)
            await asyncio.gather(*tasks)

            assert order == list(range(20))

    async def test_fences_grow_with_every_grant(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            fences = []
            for key in "abab":
                async with locks.acquire(key) as lease:
                    fences.append(lease.fence)

            assert fences == sorted(set(fences))

    async def test_a_lease_knows_its_key_fence_owner_and_expiry(self, store_url: str) -> None:
        async with self.locks(store_url) as locks, locks.acquire("key", ttl=100) as lease:
            assert lease.key == "key"
            assert lease.fence > 0
            assert lease.owner
            assert lease.expires_at.tzinfo is not None
            assert abs(lease.expires_at.timestamp() - time.time() - 100) < 5
            assert not lease.lost
            lease.ensure()

    async def test_a_lease_can_be_taken_without_a_block(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            lease = await locks.acquire("key")
            assert await locks.try_acquire("key") is None
            await lease.release()
            await lease.release()
            with pytest.raises(LeaseLostError, match="released"):
                lease.ensure()
            again = await locks.try_acquire("key")
            assert again is not None
            async with again:
                assert again.fence > lease.fence

    async def test_who_waits_too_long_is_told_who_holds_and_never_gets_it(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            async with locks.acquire("key"):
                started = time.monotonic()
                with pytest.raises(LockTimeoutError, match="held by") as caught:
                    await asyncio.create_task(self._enter(locks, "key", wait=0.2))
                assert time.monotonic() - started > 0.15
                assert isinstance(caught.value, TimeoutError)
                assert caught.value.code == "lock-timeout"
                with pytest.raises(LockTimeoutError, match="not free"):
                    await asyncio.create_task(self._enter(locks, "key", wait=0))
                view = await get_or_none(locks, "key")
                assert view is not None
                assert view.waiters == ()
            assert await get_or_none(locks, "key") is None

    async def test_a_cancelled_waiter_leaves_the_queue_and_never_gets_it(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            entered: list[str] = []

            async def work(name: str) -> None:
                async with locks.acquire("key"):
                    entered.append(name)

            async with locks.acquire("key"):
                first = asyncio.create_task(work("first"))
                await self._waiters(locks, "key", 1)
                second = asyncio.create_task(work("second"))
                await self._waiters(locks, "key", 2)
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                await self._waiters(locks, "key", 1)
            await asyncio.wait_for(second, 5)

            assert entered == ["second"]
            assert await get_or_none(locks, "key") is None

    async def test_a_body_that_fails_gives_the_key_back(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            with pytest.raises(ZeroDivisionError):
                async with locks.acquire("key"):
                    _ = 1 / 0

            assert await get_or_none(locks, "key") is None

    async def test_a_cancelled_block_is_given_back_before_its_task_asks_again(self, store_url: str) -> None:
        async with self.locks(store_url) as locks, locks.acquire("outer"):
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02), locks.acquire("key"):
                        await asyncio.sleep(10)
                lease = await locks.try_acquire("key")
                assert lease is not None
                await lease.release()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02), locks.acquire("key"):
                        await asyncio.sleep(10)
                async with locks.acquire("key", wait=5):
                    pass

    async def test_a_held_lease_is_renewed_for_as_long_as_it_is_held(self, store_url: str) -> None:
        async with self.locks(store_url) as locks, locks.acquire("key", ttl=1) as lease:
            first = lease.expires_at
            await until(lambda: (lease.expires_at - first).total_seconds() > 1.5, within=6, what="renewed past its ttl")
            lease.ensure()
            assert await locks.try_acquire("key") is None

    async def test_loss_cancels_the_body_and_says_why(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            entered = asyncio.Event()

            async def work() -> None:
                async with locks.acquire("key"):
                    entered.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await entered.wait()
            holder = await locks.force_release("key", reason="stuck", by="eva")
            with pytest.raises(LeaseLostError, match="eva released it by force: stuck"):
                await asyncio.wait_for(task, 5)

            assert holder is not None
            assert await get_or_none(locks, "key") is None
            assert locks.metrics.losses == {"taken": 1}

    async def test_forced_release_wants_a_reason_and_a_name(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            with pytest.raises(InvalidArgumentError):
                await locks.force_release("key", reason=" ", by="eva")
            assert await locks.force_release("key", reason="r", by="eva") is None

    async def test_all_locks_that_match_are_released(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            leases = [await locks.acquire(key) for key in ("a:", "a:1", "b:1")]
            assert await locks.matching(prefix="a:") == ["a:", "a:1"]

            released = await locks.force_release_all(prefix="a:", reason="stuck", by="eva")

            assert released == (("a:", "a:1"), ())
            assert await locks.matching() == ["b:1"]
            await leases[2].release()
            with pytest.raises(InvalidArgumentError):
                await locks.force_release_all(reason=" ", by="eva")

    async def test_a_holder_that_asks_for_its_own_key_gets_a_deadlock_error(self, store_url: str) -> None:
        async with self.locks(store_url, **_NO_LOOKS) as locks:
            async with locks.acquire("key"), asyncio.timeout(_SOON):
                with pytest.raises(DeadlockError, match="'key'") as caught:
                    async with locks.acquire("key", wait=FOREVER):
                        pytest.fail("unreachable")  # pragma: no cover
            assert len(caught.value.cycle) == 1
            async with locks.acquire("key", wait=5):
                pass

    @pytest.mark.parametrize("size", [2, 5])
    async def test_a_cycle_of_tasks_is_found_at_once_and_the_rest_go_on(self, store_url: str, size: int) -> None:
        async with self.locks(store_url, **_NO_LOOKS) as locks:
            all_hold = asyncio.Barrier(size)
            victims: list[DeadlockError] = []
            done: list[int] = []

            async def work(number: int) -> None:
                try:
                    async with locks.acquire(f"k{number}"):
                        await all_hold.wait()
                        async with locks.acquire(f"k{(number + 1) % size}", wait=FOREVER):
                            done.append(number)
                except DeadlockError as error:
                    victims.append(error)

            await asyncio.wait_for(asyncio.gather(*(work(number) for number in range(size))), _SOON)

            assert len(victims) == 1
            assert len(victims[0].cycle) == size
            assert len(done) == size - 1

    async def test_a_child_task_is_a_party_of_its_own(self, store_url: str) -> None:
        async with self.locks(store_url) as locks, locks.acquire("key"):
            with pytest.raises(LockTimeoutError):
                await asyncio.create_task(self._enter(locks, "key", wait=0.1))

    async def test_several_keys_are_taken_all_or_none_in_one_order(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            async with locks.acquire_many(["b", "a", "b"]) as leases:
                assert list(leases) == ["a", "b"]
                assert leases["a"].fence < leases["b"].fence
            other = await locks.acquire("b")
            with pytest.raises(LockTimeoutError):
                await asyncio.create_task(self._enter_many(locks, ["a", "b"], wait=0.1))
            free = await locks.try_acquire("a")
            assert free is not None
            await free.release()
            await other.release()

    async def test_two_groups_in_opposite_orders_never_deadlock(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:

            async def work(keys: list[str]) -> None:
                for _ in range(5):
                    async with locks.acquire_many(keys, wait=10):
                        await asyncio.sleep(0)

            await asyncio.wait_for(asyncio.gather(work(["x", "y", "z"]), work(["z", "y", "x"])), 20)
            assert locks.metrics.outcomes["deadlock"] == 0

    async def test_bad_arguments_are_refused_with_a_remedy(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            for key in ("", "x" * 513, "ä" * 257, "a\0b", "\ud800", 7, None, b"key"):
                with pytest.raises(InvalidArgumentError):
                    locks.acquire(key)  # type: ignore[arg-type]
            for ttl in (0.99, 0, -1, float("inf"), float("nan"), "5", True):
                with pytest.raises(InvalidArgumentError):
                    locks.acquire("key", ttl)  # type: ignore[arg-type]
            for wait in (-0.1, float("nan"), float("inf"), "5", None):
                with pytest.raises(InvalidArgumentError):
                    locks.acquire("key", wait=wait)  # type: ignore[arg-type]
            with pytest.raises(InvalidArgumentError):
                locks.acquire_many([])
            with pytest.raises(InvalidArgumentError):
                locks.acquire_many("key")
            assert await locks.list() == []

    async def test_locks_that_are_not_open_say_so(self, store_url: str) -> None:
        locks = Locks.from_url(store_url)
        with pytest.raises(MisuseError, match="not open"):
            locks.acquire("key")
        await locks.close()

    async def test_closing_gives_everything_back_and_stops_what_is_held(self, store_url: str) -> None:
        locks = Locks.from_url(store_url, session_ttl=3.0, stuck_work="report")
        await locks.open()
        entered = asyncio.Event()

        async def work() -> None:
            async with locks.acquire("key"):
                entered.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await entered.wait()
        await locks.close()
        with pytest.raises(LeaseLostError, match="closed"):
            await asyncio.wait_for(task, 5)
        async with self.locks(store_url) as others:
            assert await others.list() == []

    async def test_metrics_count_waits_holds_and_outcomes(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            async with locks.acquire("key"):
                assert locks.metrics.active == 1
                assert await asyncio.create_task(self._try(locks, "key")) is None
                with pytest.raises(LockTimeoutError):
                    await asyncio.create_task(self._enter(locks, "key", wait=0.05))
            metrics = locks.metrics

            assert (metrics.waits.count, metrics.active, metrics.contentions) == (1, 0, 2)
            assert (metrics.outcomes["busy"], metrics.outcomes["timeout"]) == (1, 1)
            assert metrics.holds.count == 1

    @needs(Capability.TRANSACTIONS)
    async def test_a_fenced_transaction_writes_only_while_the_lease_is_held(self, store_url: str) -> None:
        async with self.locks(store_url) as locks:
            async with locks.acquire("key") as lease:
                async with lease.fenced() as tx:
                    await tx.execute("create table target (value integer)")
                async with lease.fenced() as tx:
                    await tx.execute("insert into target (value) values (7)")
                    assert [tuple(row) for row in await tx.fetch("select value from target")] == [(7,)]
            with pytest.raises(LeaseLostError):
                lease.fenced()

    @needs(Capability.TRANSACTIONS)
    async def test_errors_inside_a_fenced_transaction_are_the_callers_own(self, store_url: str) -> None:
        async with self.locks(store_url) as locks, locks.acquire("key") as lease:
            for error in (FileNotFoundError("a file"), TimeoutError("a call"), ConnectionError("a peer")):
                with pytest.raises(type(error)) as caught:
                    async with lease.fenced():
                        raise error
                assert caught.value is error
            with pytest.raises(Exception, match="no_such_table") as refused:
                async with lease.fenced() as tx:
                    await tx.execute("insert into no_such_table values (1)")
            assert not isinstance(refused.value, InterlockError)
            lease.ensure()

    @needs(Capability.TRANSACTIONS)
    async def test_a_fenced_transaction_cannot_be_ended_from_inside(self, store_url: str) -> None:
        async with self.locks(store_url) as locks, locks.acquire("key") as lease:
            async with lease.fenced() as tx:
                await tx.execute("create table target (value integer)")
            with pytest.raises(MisuseError, match="A statement ended"):
                async with lease.fenced() as tx:
                    await tx.execute("rollback")
                    await tx.execute("insert into target (value) values (1)")
            async with lease.fenced() as tx:
                assert list(await tx.fetch("select value from target")) == []

    @needs(Capability.TRANSACTIONS, Capability.PROCESSES)
    async def test_an_open_fenced_transaction_does_not_hinder_those_who_look(self, store_url: str) -> None:
        async with (
            self.locks(store_url, **_NO_LOOKS) as one,
            self.locks(store_url, **_NO_LOOKS) as two,
            one.acquire("key") as lease,
            lease.fenced(),
            asyncio.timeout(_SOON),
        ):
            assert [view.key for view in await two.list()] == ["key"]

    @needs(Capability.PROCESSES)
    async def test_a_holder_hears_of_its_forced_release_also_when_the_next_one_is_in_at_once(
        self, store_url: str
    ) -> None:
        async with (
            self.locks(store_url, session_ttl=15.0) as one,
            self.locks(store_url, session_ttl=15.0) as two,
        ):
            entered = asyncio.Event()

            async def hold() -> None:
                async with one.acquire("key", ttl=60):
                    entered.set()
                    await asyncio.sleep(30)

            holder = asyncio.create_task(hold())
            await entered.wait()
            behind = asyncio.create_task(self._enter(two, "key", wait=20))
            await self._waiters(two, "key", 1)
            await two.force_release("key", reason="stuck", by="eva")
            await asyncio.wait_for(behind, _SOON)
            with pytest.raises(LeaseLostError, match="stuck"):
                await asyncio.wait_for(holder, _SOON)

    @needs(Capability.PROCESSES)
    async def test_two_engines_hand_over_in_order_without_polling(self, store_url: str) -> None:
        async with (
            self.locks(store_url, **_NO_LOOKS) as one,
            self.locks(store_url, **_NO_LOOKS) as two,
        ):
            order: list[str] = []

            async def work(locks: Locks, name: str) -> None:
                async with locks.acquire("key", wait=60):
                    order.append(name)

            tasks = []
            async with one.acquire("key"):
                for number in range(6):
                    tasks.append(asyncio.create_task(work(two if number % 2 else one, f"{number}")))
                    await self._waiters(one, "key", number + 1)
            await asyncio.wait_for(asyncio.gather(*tasks), _SOON)

            assert order == ["0", "1", "2", "3", "4", "5"]

    async def _waiters(self, locks: Locks, key: str, count: int) -> None:
        """Wait until the queue has this many waiters."""
        give_up = time.monotonic() + 10
        while True:
            view = await get_or_none(locks, key)
            if (len(view.waiters) if view else 0) == count:
                return
            assert time.monotonic() < give_up, f"{view} does not have {count} waiters"
            await asyncio.sleep(0)

    async def _enter(self, locks: Locks, key: str, **options: Any) -> None:
        async with locks.acquire(key, **options):
            pass

    async def _enter_many(self, locks: Locks, keys: list[str], **options: Any) -> None:
        async with locks.acquire_many(keys, **options):
            pass

    async def _try(self, locks: Locks, key: str) -> Any:
        return await locks.try_acquire(key)
