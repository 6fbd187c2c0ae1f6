"""The queries of the jobs port."""

from __future__ import annotations

from interlock.backends.queries import Queries

__all__ = ["JobQueries"]

_JOB_FILES = (
    "jobs",
    "job_enqueue",
    "job_composition",
    "job_fetch",
    "job_acknowledge",
    "job_limits",
    "job_versions",
    "job_operations",
    "job_vacuum",
    "job_views",
    "job_logs",
)


class JobQueries(Queries, package="interlock.backends.sqlite", files=_JOB_FILES):
    """Jobs: everything that writes, and the views of the jobs port."""

    # jobs.sql
    take_numbers: str
    kind: str
    add_kind: str
    name_of_kind: str
    queue_and_name_of_kind: str
    namespace_kinds: str
    queues_of_kinds: str
    make_ready: str
    remove_ready: str
    schedule: str
    unschedule: str
    set_position: str
    advance_lanes: str
    leave_limit_queues: str
    add_message: str

    # job_enqueue.sql
    add_job: str
    known_ids: str
    any_resubmitted: str
    resubmitted: str
    add_resubmitted: str

    # job_composition.sql
    key_holder: str
    set_key: str
    job_arguments: str
    finished_at: str
    existing_jobs: str
    add_after: str
    add_after_signals: str
    add_expiry: str
    any_after: str
    signal_ends: str
    after_signals: str
    is_unfinished: str
    delete_after_signal: str
    needed_state: str
    waiting_jobs: str
    delete_after: str
    delete_all_after: str
    delete_ended_after: str
    replace_after: str
    fail_after: str
    park_waiting: str
    unpark_waiting: str
    unblocked: str
    make_due_now: str
    blocked: str
    wait_again: str
    await_again: str
    kinds_of_waiting: str
    expired: str
    next_expiry: str
    delete_expiry: str
    expire_again: str
    due_keys: str
    check_key_later: str
    delete_key: str

    # job_fetch.sql
    worker: str
    add_worker: str
    kinds: str
    due_jobs: str
    ready_jobs: str
    ready_heads: str
    jobs_behind: str
    add_fetched: str
    half_of_session: str
    ready_suspects: str
    add_limit_wait: str
    next_wake: str
    watched_ended: str

    # job_acknowledge.sql
    fetched_jobs: str
    fetched_by_worker: str
    worker_of_session: str
    refuse_fetches: str
    job_details: str
    last_fences: str
    add_history: str
    add_history_done: str
    hooks_of_ended: str
    delete_jobs: str
    delete_fetched: str
    update_job: str
    add_result: str
    set_result_expiry: str
    delete_message: str
    park_lane: str
    fetched_by_dead: str
    mark_crashed: str
    kinds_with_limits: str

    # job_limits.sql
    quotas: str
    add_uses: str
    delete_uses: str
    add_start: str
    start_before: str
    starts_after: str
    delete_last_start: str
    delete_old_starts: str
    first_waiting: str
    limit_queue: str
    limit_queues: str
    mark_woken: str
    set_wake: str
    wakes_due: str
    delete_wake: str
    reserved: str
    reservations_of_key: str
    reserved_starts: str
    reserved_free_since: str
    set_reserved_free_since: str
    start_times: str
    served_kinds: str

    # job_versions.sql
    any_unreadable: str
    unreadable_sets: str
    unreadable_jobs: str
    set_unreadable: str
    clear_unreadable: str
    park_unreadable: str
    live_versions: str

    # job_operations.sql
    job_state: str
    ended_state: str
    request_cancel: str
    fence_and_cancel: str
    fetched_of_lane: str
    mark_notified: str
    hold_lane: str
    release_lane: str
    queue_pauses: str
    queue_pause: str
    pause_queue: str
    resume_queue: str
    fetched_of_queue: str
    mark_jobs_notified: str
    make_due: str
    restore: str

    # job_vacuum.sql
    register_worker: str
    mark_started: str
    add_watches: str
    delete_watches: str
    unfinished: str
    old_history: str
    delete_history: str
    old_results: str
    delete_results: str
    delete_expired_starts: str
    delete_resubmitted: str
    delete_workers: str

    # job_logs.sql
    fetches_in_force: str
    set_log: str
    add_chunk: str
    droppable_chunks: str
    drop_chunks: str
    delete_logs: str
    delete_chunks: str
    log_statuses: str
    log_chunks: str

    # job_views.sql
    unfinished_views: str
    history_views: str
    first_of_lane: str
    lane_jobs_ahead: str
    ready_jobs_ahead: str
    lane_hold: str
    limit_holders: str
    suspects: str
    running_suspects: str
    live_workers: str
    lane_depth: str
