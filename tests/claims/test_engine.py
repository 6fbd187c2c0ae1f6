"""What was done is said in the end, and never turned into a failure on the way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Claims, ClaimState, Locks, Settings
from interlock.backends.memory import MemoryStore
from interlock.errors import InvalidArgumentError, StoreUnavailableError
from interlock.store_client import StoreClient
from interlock.testing.clock import until

if TYPE_CHECKING:
    from interlock.ports.claims import ClaimFinished, ClaimOutcome

SETTINGS = Settings(store_wait=0.2, stuck_work="report")


class Away:
    """Settlements in a memory store that can be away for a while. Notes what got through."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away = False
        self.tried = 0
        self.states: list[ClaimState] = []
        finish = store.claims.finish

        async def sometimes(outcome: ClaimOutcome) -> ClaimFinished:
            self.tried += 1
            if self.away:
                raise StoreUnavailableError
            self.states.append(outcome.state)
            return await finish(outcome)

        monkeypatch.setattr(store.claims, "finish", sometimes)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def finishing(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Away:
    return Away(store, monkeypatch)


async def test_a_result_that_cannot_be_kept_makes_it_failed(store: MemoryStore) -> None:
    async with Claims(store) as once:
        with pytest.raises(InvalidArgumentError):
            async with once.claim("key") as claim:
                claim.result = object()
        again = await once.claim("key")
        assert again.new, "it is in progress by nobody"
        assert again.attempt == 2


async def test_done_whose_block_is_cancelled_meanwhile_stays_done(store: MemoryStore, finishing: Away) -> None:
    async with Claims(store, SETTINGS) as once:

        async def work() -> None:
            async with once.claim("key") as claim:
                finishing.away = True
                await claim.done("it happened")

        task = asyncio.create_task(work())
        await until(lambda: finishing.tried > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        finishing.away = False
        await until(lambda: finishing.states)
        assert set(finishing.states) == {ClaimState.DONE}
        assert (await once.claim("key")).result == "it happened"


@pytest.mark.parametrize("shared", [True, False])
async def test_what_is_unsaid_is_said_on_closing(store: MemoryStore, finishing: Away, shared: bool) -> None:
    store_client = StoreClient(store, SETTINGS)
    locks = Locks(store_client)
    if shared:
        await locks.open()
    async with Claims(store_client) as once:
        with pytest.raises(StoreUnavailableError):
            async with once.claim("key"):
                finishing.away = True
        finishing.away = False
    if shared:
        await locks.close()
    assert finishing.states
    assert set(finishing.states) == {ClaimState.DONE}


async def test_an_app_that_closes_gives_its_claims_back(store: MemoryStore) -> None:
    url = "memory://given-back"
    async with App(url, settings=SETTINGS) as keeps_the_store, Claims.from_url(url, settings=SETTINGS) as once:
        async with App(url, settings=SETTINGS) as app:
            assert (await app.claims.claim("key", ttl=600)).new
        assert (await once.claim("key")).new
        assert keeps_the_store


async def test_nothing_is_left_of_requests_that_are_over(store: MemoryStore) -> None:
    async with Claims(store) as once:
        for number in range(100):
            async with once.claim(f"key {number % 10}"):
                pass
        engine: Any = once._running
        assert engine._owners == {}
        assert engine._backend.unconfirmed == {}
