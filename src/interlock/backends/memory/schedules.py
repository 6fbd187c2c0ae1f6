"""Schedules in the same in-memory database as the jobs, so that a firing is one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.sqlite.schedules import SqliteSchedules

if TYPE_CHECKING:
    from interlock.backends.sqlite.jobs import SqliteJobs

__all__ = ["memory_schedules"]


def memory_schedules(jobs: SqliteJobs) -> SqliteSchedules:
    """Return the schedules port on the jobs' database. No other process can change them."""
    return SqliteSchedules(jobs, poll_interval=60.0)
