"""Events in the same in-memory database as the jobs, so that both are accepted in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.sqlite.events import SqliteEvents

if TYPE_CHECKING:
    from interlock.backends.sqlite.jobs import SqliteJobs

__all__ = ["memory_events"]


def memory_events(jobs: SqliteJobs) -> SqliteEvents:
    """Return the events port on the jobs' database."""
    return SqliteEvents(jobs, batch=False)  # there is no disk to wait for
