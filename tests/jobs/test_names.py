"""Jobs that were renamed, and jobs that are enqueued by name where their handlers are not."""

from __future__ import annotations

import secrets

import pytest

from interlock import App, JobState
from interlock.errors import InvalidArgumentError, MisuseError

on_every_store = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)


@pytest.fixture
def store_url(every_store_url: str) -> str:
    """A store that two apps of this process share."""
    return f"memory://names-{secrets.token_hex(4)}" if every_store_url == "memory://" else every_store_url


@on_every_store
async def test_a_renamed_job_runs_what_was_enqueued_under_its_old_name(store_url: str) -> None:
    ran: list[str] = []
    old, new = App(store_url), App(store_url)

    @old.job(name="old", lane="{key}")
    async def before(key: str) -> str:
        return f"old {key}"

    @new.job(name="new", aliases=["old", "older"], lane="{key}")
    async def after(key: str) -> str:
        ran.append(key)
        return f"new {key}"

    async with old, new:
        handles = [await before.enqueue(key="a"), await after.enqueue(key="a")]
        await new.drain(wait=30)
        assert [await handle.result(wait=5) for handle in handles] == ["new a", "new a"]
        assert (await handles[1].status()).name == "new", "it is enqueued under its new name"
    assert ran == ["a", "a"]
    assert new.jobs["older"] is after
    assert new.jobs.names == ("new",)


def test_a_name_belongs_to_one_job() -> None:
    app = App("memory://")

    @app.job(name="a", aliases=["b"])
    async def first() -> None: ...

    for name, aliases in (("a", []), ("b", []), ("c", ["a"]), ("c", ["b"]), ("c", ["c"]), ("c", ["d", "d"])):

        async def second() -> None: ...

        with pytest.raises(MisuseError, match="Two jobs have"):
            app.job(name=name, aliases=aliases)(second)
    assert "c" not in app.jobs
    with pytest.raises(MisuseError, match="aliases"):
        app.job(aliases="old")


@on_every_store
async def test_a_job_is_enqueued_by_name_where_its_handler_is_not(store_url: str) -> None:
    ran: list[object] = []
    producer, worker = App(store_url), App(store_url)

    @worker.job(name="report", lane="{account}")
    async def report(account: str, target: int = 3) -> str:
        ran.append((account, target))
        return f"{account} {target}"

    async with producer, worker:
        plain = await producer.jobs.enqueue("report", account="a1")
        laned = (
            await producer.jobs.named("report").options(lane="{account}", priority=80).enqueue(account="a2", target=7)
        )
        wrong = await producer.jobs.enqueue("report", account=7)
        await worker.drain(wait=30)
        assert await plain.result(wait=5) == "a1 3"
        assert await laned.result(wait=5) == "a2 7"
        assert (await wrong.status()).state is JobState.PARKED, "its worker finds out"
        view = await producer.jobs.get(laned)
        assert view is not None
        assert (view.lane, view.priority) == ("a2", 80)
    assert sorted(map(str, ran)) == ["('a1', 3)", "('a2', 7)"]


async def test_arguments_are_checked_where_the_handler_is_known() -> None:
    app = App("memory://")

    @app.job(name="report", aliases=["old"])
    async def report(account: str) -> None: ...

    async with app:
        for name in ("report", "old"):
            with pytest.raises(InvalidArgumentError, match="account"):
                await app.jobs.enqueue(name, account=7)
            handle = await app.jobs.enqueue(name, account="a1")
            assert (await handle.status()).name == "report"
        for wrong in (object(), float("nan")):
            with pytest.raises(InvalidArgumentError):
                await app.jobs.enqueue("unknown", value=wrong)
        with pytest.raises(InvalidArgumentError, match="by name"):
            app.jobs.named("unknown").call("a1")
        with pytest.raises(InvalidArgumentError, match="already"):
            await app.jobs.enqueue(report.call(account="a1"), account="a1")  # type: ignore[call-overload]
        with pytest.raises(MisuseError, match="another program"):
            await app.jobs.named("unknown")()
