"""Events in the database without a file that the jobs are in, so that both are accepted in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.sqlite.events import SqliteEvents

if TYPE_CHECKING:
    from interlock.backends.sqlite.jobs import SqliteJobs

__all__ = ["memory_events"]


def memory_events(jobs: SqliteJobs) -> SqliteEvents:
    """The events port over the jobs' database."""
    return SqliteEvents(jobs, batch=False)  # there is no disk to wait for
