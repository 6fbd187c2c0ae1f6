"""A thousand runs of claims, limits and cursors, each with its own interleavings and faults, every promise checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation import planted_claims, planted_limits, seeds
from tests.simulation.concepts import KINDS, simulate
from tests.simulation.workload import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable

_BUGS = {**planted_claims.BUGS, **planted_limits.BUGS}


@seeds.many
@pytest.mark.parametrize("chunk", seeds.chunks(10, 1000))
def test_every_promise_of_claims_and_limits_holds_for_seeds(chunk: range) -> None:
    outcomes, faults = seeds.run_all(simulate, chunk)

    # The runs were worth something: calls ended in every usual way, and things really went wrong.
    assert {"new", "in progress", "done", "failed", "done: finished", "failed: finished"} <= set(outcomes)
    assert {"started", "reserved", "not yet", "timeout", "cancelled", "unavailable"} <= set(outcomes)
    assert {"slow_reply", "refused", "failed_after", "reply_lost", "late", "duplicated", "message_lost"} <= set(faults)
    assert faults["crashed_before"] + faults["crashed_after"] > 0
    assert faults["paused"] > 0


@seeds.one
def test_every_promise_of_claims_and_limits_holds_for_the_seed_asked_for() -> None:
    seeds.replay(simulate)


@pytest.mark.full
@pytest.mark.parametrize("bug", _BUGS)
def test_a_bug_planted_in_claims_or_limits_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    record_property("seeds", seeds.find_planted(_BUGS, bug, monkeypatch, simulate))


def test_a_seed_of_claims_and_limits_runs_the_same_way_whatever_the_hash_seed() -> None:
    seeds.same_whatever_the_hashes("tests.simulation.concepts", range(len(PROFILES) * len(KINDS)))
