"""The queries of the SQLite store by concept. The files must define exactly what the classes declare."""

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
    "SessionQueries",
]

_PACKAGE = "interlock.backends.sqlite"
_JOB_FILES = (
    "jobs",
    "job_enqueue",
    "job_fetch",
    "job_acknowledge",
    "job_limits",
    "job_versions",
    "job_operations",
    "job_vacuum",
    "job_views",
)
_INSIGHT_FILES = ("insight_jobs", "insight_counts", "insight_lanes", "insight_limits")


class LockQueries(Queries, package=_PACKAGE, files=("locks",)):
    """Locks and their waiters."""

    find: str
    grant: str
    extend: str
    renew: str
    free: str
    forget: str
    live: str
    why_ended: str
    session_alive: str
    next_fence: str
    note_forced: str
    enqueue: str
    dequeue: str
    ticket: str
    largest_ticket: str
    floor: str
    ahead: str
    first_waiter: str
    count_waiters: str
    drop_dead_waiters: str
    not_queued: str
    turns: str
    waits_of_party: str
    belongings: str
    awaited_by: str
    look: str
    look_one: str
    look_waiters: str
    count: str


class ClaimQueries(Queries, package=_PACKAGE, files=("claims",)):
    """Claims."""

    find: str
    take: str
    extend: str
    renew: str
    settle: str
    standing: str
    forget: str
    forgotten: str
    look: str
    sweep: str


class CursorQueries(Queries, package=_PACKAGE, files=("cursors",)):
    """Cursors and their histories."""

    move: str
    moved_before: str
    trim: str
    look: str
    history: str
    forget: str


class SessionQueries(Queries, package=_PACKAGE, files=("sessions",)):
    """Sessions, and what ends with them."""

    begin: str
    renew: str
    delete: str
    expired: str
    expires: str
    note_blocked: str
    leave: str
    free_locks: str
    delete_waiters: str
    delete_forced: str
    delete_old_forced: str
    delete_idle_locks: str
    delete_awaited_jobs: str
    end_job_worker: str


class MessageQueries(Queries, package=_PACKAGE, files=("messages",)):
    """Messages to sessions."""

    forced: str


class EventQueries(Queries, package=_PACKAGE, files=("events",)):
    """Stored events."""

    add: str
    find: str
    kept: str
    due: str
    keep_on: str
    remove: str
    place: str
    look_any: str
    look_source: str
    look_type: str
    look_actor: str
    look_delivery: str


class LimitQueries(Queries, package=_PACKAGE, files=("limits", "limit_views")):
    """Limits: reservations, their keys and starts."""

    # limits.sql
    session: str
    find: str
    reserve: str
    settle: str
    use: str
    uses: str
    forget: str
    forget_uses: str
    largest_turn: str
    floor: str
    standing: str
    room: str
    figures: str
    times: str
    start: str
    starts_after: str
    forget_starts: str
    free: str
    dead: str
    of_session: str
    not_known: str
    belongings: str
    line: str
    turns: str
    sweep_reservations: str
    sweep_starts: str
    sweep_keys: str

    # limit_views.sql
    look_key: str
    look_keys: str
    look_uses: str
    look_starts: str
    look_free: str
    look_deaths: str


class JobQueries(Queries, package=_PACKAGE, files=_JOB_FILES):
    """Jobs: everything that writes, and the views of the jobs port."""

    # jobs.sql
    take_numbers: str
    kind: str
    add_kind: str
    name_of_kind: str
    queue_and_name_of_kind: str
    namespace_kinds: str
    queues_of: str
    offer: str
    take_back: str
    postpone: str
    bring_forward: str
    place: str
    advance: str
    leave_lines: str
    force: str

    # job_enqueue.sql
    accept: str
    known: str
    any_again: str
    sent_again: str
    note_again: str

    # job_fetch.sql
    worker: str
    add_worker: str
    kinds: str
    due: str
    ready: str
    following: str
    claim: str
    half_of_session: str
    suspects_for: str
    stand_in_line: str
    next_wake: str
    awaited_ended: str

    # job_acknowledge.sql
    claims: str
    claims_of_worker: str
    worker_of_session: str
    bar: str
    details: str
    fences: str
    finish: str
    finish_done: str
    forget_jobs: str
    unclaim: str
    renew: str
    keep_result: str
    note_result: str
    forget_told: str
    park_lane: str
    dead_claims: str
    note_crashed: str
    kinds_with_limits: str

    # job_limits.sql
    figures: str
    use: str
    unuse: str
    start: str
    start_before: str
    starts_after: str
    unstart: str
    forget_starts: str
    front: str
    line: str
    lines: str
    wake: str
    wake_at: str
    wakes_due: str
    forget_wake: str

    # job_versions.sql
    any_refused: str
    refusals: str
    refused: str
    refuse_again: str
    readmit: str
    park_refused: str
    live_reads: str

    # job_operations.sql
    standing: str
    ended_state: str
    ask_to_end: str
    claims_of_lane: str
    mark_told: str
    hold: str
    release: str
    now_due: str
    restore: str

    # job_vacuum.sql
    attend: str
    note_awaited: str
    forget_awaited: str
    unfinished: str
    old_history: str
    forget_history: str
    old_results: str
    forget_results: str
    old_starts: str
    forget_again: str
    forget_workers: str

    # job_views.sql
    view: str
    view_history: str
    keys_of_job: str
    head: str
    placed_before: str
    ready_before: str
    hold_of_lane: str
    place_in_line: str
    in_line_before: str
    holders: str
    suspects: str
    running_suspects: str
    live_workers: str
    look_any: str
    look_ready: str
    look_running: str
    look_later: str
    look_waiting: str
    look_behind: str
    look_held: str
    look_parked: str
    look_lane: str
    look_done: str
    look_not_done: str
    look_ended: str
    look_ended_lane: str
    count_ready: str
    count_running: str
    count_later: str
    count_waiting: str
    count_parked: str
    count_held: str
    count_placed: str
    depth: str
    lanes: str


class InsightQueries(Queries, package=_PACKAGE, files=_INSIGHT_FILES):
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
    few_later: str
    few_waiting: str
    few_held: str
    few_parked: str
    view: str
    view_history: str
    states: str
    keys: str
    claimed: str
    workers: str

    # insight_counts.sql
    count_ready: str
    count_running: str
    count_later: str
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
