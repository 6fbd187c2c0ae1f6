"""Runs of deliveries, each with its own interleavings and faults: one event each, one job for each handler."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends.sqlite import events as sqlite_events
from interlock.backends.sqlite.job_enqueue import enqueue
from tests.simulation import seeds
from tests.simulation.events import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.events import NewEvent

_MAX_SEEDS = 80


@seeds.many
@pytest.mark.parametrize("chunk", seeds.chunks(4, 80))
def test_every_promise_of_events_holds_for_seeds(chunk: range) -> None:
    outcomes, faults = seeds.run_all(simulate, chunk)

    # The runs were worth something: there were duplicates, and things really went wrong.
    assert {"done", "retry", "accepted", "duplicate"} <= set(outcomes)
    assert {"slow_reply", "refused", "failed_after", "reply_lost", "late"} <= set(faults)


@seeds.one
def test_every_promise_of_events_holds_for_the_seed_asked_for() -> None:
    seeds.replay(simulate)


def _a_repetition_is_another_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that was not answered counts as never made."""
    accept = sqlite_events.SqliteEvents.accept
    tries: Counter[int] = Counter()

    async def anew(self: Any, events: Sequence[NewEvent]) -> Sequence[int]:
        tries.update(event.id for event in events)
        return await accept(self, [e._replace(delivery=e.delivery + "!" * (tries[e.id] - 1)) for e in events])

    monkeypatch.setattr(sqlite_events.SqliteEvents, "accept", anew)


def _a_duplicate_has_jobs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the delivery is kept decides over the event alone."""
    accept = sqlite_events._accept

    def eager(rows: Any, events: Sequence[NewEvent]) -> list[int]:
        kept = accept(rows, events)
        others = [event for event, number in zip(events, kept, strict=True) if event.id != number]
        enqueue(rows, [job for event in others for job in event.jobs], again=True)
        return kept

    monkeypatch.setattr(sqlite_events, "_accept", eager)


@pytest.mark.full
@pytest.mark.parametrize("plant", [_a_repetition_is_another_delivery, _a_duplicate_has_jobs_too])
def test_a_bug_planted_in_events_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    for seed in range(_MAX_SEEDS):
        if simulate(seed).verdict.violations:
            return
    pytest.fail(f"not found within {_MAX_SEEDS} seeds")
