"""What is done with a workload's seeds: run many, replay one, find a planted bug, see that a seed is one run.

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from _pytest.mark.structures import ParameterSet

    from tests.simulation.planting import Bugs
    from tests.simulation.workload import Run

__all__ = ["chunks", "find_planted", "many", "one", "replay", "run_all", "same_whatever_the_hashes"]

_ROOT = Path(__file__).parents[2]
many = pytest.mark.skipif("INTERLOCK_SEED" in os.environ, reason="one seed was asked for")
one = pytest.mark.skipif("INTERLOCK_SEED" not in os.environ, reason="set INTERLOCK_SEED to replay one seed")


def chunks(count: int, seeds: int) -> list[ParameterSet]:
    """Split that many seeds, or as many as were asked for, into chunks. All but the first are long forms."""
    size = -(-int(os.environ.get("INTERLOCK_SEEDS", seeds)) // count)
    starts = range(0, count * size, size)
    return [
        pytest.param(range(first, first + size), marks=() if first == 0 else pytest.mark.full, id=f"chunk{number}")
        for number, first in enumerate(starts)
    ]


def run_all(simulate: Callable[[int], Run], seeds: Iterable[int]) -> tuple[Counter[str], Counter[str]]:
    """Run seeds in which no promise may be broken: how things ended in them, and what went wrong."""
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in seeds:
        run = simulate(seed)
        assert not run.verdict.violations, str(run)
        outcomes += run.verdict.outcomes
        faults += run.world.fault_counts
    return outcomes, faults


def replay(simulate: Callable[..., Run]) -> None:
    """Run the seed that was asked for, and show all of it."""
    run = simulate(int(os.environ["INTERLOCK_SEED"]), logs=True)
    print(*run.world.loop.trace, sep="\n")
    assert not run.verdict.violations, str(run)


def find_planted(
    bugs: Bugs, bug: str, monkeypatch: pytest.MonkeyPatch, simulate: Callable[[int], Run], *, limit: int = 1000
) -> int:
    """Plant a bug; says how many seeds it took until the promise that it breaks was seen broken."""
    promise, plant = bugs[bug]
    plant(monkeypatch)
    for seed in range(limit):
        broken = [violation for violation in simulate(seed).verdict.violations if violation.promise == promise]
        if broken:
            print(f"{bug}: found after {seed + 1} seeds: {broken[0].promise}: {broken[0].what}")
            return seed + 1
    pytest.fail(f"{bug}: not found within {limit} seeds")


def same_whatever_the_hashes(program: str, seeds: Sequence[int]) -> None:
    """Seeds give the same runs in processes whose hashes differ."""

    def digests(hash_seed: str) -> list[str]:
        command = [sys.executable, "-m", program, "--digest", *map(str, seeds)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, cwd=_ROOT, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    ones, others = digests("1"), digests("2")
    assert ones == others
    assert len(ones) == len(seeds)
