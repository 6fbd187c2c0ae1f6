"""The queries of the jobs port."""

from __future__ import annotations

from interlock.backends.queries import Queries

__all__ = ["JobQueries"]

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


class JobQueries(Queries, package="interlock.backends.sqlite", files=_JOB_FILES):
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
    fetch: str
    half_of_session: str
    suspects_for: str
    stand_in_line: str
    next_wake: str
    awaited_ended: str

    # job_acknowledge.sql
    fetches: str
    fetches_of_worker: str
    worker_of_session: str
    bar: str
    details: str
    fences: str
    finish: str
    finish_done: str
    forget_jobs: str
    end_fetch: str
    renew: str
    keep_result: str
    note_result: str
    forget_told: str
    park_lane: str
    dead_fetches: str
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
    fence_and_cancel: str
    fetches_of_lane: str
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
    look_scheduled: str
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
    count_scheduled: str
    count_waiting: str
    count_parked: str
    count_held: str
    count_placed: str
    depth: str
    lanes: str
