"""Errors and words for keys and for jobs that wait for others, the same in every store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import KeyConflictError, NotFoundError
from interlock.ports.job_views import Need
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.jobs import NewJob

__all__ = [
    "KEY_CONFLICT_REMEDY",
    "MAX_NEEDS",
    "UNKNOWN_NEED_REMEDY",
    "any_keys",
    "failed_need",
    "key_conflict",
    "read_needs",
    "unknown_need",
]

KEY_CONFLICT_REMEDY = "Use another key for other arguments, or the same arguments for the same key."
UNKNOWN_NEED_REMEDY = (
    "Enqueue that job first. A job that has ended is known for as long as the setting keep_history says."
)
MAX_NEEDS = 5
"""How many of the jobs that another one waits for a situation names."""
_MAX_ERROR = 500


def any_keys(jobs: Sequence[NewJob]) -> bool:
    """Return whether any job has a key. Jobs that are created when they are read know it without being read."""
    known: bool | None = getattr(jobs, "keyed", None)
    return any(job.key for job in jobs) if known is None else known


def key_conflict(name: str, key: str, holder: int) -> KeyConflictError:
    """Return the error of an enqueue whose key belongs to a job with other arguments."""
    return KeyConflictError(
        f"Key {key} of job {name} belongs to job {holder}, which has other arguments.",
        remedy=KEY_CONFLICT_REMEDY,
    )


def unknown_need(job: int, needs: int) -> NotFoundError:
    """Return the error of an enqueue that waits for a job that does not exist."""
    return NotFoundError(
        f"Job {job} waits for job {needs}, which is unknown or no longer kept.",
        remedy=UNKNOWN_NEED_REMEDY,
    )


def failed_need(needs: int, state: str | None, error: str) -> str:
    """Say how a job ended that another one waits for; ``state`` is None if it is not kept."""
    how = "is no longer kept" if state is None else "failed" if state == "failed" else f"was {state}"
    return f"job {needs} {how}{f': {error[:_MAX_ERROR]}' if error else ''}"


def read_needs(rows: Iterable[tuple[int, int, str, str, float | None, int]]) -> dict[int, dict[str, Any]]:
    """Return what jobs wait for, as fields of their situations; a row is a job, what it waits for, and how many."""
    found: dict[int, dict[str, Any]] = {}
    for job, id, name, state, since, count in rows:  # noqa: A001
        fields = found.setdefault(job, {"needs": (), "needs_count": count})
        fields["needs"] += (Need(id, name, JobState(state) if state else None, since),)
    return found
