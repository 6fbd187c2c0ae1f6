"""The public class ``Claims`` with the whole engine, in real time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from interlock.claims import Claims, ClaimState
from interlock.errors import InvalidArgumentError, LeaseLostError, MisuseError
from interlock.ports.store import Capability
from interlock.settings import Settings
from interlock.testing.clock import until
from interlock.testing.conformance.base import StoreSuite, needs
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["ClaimsConformance"]

NEW, IN_PROGRESS, DONE, FAILED = ClaimState


class ClaimsConformance(StoreSuite):
    """The promises of ``Claims``."""

    @asynccontextmanager
    async def claims(self, url: str, **settings: Any) -> AsyncIterator[Claims]:
        """Open claims on the store, with settings that keep tests short."""
        short: dict[str, Any] = {"session_ttl": 3.0, "stuck_work": "report"}
        async with Claims.from_url(url, settings=Settings(**(short | settings))) as claims:
            yield claims

    async def test_of_all_who_claim_a_key_one_hears_that_it_is_new(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            answers = await asyncio.gather(*(claims.claim("key") for _ in range(20)))

            assert sorted(claim.state for claim in answers) == sorted([NEW] + [IN_PROGRESS] * 19)

    async def test_a_block_that_ends_leaves_it_done_with_its_result(self, store_url: str) -> None:
        result = {
            "url": "https://example.org/1",
            "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            "n": [1, 2.5, None],
        }
        async with self.claims(store_url) as claims:
            async with claims.claim("key") as claim:
                assert claim.new
                assert claim.attempt == 1
                claim.result = result

            async with claims.claim("key") as again:
                assert again.state is DONE
                assert not again.new
                assert again.result == result

    async def test_done_and_failed_by_hand(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            await (await claims.claim("a")).done("ok")
            await (await claims.claim("b")).fail("no luck", retry_in=600)

            done, failed = await claims.claim("a"), await claims.claim("b")
            assert (done.state, done.result) == (DONE, "ok")
            assert (failed.state, failed.error) == (FAILED, "no luck")
            assert failed.retry_at is not None
            assert timedelta(seconds=590) < failed.retry_at - datetime.now(UTC) < timedelta(seconds=610)

    async def test_a_block_that_raises_may_be_tried_again(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            with pytest.raises(ValueError, match="bad luck"):
                async with claims.claim("key"):
                    raise ValueError("bad luck")

            async with claims.claim("key") as again:
                assert again.new
                assert again.attempt == 2
            assert (await claims.claim("key")).state is DONE

    async def test_a_block_that_raises_waits_for_its_time(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            with pytest.raises(ValueError, match="bad luck"):
                async with claims.claim("key", retry_in=0.3):
                    raise ValueError("bad luck")

            failed = await claims.claim("key")
            assert failed.state is FAILED
            assert "bad luck" in failed.error
            assert failed.retry_at is not None

            async def claimed() -> bool:
                return (await claims.claim("key")).new

            await until(claimed, within=5)

    async def test_a_cancelled_block_may_be_tried_again_at_once(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            inside = asyncio.Event()

            async def work() -> None:
                async with claims.claim("key", retry_in=600):
                    inside.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            async def claimed() -> bool:
                return (await claims.claim("key")).new

            await until(claimed, within=5)

    async def test_a_long_block_keeps_its_claim(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            async with claims.claim("key", ttl=1) as claim:
                expiry = (await self._view(claims)).expires_at
                assert expiry is not None

                async def renewed_twice() -> bool:
                    renewed = (await self._view(claims)).expires_at
                    return renewed is not None and renewed > expiry + timedelta(seconds=1)

                await until(renewed_twice, within=10)
                assert (await claims.claim("key")).state is IN_PROGRESS
                assert not claim.lost
            assert (await claims.claim("key")).state is DONE

    async def test_a_forgotten_claim_stops_its_holder(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            with pytest.raises(LeaseLostError, match="somebody forgot the claim: again, please"):
                async with claims.claim("key"):
                    view = await claims.forget("key", reason="again, please", by="somebody")
                    assert view is not None
                    assert view.state is IN_PROGRESS
                    await asyncio.sleep(60)

            assert await claims.forget("unknown", reason="why", by="me") is None
            async with claims.claim("key") as again:
                assert again.new
            assert (await claims.forget("key", reason="once more", by="me")) is not None
            assert (await claims.claim("key")).new

    async def test_all_claims_that_match_are_forgotten(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            for key in ("a:1", "a:2", "b:1"):
                async with claims.claim(key):
                    pass
            held = await claims.claim("a:3")
            assert await claims.matching(prefix="a:", state=DONE) == ["a:1", "a:2"]

            done = await claims.forget_all(prefix="a:", state=DONE, reason="once more", by="ann")
            nothing = await claims.forget_all(prefix="a:", state=DONE, reason="once more", by="ann")

            assert done == (("a:1", "a:2"), ())
            assert nothing.matched == 0
            assert await claims.matching() == ["a:3", "b:1"]
            await held.done()
            with pytest.raises(InvalidArgumentError):
                await claims.forget_all(reason=" ", by="ann")

    async def test_what_is_not_new_cannot_be_settled(self, store_url: str) -> None:
        async with self.claims(store_url) as claims, claims.claim("key") as mine:
            other = await claims.claim("key")

            for act in (other.done, other.fail):
                with pytest.raises(MisuseError, match="in progress"):
                    await act()
            await mine.done()
            with pytest.raises(MisuseError, match="already finished"):
                await mine.fail()

    async def test_bad_input_is_refused_and_nothing_is_stored(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            bad: list[tuple[str, dict[str, Any]]] = [
                ("", {}),
                ("k" * 600, {}),
                ("k", {"keep": 0}),
                ("k", {"ttl": float("nan")}),
                ("k", {"retry_in": -1}),
            ]
            for key, how in bad:
                with pytest.raises(InvalidArgumentError):
                    await claims.claim(key, **how)
            assert list(await claims.list()) == []

            claim = await claims.claim("key")
            for result in (float("nan"), object(), datetime(2026, 1, 1), {1: 2}, "x" * 2**20, "\0"):  # noqa: DTZ001
                with pytest.raises(InvalidArgumentError):
                    await claim.done(result)
            assert (await self._view(claims)).state is IN_PROGRESS
            await claim.done()

    async def test_list_and_show(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            await (await claims.claim("review:1")).done({"ok": True})
            await (await claims.claim("review:2")).fail("no", retry_in=60)
            await claims.claim("note:1")

            assert [view.key for view in await claims.list()] == ["note:1", "review:1", "review:2"]
            assert [view.key for view in await claims.list(prefix="review:")] == ["review:1", "review:2"]
            assert [view.key for view in await claims.list(state=FAILED)] == ["review:2"]
            assert len(await claims.list(limit=2)) == 2
            view = await get_or_none(claims, "review:1")
            assert view is not None
            assert (view.state, view.attempt, view.result) == (DONE, 1, {"ok": True})
            assert await get_or_none(claims, "unknown") is None

    @needs(Capability.PROCESSES)
    async def test_a_claim_is_taken_over_when_its_process_ends(self, store_url: str) -> None:
        async with self.claims(store_url) as claims:
            async with self.claims(store_url) as other:
                claim = await other.claim("key", ttl=600)
                assert (await claims.claim("key")).state is IN_PROGRESS

            taken = await claims.claim("key")
            assert taken.new
            assert taken.attempt == 2
            assert taken.fence > claim.fence

    async def test_closing_stops_the_bodies(self, store_url: str) -> None:
        inside = asyncio.Event()
        async with self.claims(store_url) as claims:

            async def work() -> None:
                async with claims.claim("key"):
                    inside.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await inside.wait()
        with pytest.raises(LeaseLostError, match="closed"):
            await task

    async def _view(self, claims: Claims) -> Any:
        view = await get_or_none(claims, "key")
        assert view is not None
        return view
