"""The same seed gives the same run: in one process, and in another with other hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.workload import PROFILES, simulate

_SEEDS = range(100, 100 + 2 * len(PROFILES))
_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_seed_runs_the_same_way_twice(seed: int) -> None:
    first, second = simulate(seed).world, simulate(seed).world

    assert list(first.loop.trace) == list(second.loop.trace)
    assert first.loop.digest == second.loop.digest
    assert first.fault_counts == second.fault_counts


def test_seeds_differ() -> None:
    assert len({simulate(seed).world.loop.digest for seed in _SEEDS}) == len(_SEEDS)


def test_a_seed_runs_the_same_way_whatever_the_hash_seed() -> None:
    def digests(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.simulation.workload", "--digest", *map(str, _SEEDS)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, cwd=_ROOT, env=environment, check=True, capture_output=True, text=True).stdout

    one, other = digests("1"), digests("2")

    assert one == other
    assert len(one.splitlines()) == len(_SEEDS)
