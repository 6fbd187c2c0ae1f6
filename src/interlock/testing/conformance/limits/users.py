"""The public class ``Limits`` with the whole engine, in real time."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import CapabilityError, InvalidArgumentError, LeaseLostError, LimitTimeoutError, MisuseError
from interlock.limits import Cooldown, Limits, Rate, Slots
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.clock import until
from interlock.testing.conformance.base import StoreSuite, needs
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["LimitsConformance"]


class LimitsConformance(StoreSuite):
    """The promises of ``Limits``."""

    @asynccontextmanager
    async def limits(self, url: str, **settings: Any) -> AsyncIterator[Limits]:
        """Open limits on the store, with settings that keep tests short."""
        short: dict[str, Any] = {"session_ttl": 3.0, "recheck_interval": 0.5, "stuck_work": "report"}
        async with Limits.from_url(url, settings=Settings(**(short | settings))) as limits:
            yield limits

    async def test_never_more_than_n_at_once_and_all_get_their_turn(self, store_url: str) -> None:
        async with self.limits(store_url, session_ttl=60, recheck_interval=60) as limits:
            began = time.monotonic()
            inside = max_count = done = 0

            async def work() -> None:
                nonlocal inside, max_count, done
                async with limits.acquire(Slots("containers", 3)):
                    inside += 1
                    max_count = max(max_count, inside)
                    await asyncio.sleep(0.001)
                    inside -= 1
                    done += 1

            await asyncio.gather(*(work() for _ in range(30)))

            assert (max_count, done) == (3, 30)
            assert time.monotonic() - began < 40, "they were not woken"
            assert list(await limits.list()) == []

    @needs(Capability.PROCESSES)
    async def test_slots_hold_across_processes_and_the_next_is_woken(self, store_url: str) -> None:
        async with AsyncExitStack() as stack:
            several = [
                await stack.enter_async_context(self.limits(store_url, session_ttl=60, recheck_interval=60))
                for _ in range(3)
            ]
            inside = max_count = 0

            async def work(limits: Limits) -> None:
                nonlocal inside, max_count
                for _ in range(5):
                    async with limits.acquire(Slots("containers", 2)):
                        inside += 1
                        max_count = max(max_count, inside)
                        await asyncio.sleep(0.001)
                        inside -= 1

            began = time.monotonic()
            await asyncio.gather(*(work(limits) for limits in several for _ in range(2)))

            assert max_count == 2
            assert time.monotonic() - began < 40, "they were not woken"

    async def test_those_who_wait_are_served_first_come_first_served(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            order: list[int] = []

            async def work(number: int) -> None:
                async with limits.acquire(Slots("one", 1)):
                    order.append(number)

            tasks = []
            async with limits.acquire(Slots("one", 1)):
                for number in range(10):
                    tasks.append(asyncio.create_task(work(number)))
                    await self._waiting(limits, "slots:one", number + 1)
            await asyncio.gather(*tasks)

            assert order == list(range(10))

    async def test_reserving_says_at_once_when_the_turn_comes(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            began = time.monotonic()
            cooldown = Cooldown("account", 90, key="{account}")
            mine = [await limits.reserve(cooldown, account="a1") for _ in range(10)]
            other = await limits.reserve(cooldown, account="a2")

            assert time.monotonic() - began < 60, "somebody waited for the turn instead of being told of it"
            times = [reservation.starts_at for reservation in mine]
            gaps = [
                (later - earlier).total_seconds() for earlier, later in itertools.pairwise(times) if earlier and later
            ]
            assert gaps == [90.0] * 9
            assert other.starts_at is not None
            assert times[0] is not None
            assert (other.starts_at - times[0]).total_seconds() < 60, "one account waits for another"
            assert not await mine[1].start()
            assert await mine[0].start()

    async def test_a_place_that_is_given_back_is_free_for_others(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            first, second, third = [await limits.reserve(Cooldown("gap", 90)) for _ in range(3)]
            await second.finish()
            again = await limits.reserve(Cooldown("gap", 90))

            assert again.starts_at == second.starts_at
            assert third.starts_at is not None
            for reservation in (first, third, again):
                await reservation.finish()
            assert list(await limits.list()) == []

    async def test_starts_are_as_far_apart_as_the_cooldown(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            starts: list[float] = []

            async def work() -> None:
                async with limits.acquire(Cooldown("gap", 0.1)) as turn:
                    assert turn.starts_at is not None
                    starts.append(turn.starts_at.timestamp())

            await asyncio.gather(*(work() for _ in range(5)))

            starts.sort()
            assert all(later - earlier >= 0.099999 for earlier, later in itertools.pairwise(starts))

    async def test_a_rate_holds_in_every_window(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            starts: list[float] = []

            async def work() -> None:
                async with limits.acquire(Rate("api", 3, per=0.2)) as turn:
                    assert turn.starts_at is not None
                    starts.append(turn.starts_at.timestamp())

            await asyncio.gather(*(work() for _ in range(10)))

            starts.sort()
            assert all(starts[n + 3] - starts[n] >= 0.199999 for n in range(len(starts) - 3))

    async def test_several_limits_are_taken_together_and_hold_nobody_up(self, store_url: str) -> None:
        async with self.limits(store_url) as limits, limits.acquire(Slots("busy", 1)):
            with pytest.raises(LimitTimeoutError, match="'slots:busy' did not allow a start"):
                await limits.acquire(Slots("busy", 1), Slots("free", 1), wait=0.05)
            waiting = asyncio.create_task(_acquire(limits, Slots("busy", 1), Slots("free", 1)))
            await self._waiting(limits, "slots:busy", 1)

            async with limits.acquire(Slots("free", 1), wait=5):
                pass
            waiting.cancel()

    async def test_a_start_that_never_was_leaves_nothing(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            async with limits.acquire(Slots("one", 1)):
                waiting = asyncio.create_task(_acquire(limits, Slots("one", 1)))
                await self._waiting(limits, "slots:one", 1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await self._waiting(limits, "slots:one", 0)
            async with limits.acquire(Slots("one", 1), wait=5):
                pass

    async def test_a_cancelled_block_frees_its_slot(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            inside = asyncio.Event()

            async def work() -> None:
                async with limits.acquire(Slots("one", 1)):
                    inside.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await inside.wait()
            task.cancel()
            async with limits.acquire(Slots("one", 1), wait=5):
                pass

    @needs(Capability.PROCESSES)
    async def test_the_slots_of_a_process_that_ended_are_free_and_its_starts_still_count(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            async with self.limits(store_url) as other:
                turn = await other.acquire(Slots("one", 1), Cooldown("gap", 90))
                planned = await other.reserve(Cooldown("gap", 90))

            async with limits.acquire(Slots("one", 1), wait=5):
                pass
            mine = await limits.reserve(Cooldown("gap", 90))
            assert turn.starts_at is not None
            assert mine.starts_at is not None
            assert (mine.starts_at - turn.starts_at).total_seconds() == 90.0, "a place that was given back is kept"
            assert planned.starts_at == mine.starts_at

    @needs(Capability.PROCESSES)
    async def test_processes_that_disagree_are_told_and_the_smaller_figure_holds(
        self, store_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with self.limits(store_url) as old, self.limits(store_url) as new, old.acquire(Slots("n", 1)):
            with pytest.raises(LimitTimeoutError):
                await new.acquire(Slots("n", 5), wait=0.05)
            assert "limit_figures_differ" in caplog.text

    async def test_closing_stops_the_bodies_and_the_waiters(self, store_url: str) -> None:
        inside = asyncio.Event()
        async with self.limits(store_url) as limits:

            async def work() -> None:
                async with limits.acquire(Slots("one", 1)):
                    inside.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await inside.wait()
            waiting = asyncio.create_task(_acquire(limits, Slots("one", 1)))
            await self._waiting(limits, "slots:one", 1)
        with pytest.raises(LeaseLostError, match="closed"):
            await task
        with pytest.raises((LeaseLostError, MisuseError)):
            await waiting

    async def test_bad_input_is_refused_and_nothing_is_stored(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            for bad in (
                lambda: Slots("", 1),
                lambda: Slots("s", 0),
                lambda: Rate("r", 1, per=0),
                lambda: Cooldown("c", float("nan")),
                lambda: Cooldown("c", 1, key="{a"),
                lambda: limits.acquire(),
                lambda: limits.acquire("containers"),  # type: ignore[arg-type]
                lambda: limits.acquire(Cooldown("c", 1, key="{account}")),
                lambda: limits.acquire(Slots("s", 1), Slots("s", 2)),
            ):
                with pytest.raises(InvalidArgumentError):
                    bad()
            assert list(await limits.list()) == []

    @needs(Capability.JOURNAL)
    async def test_a_resized_limit_lets_waiters_start_at_once(self, store_url: str) -> None:
        async with self.limits(store_url, recheck_interval=60.0) as limits:
            async with limits.acquire(Slots("containers", 1)):
                waiting = asyncio.create_task(_acquire(limits, Slots("containers", 1)))
                await self._waiting(limits, "slots:containers", 1)
                began = time.monotonic()
                assert await limits.resize("containers", 2, by="ann", reason="more hosts") is None
                await waiting
                assert time.monotonic() - began < 5
                assert (await limits.get("slots:containers")).count == 2
            before = await limits.reset("slots:containers", by="ann")

            assert before is not None
            assert (before.count, before.by, before.reason) == (2, "ann", "more hosts")

    async def test_a_store_without_a_journal_refuses_to_resize(self, store_url: str) -> None:
        async with self.limits(store_url) as limits:
            try:
                await limits.resize("containers", 2, by="ann", reason="more hosts")
            except CapabilityError as error:
                assert "cannot be resized" in str(error)
                assert await limits.overrides() == []
            else:
                assert [one.name for one in await limits.overrides()] == ["slots:containers"]

    @pytest.mark.parametrize(
        ("name", "size", "per"),
        [
            ("rate:api", 5, None),
            ("slots:x", 5, 60.0),
            ("slots:x", 0, None),
            ("slots:x", 1.5, None),
            ("cooldown:x", 0, None),
            ("other:x", 5, None),
            ("", 5, None),
        ],
    )
    async def test_a_figure_that_cannot_work_is_refused(
        self, store_url: str, name: str, size: float, per: float | None
    ) -> None:
        async with self.limits(store_url) as limits:
            with pytest.raises(InvalidArgumentError):
                await limits.resize(name, size, per=per, by="ann", reason="why not")

    async def _waiting(self, limits: Limits, key: str, count: int) -> None:
        async def seen() -> bool:
            view = await get_or_none(limits, key)
            return (0 if view is None else len(view.waiting)) == count

        await until(seen, what=f"{count} wait for {key}")


async def _acquire(limits: Limits, *wanted: Slots) -> None:
    async with limits.acquire(*wanted):
        pass
