"""Limits as rows and pages: those of jobs and of reservations, with their users and waiters in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, counted, ordinal, span
from interlock.insight.views import LimitHolder, LimitPage, LimitRow, LimitWaiter, Listing, Who
from interlock.limits.explain import explain, figure, next_at, why_waits
from interlock.ports.insight import JobLimitUsers
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.insight.stores import CallerJobs, Stores
    from interlock.ports.insight import JobLimitUse, JobLimitView
    from interlock.ports.limits import LimitView

__all__ = ["JOBS", "RESERVATIONS", "explain_a_limit", "job_limit_row", "limit_listing", "limit_page", "reservation_row"]

JOBS = "jobs"
RESERVATIONS = "reservations"
_MAX_NAMED = 5


def job_limit_row(view: JobLimitView) -> LimitRow:
    """The row of a limit on jobs."""
    full = view.room_at is not None if view.per else view.taken >= view.max_count
    if view.per:
        reason = Reason.TOO_SOON if full else Reason.ROOM
    else:
        reason = Reason.FULL if full else Reason.PASSING if view.waiting else Reason.ROOM
    waiting = "" if not view.waiting else f", {counted(view.waiting)} {'waits' if view.waiting == 1 else 'wait'}"
    opens = "" if view.room_at is None else f", room in {span(view.room_at - view.seen_at)}"
    why = f"{counted(view.taken)} of {view.max_count} {'started' if view.per else 'running'}{waiting}{opens}"
    return LimitRow(
        view.key,
        JOBS,
        view.max_count,
        view.per,
        figure(view.max_count, view.per),
        view.taken,
        view.waiting,
        full,
        view.room_at,
        str(reason),
        why,
        view.seen_at,
    )


def reservation_row(view: LimitView) -> LimitRow:
    """The row of a limit on reservations."""
    why, opens = explain(view.key, view), next_at(view)
    full = opens is not None if view.per else len(view.started) >= view.max_count
    return LimitRow(
        view.key,
        RESERVATIONS,
        view.max_count,
        view.per,
        figure(view.max_count, view.per),
        len(view.started),
        len(view.waiting),
        full,
        opens,
        str(why.reason),
        why.why,
        view.seen_at,
    )


async def limit_listing(stores: Stores, limit: int, after: str) -> Listing[LimitRow]:
    """Limits in use, by key; the two rows of one key are on the same page."""
    rows = [reservation_row(view) for view in await stores.store.limits.list(limit=limit + 1, after=after)]
    if stores.has_jobs:
        rows += map(job_limit_row, await stores.store.insight.limits(limit=limit + 1, after=after))
    rows.sort(key=lambda row: (row.key, row.counts))
    more = None
    if len(rows) > limit:
        # Both rows of one key, or none, so that the next page misses none; for the first key, both.
        end = limit if rows[limit - 1].key != rows[limit].key else limit - 1 or 2
        more = rows[end - 1].key if end < len(rows) else None
        rows = rows[:end]
    return Listing(tuple(rows), more, rows[0].seen_at if rows else stores.now())


async def limit_page(stores: Stores, key: str, limit: int) -> LimitPage:
    """One limit."""
    reserved, caller_jobs, used, users = await _look(stores, key, limit)
    why = _explained(key, reserved, caller_jobs, used, users)
    rows = [job_limit_row(view) for view in used]
    holders = [_job_holder(use) for use in users.holders]
    waiters = [_job_waiter(used[0], use, place) for place, use in enumerate(users.waiters, 1)]
    if reserved is not None:
        rows.append(reservation_row(reserved))
        holders += [
            LimitHolder(
                RESERVATIONS,
                caller_jobs.who(user),
                user.at,
                None if not user.per or user.at is None else user.at + user.per,
            )
            for user in reserved.started[:limit]
        ]
        ahead = 0
        for user in reserved.waiting[:limit]:
            waits = why_waits(reserved, user, ahead)
            waiters.append(LimitWaiter(RESERVATIONS, ahead + 1, caller_jobs.who(user), user.asked_at, user.at, waits))
            ahead += user.waits_for == key
    at = rows[0].seen_at if rows else stores.now()
    return LimitPage(
        key,
        tuple(rows),
        tuple(holders),
        tuple(waiters),
        str(why.reason),
        why.why,
        why,
        stores.seen(at, "limits"),
    )


async def explain_a_limit(stores: Stores, key: str) -> Explanation[Reason]:
    """Explain a limit."""
    return _explained(key, *await _look(stores, key, _MAX_NAMED))


async def _look(
    stores: Stores, key: str, limit: int
) -> tuple[LimitView | None, CallerJobs, Sequence[JobLimitView], JobLimitUsers]:
    views = await stores.store.limits.list(key, limit=1)
    reserved = views[0] if views else None
    caller_jobs = await stores.find_jobs(() if reserved is None else (*reserved.started, *reserved.waiting))
    if not stores.has_jobs:
        return reserved, caller_jobs, (), JobLimitUsers((), ())
    used = await stores.store.insight.limits(key, limit=1)
    users = await stores.store.insight.limit_users(key, limit=limit) if used else JobLimitUsers((), ())
    return reserved, caller_jobs, used, users


def _explained(
    key: str, reserved: LimitView | None, caller_jobs: CallerJobs, used: Sequence[JobLimitView], users: JobLimitUsers
) -> Explanation[Reason]:
    """Explain the limit on jobs first; if reservations use the key too, they are counted separately."""
    if not used:
        return explain(key, reserved, caller_jobs.name)
    (view,) = used
    row = job_limit_row(view)
    lines = [_limit_line(view, users)]
    lines += [_waiter_line(view, use, ahead) for ahead, use in enumerate(users.waiters[:_MAX_NAMED])]
    if view.waiting > min(len(users.waiters), _MAX_NAMED):
        lines.append(f"and {counted(view.waiting - min(len(users.waiters), _MAX_NAMED))} more in line")
    remedy = ""
    if row.full and view.waiting:
        remedy = "wait, or allow starts closer together"
        if not view.per and users.holders:
            remedy = (
                f"wait until one of them has ended (interlock explain job {users.holders[0].id}), or raise the limit"
            )
    data = {
        "key": key,
        "counts": JOBS,
        "count": view.max_count,
        "per": view.per,
        "taken": view.taken,
        "waiting_jobs": view.waiting,
        "room_at": None if view.room_at is None else as_text(view.room_at),
        "holders": [use.id for use in users.holders],
        "line": [use.id for use in users.waiters],
        "seen_at": as_text(view.seen_at),
        "started": [],
        "waiting": [],
        "reservations": None,
    }
    if reserved is not None:
        others = explain(key, reserved, caller_jobs.name)
        lines += [f"counted apart, in reservations: {others.lines[0]}", *others.lines[1:]]
        data |= {"reservations": others.data, "started": others.data["started"], "waiting": others.data["waiting"]}
    return Explanation.of(Subject("limit", key), Reason(row.reason), row.why, lines, remedy, data)


def _limit_line(view: JobLimitView, users: JobLimitUsers) -> str:
    allows = f"{view.key!r} allows {figure(view.max_count, view.per)}, counted in jobs"
    if view.per:
        opens = "" if view.room_at is None else f", the next room comes at {as_text(view.room_at)}"
        return f"{allows}; {counted(view.taken)} of the starts count now{opens}"
    named = "; ".join(f"job {use.id} ({use.name}) since {as_text(use.since)}" for use in users.holders[:_MAX_NAMED])
    more = " and others" if view.taken > min(len(users.holders), _MAX_NAMED) else ""
    return f"{allows}; {counted(view.taken)} running{f': {named}{more}' if named else ''}"


def _waiter_line(view: JobLimitView, use: JobLimitUse, ahead: int) -> str:
    place = "is next" if ahead == 0 else f"has {ahead} before it"
    return f"job {use.id} ({use.name}) has waited since {as_text(use.since)} and {place}"


def _job_who(use: JobLimitUse) -> Who:
    name = f"job {use.id} ({use.name})" if use.name else f"job {use.id}"
    if use.worker is None:
        return Who("", name, use.id, "", "", 0, "")
    return Who("", name, use.id, *use.worker)


def _job_holder(use: JobLimitUse) -> LimitHolder:
    return LimitHolder(JOBS, _job_who(use), use.since, use.until)


def _job_waiter(view: JobLimitView, use: JobLimitUse, place: int) -> LimitWaiter:
    in_line = "first" if place == 1 else ordinal(place)
    why = f"waits for {span(view.seen_at - use.since)}, {in_line} in line"
    return LimitWaiter(JOBS, place, _job_who(use), use.since, view.room_at if place == 1 else None, why)
