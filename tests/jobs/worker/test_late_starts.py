"""Jobs with a rate or cooldown start in time, or go back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock.jobs.worker.start_latency import StartLatency
from interlock.testing.clock import VirtualClock, until
from tests.jobs.worker.fakes import floor

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_start_latency_follows_recent_starts_within_bounds() -> None:
    latency = StartLatency()
    assert latency.bound == pytest.approx(0.5)
    latency.observe(0.4)
    assert latency.bound == pytest.approx(0.8)
    latency.observe(0.001)
    assert latency.bound == pytest.approx(0.4)
    for _ in range(20):
        latency.observe(0.001)
    assert latency.bound == pytest.approx(0.02)
    latency.observe(3600.0)
    assert latency.bound == pytest.approx(5.0)


def in_loop(starts: list[float], clock: VirtualClock) -> Callable[..., Any]:
    async def handler() -> None:
        starts.append(clock.monotonic())

    return handler


def in_thread(starts: list[float], clock: VirtualClock) -> Callable[..., Any]:
    def handler() -> None:
        starts.append(clock.monotonic())

    return handler


@pytest.mark.parametrize("handler", [in_loop, in_thread])
@pytest.mark.parametrize("when", ["while the answer was under way", "while its arguments were prepared"])
async def test_a_job_with_a_pace_that_would_start_late_goes_back_and_starts_next_time(
    handler: Callable[..., Any], when: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    caplog.set_level("INFO", "interlock.jobs")
    async with floor(clock) as place:
        starts: list[float] = []
        place.job(handler(starts, clock))
        preparing = when == "while its arguments were prepared"
        delays = [2.0]

        async def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
            clock.advance(delays.pop() if delays else 0.0)
            return arguments

        if preparing:
            place.engine.definitions["work"].prepare = prepare
        else:
            answer = place.jobs.answer("fetch")
        job, plain = place.jobs.add(paced=True), place.jobs.add()
        async with place.at_work():
            if not preparing:
                await until(lambda: place.jobs.called("fetch"))
                clock.advance(2.0)
                answer.set()
            await place.until_ended(job, plain)
        said = [
            acknowledgement.outcome.value for acknowledgement in place.jobs.acknowledged if acknowledgement.id == job
        ]
        assert said == ["returned", "done"]
        assert len(starts) == 2, "the one without a pace starts when it can"
        assert place.engine.metrics.late_starts == 1
        assert place.jobs.appetites[-1].start_within >= 2.0, "the next fetch allows for what was measured"
    assert "job_start_late" in caplog.text
