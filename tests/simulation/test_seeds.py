"""A thousand runs of the real engine, each with its own interleavings and faults, and every promise checked in each.

``INTERLOCK_SEED=7`` runs one seed only and prints its trace; ``INTERLOCK_SEEDS=100000`` runs as many in all.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.workload import PROFILES, simulate

_CHUNKS = 10
_SEEDS = int(os.environ.get("INTERLOCK_SEEDS", "1000"))
_CHUNK = -(-_SEEDS // _CHUNKS)


@pytest.mark.skipif("INTERLOCK_SEED" in os.environ, reason="one seed was asked for")
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_every_promise_holds_for_seeds(chunk: int) -> None:
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        run = simulate(seed)
        assert not run.verdict.violations, str(run)
        outcomes += run.verdict.outcomes
        faults += run.world.fault_counts

    # The runs were worth something: requests ended in every usual way, and things really went wrong.
    assert {"granted", "timeout", "deadlock", "busy", "cancelled"} <= set(outcomes)
    assert {"slow_reply", "refused", "failed_after", "reply_lost", "late", "duplicated", "message_lost"} <= set(faults)
    assert faults["crashed_before"] + faults["crashed_after"] > 0
    assert faults["paused"] > 0


@pytest.mark.skipif("INTERLOCK_SEED" not in os.environ, reason="set INTERLOCK_SEED to replay one seed")
def test_every_promise_holds_for_the_seed_asked_for() -> None:
    run = simulate(int(os.environ["INTERLOCK_SEED"]), logs=True)

    print(*run.world.loop.trace, sep="\n")
    assert not run.verdict.violations, str(run)


def test_every_kind_of_network_is_among_the_seeds() -> None:
    assert {simulate(seed).profile for seed in range(len(PROFILES))} == set(PROFILES)
