"""Claims through lost answers and outages: no claim is left in progress by nobody, what was done is said in the end."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest

from interlock import Claims, ClaimState, Settings
from interlock.errors import StoreUnavailableError
from interlock.testing.clock import until

if TYPE_CHECKING:
    from tests.remote import Remote

pytestmark = [pytest.mark.full, pytest.mark.covering]

SETTINGS = Settings(session_ttl=30, store_wait=10.0, stuck_work="report")
BRIEF = dataclasses.replace(SETTINGS, store_wait=3.0)
"""For tests in which the store does not come back before the caller gives up."""


async def test_a_claim_whose_answer_was_lost_is_the_same_claim(remote: Remote) -> None:
    async with Claims.from_url(remote.url, settings=SETTINGS) as once:
        await (await once.claim("warm-up")).done()
        remote.proxy.drop_replies()
        claim = await once.claim("key")

        assert remote.proxy.fired["drop_replies"] == 1
        assert claim.new
        assert claim.attempt == 1
        await claim.done("once")
        assert (await once.claim("key")).result == "once"


async def test_a_settlement_whose_answer_was_lost_counts_once(remote: Remote) -> None:
    async with Claims.from_url(remote.url, settings=SETTINGS) as once:
        done, failed = await once.claim("done"), await once.claim("failed")
        remote.proxy.drop_replies()
        await done.done()
        remote.proxy.drop_replies()
        await failed.fail("no luck", retry_in=60)

        assert remote.proxy.fired["drop_replies"] == 2
        assert (await once.claim("done")).state is ClaimState.DONE
        assert (await once.claim("failed")).error == "no luck"


@pytest.mark.parametrize("long", [False, True])
async def test_a_claim_that_nobody_heard_of_can_be_had_again(remote: Remote, long: bool) -> None:
    async with (
        Claims.from_url(remote.url, settings=BRIEF) as once,
        Claims.from_url(remote.direct, settings=SETTINGS) as others,
    ):
        await (await once.claim("warm-up")).done()
        remote.proxy.half_open()  # requests arrive, answers do not
        with pytest.raises(StoreUnavailableError):
            await once.claim("key", ttl=600)
        if long:
            await until(lambda: not once._running._owners, what="the first try to give it up has failed")
        remote.proxy.heal()

        async def claimable() -> bool:
            return (await others.claim("key")).new

        await until(claimable, within=10)


async def test_what_was_done_during_an_outage_is_said_when_it_is_over(remote: Remote) -> None:
    async with (
        Claims.from_url(remote.url, settings=BRIEF) as once,
        Claims.from_url(remote.direct, settings=SETTINGS) as others,
    ):
        with pytest.raises(StoreUnavailableError):  # noqa: PT012
            async with once.claim("key", ttl=20) as claim:
                claim.result = "it happened"
                remote.proxy.refuse()
                remote.proxy.reset()
        assert (await others.claim("key")).state is ClaimState.IN_PROGRESS, "still ours: it is not to be repeated"
        remote.proxy.heal()

        async def said() -> bool:
            return (await others.claim("key")).state is ClaimState.DONE

        await until(said, within=10)
        assert (await others.claim("key")).result == "it happened"


async def test_a_cancelled_settlement_is_carried_through(remote: Remote) -> None:
    async with (
        Claims.from_url(remote.url, settings=SETTINGS) as once,
        Claims.from_url(remote.direct, settings=SETTINGS) as others,
    ):
        claim = await once.claim("key")
        begun = asyncio.Event()

        async def finish() -> None:
            begun.set()
            await claim.done("it happened")

        remote.proxy.half_open()
        finishing = asyncio.create_task(finish())
        await begun.wait()  # the fault may fire for the heartbeat first, before this task has run at all
        await until(lambda: remote.proxy.fired["half_open"] > 0)
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        remote.proxy.heal()

        async def said() -> bool:
            return (await others.claim("key")).state is ClaimState.DONE

        await until(said, within=10)
