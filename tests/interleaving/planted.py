"""Bugs to plant in the functions of a test's database, each of which shows only if two operations meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

__all__ = ["BUGS", "Bug", "plant"]


class Bug(NamedTuple):
    """Texts to replace in functions, and a pair of operations that suffers from it."""

    changes: tuple[tuple[str, str, str], ...]
    scene: str
    first: str
    second: str


BUGS = {
    "a fetch lets go of lanes that it has put something into": Bug(
        (("job_wake_lanes", "and not x.own", ""), ("job_wake_lanes", "or x.own", "")),
        "a run with a due job behind it",
        "fetch",
        "done",
    ),
    "signals of lanes that somebody is at are dropped": Bug(
        (("job_wake_lanes", "handled := array(", "handled := lanes; fetched := array("),),
        "a run with nothing behind it",
        "done",
        "enqueue and fetch",
    ),
    "signals of lanes whose run is being ended are dropped": Bug(
        (("job_wake_lanes", "and not x.own for update of l skip locked", "and not x.own"),),
        "a run with nothing behind it",
        "done",
        "enqueue and fetch",
    ),
    "people do not lock the lanes that they act on": Bug(
        (("job_lane_lock", "where l.lane = p_lane for update", "where l.lane = p_lane"),),
        "a run with a due job behind it",
        "retry scheduled by hand",
        "done",
    ),
    "two fetches of one session take suspects of two halves": Bug(
        (
            (
                "job_fetch_lock_suspects",
                "pg_try_advisory_xact_lock(1229870160, hashtext(request.session))",
                "true",
            ),
        ),
        "a lane with a suspect",
        "fetch",
        "fetch as the other",
    ),
    "a fetch may come to be after it was given up": Bug(
        (
            (
                "job_fetch_session",
                "perform from interlock.job_session c where c.id = job_fetch_session.id for share;",
                "",
            ),
        ),
        "a lane that is offered",
        "fetch",
        "give up the fetch",
    ),
    "a pause does not wait for the fetches that began before it": Bug(
        (("queue_pause", "order by c.id for no key update", "order by c.id"),),
        "a lane that is offered",
        "fetch",
        "pause",
    ),
    "a pause does not see the first fetch of a session": Bug(
        (
            (
                "job_fetch_session",
                "perform from interlock.job_namespace n where n.namespace = p_namespace for share;",
                "",
            ),
        ),
        "a lane that is not known",
        "fetch",
        "pause",
    ),
    "a job that comes late is accepted though it was sent again": Bug(
        (("job_enqueue", "if p_known is null and exists (select from interlock.job_resubmitted)", "if false"),),
        "a lane that is not known",
        "enqueue",
        "enqueue again and work",
    ),
    "who waits for a job is not looked at again while that one is ending": Bug(
        (("job_continue", "for key share skip locked", ""),),
        "a run with nothing behind it",
        "done",
        "enqueue after it and fetch",
    ),
    "an enqueue does not signal whom its job waits for": Bug(
        (("job_enqueue_after", "select distinct p_namespace", "select distinct 'nobody'"),),
        "a run with nothing behind it",
        "enqueue after it",
        "done",
    ),
    "a cancellation does not see that the fetch has ended": Bug(
        (("job_cancel", "where x.id = p_id and x.fence < c.fence", "where x.id = p_id"),),
        "jobs without a lane",
        "retry later",
        "cancel running",
    ),
    "who ends a fetch does not see that the end was asked for": Bug(
        (
            (
                "job_acknowledge_each",
                "perform from interlock.job j where j.id = any (acknowledged.ids) order by j.id for update;",
                "",
            ),
        ),
        "jobs without a lane",
        "cancel running",
        "retry now",
    ),
}


async def plant(connection: Any, bug: Bug) -> None:
    """Put a bug into a database."""
    for function, old, new in bug.changes:
        text = await connection.fetchval(
            "select pg_get_functiondef(p.oid) from pg_proc p"
            " where p.pronamespace = 'interlock'::regnamespace and p.proname = $1",
            function,
        )
        assert old in text, f"{function} is not what it was"
        await connection.execute(text.replace(old, new))
