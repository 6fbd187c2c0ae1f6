"""Whether what a fetch gave was in order: the right jobs of a lane, and the right lanes before others."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.ports.jobs import FetchedJob, FetchRequest, Rescued
    from interlock.testing.conformance.jobs.model import ModelJob

__all__ = ["check_halves", "check_order", "check_run"]


def check_run(
    lane: Sequence[ModelJob], given: Sequence[ModelJob], wish: FetchRequest
) -> list[tuple[ModelJob, ModelJob]]:
    """Jobs of a lane that were given together are its next ones; returns those that were superseded, by which."""
    superseded: list[tuple[ModelJob, ModelJob]] = []
    waiting = list(lane)
    for place, job in enumerate(given):
        chain = _chain(waiting)
        # Left to the store: whether one that is not the head gives way.
        right = (chain[-1],) if place == 0 else (chain[-1], chain[0])
        assert job in right, f"job {job.id} was given instead of {chain[-1].id}"
        superseded += [(old, job) for old in chain[: chain.index(job)]]
        if place > 0:
            assert job.idle, f"job {job.id} was given in a run, but not ready"
            assert not job.new.uses, f"job {job.id} with limits was given in a run"
            assert job.half is None, f"suspect {job.id} was given in a run"
            assert job.new.queue == given[0].new.queue
            assert job.new.name in wish.names
        waiting = waiting[waiting.index(job) + 1 :]
    assert len(given) <= wish.run
    alone = bool(given[0].new.uses) or given[0].half is not None
    assert len(given) == 1 or not alone, f"job {given[0].id} was not given alone"
    return superseded


def _chain(lane: Sequence[ModelJob]) -> list[ModelJob]:
    """A job and those directly behind it that take its place, which a suspect does not."""
    chain = [lane[0]]
    if lane[0].lane and lane[0].new.coalesce:
        for job in lane[1:]:
            if not (job.idle and job.new.coalesce and job.new.name == lane[0].new.name and job.half is None):
                break
            chain.append(job)
    return chain


def check_halves(group: Sequence[ModelJob], told: Mapping[int, Rescued], used: int) -> None:
    """The jobs of a group were split into two halves of the same size, give or take one, with numbers above ``used``.

    Those that ended with the crash have no half.
    """
    halves = Counter(told[job.id].half for job in group)
    ended = halves.pop(None, 0)
    numbers = [half for half in halves if half is not None]
    assert all(half > used for half in numbers), f"halves {numbers} were there before"
    assert len({half // 2 for half in numbers}) <= 1, f"halves {numbers} are not of one group"
    assert max(halves.values(), default=0) <= (len(group) + 1) // 2, f"{halves} are not halves"
    assert sum(halves.values()) == len(group) - ended


def check_order(offered: Mapping[int, ModelJob], given: Sequence[FetchedJob], wish: FetchRequest) -> None:
    """Of jobs without limits that are not suspects, those with the smallest sort key come first in each queue."""
    heads = {job.lane: job for job in offered.values() if job.lane}
    for queue in wish.queues:
        units = []
        for told in given:
            unit = heads.get(told.lane) if told.lane else offered.get(told.id)
            if unit and unit not in units and told.queue == queue and not unit.new.uses and unit.half is None:
                units.append(unit)
        for before, after in pairwise(units):
            assert before.sort <= after.sort, f"{before.id} and {after.id} were given in the wrong order"
        runs = Counter(told.lane for told in given if told.lane and told.queue == queue)
        for job in offered.values():
            if job.new.queue == queue and not job.new.uses and job.half is None and job not in units:
                assert not units or units[-1].sort <= job.sort, f"job {units[-1].id} was given before {job.id}"
                assert max(runs.values(), default=1) == 1, f"a run was given before job {job.id}"
