"""What happens to a job whose transaction commits, is rolled back, or dies with its process: for every driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock import App, Cooldown, Slots
from interlock.errors import NotFoundError
from interlock.jobs import Outcome
from tests.jobs.transactions.drivers import DRIVERS, enqueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.jobs.transactions.drivers import Driver


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> Driver:
    return DRIVERS[request.param]


@pytest.fixture
def url(request: pytest.FixtureRequest, driver: Driver, tmp_path: Path) -> str:
    if driver.store == "sqlite":
        return f"sqlite:///{tmp_path}/bot.db"
    return str(request.getfixturevalue("complete_postgres_url"))


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    app = App(url)

    @app.job(lane="{account}", limits=[Slots("reports", 5), Cooldown("account", 90, key="{account}")], priority=70)
    async def report(account: str, target: float = 7) -> str:
        return f"{account} {target!r}"

    async with app:
        yield app


async def test_a_job_exists_if_and_only_if_its_transaction_commits(app: App, url: str, driver: Driver) -> None:
    report = app.jobs["report"]
    async with driver.open(url) as transaction:
        lost = await enqueue(report, transaction.connection, account="a0")
        await transaction.rollback()
    async with driver.open(url) as transaction:
        await transaction.execute("create table orders (id integer)")
        kept = await enqueue(report, transaction.connection, account="a1", target=1e22)
        with pytest.raises(NotFoundError, match=f"Job {kept.id} does not exist.*has not been committed"):
            await kept.result()
        await transaction.commit()

    view = await app.jobs.get(kept)
    assert (view.lane, view.priority, view.arguments) == ("a1", 70, '{"account":"a1","target":1e+22}')
    assert await app.drain() == {Outcome.DONE: 1}
    assert await kept.result() == "a1 1e+22"
    for read in (lost.result, lost.status, lost.progress):
        with pytest.raises(NotFoundError, match=f"Job {lost.id} does not exist.*was rolled back"):
            await read()
    with pytest.raises(NotFoundError, match="was rolled back"):
        [line async for line in lost.logs()]
