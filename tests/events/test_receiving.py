"""Receiving: what is counted and logged, and what happens while the store is away."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Event, GitHub
from interlock.errors import (
    EventRefusedError,
    JobFailedError,
    MalformedEventError,
    SignatureError,
    StoreError,
    StoreUnavailableError,
)
from interlock.events import ReceiptStatus
from interlock.jobs import JobState
from interlock.jobs.jobs import engine_of
from interlock.testing.clock import until
from interlock.testing.conformance.events.apps import SECRET, delivery, issue
from interlock.testing.proxy import ThreadedFaultProxy
from tests.remote import Remote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from interlock.events import EventView


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[App]:
    usual: dict[str, Any] = {"session_ttl": 30.0, "store_wait": 1.0, "recheck_interval": 0.5, "stuck_work": "report"}
    app = App(url, **(usual | settings))
    app.source(GitHub(SECRET, own=["mybot[bot]"]))
    async with app:
        yield app


def hears_all(app: App) -> list[Event]:
    seen: list[Event] = []

    @app.on("github.**", name="hears-all", lane="{issue.number}")
    async def hear(event: Event) -> None:
        seen.append(event)

    assert hear.name
    return seen


@pytest.fixture
def postgres(complete_postgres_url: str, interlock_postgres_server: Any) -> Iterator[Remote]:
    """A database behind a proxy."""
    with ThreadedFaultProxy("127.0.0.1", interlock_postgres_server.port) as proxy:
        yield Remote(complete_postgres_url, proxy)


class TestCounts:
    async def test_verdicts_and_refusals_are_counted_by_source(self) -> None:
        async with opened("memory://") as app:
            hears_all(app)

            @app.on("github.fork", ignore=lambda event: event.payload["nowhere"])
            async def broken(event: Event) -> None: ...

            good = delivery(issue(), "g1")
            await app.events.receive("github", *good)
            await app.events.receive("github", *good)
            await app.events.receive("github", *delivery(issue(sender={"login": "mybot[bot]"}), "g2"))
            for error, (headers, body) in (
                (SignatureError, delivery(issue(), "g3", secret="guessed")),
                (MalformedEventError, delivery(b"[]", "g4")),
                (EventRefusedError, delivery({}, "g5", "fork")),
            ):
                with pytest.raises(error):
                    await app.events.receive("github", headers, body)
            samples = {
                (sample.name, *sample.labels.values()): sample.value
                for family in app.metrics.collect()
                for sample in family.samples
                if family.name.startswith("interlock_event")
            }

            for verdict in ReceiptStatus:
                assert samples["interlock_events_received_total", "github", str(verdict)] == 1
            for reason in ("signature", "malformed", "refused"):
                assert samples["interlock_events_refused_total", "github", reason] == 1
            assert samples["interlock_event_accepting_seconds_count", "memory"] == 2
            assert app.jobs.metrics.of("hears-all").enqueued == 1
            assert broken.name == "broken"

    async def test_what_happens_is_logged_and_no_secret_is(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "interlock")
        async with opened("memory://") as app:
            hears_all(app)
            good = delivery(issue(), "g1")
            first = await app.events.receive("github", *good)
            await app.events.receive("github", *good)
            await app.events.receive("github", *delivery({}, "g2", "ping"))
            await app.events.replay(first.event or 0, by="eva", reason="again")
            with pytest.raises(SignatureError):
                await app.events.receive("github", *delivery(issue(), "g3", secret="guessed"))
            events = {record.event: record for record in caplog.records if "event_" in getattr(record, "event", "")}  # type: ignore[attr-defined]

            assert events.keys() == {
                "event_accepted",
                "event_duplicate",
                "event_ignored",
                "event_replayed",
                "event_refused",
            }
            assert events["event_refused"].levelno == logging.WARNING
            assert events["event_replayed"].fields["by"] == "eva"  # type: ignore[attr-defined]
            assert SECRET not in caplog.text
            assert good[0]["x-hub-signature-256"] not in caplog.text

    async def test_an_error_of_a_rule_does_not_repeat_the_payload(self) -> None:
        async with opened("memory://") as app:

            @app.on("github.**", ignore=lambda event: event.payload["title"] > 7)
            async def broken(event: Event) -> None: ...

            with pytest.raises(EventRefusedError) as refused:
                await app.events.receive("github", *delivery({"title": "canary-5f2c"}, "g1", "push"))
            assert "canary" not in str(refused.value)
            assert isinstance(refused.value.__cause__, TypeError)
            assert broken.name == "broken"

    async def test_a_payload_that_is_too_large_is_refused(self) -> None:
        async with opened("memory://") as app:
            hears_all(app)
            large = delivery({"x": "y" * (5 * 1024 * 1024)}, "g1")
            with pytest.raises(MalformedEventError, match="bytes"):
                await app.events.receive("github", *large)
            fits = delivery({"x": "y" * (5 * 1024 * 1024 - 100)}, "g1")
            assert (await app.events.receive("github", *fits)).status is ReceiptStatus.ACCEPTED


class TestOutages:
    async def test_a_delivery_whose_answer_was_lost_is_taken_once(self, postgres: Remote) -> None:
        async with opened(postgres.url, store_wait=3.0) as app:
            seen = hears_all(app)
            await app.events.receive("github", *delivery(issue(), "warm-up"))
            postgres.proxy.drop_replies()
            receipt = await app.events.receive("github", *delivery(issue(), "g1"))

            assert postgres.proxy.fired["drop_replies"] == 1
            assert receipt.status is ReceiptStatus.ACCEPTED
            await app.drain()
            assert [event.delivery for event in seen] == ["warm-up", "g1"]

    async def test_a_delivery_that_was_not_answered_may_be_delivered_again(self, postgres: Remote) -> None:
        async with opened(postgres.url) as app, opened(postgres.direct) as other:
            seen, elsewhere = hears_all(app), hears_all(other)
            await app.events.receive("github", *delivery(issue(), "warm-up"))
            await app.drain()
            postgres.proxy.half_open()  # requests arrive, answers do not
            with pytest.raises(StoreUnavailableError):
                await app.events.receive("github", *delivery(issue(), "g1"))
            assert app.events.metrics.refusals == {("github", "unavailable"): 1}
            postgres.proxy.heal()
            # It got through without its answer, or not at all if it needed a new connection.
            kept = await other.events.list(delivery="g1")
            again = await other.events.receive("github", *delivery(issue(), "g1"))
            await until(lambda: _drained(app), what="the store to be back")

            assert again.status is ReceiptStatus.DUPLICATE or not kept
            await other.drain()
            assert [event.delivery for event in seen + elsewhere] == ["warm-up", "g1"]

    async def test_a_store_that_is_away_for_a_moment_is_waited_for(self, postgres: Remote) -> None:
        async with opened(postgres.url, store_wait=10.0) as app:
            seen = hears_all(app)
            await app.events.receive("github", *delivery(issue(), "warm-up"))
            postgres.proxy.refuse()
            sending = asyncio.create_task(app.events.receive("github", *delivery(issue(), "g1")))
            await until(lambda: postgres.proxy.fired["refuse"], what="a try that fails")
            postgres.proxy.heal()

            assert (await sending).status is ReceiptStatus.ACCEPTED
            await app.drain()
            assert [event.delivery for event in seen] == ["warm-up", "g1"]

    @pytest.mark.parametrize("plain", [False, True])
    async def test_a_job_whose_event_cannot_be_had_goes_back_and_has_not_failed(self, plain: bool) -> None:
        async with opened("memory://", store_wait=0.1) as app:
            seen: list[int] = []
            if plain:
                app.on("github.**", name="hear")(lambda_handler(seen))
            else:

                @app.on("github.**", name="hear")
                async def hear(event: Event) -> None:
                    seen.append(event.id)

            receipt = await app.events.receive("github", *delivery(issue(), "g1"))
            store = engine_of(app.events.jobs).store_client.store.events
            get_many, tries = store.get_many, []

            async def away(ids: Sequence[int]) -> Sequence[EventView]:
                tries.append(ids)
                if len(tries) <= 20:
                    raise StoreUnavailableError
                return await get_many(ids)

            store.get_many = away  # type: ignore[method-assign]
            async with app.worker() as worker:
                await app.jobs.handle(*receipt.jobs).result()

                assert seen == [receipt.event]
                assert {str(outcome): count for outcome, count in worker.counts.items()} == {"done": 1}
            view = await app.jobs.get(*receipt.jobs)
            assert view is not None
            assert (view.state, view.attempt, len(view.attempts)) == (JobState.DONE, 1, 1)

    async def test_a_job_whose_event_cannot_be_loaded_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("interlock.jobs.worker.outcomes.UNLOADED_DELAY", 0.01, raising=False)
        async with opened("memory://") as app:
            seen = hears_all(app)
            receipt = await app.events.receive("github", *delivery(issue(), "g1"))
            store = engine_of(app.events.jobs).store_client.store.events
            get_many = store.get_many
            errors: list[Exception] = [StoreError("permission denied for table event"), OSError(5, "I/O error")]

            async def failing(ids: Sequence[int]) -> Sequence[EventView]:
                if errors:
                    raise errors.pop(0)
                return await get_many(ids)

            store.get_many = failing  # type: ignore[method-assign]
            async with app.worker():
                await app.jobs.handle(*receipt.jobs).result()

            assert [event.id for event in seen] == [receipt.event]
            view = await app.jobs.get(*receipt.jobs)
            assert view is not None
            assert view.attempt == 1
            assert "permission denied" in view.attempts[0].error

    async def test_a_job_whose_event_cannot_be_decoded_fails(self) -> None:
        async with opened("memory://") as app:
            hears_all(app)
            receipt = await app.events.receive("github", *delivery(issue(), "g1"))
            store = engine_of(app.events.jobs).store_client.store.events
            get_many = store.get_many

            async def torn(ids: Sequence[int]) -> Sequence[EventView]:
                return [view._replace(payload="{") for view in await get_many(ids)]

            store.get_many = torn  # type: ignore[method-assign]
            async with app.worker():
                with pytest.raises(JobFailedError, match="cannot be decoded"):
                    await app.jobs.handle(*receipt.jobs).result()

    @pytest.mark.parametrize("plain", [False, True])
    async def test_a_job_can_be_cancelled_and_stopped_while_its_event_is_awaited(self, plain: bool) -> None:
        async with opened("memory://") as app:
            if plain:
                app.on("github.**", name="hear")(lambda_handler([]))
            else:

                @app.on("github.**", name="hear")
                async def hear(event: Event) -> None: ...

            cancelled = await app.events.receive("github", *delivery(issue(1), "g1"))
            stopped = await app.events.receive("github", *delivery(issue(2), "g2"))
            store = engine_of(app.events.jobs).store_client.store.events
            get_many, asked = store.get_many, []

            async def never(ids: Sequence[int]) -> Sequence[EventView]:
                asked.append(ids)
                return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

            store.get_many = never  # type: ignore[method-assign]
            worker = app.worker()
            worker.open()
            await until(lambda: len(worker.status().running) == 2, what="both jobs to begin")
            await app.jobs.cancel(cancelled.jobs[0], reason="not wanted", by="eva")
            await until(lambda: _state(app, cancelled.jobs[0], JobState.CANCELLED))
            await worker.stop()
            assert await _state(app, stopped.jobs[0], JobState.READY)
            store.get_many = get_many  # type: ignore[method-assign]

    async def test_nobody_asks_on_for_an_event_that_nobody_awaits(self) -> None:
        async with opened("memory://", store_wait=60.0) as app:
            hears_all(app)
            await app.events.receive("github", *delivery(issue(), "g1"))
            store = engine_of(app.events.jobs).store_client.store.events
            asked: list[Sequence[int]] = []

            async def away(ids: Sequence[int]) -> Sequence[EventView]:
                asked.append(ids)
                raise StoreUnavailableError

            store.get_many = away  # type: ignore[method-assign]
            worker = app.worker()
            worker.open()
            await until(lambda: len(asked) >= 2, what="asking again")
            await worker.stop()
            await until(lambda: app.events._loader._batcher._task is None)

    async def test_what_is_being_accepted_is_not_tried_again_after_closing(self) -> None:
        app = App("memory://", store_wait=60.0)
        app.source(GitHub(SECRET))
        hears_all(app)
        async with app:
            store = engine_of(app.events.jobs).store_client.store.events
            tried: list[object] = []

            async def away(events: Sequence[object]) -> Sequence[int]:
                tried.append(events)
                raise StoreUnavailableError

            store.accept = away  # type: ignore[method-assign]
            sending = asyncio.create_task(app.events.receive("github", *delivery(issue(), "g1")))
            await until(lambda: len(tried) >= 2, what="trying again")
        with pytest.raises(StoreUnavailableError):
            await asyncio.wait_for(sending, 5)


def lambda_handler(seen: list[int]) -> Any:
    def hear(event: Event) -> None:
        seen.append(event.id)

    return hear


async def _drained(app: App) -> bool:
    try:
        await app.drain()
    except StoreUnavailableError:
        return False
    return True


async def _state(app: App, job: int, state: JobState) -> bool:
    view = await app.jobs.get(job)
    return view is not None and view.state is state
