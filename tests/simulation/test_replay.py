"""The same seed gives the same run: in one process, and in another with other hashes."""

from __future__ import annotations

import pytest

from tests.simulation import seeds
from tests.simulation.workload import PROFILES, simulate

_SEEDS = range(100, 100 + 2 * len(PROFILES))


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_seed_runs_the_same_way_twice(seed: int) -> None:
    first, second = simulate(seed).world, simulate(seed).world

    assert list(first.loop.trace) == list(second.loop.trace)
    assert first.loop.digest == second.loop.digest
    assert first.fault_counts == second.fault_counts


def test_seeds_differ() -> None:
    assert len({simulate(seed).world.loop.digest for seed in _SEEDS}) == len(_SEEDS)


@pytest.mark.full
def test_a_seed_runs_the_same_way_whatever_the_hash_seed() -> None:
    seeds.same_whatever_the_hashes("tests.simulation.workload", _SEEDS)
