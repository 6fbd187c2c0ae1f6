"""Limits as rows and pages: those of jobs and of reservations, with their users and waiters in order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief, command, counted, ordinal, span
from interlock.insight.views import LimitHolder, LimitPage, LimitRow, LimitSetting, LimitWaiter, Listing, Who
from interlock.limits.explain import explain, figure, next_at, why_waits
from interlock.ports.insight import JobLimitUsers
from interlock.ports.limits import override_of
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.insight.stores import CallerJobs, Stores
    from interlock.ports.insight import JobLimitUse, JobLimitView
    from interlock.ports.limits import LimitOverride, LimitView

__all__ = [
    "JOBS",
    "RESERVATIONS",
    "explain_a_limit",
    "limit_listing",
    "limit_page",
    "limit_row",
    "reservation_row",
    "setting_of",
]

JOBS = "jobs"
RESERVATIONS = "reservations"
_MAX_NAMED = 5


def reservation_row(view: LimitView) -> LimitRow:
    """The row of a limit that reservations use."""
    return limit_row(None, view)


def setting_of(override: LimitOverride | None) -> LimitSetting | None:
    """The figure that a person set, as pages show it."""
    if override is None:
        return None
    return LimitSetting(
        override.name, figure(override.max_count, override.per), override.set_by, override.reason, override.set_at
    )


def limit_row(used: JobLimitView | None, reserved: LimitView | None, override: LimitOverride | None = None) -> LimitRow:
    """The row of a limit that jobs, reservations or both use: what either takes counts for the other."""
    views = [view for view in (used, reserved) if view is not None]
    max_count, per = min(view.max_count for view in views), max(view.per for view in views)
    declared = figure(max_count, per)
    if override is not None:
        max_count, per = override.max_count, override.per
        reserved = None if reserved is None else reserved._replace(override=override)
    seen_at = views[0].seen_at
    jobs = 0 if used is None else used.taken
    reservations = 0 if reserved is None else len(reserved.started)
    taken = jobs + reservations
    waiting = (0 if used is None else used.waiting) + (0 if reserved is None else len(reserved.waiting))
    opens = max(
        (at for at in (used and used.room_at, reserved and next_at(reserved)) if at is not None and at > seen_at),
        default=None,
    )
    full = taken >= max_count or opens is not None
    if per:
        reason = Reason.TOO_SOON if full else Reason.ROOM
    else:
        reason = Reason.FULL if full else Reason.PASSING if waiting else Reason.ROOM
    counts = f"{JOBS} and {RESERVATIONS}" if len(views) > 1 else JOBS if used is not None else RESERVATIONS
    if used is None and reserved is not None:
        explained = explain(reserved.key, reserved)
        reason, why = explained.reason, explained.why
        full = opens is not None if per else taken >= max_count
    else:
        split = f" ({counted(jobs)} jobs, {counted(reservations)} reservations)" if reserved is not None else ""
        waits = "" if not waiting else f", {counted(waiting)} {'waits' if waiting == 1 else 'wait'}"
        room = "" if opens is None else f", room in {span(opens - seen_at)}"
        why = f"{counted(taken)} of {max_count} {'started' if per else 'running'}{split}{waits}{room}"
        full = (opens is not None if reserved is None else full) if per else taken >= max_count
    setting = setting_of(override)
    if setting is not None:
        why = brief(f"{why}; {setting.by} set it to {setting.figure}: {setting.reason}")
    return LimitRow(
        views[0].key,
        counts,
        max_count,
        per,
        figure(max_count, per),
        declared,
        setting,
        taken,
        jobs,
        reservations,
        waiting,
        full,
        opens,
        str(reason),
        why,
        seen_at,
    )


async def limit_listing(stores: Stores, limit: int, after: str) -> Listing[LimitRow]:
    """Limits in use, by key."""
    reserved = {view.key: view for view in await stores.store.limits.list(limit=limit + 1, after=after)}
    used: dict[str, JobLimitView] = {}
    if stores.has_jobs:
        used = {view.key: view for view in await stores.store.insight.limits(limit=limit + 1, after=after)}
    keys = sorted({*reserved, *used})
    overrides = await stores.overrides()
    rows = [limit_row(used.get(key), reserved.get(key), override_of(overrides, key)) for key in keys[:limit]]
    return Listing(
        tuple(rows), keys[limit - 1] if len(keys) > limit else None, rows[0].seen_at if rows else stores.now()
    )


async def limit_page(stores: Stores, key: str, limit: int) -> LimitPage:
    """One limit."""
    reserved, caller_jobs, used, users = await _look(stores, key, limit)
    override = override_of(await stores.overrides(), key)
    why = _explained(key, reserved, caller_jobs, used, users, override)
    rows = [] if reserved is None and not used else [limit_row(used[0] if used else None, reserved, override)]
    if reserved is not None:
        reserved = reserved._replace(override=override)
    holders = [_job_holder(use) for use in users.holders]
    waiters = [_job_waiter(used[0], use, place) for place, use in enumerate(users.waiters, 1)]
    if reserved is not None:
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
        setting_of(override),
        tuple(holders),
        tuple(waiters),
        str(why.reason),
        why.why,
        why,
        stores.seen(at, "limits"),
    )


async def explain_a_limit(stores: Stores, key: str) -> Explanation[Reason]:
    """Explain a limit."""
    found = await _look(stores, key, _MAX_NAMED)
    return _explained(key, *found, override_of(await stores.overrides(), key))


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
    key: str,
    reserved: LimitView | None,
    caller_jobs: CallerJobs,
    used: Sequence[JobLimitView],
    users: JobLimitUsers,
    override: LimitOverride | None,
) -> Explanation[Reason]:
    """Explain the jobs under a limit, the reservations that count with them, and the figure that a person set."""
    if not used:
        explained = explain(key, None if reserved is None else reserved._replace(override=override), caller_jobs.name)
        declared = None if reserved is None else limit_row(None, reserved).figure
        return _with_setting(explained, declared, override)
    (view,) = used
    row = limit_row(view, reserved, override)
    view = view._replace(max_count=row.max_count, per=row.per)
    if reserved is not None:
        reserved = reserved._replace(override=override)
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
        "counts": row.counts,
        "count": view.max_count,
        "per": view.per,
        "taken": row.taken,
        "jobs": row.jobs,
        "reserved": row.reserved,
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
        lines += [f"reservations count with them: {others.lines[0]}", *others.lines[1:]]
        data |= {"reservations": others.data, "started": others.data["started"], "waiting": others.data["waiting"]}
    explained = Explanation.of(Subject("limit", key), Reason(row.reason), row.why, lines, remedy, data)
    return _with_setting(explained, row.declared, override)


def _with_setting(
    explained: Explanation[Reason], declared: str | None, override: LimitOverride | None
) -> Explanation[Reason]:
    """Add who set the figure, when and why, and what the code says."""
    setting = setting_of(override)
    data = explained.data | {"declared": declared, "override": None if setting is None else setting._asdict()}
    lines = list(explained.lines)
    if setting is not None:
        code = "" if declared is None else f"; the code says {declared}"
        reset = command("limits", "reset", setting.name)
        line = f"{setting.by} set {setting.name!r} to {setting.figure} at {as_text(setting.at)}: {setting.reason}{code}"
        lines.insert(1, f"{line} (to undo that: {reset})")
    return replace(explained, lines=tuple(lines), data=data)


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
