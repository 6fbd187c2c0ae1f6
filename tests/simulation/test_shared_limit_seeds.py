"""Runs of jobs and reservations under the same limits, with faults: neither side ever exceeds them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends.memory.limits import MemoryLimits
from tests.simulation import seeds
from tests.simulation.jobs import simulate_shared
from tests.simulation.planting import bugs

if TYPE_CHECKING:
    from collections.abc import Callable

BUGS, _breaks = bugs()


@_breaks("limits", "fetches do not count reservations")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryLimits, "side", lambda *_: None)


@_breaks("limits", "reservations do not count jobs")
def _(patch: pytest.MonkeyPatch) -> None:
    def jobs_on(*_: Any) -> None:
        return None

    patch.setattr(MemoryLimits, "_jobs_on", jobs_on)


@seeds.many
@pytest.mark.parametrize("chunk", seeds.chunks(20, 200))
def test_both_sides_keep_their_limits_for_seeds(chunk: range) -> None:
    outcomes, faults = seeds.run_all(simulate_shared, chunk)

    assert "done" in outcomes
    assert faults


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_planted_in_the_shared_limit_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    record_property("seeds", seeds.find_planted(BUGS, bug, monkeypatch, simulate_shared))
