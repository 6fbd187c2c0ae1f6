"""A thousand runs of jobs, each with its own interleavings and faults, every promise checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation import seeds
from tests.simulation.jobs import simulate
from tests.simulation.planted_jobs import BUGS
from tests.simulation.workload import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable


@seeds.many
@pytest.mark.parametrize("chunk", seeds.chunks(20, 1000))
def test_every_promise_of_jobs_holds_for_seeds(chunk: range) -> None:
    outcomes, faults = seeds.run_all(simulate, chunk)

    # The runs were worth something: jobs ended in every usual way, and things really went wrong.
    assert {"done", "failed", "retry", "snoozed", "discarded", "returned", "rescued", "started again"} <= set(outcomes)
    assert {"hooks", "follow-ups"} <= set(outcomes)
    assert {"slow_reply", "refused", "failed_after", "reply_lost", "late", "message_lost", "outage"} <= set(faults)
    assert faults["paused"] > 0


@seeds.one
def test_every_promise_of_jobs_holds_for_the_seed_asked_for() -> None:
    seeds.replay(simulate)


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_planted_in_jobs_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    record_property("seeds", seeds.find_planted(BUGS, bug, monkeypatch, simulate))


@pytest.mark.full
def test_a_seed_of_jobs_runs_the_same_way_whatever_the_hash_seed() -> None:
    seeds.same_whatever_the_hashes("tests.simulation.jobs", range(2 * len(PROFILES)))
