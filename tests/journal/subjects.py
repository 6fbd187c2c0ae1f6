"""The subjects of the operators that are killed, and how many changes and entries each of them has afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.jobs.listing import list_lanes
from interlock.ports.claims import ClaimRequest
from interlock.ports.events import EventFilter
from interlock.ports.jobs import JobState
from interlock.ports.journal import Attribution, JournalFilter
from interlock.ports.locks import LockRequest
from interlock.ports.sessions import SessionCard
from interlock.ports.store import Capability
from interlock.testing.conformance.jobs.driver import new_job
from tests.journal.operator import BY, WHY, Subjects, event

if TYPE_CHECKING:
    from interlock.ports.store import Store

__all__ = ["changes_and_entries", "prepare"]

_SETUP = Attribution("setup", "for the test")
_LONG = 3600.0


async def prepare(store: Store, count: int) -> Subjects:
    """Create the subjects: ``count`` for each operation that the store offers."""
    await store.sessions.begin(SessionCard("holder", "host", 1, "holder"), _LONG)
    names = [f"{n}" for n in range(count)]
    subjects: Subjects = {"claim.forget": names, "lock.force_release": names}
    for name in names:
        await store.claims.claim(ClaimRequest(name, f"holder.c{name}", "holder", _LONG, _LONG))
        await store.locks.ask(LockRequest(name, f"holder.l{name}", "holder", "holder", _LONG, 0.0, nested=False))
    if Capability.JOBS not in store.capabilities:
        return subjects
    ids = list(await store.jobs.ids(4 * count))
    retried, cancelled, lanes, events = (ids[n * count : (n + 1) * count] for n in range(4))
    await store.jobs.enqueue([new_job(job, lane=None) for job in (*retried, *cancelled)])
    await store.jobs.enqueue([new_job(job, lane=f"held {n}") for n, job in enumerate(lanes)])
    for job in retried:
        await store.jobs.cancel(job, _SETUP)
    for name in names:
        await store.jobs.hold(f"released {name}", _SETUP)
    await store.events.accept([event(number, f"first {number}") for number in events])
    return subjects | {
        "job.retry": retried,
        "job.cancel": cancelled,
        "lane.hold": [f"held {name}" for name in names],
        "lane.release": [f"released {name}" for name in names],
        "event.replay": events,
    }


async def changes_and_entries(store: Store, journal: Store, subjects: Subjects) -> dict[tuple[str, str], list[int]]:
    """For each operation and subject, how many changes and how many entries there are."""
    counts = {(action, str(ref)): [0, 0] for action, refs in subjects.items() for ref in refs}
    for entry in await journal.journal.list(JournalFilter(actor=BY), limit=100_000):
        counts[entry.action, entry.subject_key][1] += (entry.reason, entry.after) != (WHY, '{"changed": false}')
    for key in subjects["claim.forget"]:
        counts["claim.forget", key][0] = not await store.claims.list(key)
    for key in subjects["lock.force_release"]:
        views = await store.locks.list(key)
        counts["lock.force_release", key][0] = not views or views[0].holder is None
    if Capability.JOBS in store.capabilities:
        for job in subjects["job.retry"]:
            counts["job.retry", str(job)][0] = await _state(store, job) is JobState.READY
        for job in subjects["job.cancel"]:
            counts["job.cancel", str(job)][0] = await _state(store, job) is JobState.CANCELLED
        held = {lane.lane for lane in await list_lanes(store.insight, 100_000) if lane.held_since is not None}
        for lane in subjects["lane.hold"]:
            counts["lane.hold", lane][0] = lane in held
        for lane in subjects["lane.release"]:
            counts["lane.release", lane][0] = lane not in held
        for view in await store.events.list(EventFilter(), limit=100_000):
            if view.replay_of is not None:
                counts["event.replay", str(view.replay_of)][0] += 1
    return counts


async def _state(store: Store, job: int) -> JobState | None:
    view = await store.insight.get(job)
    return None if view is None else view.state
