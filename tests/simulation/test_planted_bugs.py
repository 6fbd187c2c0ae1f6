"""The simulator is worth its time: it finds every bug that is planted, and says which promise it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.planted import BUGS
from tests.simulation.workload import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_SEEDS = 1000


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(
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
