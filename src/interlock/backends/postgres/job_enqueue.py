"""Jobs to accept, as parallel arrays: what they have in common is sent once."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.job_codes import ON_FAILURE_CODES
from interlock.backends.pacing import micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from interlock.ports.jobs import NewJob
    from interlock.ports.limits import Use

__all__ = ["PART", "PART_BYTES", "Entry", "columns", "parts"]

PART = 5000
PART_BYTES = 16 * 1024 * 1024


class Entry(NamedTuple):
    """Jobs that are accepted together or not at all."""

    jobs: Sequence[NewJob]
    again: bool


def parts(jobs: Iterator[NewJob]) -> Iterator[Iterator[NewJob]]:
    """Split jobs into parts of one statement each. Read a part to its end before you ask for the next one."""
    return (chain((first,), _rest(first, jobs)) for first in jobs)


def _rest(first: NewJob, jobs: Iterator[NewJob]) -> Iterator[NewJob]:
    size = len(first.arguments)
    for job in islice(jobs, PART - 1):
        yield job
        size += len(job.arguments)
        if size >= PART_BYTES:
            return


def columns(jobs: Iterable[NewJob]) -> tuple[set[str], tuple[Any, ...]]:
    """Return the queues of these jobs, and the fields of ``interlock.new_jobs``."""
    kinds: dict[tuple[Any, ...], int] = {}
    ids: list[int] = []
    of_kind: list[int] = []
    lanes: list[str] = []
    delays: list[float] = []
    ats: list[float | None] = []
    arguments: list[str] = []
    for job in jobs:
        id_, name, queue, lane, priority, delay, at, uses, on_failure, coalesce, keep_result, text, options = job
        kind = (name, queue, priority, on_failure, coalesce, keep_result, options, uses)
        ids.append(id_)
        of_kind.append(kinds.setdefault(kind, len(kinds) + 1))
        lanes.append(lane)
        delays.append(delay)
        ats.append(at)
        arguments.append(text)
    names, queues, priorities, on_failures, coalesces, keeps, all_options, all_uses = zip(*kinds, strict=True)
    limits = [_limits(uses) for uses in all_uses]
    return set(queues), (
        ids,
        of_kind,
        lanes if any(lanes) else None,
        delays if any(delays) else None,
        ats if any(at is not None for at in ats) else None,
        arguments,
        names,
        queues,
        priorities,
        [ON_FAILURE_CODES[on_failure] for on_failure in on_failures],
        coalesces,
        keeps,
        all_options,
        *(list(column) for column in zip(*limits, strict=True)),
    )


def _limits(uses: tuple[Use, ...]) -> tuple[str | None, int | None, int | None, str | None, bool]:
    """Return a single limit as columns, or several as JSON; and whether one of them is a rate or cooldown."""
    paced = any(use.per for use in uses)
    if len(uses) == 1:
        ((key, max_count, per),) = uses
        return key, max_count, micros(per), None, paced
    if uses:
        return None, None, None, json.dumps([[use.key, use.max_count, micros(use.per)] for use in uses]), paced
    return None, None, None, None, False
