"""Rescue and pruning: done by workers now and then, and only when all is well."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock.errors import StoreUnavailableError
from interlock.jobs.worker import pruner, rescuer
from interlock.jobs.worker.coordinator import Coordinator
from interlock.ports.jobs import Rescued
from interlock.testing.clock import VirtualClock, until
from tests.jobs.worker.fakes import floor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescuer, "_INTERVAL", 0.01)
    monkeypatch.setattr(pruner, "_INTERVAL", 0.01)


async def nothing() -> None:
    pass


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[None]]:
    """Wait until the rescuer has come round a few times more, whether or not it did anything."""
    asked = [0]
    sound: Any = Coordinator.sound.fget  # type: ignore[attr-defined]

    def counted(desk: Coordinator) -> bool:
        asked[0] += 1
        return bool(sound(desk))

    async def come_round() -> None:
        enough = asked[0] + 3
        await until(lambda: asked[0] >= enough)

    monkeypatch.setattr(Coordinator, "sound", property(counted))
    return come_round


async def test_rescues_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    async with floor(clock) as place:
        place.job(nothing)
        place.jobs.rescued = [[Rescued(7, "work", "dead", 1, False, 2), Rescued(8, "work", "dead", 3, True)]]
        async with place.at_work():
            clock.advance(3)
            await until(lambda: place.engine.metrics.rescued == 2)
        assert place.engine.metrics.quarantined == 1
    events = [record.fields for record in caplog.records if getattr(record, "event", "") == "job_rescued"]  # type: ignore[attr-defined]
    assert events == [{"id": 7, "job": "work", "session": "dead", "crashes": 1, "half": 2}]
    assert "job_quarantined id=8" in caplog.text


async def test_nobody_is_rescued_just_after_an_outage(rounds: Callable[[], Awaitable[None]]) -> None:
    """Whoever lost its session by the same outage is to have the time to give its jobs back itself."""
    clock = VirtualClock()
    async with floor(clock) as place:
        place.job(nothing)
        async with place.at_work() as worker:
            await rounds()
            assert not place.jobs.called("rescue"), "not before it has been connected for a while"
            clock.advance(3)
            await until(lambda: place.jobs.called("rescue"))

            place.jobs.mishaps["fetch"] = [StoreUnavailableError()]
            place.jobs.tell()
            await until(lambda: not worker._coordinator.sound)
            before = len(place.jobs.called("rescue"))
            await rounds()
            assert len(place.jobs.called("rescue")) == before
            clock.advance(3)
            await until(lambda: len(place.jobs.called("rescue")) > before)


async def test_nobody_is_rescued_while_this_process_has_jobs_of_its_own_to_give_back() -> None:
    clock = VirtualClock()
    async with floor(clock) as place:
        place.job(nothing)
        async with place.at_work() as worker:
            gate = place.jobs.gate("return_unstarted")
            place.lose_session()
            await until(lambda: place.jobs.under_way["return_unstarted"])
            clock.advance(10)
            assert not worker._coordinator.sound
            gate.set()
            await until(lambda: place.jobs.called("rescue"))
        assert (
            next(call[0] for call in place.jobs.calls if call[0] in ("return_unstarted", "rescue"))
            == "return_unstarted"
        )


async def test_a_rescuer_goes_on_whatever_happens(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    async with floor(clock) as place:
        place.job(nothing)
        place.jobs.mishaps["rescue"] = [ValueError("a bug")]
        place.jobs.mishaps["prune"] = [ValueError("another"), StoreUnavailableError()]
        async with place.at_work():
            clock.advance(3)
            await until(lambda: place.jobs.pruned)
            clock.advance(3)
            await until(lambda: place.jobs.called("rescue"))
    assert "a bug" in caplog.text
    assert "another" in caplog.text
    assert place.jobs.pruned[0] == place.engine.settings.keep_history


async def test_plenty_is_rescued_and_pruned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    async with floor(clock) as place:
        place.job(nothing)
        plenty = [Rescued(job, "work", "dead", 1, False) for job in range(1000)]
        place.jobs.rescued = [plenty, plenty, plenty[:5]]
        async with place.at_work():
            clock.advance(3)
            await until(lambda: place.engine.metrics.rescued == 2005)


async def test_the_chores_are_done_once_for_all_workers_and_end_with_the_last() -> None:
    async with floor() as place:
        place.job(nothing)

        def chores() -> list[str]:
            names = [task.get_name() for task in asyncio.all_tasks()]
            return sorted(name for name in names if name in ("interlock-rescuer", "interlock-pruner"))

        async with place.at_work():
            async with place.at_work():
                assert chores() == ["interlock-pruner", "interlock-rescuer"]
            assert chores() == ["interlock-pruner", "interlock-rescuer"]
        assert chores() == []
