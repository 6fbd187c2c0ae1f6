"""A thousand runs of the real engine, each with its own interleavings and faults, and every promise checked in each."""

from __future__ import annotations

import pytest

from tests.simulation import seeds
from tests.simulation.workload import PROFILES, simulate


@seeds.many
@pytest.mark.parametrize("chunk", seeds.chunks(10, 1000))
def test_every_promise_holds_for_seeds(chunk: range) -> None:
    outcomes, faults = seeds.run_all(simulate, chunk)

    # The runs were worth something: requests ended in every usual way, and things really went wrong.
    assert {"granted", "timeout", "deadlock", "busy", "cancelled"} <= set(outcomes)
    assert {"slow_reply", "refused", "failed_after", "reply_lost", "late", "duplicated", "message_lost"} <= set(faults)
    assert faults["crashed_before"] + faults["crashed_after"] > 0
    assert faults["paused"] > 0


@seeds.one
def test_every_promise_holds_for_the_seed_asked_for() -> None:
    seeds.replay(simulate)


def test_every_kind_of_network_is_among_the_seeds() -> None:
    assert {simulate(seed).profile for seed in range(len(PROFILES))} == set(PROFILES)
