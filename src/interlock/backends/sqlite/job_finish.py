"""Moves ended jobs from the hot tables to the history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.sqlite.job_hooks import enqueue_hooks
from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import JobState

__all__ = ["Ended", "finish", "finish_done"]


class Ended(NamedTuple):
    """How one job ended."""

    id: int
    state: JobState
    error: str | None = None
    """None keeps the previous error."""
    ran: int = 0
    attempts: str | None = None
    """All attempts; None keeps the previous ones."""
    attempts_more: int = 0
    crashes_more: int = 0
    superseded_by: int | None = None


def finish(rows: JobRows, ended: Sequence[Ended]) -> None:
    """End jobs that are in no table but possibly among the fetched ones."""
    if ended:
        rows.each_named(sql.add_history, [_values(one) for one in ended])
        ids = [one.id for one in ended]
        _forget(rows, ids)
        enqueue_hooks(rows, ids)


def finish_done(rows: JobRows, ran: dict[int, int], hooked: Sequence[int]) -> None:
    """End fetched jobs that are done, given how many microseconds each ran. The common case, with few statements.

    ``hooked`` are those of them that have end hooks.
    """
    if ran:
        rows.run(sql.add_history_done, ran=json.dumps(ran))
        _forget(rows, list(ran))
    if hooked:
        enqueue_hooks(rows, hooked)


def _forget(rows: JobRows, ids: list[int]) -> None:
    wanted = json.dumps(ids)
    rows.run(sql.delete_jobs, ids=wanted)
    rows.ended += ids
    if rows.one(sql.any_after) and rows.run(sql.signal_ends, ids=wanted):
        # The next fetch lets those continue that wait for these.
        rows.changed_kinds.update(kind for (kind,) in rows.all(sql.kinds_of_waiting))
        rows.made_ready = True


def _values(one: Ended) -> dict[str, Any]:
    return one._asdict() | {"state": one.state.value}
