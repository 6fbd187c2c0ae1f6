"""The queries of the PostgreSQL store by concept. The files must define exactly what the classes declare."""

from __future__ import annotations

from interlock.backends.queries import Queries

__all__ = [
    "ClaimQueries",
    "CursorQueries",
    "EventQueries",
    "InsightQueries",
    "JobQueries",
    "LimitQueries",
    "LockQueries",
    "MessageQueries",
    "PipelineQueries",
    "RecordInsightQueries",
    "RecordQueries",
    "ScheduleQueries",
    "SessionQueries",
]

_PACKAGE = "interlock.backends.postgres"


class ClaimQueries(Queries, package=_PACKAGE, files=("claims",)):
    """Claims."""

    claim: str
    batch: str
    finish: str
    renew: str
    forget: str
    list: str


class CursorQueries(Queries, package=_PACKAGE, files=("cursors",)):
    """Cursors."""

    move: str
    list: str
    history: str
    forget: str


class EventQueries(Queries, package=_PACKAGE, files=("events",)):
    """Events."""

    accept: str
    get_many: str
    list_any: str
    list_source: str
    list_type: str
    list_actor: str
    list_delivery: str
    prune: str


class JobQueries(Queries, package=_PACKAGE, files=("jobs",)):
    """Jobs: everything that writes."""

    ids: str
    enqueue: str
    enqueue_again: str
    enqueue_in_transaction: str
    enqueue_keyed: str
    fetch: str
    acknowledge: str
    acknowledge_followed: str
    locked: str
    return_unstarted: str
    rescue: str
    register_worker: str
    report_started: str
    append_logs: str
    watch_end: str
    ended: str
    cancel: str
    retry: str
    hold: str
    release: str
    pause: str
    resume: str
    prune: str
    dead_rows: str


_INSIGHT_FILES = ("insight_jobs", "insight_counts", "insight_lanes", "insight_limits")


class InsightQueries(Queries, package=_PACKAGE, files=_INSIGHT_FILES):
    """The read side of jobs."""

    # insight_jobs.sql
    get: str
    walk: str
    walk_ended: str
    walk_lane: str
    walk_ended_lane: str
    walk_state: str
    walk_states: str
    states: str
    few_held: str
    few_parked: str
    few_ready: str
    few_fetched: str
    few_running: str
    few_scheduled: str
    few_waiting: str
    few_blocked: str
    needs: str
    many_signals: str
    ended: str
    situations: str
    queue_pauses: str
    row_locks: str
    neighbours: str
    fetched: str
    log_statuses: str
    log_chunks: str

    # insight_counts.sql
    now: str
    counts: str
    count_ended: str
    count_ended_here: str
    activity_accepted: str
    activity_ended: str
    workers: str

    # insight_lanes.sql
    lanes: str
    lane_views: str
    lane_jobs: str
    lane_unplaced: str
    held_lanes: str
    fetched_lanes: str

    # insight_limits.sql
    limit: str
    limits: str
    limit_holders: str
    limit_starts: str
    limit_waiters: str


class LimitQueries(Queries, package=_PACKAGE, files=("limits",)):
    """Limits and their reservations."""

    ask: str
    batch: str
    finish: str
    list: str
    overrides: str
    resize: str
    session_requests: str
    turns: str


class LockQueries(Queries, package=_PACKAGE, files=("locks",)):
    """Locks and their waiters."""

    ask: str
    batch: str
    leave: str
    renew: str
    force: str
    guard: str
    count: str
    list: str
    get: str
    awaited_by: str
    session_requests: str
    turns: str


class MessageQueries(Queries, package=_PACKAGE, files=("messages",)):
    """Messages to sessions."""

    forced: str


class RecordQueries(Queries, package=_PACKAGE, files=("records",)):
    """Records."""

    write: str
    write_one: str
    write_and_release: str
    write_one_and_release: str
    open: str
    get: str
    get_current: str
    list_any: str
    list_status: str
    kinds: str


class RecordInsightQueries(Queries, package=_PACKAGE, files=("record_insight",)):
    """The read side of records, and the declarations of their kinds."""

    search_any: str
    search_status: str
    counts: str
    newest_declaration: str
    declare: str
    declarations: str


class SessionQueries(Queries, package=_PACKAGE, files=("sessions",)):
    """Sessions."""

    begin: str
    renew: str
    end: str
    leave: str
    note_blocked: str
    sweep: str


class PipelineQueries(Queries, package=_PACKAGE, files=("pipelines",)):
    """Runs of pipelines and their stages."""

    save: str
    get: str
    list_all: str
    list_record: str
    stages: str
    prune: str


class ScheduleQueries(Queries, package=_PACKAGE, files=("schedules",)):
    """Schedules, their declarations and their firings."""

    get: str
    list_all: str
    due: str
    save: str
    set_state: str
    delete: str
    declare: str
    fire: str
    enqueue: str
    set_reported: str
    firings: str
