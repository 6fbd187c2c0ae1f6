"""Follow-ups of a job, and what enqueued a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Discard, JobState, Retry, Slots, current_job
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.jobs import current
from interlock.jobs.causes import Cause, read_cause
from interlock.ports.jobs import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import Acknowledged, Acknowledgement

on_every_store = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)


@on_every_store
async def test_follow_ups_are_enqueued_with_the_end_of_their_job(store_url: str) -> None:
    ran: list[tuple[str, int]] = []
    app = App(store_url)

    @app.job(lane="{account}", limits=[Slots("mail", 1)])
    async def mail(account: str, number: int) -> None:
        ran.append((account, number))

    @app.job()
    async def report(account: str) -> str:
        current_job().follow_up(mail.call(account, 1), mail.options(priority=80).call(account, 2))
        current_job().follow_up(mail.options(delay=3600).call(account, 3))
        assert await app.jobs.list(name="mail") == []
        return account.upper()

    @app.job()
    def plain(account: str) -> None:
        current_job().follow_up(mail.call(account, 4))

    async with app:
        handle = await report.enqueue("a1")
        await plain.enqueue("a2")
        assert await app.drain() == {Outcome.DONE: 5}
        assert sorted(ran) == [("a1", 1), ("a1", 2), ("a2", 4)]
        (later,) = await app.jobs.list(JobState.SCHEDULED)
        assert (later.name, later.cause) == ("mail", f"job:{handle.id}")
        assert await handle.result() == "A1"
        assert app.jobs.metrics.of("mail").enqueued == 4


@on_every_store
async def test_a_job_that_is_not_done_enqueues_no_follow_up(store_url: str) -> None:
    app, tries = App(store_url), 0

    @app.job()
    async def mail() -> None: ...

    @app.job(retry=Retry(attempts=3, delay=0.001))
    async def third_time(*, fails: bool) -> None:
        nonlocal tries
        tries += 1
        current_job().follow_up(mail.call())
        if fails or tries < 3:
            raise ConnectionError("away")

    @app.job()
    async def discarded() -> None:
        current_job().follow_up(mail.call())
        raise Discard("nothing to do")

    @app.job()
    async def wrong_result() -> int:
        current_job().follow_up(mail.call())
        return "not a number"  # type: ignore[return-value]

    async with app:
        await third_time.enqueue(fails=True)
        await discarded.enqueue()
        await wrong_result.enqueue()
        async with app.worker():
            while len(await app.jobs.list(JobState.FAILED, JobState.DISCARDED)) < 3:
                await asyncio.sleep(0.01)
        assert await app.jobs.list(name="mail") == []
        tries = 0
        handle = await third_time.enqueue(fails=False)
        async with app.worker():
            await handle.result(wait=20)
        assert len(await app.jobs.list(name="mail")) == 1


async def test_follow_ups_survive_an_answer_that_was_lost() -> None:
    app, answers = App("memory://"), 0

    @app.job()
    async def mail(number: int) -> None: ...

    @app.job()
    async def report(number: int) -> None:
        current_job().follow_up(mail.call(number))

    async with app:
        store = app.jobs._store_client.store.jobs
        acknowledge = store.acknowledge

        async def lossy(session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
            nonlocal answers
            acknowledged = await acknowledge(session, acknowledgements)
            answers += 1
            if answers % 2:
                from interlock.errors import StoreUnavailableError

                raise StoreUnavailableError("The answer was lost.")
            return acknowledged

        store.acknowledge = lossy  # type: ignore[method-assign]
        await app.jobs.enqueue_many([report.call(number) for number in range(20)])
        await app.drain()
        assert answers > 2
        listed = [await app.jobs.get(view.id) for view in await app.jobs.list(name="mail")]
        assert sorted(view.arguments for view in listed) == sorted(f'{{"number":{number}}}' for number in range(20))


async def test_follow_ups_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "MAX_FOLLOW_UPS", 3)
    monkeypatch.setattr(current, "MAX_FOLLOW_UP_BYTES", 100)
    app, other = App("memory://"), App("memory://")

    @app.job()
    async def mail(text: str = "") -> None: ...

    @other.job()
    async def elsewhere() -> None: ...

    @app.job()
    async def report() -> None:
        job = current_job()
        with pytest.raises(MisuseError, match="belongs to another app"):
            job.follow_up(elsewhere.call())
        given: Any = mail
        with pytest.raises(InvalidArgumentError, match=r"Expected a call.*job\.call"):
            job.follow_up(given)
        with pytest.raises(InvalidArgumentError, match="112 bytes; the maximum is 100"):
            job.follow_up(mail.call("x" * 101))
        job.follow_up(*[mail.call()] * 3)
        with pytest.raises(InvalidArgumentError, match="more than 3 follow-ups"):
            job.follow_up(mail.call())

    async with app, other:
        await report.enqueue()
        assert await app.drain() == {Outcome.DONE: 4}
    with pytest.raises(MisuseError, match="No job is running here"):
        current_job().follow_up(mail.call())


@on_every_store
async def test_a_job_knows_what_enqueued_it(store_url: str) -> None:
    app = App(store_url)
    causes: dict[str, tuple[Cause | None, int | None]] = {}

    @app.job()
    async def child(name: str) -> None:
        causes[name] = (current_job().cause, current_job().event_id)

    @app.job()
    async def parent() -> None:
        await child.enqueue("enqueued")
        current_job().follow_up(child.call("followed"))
        await asyncio.create_task(_enqueue())

    async def _enqueue() -> None:
        await app.jobs.enqueue_many([child.call("in a task")])

    async with app:
        await child.enqueue("program")
        handle = await parent.enqueue()
        await app.drain()
        by_parent = Cause("job", str(handle.id), None)
        assert causes == {
            "program": (None, None),
            "enqueued": (by_parent, None),
            "followed": (by_parent, None),
            "in a task": (by_parent, None),
        }
        assert {view.cause for view in await app.jobs.list(name="child")} == {"", f"job:{handle.id}"}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", None),
        ("odd", None),
        ("event:7", Cause("event", "7", 7)),
        ("job:12", Cause("job", "12", None)),
        ("job:12;event:7", Cause("job", "12", 7)),
        ("end:12", Cause("end", "12", None)),
        ("schedule:every night", Cause("schedule", "every night", None)),
    ],
)
def test_causes_as_text(text: str, cause: Cause | None) -> None:
    assert read_cause(text) == cause
    if cause is not None:
        assert str(cause) == text
        assert cause.job == (12 if cause.kind in ("job", "end") else None)


@on_every_store
async def test_a_plain_handler_is_the_cause_of_what_it_enqueues(store_url: str) -> None:
    app = App(store_url)

    @app.job()
    async def child() -> None: ...

    @app.job()
    def parent() -> int:
        return child.enqueue_sync().id

    async with app, app.worker():
        handle = await parent.enqueue()
        number = await handle.result(wait=20)
        assert (await app.jobs.get(number)).cause == f"job:{handle.id}"
