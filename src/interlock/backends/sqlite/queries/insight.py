"""The queries of the read side of jobs."""

from __future__ import annotations

from interlock.backends.queries import Queries

__all__ = ["InsightQueries"]

_INSIGHT_FILES = ("insight_jobs", "insight_counts", "insight_lanes", "insight_limits")


class InsightQueries(Queries, package="interlock.backends.sqlite", files=_INSIGHT_FILES):
    """The read side of jobs: bounded lists and counts."""

    # insight_jobs.sql
    walk: str
    walk_states: str
    walk_lane: str
    walk_state: str
    walk_ended: str
    walk_ended_lane: str
    few_ready: str
    few_running: str
    few_scheduled: str
    few_waiting: str
    few_held: str
    few_parked: str
    view: str
    view_history: str
    states: str
    keys: str
    fetched: str
    workers: str

    # insight_counts.sql
    count_ready: str
    count_running: str
    count_scheduled: str
    count_waiting: str
    count_held: str
    count_parked: str
    count_holds: str
    count_running_lanes: str
    count_done: str
    count_ended: str
    placed: str
    ended_since: str
    accepted: str
    oldest_ready: str
    next_due: str

    # insight_lanes.sql
    next_lanes: str
    held_lanes: str
    running_lanes: str
    lane_jobs: str
    lane_before: str
    lane_behind: str
    lane_unplaced: str

    # insight_limits.sql
    limit_keys: str
    limit_taken: str
    limit_holders: str
    limit_started: str
    limit_starts: str
    limit_waiting: str
    limit_waiters: str
    limit_first: str
    in_line_before: str
