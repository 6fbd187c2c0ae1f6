"""Acknowledgements: together, again until they are answered, and none held up by another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interlock.jobs.worker import completer
from interlock.ports.jobs import Outcome
from interlock.testing.clock import until
from tests.jobs.worker.fakes import floor

if TYPE_CHECKING:
    from interlock.ports.jobs import Acknowledgement


async def give() -> str:
    return "it"


@pytest.mark.parametrize("times", [1, 3])
async def test_a_acknowledgement_whose_answer_was_lost_is_repeated_and_counts_once(times: int) -> None:
    async with floor() as place:
        place.job(give)
        place.jobs.lose["acknowledge"] = times
        jobs = place.jobs.add_many(3)
        worker = place.worker()
        async with worker:
            await until(lambda: len(place.jobs.called("acknowledge")) > times)
            await until(lambda: not worker.status().unacknowledged)
        assert len(place.jobs.acknowledged) == 3
        assert not place.jobs.refused
        assert place.engine.metrics.late == 0
        assert place.jobs.outcomes(*jobs) == ["done"] * 3


async def test_what_came_up_while_the_store_was_told_goes_together() -> None:
    async with floor() as place:
        place.job(give)
        gate = place.jobs.gate("acknowledge")
        first = place.jobs.add()
        async with place.worker():
            await until(lambda: place.jobs.under_way["acknowledge"])
            others = place.jobs.add_many(20)
            place.jobs.tell()
            await until(lambda: place.engine.metrics.of("work").outcomes.get(Outcome.DONE) == 21)
            gate.set()
            await place.until_ended(first, *others)
        assert [call[2] for call in place.jobs.called("acknowledge")][:2] == [[first], others]


async def test_large_results_go_in_small_batches_and_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completer, "_MAX_BATCH_BYTES", 1000)
    monkeypatch.setattr(completer, "_MAX_UNACKNOWLEDGED_BYTES", 5000)
    async with floor() as place:

        async def large() -> str:
            return "x" * 398

        place.job(large)
        place.jobs.generous = True
        gate = place.jobs.gate("acknowledge")
        jobs = place.jobs.add_many(50)
        worker = place.worker(concurrency=1)
        async with worker:
            await until(lambda: worker._completer.full)
            assert worker.status().unacknowledged == 13, "runners wait"
            gate.set()
            await place.until_ended(*jobs)
        assert {len(call[2]) for call in place.jobs.called("acknowledge")} <= {1, 2}


async def test_an_end_that_the_store_cannot_take_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(completer, "_MIN_PAUSE", 0.0)
    async with floor() as place:
        place.job(give)
        gate = place.jobs.gate("acknowledge")
        place.jobs.generous = True
        jobs = place.jobs.add_many(9)
        acknowledge = place.jobs._acknowledge

        def choosy(session: str, acknowledgement: Acknowledgement) -> bool:
            if acknowledgement.id == jobs[4] and acknowledgement.result is not None:
                raise ValueError("not this one")
            return acknowledge(session, acknowledgement)

        monkeypatch.setattr(place.jobs, "_acknowledge", choosy)
        async with place.worker(concurrency=1):
            await until(lambda: place.jobs.under_way["acknowledge"])
            gate.set()
            await place.until_ended(*jobs)
        expected = ["done"] * 9
        expected[4] = "failed"
        assert place.jobs.outcomes(*jobs) == expected
        assert "not this one" in place.jobs.ended[jobs[4]].error
        assert "job_acknowledgement_failed" in caplog.text


async def test_an_end_that_cannot_be_told_at_all_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(completer, "_MIN_PAUSE", 0.0)
    async with floor() as place:
        place.job(give)
        acknowledge = place.jobs._acknowledge

        def choosy(session: str, acknowledgement: Acknowledgement) -> bool:
            if acknowledgement.id == bad:
                raise ValueError("not this one")
            return acknowledge(session, acknowledgement)

        monkeypatch.setattr(place.jobs, "_acknowledge", choosy)
        bad = place.jobs.add()
        worker = place.worker()
        async with worker:
            await until(lambda: caplog.text.count("job_acknowledgement_failed") > 30)
            assert worker.status().unacknowledged == 1, "alone it may be the store that is to blame"
            good = place.jobs.add()
            place.jobs.tell()
            await place.until_ended(good)
            await until(lambda: not worker.status().unacknowledged)
        assert "job_acknowledgement_dropped" in caplog.text
        assert bad in place.jobs.ready, "it went back when the worker ended"


async def test_nothing_fails_because_the_store_is_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completer, "_MIN_PAUSE", 0.0)
    async with floor() as place:
        place.job(give)
        jobs = place.jobs.add_many(5)
        place.jobs.mishaps["acknowledge"] = [ValueError("out of order")] * 100
        async with place.worker(concurrency=5):
            await place.until_ended(*jobs)
        assert place.jobs.outcomes(*jobs) == ["done"] * 5
        assert not place.jobs.mishaps["acknowledge"]


async def test_a_worker_that_ends_while_the_store_is_away_does_not_wait_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with floor() as place:
        begun = asyncio.Event()

        async def handler() -> None:
            begun.set()

        place.job(handler)
        place.jobs.gate("acknowledge")
        job = place.jobs.add()
        worker = place.worker()
        async with worker:
            await begun.wait()
            await until(lambda: place.jobs.under_way["acknowledge"])
        assert worker.status().state == "closed"
        assert list(place.jobs.fetched) == [job]
    assert "job_return_failed" in caplog.text
