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
    "SessionQueries",
]

_PACKAGE = "interlock.backends.sqlite"


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
    waits_of_caller: str
    session_requests: str
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
    session_requests: str
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


class JournalQueries(Queries, package=_PACKAGE, files=("journal",)):
    """The journal."""

    add: str
    get: str
    list_any: str
    list_actor: str
    list_subject: str
    prune: str
