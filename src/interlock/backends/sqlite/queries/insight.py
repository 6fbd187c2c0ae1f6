"""The queries of the read side of jobs."""

from __future__ import annotations

from interlock.backends.queries import Queries

__all__ = ["InsightQueries"]

_INSIGHT_FILES = ("insight_jobs", "insight_counts", "insight_lanes", "insight_limits")


class InsightQueries(Queries, package="interlock.backends.sqlite", files=_INSIGHT_FILES):
    """The read side of jobs: bounded lists and counts."""

    # insight_jobs.sql
    unfinished: str
    unfinished_with_states: str
    lane_unfinished: str
    ended_in_state: str
    ended: str
    lane_ended: str
    some_ready: str
    some_fetched: str
    some_running: str
    some_scheduled: str
    some_waiting: str
    some_blocked: str
    some_held: str
    some_parked: str
    unfinished_views: str
    history_views: str
    states: str
    job_keys: str
    needs: str
    fetched_by_session: str
    workers: str

    # insight_counts.sql
    count_ready: str
    count_fetched: str
    count_scheduled: str
    count_waiting: str
    count_blocked: str
    count_held: str
    count_parked: str
    count_holds: str
    count_fetched_lanes: str
    count_done: str
    count_ended: str
    jobs_in_lanes: str
    ended_counts: str
    enqueued_counts: str
    oldest_ready: str
    next_due: str

    # insight_lanes.sql
    next_lanes: str
    held_lanes: str
    fetched_lanes: str
    lane_jobs: str
    lane_before: str
    lane_behind: str
    lane_without_position: str

    # insight_limits.sql
    limit_keys: str
    limit_used: str
    limit_holders: str
    limit_started: str
    limit_starts: str
    limit_waiting: str
    limit_waiters: str
    limit_of_waiter: str
    limit_waiters_ahead: str
