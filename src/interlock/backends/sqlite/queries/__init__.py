"""The queries of the SQLite store by concept. The files must define exactly what the classes declare."""

from __future__ import annotations

from interlock.backends.queries import Queries

__all__ = [
    "ClaimQueries",
    "CursorQueries",
    "EventQueries",
    "JournalQueries",
    "LimitQueries",
    "LockQueries",
    "MessageQueries",
    "PipelineQueries",
    "RecordInsightQueries",
    "RecordQueries",
    "ScheduleQueries",
    "SessionQueries",
]

_PACKAGE = "interlock.backends.sqlite"


class LockQueries(Queries, package=_PACKAGE, files=("locks",)):
    """Locks and their waiters."""

    read_lock: str
    grant: str
    extend: str
    renew: str
    free: str
    delete_lock: str
    is_live: str
    why_ended: str
    session_alive: str
    next_fence: str
    add_message: str
    add_waiter: str
    delete_waiter: str
    ticket: str
    largest_ticket: str
    last_overdue_ticket: str
    count_ahead: str
    first_waiter: str
    count_waiters: str
    drop_dead_waiters: str
    unqueued_owners: str
    turns: str
    waits_of_caller: str
    session_requests: str
    keys_awaited_by: str
    list_locks: str
    list_one: str
    list_waiters: str
    count_all: str


class ClaimQueries(Queries, package=_PACKAGE, files=("claims",)):
    """Claims."""

    read_claim: str
    add_claim: str
    extend_lease: str
    renew_lease: str
    finish_claim: str
    owner_and_state: str
    delete_claim: str
    why_forgotten: str
    list_claims: str
    sweep_claims: str


class CursorQueries(Queries, package=_PACKAGE, files=("cursors",)):
    """Cursors and their histories."""

    add_move: str
    find_move: str
    trim_history: str
    list_cursors: str
    history: str
    delete_cursor: str


class SessionQueries(Queries, package=_PACKAGE, files=("sessions",)):
    """Sessions, and what ends with them."""

    add_session: str
    renew_session: str
    delete_session: str
    expired_sessions: str
    copy_session: str
    set_blocked: str
    mark_leaving: str
    free_locks: str
    delete_waiters: str
    delete_messages: str
    delete_old_messages: str
    delete_idle_locks: str
    delete_watches: str
    end_worker: str


class MessageQueries(Queries, package=_PACKAGE, files=("messages",)):
    """Messages to sessions."""

    messages_of_session: str


class EventQueries(Queries, package=_PACKAGE, files=("events",)):
    """Stored events."""

    add_event: str
    events_by_id: str
    known_deliveries: str
    expired_events: str
    extend_retention: str
    delete_events: str
    received_at: str
    list_all: str
    list_by_source: str
    list_by_type: str
    list_by_actor: str
    list_by_delivery: str


class LimitQueries(Queries, package=_PACKAGE, files=("limits", "limit_views")):
    """Limits: reservations, their keys and starts."""

    # limits.sql
    session: str
    reservation: str
    add_reservation: str
    update_reservation: str
    add_use: str
    uses_of: str
    delete_reservation: str
    delete_uses: str
    largest_turn: str
    last_overdue_turn: str
    key_status: str
    room: str
    quotas: str
    override: str
    read_override: str
    list_overrides: str
    set_override: str
    delete_override: str
    keys_of_name: str
    replan: str
    extend_starts: str
    extend_job_starts: str
    key_jobs: str
    jobs_ahead: str
    place: str
    start_times: str
    nth_start: str
    add_start: str
    starts_after: str
    delete_old_starts: str
    set_free_since: str
    dead_reservations: str
    session_reservations: str
    unknown_owners: str
    session_requests: str
    first_waiting: str
    turns: str
    sweepable_reservations: str
    sweep_starts: str
    sweep_keys: str

    # limit_views.sql
    limit_in_use: str
    limits_in_use: str
    reservations: str
    counted_starts: str
    free_times: str
    undropped_deaths: str


class JournalQueries(Queries, package=_PACKAGE, files=("journal",)):
    """The journal."""

    add: str
    get: str
    list_any: str
    list_actor: str
    list_subject: str
    list_cause_job: str
    list_cause_event: str
    unsealed: str
    head: str
    add_seal: str
    set_batch: str
    seals: str
    entries: str
    strays: str
    status: str
    verification: str
    verified: str
    prunable: str
    prune_entries: str
    prune_seals: str


class RecordInsightQueries(Queries, package=_PACKAGE, files=("record_insight",)):
    """The read side of records, and the declarations of their kinds."""

    search_any: str
    search_status: str
    record_kinds: str
    count_statuses: str
    newest_declaration: str
    declare_kind: str
    forget_declarations: str
    declarations: str


class RecordQueries(Queries, package=_PACKAGE, files=("records",)):
    """Records."""

    get: str
    list_any: str
    list_status: str
    kinds: str
    read_state: str
    insert_record: str
    update_record: str
    delete_record: str


class PipelineQueries(Queries, package=_PACKAGE, files=("pipelines",)):
    """Runs of pipelines and their stages."""

    fetch_in_force: str
    last_checkpoint: str
    save_run: str
    save_stage: str
    get: str
    list_all: str
    list_record: str
    stages: str
    old_runs: str
    delete_runs: str
    delete_stages: str


class ScheduleQueries(Queries, package=_PACKAGE, files=("schedules",)):
    """Schedules, their declarations and their firings."""

    get: str
    list_all: str
    due: str
    edit_state: str
    save: str
    set_state: str
    delete_schedule: str
    delete_firings: str
    delete_dead_declarations: str
    declare: str
    still_declared: str
    next_at: str
    unfinished: str
    set_fired: str
    add_firing: str
    trim_firings: str
    firing_of_job: str
    last_firing: str
    set_enqueued: str
    set_reported: str
    firings: str
