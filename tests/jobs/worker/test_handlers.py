"""What handlers do, and what becomes of their jobs. Whatever they raise, the worker goes on."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from interlock.callers import Callers, calling_as
from interlock.jobs.current import CURRENT, current_job
from interlock.jobs.retry import Retry
from interlock.jobs.signals import Discard, RetryLater, Snooze
from interlock.ports.jobs import Outcome
from tests.jobs.worker.fakes import floor

if TYPE_CHECKING:
    from interlock.ports.jobs import Acknowledgement
    from tests.jobs.worker.fakes import Floor

var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="unset")


async def said_of(
    place: Floor, handler: Any, *, attempt: int = 1, arguments: str = "{}", **options: Any
) -> Acknowledgement:
    """Run one job, then another of a good kind in the same worker; what was said of the first."""

    async def good() -> None:
        pass

    place.job(handler, **options)
    place.job(good, "good")
    job = place.jobs.add(attempt=attempt, arguments=arguments)
    after = place.jobs.add("good")
    async with place.worker(concurrency=1):
        await place.until_said(job)
        await place.until_ended(after)
    assert place.session.at_work == 0
    return next(acknowledgement for acknowledgement in place.jobs.acknowledged if acknowledgement.id == job)


def raising(error: BaseException, *, waiting: bool = False, plain: bool = False) -> Any:
    async def handler() -> None:
        if waiting:
            await asyncio.sleep(0)
        raise error

    def plain_handler() -> None:
        raise error

    return plain_handler if plain else handler


async def test_a_result_is_kept() -> None:
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    async with floor() as place:
        said = await said_of(place, add, arguments='{"a": 3, "b": 4}')
        assert (said.outcome, said.result, said.error) == (Outcome.DONE, "7", "")
        assert said.ran >= 0


@pytest.mark.parametrize("way", ["at once", "waiting", "plain"])
@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, BaseExceptionGroup])
async def test_a_handler_that_raises_fails_its_job_and_nothing_else(kind: type[BaseException], way: str) -> None:
    error = kind("all", [SystemExit()]) if kind is BaseExceptionGroup else kind("no\nluck")
    async with floor() as place:
        handler = raising(error, waiting=way == "waiting", plain=way == "plain")
        said = await said_of(place, handler, retry=Retry(delay=10, jitter=0))

        assert (said.outcome, said.delay) == (Outcome.RETRY, 10)
        assert said.error.startswith(type(error).__name__)
        assert "\n" not in said.error
        assert "handler" in said.trace.split("\n")[1] or "Group" in said.trace
        assert "worker/runner.py" not in said.trace


async def test_an_error_that_cannot_be_shown_is_an_error_like_any_other() -> None:
    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async with floor() as place:
        said = await said_of(place, raising(UnspeakableError()))
        assert said.outcome is Outcome.RETRY
        assert "UnspeakableError" in said.error


async def test_what_an_error_says_is_text_that_every_store_can_keep() -> None:
    async with floor() as place:
        said = await said_of(place, raising(ValueError("lone \ud800 and \0")), retry=Retry.NEVER)

    assert said.error == "ValueError: lone \\ud800 and \\0"
    assert "\0" not in said.trace
    assert said.trace.encode()


async def test_attempts_are_used_up() -> None:
    async with floor() as place:
        assert (await said_of(place, raising(ValueError()), attempt=2)).outcome is Outcome.RETRY
    async with floor() as place:
        assert (await said_of(place, raising(ValueError()), attempt=3)).outcome is Outcome.FAILED


async def test_permanent_errors_are_not_tried_again() -> None:
    async with floor() as place:
        said = await said_of(place, raising(TypeError("wrong")))
        assert (said.outcome, said.error) == (Outcome.FAILED, "TypeError: wrong")


async def test_a_wrong_predicate_does_not_decide() -> None:
    def wrong(error: BaseException) -> bool:
        raise ZeroDivisionError

    async with floor() as place:
        said = await said_of(place, raising(ValueError("x")), retry=Retry(permanent=(wrong,)))
        assert (said.outcome, said.error) == (Outcome.RETRY, "ValueError: x")


async def test_options_of_one_job_go_before_its_definition() -> None:
    async with floor() as place:
        place.job(raising(ValueError()), retry=Retry.NEVER)
        job = place.jobs.add(options='{"retry":{"attempts":2,"delay":7,"most":7,"factor":1,"jitter":0}}')
        async with place.worker():
            await place.until_said(job)
        (said,) = place.jobs.acknowledged
        assert (said.outcome, said.delay) == (Outcome.RETRY, 7)


@pytest.mark.parametrize("way", ["bare", "group", "groups"])
@pytest.mark.parametrize(
    ("signal", "attempt", "expected"),
    [
        (RetryLater(30, "busy"), 1, (Outcome.RETRY, 30, "busy")),
        (RetryLater(30, "busy"), 3, (Outcome.FAILED, 0, "busy")),
        (Snooze(60), 3, (Outcome.SNOOZED, 60, "")),
        (Discard("gone"), 1, (Outcome.DISCARDED, 0, "gone")),
    ],
    ids=["scheduled", "last", "snooze", "discard"],
)
async def test_signals(signal: Exception, attempt: int, expected: tuple[Any, ...], way: str) -> None:
    error = signal if way == "bare" else ExceptionGroup("g", [signal])
    if way == "groups":
        error = ExceptionGroup("outer", [error])
    async with floor() as place:
        said = await said_of(place, raising(error), attempt=attempt)
        assert (said.outcome, said.delay, said.error) == expected


@pytest.mark.parametrize("value", [object(), float("nan"), "x" * 2_000_000, "\ud800"])
async def test_a_result_that_cannot_be_kept_fails_for_good(value: object) -> None:
    async def handler() -> Any:
        return value

    async with floor() as place:
        said = await said_of(place, handler)
        assert said.outcome is Outcome.FAILED
        assert said.result is None
        assert "InvalidArgumentError" in said.error


@pytest.mark.parametrize("arguments", ["{}", '{"number": "7"}', '{"number": 7, "more": 1}', "nonsense"])
async def test_arguments_that_do_not_fit_are_left_to_other_versions(arguments: str) -> None:
    ran: list[int] = []

    async def handler(number: int) -> None:
        ran.append(number)

    async with floor() as place:
        said = await said_of(place, handler, arguments=arguments)
        assert said.outcome is Outcome.UNREADABLE
        assert "does not match the handler" in said.error
        assert not ran


async def test_options_that_cannot_be_read_are_left_to_other_versions() -> None:
    async with floor() as place:
        place.job(raising(ValueError()))
        job = place.jobs.add(options="nonsense")
        async with place.worker():
            await place.until_said(job)
        assert place.jobs.outcomes(job) == ["unreadable"]


async def test_a_job_of_a_name_that_nobody_asked_for_is_returned() -> None:
    async with floor() as place:
        place.job(raising(ValueError()))
        place.jobs.any_name = True
        place.jobs.limit = 1
        job = place.jobs.add("unheard-of")
        async with place.worker():
            await place.until_said(job)
            place.jobs.any_name = False
        assert set(place.jobs.outcomes(job)) == {"returned"}


@pytest.mark.parametrize("how", ["child", "itself", "itself and returns", "exit", "exit later"])
async def test_a_handler_that_is_cancelled_by_its_own_doing_has_failed(how: str) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def handler() -> None:
        if how == "child":
            child = asyncio.create_task(forever())
            await asyncio.sleep(0)
            child.cancel()
            await child
        elif "exit" in how:
            if how == "exit later":
                await asyncio.sleep(0)
            raise GeneratorExit
        else:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if how == "itself":
                await forever()

    async with floor() as place:
        said = await said_of(place, handler)
        expected = Outcome.DONE if how == "itself and returns" else Outcome.RETRY
        assert said.outcome is expected


async def test_handlers_see_nothing_of_one_another() -> None:
    seen: list[str] = []

    async def handler() -> None:
        seen.append(var.get())
        var.set("mine")
        await asyncio.sleep(0)
        assert var.get() == "mine"
        seen.append(var.get())

    def plain() -> None:
        seen.append(var.get())
        var.set("mine")

    var.set("outside")
    async with floor() as place:
        place.job(handler)
        place.job(plain, "plain")
        jobs = [*place.jobs.add_many(2), *place.jobs.add_many(2, "plain")]
        async with place.worker(concurrency=1):
            await place.until_ended(*jobs)
    assert seen == ["outside", "mine", "outside", "mine", "outside", "outside"]


async def test_a_handler_knows_its_job_and_so_do_its_tasks_and_threads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "interlock.job")
    seen: list[tuple[int, int]] = []

    def note() -> None:
        job = current_job()
        seen.append((job.id, job.attempt))

    async def noting() -> None:
        await asyncio.sleep(0)
        note()

    async def handler() -> None:
        note()
        await asyncio.gather(noting(), asyncio.to_thread(note))
        current_job().log.info("half way")

    def plain() -> None:
        assert threading.current_thread() is not threading.main_thread()
        note()

    async with floor() as place:
        place.job(handler)
        place.job(plain, "plain")
        first, second = place.jobs.add(attempt=2), place.jobs.add("plain")
        async with place.worker(concurrency=1):
            await place.until_ended(first, second)
    assert seen == [(first, 2)] * 3 + [(second, 1)]
    assert CURRENT.get() is None
    assert f"work {first} (attempt 2): half way" in caplog.text


async def test_a_job_is_a_party_of_its_own() -> None:
    callers = Callers()
    names: list[str] = []

    async def handler() -> None:
        caller = callers.of(asyncio.current_task())
        await asyncio.sleep(0)
        assert callers.of(asyncio.current_task()) is caller
        names.append(caller.name)

    with calling_as("the one who opened the worker"):
        async with floor() as place:
            place.job(handler)
            jobs = place.jobs.add_many(2)
            async with place.worker(concurrency=1):
                await place.until_ended(*jobs)
    assert [name.split(":")[:2] for name in names] == [["job", str(job)] for job in jobs]


async def test_failures_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async with floor() as place:
        said = await said_of(place, raising(TypeError("wrong")))
        tally = place.engine.metrics.of("work")
        assert tally.outcomes == {Outcome.FAILED: 1}
        assert tally.durations.count == 1
        assert place.engine.metrics.waits.count == 2
    (failed,) = [record for record in caplog.records if getattr(record, "event", "") == "job_failed"]
    fields: dict[str, Any] = failed.fields  # type: ignore[attr-defined]
    assert fields.pop("traceback").endswith("raise error\nTypeError: wrong\n")
    assert fields == {"id": said.id, "job": "work", "attempt": 1, "error": "TypeError: wrong"}
