"""What happens between two statements of a claim, made to happen: others' open transactions, row by row."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.ports.claims import Claimed, ClaimOutcome, ClaimRequest, ClaimState, Known
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from tests.backends.others import blocked

if TYPE_CHECKING:
    from interlock.ports.store import Store

TAKE = "select answer, fence from interlock.claim_take('default', $1, $2, 's', 60, $3, null)"


def request(owner: str, key: str = "k", keep: float = 3600.0) -> ClaimRequest:
    return ClaimRequest(key, owner, "s", 60.0, keep)


async def claimed(store: Store, owner: str, key: str = "k") -> Claimed:
    answer = await store.claims.claim(request(owner, key))
    assert isinstance(answer, Claimed), answer
    return answer


async def test_who_waits_for_anothers_claim_hears_that_it_is_in_progress(store: Store, other: Any) -> None:
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(TAKE, "k", "first", 3600.0)
    async with blocked(other, store.claims.claim(request("second"))) as (second,):
        await transaction.commit()

    answer = await second
    assert isinstance(answer, Known)
    assert answer.view.owner == "first"


async def test_a_fence_is_drawn_once_the_key_is_the_claimants(store: Store, other: Any) -> None:
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(TAKE, "k", "first", 3600.0)
    async with blocked(other, store.claims.claim(request("second"))) as (second,):
        drawn_meanwhile = await other.fetchval("select nextval('interlock.fence')")
        await transaction.rollback()

    answer = await second
    assert isinstance(answer, Claimed)
    assert (answer.attempt, answer.fence > drawn_meanwhile) == (1, True)


async def test_a_claim_is_decided_by_what_the_row_is_once_it_is_locked(store: Store, other: Any) -> None:
    await claimed(store, "first")
    await store.claims.finish(ClaimOutcome("k", "first", ClaimState.FAILED, None, "no", 0.0, 3600.0))
    transaction = other.transaction()
    await transaction.start()
    await other.fetch("select from interlock.claim for update")
    async with blocked(other, store.claims.claim(request("third"))) as (third,):
        ((answer, fence),) = await other.fetch(TAKE, "k", "second", 3600.0)
        await transaction.commit()

    known = await third
    assert answer == "claimed"
    assert isinstance(known, Known)
    assert (known.view.owner, known.view.attempt, known.view.fence) == ("second", 2, fence)


async def test_a_settlement_behind_a_takeover_is_refused(store: Store, other: Any) -> None:
    await claimed(store, "first")
    await other.execute("update interlock.claim set expires_at = now() - interval '1 second'")
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(TAKE, "k", "second", 3600.0)
    late = store.claims.finish(ClaimOutcome("k", "first", ClaimState.DONE, None, "", 0.0, 3600.0))
    async with blocked(other, late) as (finishing,):
        await transaction.commit()

    assert not (await finishing).done
    (view,) = await store.claims.list("k")
    assert (view.owner, view.state) == ("second", ClaimState.IN_PROGRESS)


async def test_the_sweep_does_not_remove_what_is_being_claimed_anew(store: Store, other: Any) -> None:
    await claimed(store, "first")
    await other.execute("update interlock.claim set kept_until = now() - interval '1 second'")
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(TAKE, "k", "second", 3600.0)
    sweeping = asyncio.ensure_future(store.sessions.sweep())
    await asyncio.sleep(0.1)
    await transaction.commit()

    await sweeping
    (view,) = await store.claims.list("k")
    assert (view.owner, view.attempt) == ("second", 1)


async def test_who_claims_what_is_being_swept_finds_the_key_new(store: Store, other: Any) -> None:
    first = await claimed(store, "first")
    await other.execute("update interlock.claim set kept_until = now() - interval '1 second'")
    transaction = other.transaction()
    await transaction.start()
    assert await other.fetchval("select interlock.claim_sweep('default', null)") == 1
    async with blocked(other, store.claims.claim(request("second"))) as (second,):
        await transaction.commit()

    answer = await second
    assert isinstance(answer, Claimed)
    assert (answer.attempt, answer.fence > first.fence) == (1, True)


async def test_what_is_known_is_said_without_writing_anything(store: Store, other: Any) -> None:
    await claimed(store, "first")
    async with other.transaction():
        ((answer, _),) = await other.fetch(TAKE, "k", "second", 3600.0)
        wrote = await other.fetchval("select pg_current_xact_id_if_assigned()")

    assert (answer, wrote) == ("known", None)


async def test_claims_and_settlements_wait_for_the_disk_also_where_the_server_does_not(
    complete_postgres_url: str, other: Any
) -> None:
    name = complete_postgres_url.rpartition("/")[2].partition("?")[0]
    await other.execute(f"alter database {name} set synchronous_commit = off")
    store = from_url(complete_postgres_url, settings=Settings())
    await store.open()
    await store.sessions.begin(SessionCard("s", "host", 7, "test"), 600.0)
    on_disk = []
    for number in range(20):
        before = await other.fetchval("select pg_current_wal_insert_lsn()")
        await claimed(store, f"o{number}", f"k{number}")
        on_disk.append(await other.fetchval("select pg_current_wal_flush_lsn() > $1", before))
        before = await other.fetchval("select pg_current_wal_insert_lsn()")
        await store.claims.finish(ClaimOutcome(f"k{number}", f"o{number}", ClaimState.DONE, None, "", 0.0, 3600.0))
        on_disk.append(await other.fetchval("select pg_current_wal_flush_lsn() > $1", before))
    await store.close()

    assert all(on_disk)


async def test_keys_are_found_by_the_primary_key_also_while_nothing_is_known_of_the_table(
    store: Store, other: Any
) -> None:
    by_key = "select * from interlock.claim where namespace = 'default' and key = 'k'"
    in_order = "select * from interlock.claim where namespace = 'default' and key >= 'k' order by key limit 10"
    for statement in (by_key, in_order):
        plan = json.dumps(json.loads(await other.fetchval(f"explain (format json) {statement}")))
        assert '"Index Name": "claim_pkey"' in plan, plan
