"""The first uses of a limit by a fetch and by a reservation, forced to overlap on PostgreSQL."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

import interlock.backends.postgres
from interlock.ports.limits import STALE_SECONDS, TURN_SECONDS
from interlock.testing.conformance.jobs.driver import JobSuite, slots
from interlock.testing.conformance.limits.driver import LimitDriver
from tests.databases import new_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from interlock.testing.conformance.jobs.driver import JobDriver

FUNCTIONS = Path(interlock.backends.postgres.__file__).parent / "functions" / "limits"
NAMESPACE = "default"
SETTLED = 0.3
"""Long enough for a statement that nothing blocks; one that is blocked is not done by then."""


@pytest.fixture(scope="module")
def url(interlock_postgres_server: Any) -> Iterator[str]:
    for name in new_database(interlock_postgres_server):
        yield interlock_postgres_server.url(name)


@pytest.fixture
async def sides(url: str) -> AsyncIterator[tuple[JobDriver, LimitDriver, asyncpg.Connection[Any]]]:
    async with JobSuite().job_driver(url, namespace=NAMESPACE) as jobs:
        other = await asyncpg.connect(url)
        try:
            await other.execute(
                "delete from interlock.job_limit; delete from interlock.limit_use; delete from interlock.job_slot_freed"
            )
            yield jobs, LimitDriver(jobs.store, jobs.clock), other
        finally:
            await other.close()


async def test_a_reservation_waits_for_the_first_fetch_of_its_key(
    sides: tuple[JobDriver, LimitDriver, asyncpg.Connection[Any]],
) -> None:
    b, r, other = sides
    await b.add(uses=(slots(1, "first-fetch"),))
    transaction = other.transaction()
    await transaction.start()
    fetched = await other.fetchrow(
        "select * from interlock.job_fetch($1, 'a', $2, $3, 10, 10, 1, 0, $4, 0.0, $5)",
        NAMESPACE,
        [f"{NAMESPACE}/q"],
        ["n"],
        [-(2**63)],
        b.now,
    )
    assert fetched is not None
    assert len(fetched["ids"]) == 1
    asking = asyncio.create_task(r.turn("b1", slots(1, "first-fetch")))
    await asyncio.sleep(SETTLED)
    assert not asking.done(), "the fetch may still be undone"
    await transaction.commit()

    assert not (await asking).started


async def test_a_fetch_waits_for_the_first_reservation_of_its_key(
    sides: tuple[JobDriver, LimitDriver, asyncpg.Connection[Any]],
) -> None:
    b, r, other = sides
    job = await b.add(uses=(slots(1, "first-reservation"),))
    transaction = other.transaction()
    await transaction.start()
    turn = await other.fetchrow(
        "select * from interlock.limit_ask($1, 'c1', 'c', 'c', $2, $3, $4, true, $5, $6, 10000, false, $7)",
        NAMESPACE,
        ["first-reservation"],
        [1],
        [0],
        round(TURN_SECONDS * 1e6),
        round(STALE_SECONDS * 1e6),
        b.now,
    )
    assert turn is not None
    assert turn["answer"] == "started"
    fetching = asyncio.create_task(b.ids())
    await asyncio.sleep(SETTLED)
    assert not fetching.done()
    await transaction.commit()

    assert await fetching == []
    await r.finish("c1")
    assert await b.ids() == [job]


async def test_a_reservation_that_an_acknowledgement_does_not_see_asks_again_soon(
    sides: tuple[JobDriver, LimitDriver, asyncpg.Connection[Any]],
) -> None:
    b, r, other = sides
    await b.add(uses=(slots(1, "unseen"),))
    job = await b.one()
    transaction = other.transaction()
    await transaction.start()
    await other.execute(
        "select interlock.job_acknowledge($1, 'a', (array[$2::bigint], array[$3::bigint], null, null, null, null, null,"
        " null, null)::interlock.acknowledgements, 3, $4)",
        NAMESPACE,
        job.id,
        job.fence,
        b.now,
    )
    turn = await r.waits("b1", slots(1, "unseen"))
    await transaction.commit()

    assert turn.recheck_in <= 0.1
    assert (await r.turn("b1", slots(1, "unseen"))).started


@pytest.mark.parametrize(("name", "seconds"), [("limit_turn", TURN_SECONDS), ("limit_stale", STALE_SECONDS)])
def test_the_functions_know_the_constants_of_the_port(name: str, seconds: float) -> None:
    found = re.search(r"select (\d+)::bigint", (FUNCTIONS / f"{name}.sql").read_text("utf-8"))

    assert found is not None
    assert int(found[1]) == round(seconds * 1e6)
