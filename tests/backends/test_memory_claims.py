"""Claims in memory take room only for as long as they are kept, also where nobody sweeps."""

from __future__ import annotations

from interlock.backends.memory import MemoryStore
from interlock.ports.claims import Claimed, ClaimOutcome, ClaimRequest, ClaimState, Held
from interlock.ports.sessions import SessionCard
from interlock.testing.clock import VirtualClock


async def begun(clock: VirtualClock) -> MemoryStore:
    store = MemoryStore(clock)
    await store.sessions.begin(SessionCard("s", "host", 7, "test"), 1e9)
    return store


async def test_claims_that_are_over_go_as_new_ones_come() -> None:
    clock = VirtualClock()
    store = await begun(clock)
    for number in range(5000):
        assert isinstance(await store.claims.claim(ClaimRequest(f"k{number}", f"o{number}", "s", 1.0, 9.0)), Claimed)
        clock.advance(0.1)

    assert len(store.claims._claims) <= 101
    assert len(store.claims._calendar) <= 101


async def test_renewals_and_attempts_take_no_room() -> None:
    clock = VirtualClock()
    store = await begun(clock)
    for number in range(500):
        await store.claims.claim(ClaimRequest("k", f"o{number}", "s", 10.0, 1e6))
        clock.advance(5)
        await store.claims.renew([Held("k", f"o{number}", 10.0)])
        await store.claims.finish(ClaimOutcome("k", f"o{number}", ClaimState.FAILED, None, "no", 0.0, 1e6))
        clock.advance(5)

    assert len(store.claims._calendar) <= 2
    (view,) = await store.claims.list()
    assert view.attempt == 500
    clock.advance(1e6)
    assert await store.sessions.sweep() == 1
    assert store.claims._claims == {}
    assert store.claims._calendar == []
