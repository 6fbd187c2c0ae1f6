"""A thousand runs of jobs, each with its own interleavings and faults, every promise checked.

``INTERLOCK_SEED=7`` runs one seed only and prints its trace; ``INTERLOCK_SEEDS=100000`` runs as many in all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.simulation.jobs import simulate
from tests.simulation.planted_jobs import BUGS
from tests.simulation.workload import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNKS = 10
_SEEDS = int(os.environ.get("INTERLOCK_SEEDS", "1000"))
_CHUNK = -(-_SEEDS // _CHUNKS)
_MOST_SEEDS = 1000
_ROOT = Path(__file__).parents[2]


@pytest.mark.skipif("INTERLOCK_SEED" in os.environ, reason="one seed was asked for")
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_every_promise_of_jobs_holds_for_seeds(chunk: int) -> None:
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        run = simulate(seed)
        assert not run.verdict.violations, str(run)
        outcomes += run.verdict.outcomes
        faults += run.world.fault_counts

    # The runs were worth something: jobs ended in every usual way, and things really went wrong.
    assert {"done", "failed", "retry", "snoozed", "discarded", "returned", "rescued", "started again"} <= set(outcomes)
    assert {"slow_reply", "refused", "failed_after", "reply_lost", "late", "message_lost", "outage"} <= set(faults)
    assert faults["paused"] > 0


@pytest.mark.skipif("INTERLOCK_SEED" not in os.environ, reason="set INTERLOCK_SEED to replay one seed")
def test_every_promise_of_jobs_holds_for_the_seed_asked_for() -> None:
    run = simulate(int(os.environ["INTERLOCK_SEED"]), logs=True)

    print(*run.world.loop.trace, sep="\n")
    assert not run.verdict.violations, str(run)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_planted_in_jobs_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    promise, plant = BUGS[bug]
    plant(monkeypatch)

    for seed in range(_MOST_SEEDS):
        broken = [violation for violation in simulate(seed).verdict.violations if violation.promise == promise]
        if broken:
            break
    else:
        pytest.fail(f"{bug}: not found within {_MOST_SEEDS} seeds")

    print(f"{bug}: found after {seed + 1} seeds: {broken[0].promise}: {broken[0].what}")
    record_property("seeds", seed + 1)


def test_a_seed_of_jobs_runs_the_same_way_whatever_the_hash_seed() -> None:
    seeds = [str(seed) for seed in range(2 * len(PROFILES))]

    def digests(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.simulation.jobs", "--digest", *seeds]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, cwd=_ROOT, env=environment, check=True, capture_output=True, text=True).stdout

    one, other = digests("1"), digests("2")

    assert one == other
    assert len(one.splitlines()) == len(seeds)
