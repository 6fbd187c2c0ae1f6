"""Operations: what a person or program does to jobs, lanes, queues, locks, claims, cursors, limits and
events.

Python, the command line, the dashboard and the API all come through here. Each operation has an actor (``by``) and a
reason. The journal entry commits in the same transaction as the change. If the change is made in a store without a
journal (Redis), the entry goes to the journal of the app's durable store before the change is made; without such a
store the operation is only logged. docs/decisions/0048 says why.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.arguments import checked_key, checked_reason
from interlock.errors import MisuseError, NotFoundError
from interlock.ports.jobs import JobState
from interlock.ports.journal import Action, Attribution, NewEntry, claim_data, cursor_data, holder_data
from interlock.ports.store import Capability
from interlock.selections import BulkResult, selection
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from interlock.ports.claims import ClaimView
    from interlock.ports.cursors import CursorView
    from interlock.ports.events import NewEvent
    from interlock.ports.journal import JournalStore
    from interlock.ports.limits import LimitOverride, Use
    from interlock.ports.locks import Holder
    from interlock.ports.store import Store
    from interlock.selections import Filter

__all__ = [
    "BulkResult",
    "Cause",
    "Operations",
    "add_cause_lookup",
    "attributed",
    "unknown_entry",
    "unknown_event",
    "unknown_job",
]

T = TypeVar("T")
Cause = tuple[int | None, int, int]
"""The event, the job and the fence on whose behalf the current code runs."""
_CANCELLED = (JobState.CANCELLED, JobState.FETCHED, JobState.RUNNING)
"""The states after a cancellation that had an effect: the worker of a fetched job is asked to stop it."""
_BULK = {
    Action.JOB_RETRY: ("Retrying jobs", True),
    Action.JOB_CANCEL: ("Canceling jobs", False),
    Action.LANE_HOLD: ("Holding lanes", False),
    Action.LANE_RELEASE: ("Releasing lanes", True),
    Action.LOCK_FORCE_RELEASE: ("A forced release", False),
    Action.CLAIM_FORGET: ("Forgetting claims", False),
    Action.EVENT_REPLAY: ("Replaying events", True),
}
"""Operations that apply to everything that matches a filter, and whether they do without a reason."""
_log = logging.getLogger("interlock.operations")
_cause_lookups: list[Callable[[], Cause | None]] = []


def add_cause_lookup(lookup: Callable[[], Cause | None]) -> None:
    """Register a function that returns the job whose handler is running here, or None."""
    _cause_lookups.append(lookup)


class Operations:
    """Operations on one store.

    ``journal`` is where entries go if the store has no journal. ``repeat`` calls an operation again while the store is
    unavailable; every operation can be repeated safely.
    """

    def __init__(
        self,
        store: Store,
        journal: JournalStore | None = None,
        *,
        repeat: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]] | None = None,
    ) -> None:
        self._store = store
        self._has_journal = Capability.JOURNAL in store.capabilities
        self._journal = None if self._has_journal else journal
        self._repeat = repeat

    # -- jobs, lanes and queues ----------------------------------------------------------------------------------------

    async def retry(self, job: int, *, by: str, reason: str = "") -> JobState:
        """Make a job ready now that is scheduled, parked, or ended without success; return its state.

        Any other job stays as it is. Raises ``NotFoundError`` for an unknown job.
        """
        attribution = attributed("Retrying a job", by, reason, optional=True)
        state = _known(job, await self._attempt(lambda: self._store.jobs.retry(job, attribution)))
        emit(_log, logging.INFO, "job_retry_requested", job=job, state=str(state), by=by, reason=reason)
        return state

    async def cancel(self, job: int, *, by: str, reason: str) -> JobState:
        """End a job that does not run, or ask for the end of one that does; return its state.

        Raises ``NotFoundError`` for an unknown job.
        """
        attribution = attributed("Canceling a job", by, reason)
        state = _known(job, await self._attempt(lambda: self._store.jobs.cancel(job, attribution)))
        emit(_log, logging.INFO, "job_cancel_requested", job=job, state=str(state), by=by, reason=reason)
        return state

    async def hold(self, lane: str, *, by: str, reason: str) -> None:
        """Let no further job of a lane start until it is released. Running jobs continue."""
        key, attribution = checked_key(lane), attributed("Holding a lane", by, reason)
        await self._attempt(lambda: self._store.jobs.hold(key, attribution))
        emit(_log, logging.INFO, "lane_held", lane=key, by=by, reason=reason)

    async def release(self, lane: str, *, by: str, reason: str = "") -> bool:
        """Let a held or parked lane continue; return False if it was neither."""
        key, attribution = checked_key(lane), attributed("Releasing a lane", by, reason, optional=True)
        released: bool = await self._attempt(lambda: self._store.jobs.release(key, attribution))
        if released:
            emit(_log, logging.INFO, "lane_released", lane=key, by=by, reason=reason)
        return released

    async def pause(self, queue: str, *, by: str, reason: str) -> None:
        """Let no job of a queue be fetched until it is resumed. Running jobs continue, and enqueues go on."""
        attribution = attributed("Pausing a queue", by, reason)
        await self._attempt(lambda: self._store.jobs.pause(queue, attribution))
        emit(_log, logging.INFO, "queue_paused", queue=queue, by=by, reason=reason)

    async def resume(self, queue: str, *, by: str, reason: str = "") -> bool:
        """Let the jobs of a paused queue be fetched again; return False if it was not paused."""
        attribution = attributed("Resuming a queue", by, reason, optional=True)
        resumed: bool = await self._attempt(lambda: self._store.jobs.resume(queue, attribution))
        if resumed:
            emit(_log, logging.INFO, "queue_resumed", queue=queue, by=by, reason=reason)
        return resumed

    # -- locks, claims, cursors ----------------------------------------------------------------------------------------

    async def force_release(self, key: str, *, by: str, reason: str) -> Holder | None:
        """Take a lock from its holder and tell the holder why; return the holder, or None if the lock was free."""
        key, attribution = checked_key(key), attributed("A forced release", by, reason)
        why = f"{by} released it by force: {reason}"

        async def look() -> Mapping[str, Any] | None:
            views = await self._store.locks.list(key, waiters=0)
            holder = views[0].holder if views else None
            return None if holder is None else holder_data(holder)

        async def change() -> Holder | None:
            return await self._store.locks.force(key, why, attribution)

        holder: Holder | None = await self._change(Action.LOCK_FORCE_RELEASE, key, attribution, look, change)
        if holder is not None:
            emit(_log, logging.WARNING, "lock_forced", key=key, fence=holder.fence, by=by, reason=reason)
        return holder

    async def forget_claim(self, key: str, *, by: str, reason: str) -> ClaimView | None:
        """Make a claim's key new again and stop its holder; return the claim, or None if there was none."""
        key, attribution = checked_key(key), attributed("Forgetting a claim", by, reason)
        why = f"{by} forgot the claim: {reason}"

        async def look() -> Mapping[str, Any] | None:
            views = await self._store.claims.list(key, limit=1)
            return claim_data(views[0]) if views else None

        async def change() -> ClaimView | None:
            return await self._store.claims.forget(key, why, attribution)

        view: ClaimView | None = await self._change(Action.CLAIM_FORGET, key, attribution, look, change)
        if view is not None:
            emit(_log, logging.WARNING, "claim_forgotten", key=key, state=str(view.state), by=by, reason=reason)
        return view

    async def forget_cursor(self, name: str, *, by: str, reason: str) -> CursorView | None:
        """Remove a cursor and its history; return its last position, or None if there was none."""
        name, attribution = checked_key(name), attributed("Forgetting a cursor", by, reason)

        async def look() -> Mapping[str, Any] | None:
            view = await self._store.cursors.read(name)
            return None if view is None else cursor_data(view)

        async def change() -> CursorView | None:
            return await self._store.cursors.forget(name, attribution)

        view: CursorView | None = await self._change(Action.CURSOR_FORGET, name, attribution, look, change)
        if view is not None:
            emit(_log, logging.WARNING, "cursor_forgotten", name=name, version=view.version, by=by, reason=reason)
        return view

    # -- limits --------------------------------------------------------------------------------------------------------

    async def resize_limit(self, figure: Use, *, by: str, reason: str) -> LimitOverride | None:
        """Set the figure of a limit, or of one of its keys; return the figure that was set before, if any."""
        attribution = attributed("Resizing a limit", by, reason)
        before: LimitOverride | None = await self._attempt(lambda: self._store.limits.resize(figure, attribution))
        emit(
            _log,
            logging.WARNING,
            "limit_resized",
            limit=figure.key,
            count=figure.max_count,
            per=figure.per,
            by=by,
            reason=reason,
        )
        return before

    async def reset_limit(self, name: str, *, by: str, reason: str = "") -> LimitOverride | None:
        """Let the figures in the code apply again; return the one that was set, or None if there was none."""
        name, attribution = checked_key(name), attributed("Resetting a limit", by, reason, optional=True)
        before: LimitOverride | None = await self._attempt(lambda: self._store.limits.reset(name, attribution))
        if before is not None:
            emit(_log, logging.WARNING, "limit_reset", limit=name, by=by, reason=reason)
        return before

    # -- events --------------------------------------------------------------------------------------------------------

    async def replay(self, event: NewEvent, *, by: str, reason: str = "") -> int:
        """Accept an event that repeats a kept one (``replay_of``); return the ID under which it is kept."""
        attribution = attributed("Replaying an event", by, reason, optional=True)
        (kept,) = await self._attempt(lambda: self._store.events.accept([event._replace(attribution=attribution)]))
        emit(_log, logging.INFO, "event_replayed", id=kept, replay_of=event.replay_of, by=by, reason=reason)
        return int(kept)

    # -- everything that matches a filter ------------------------------------------------------------------------------

    async def matching(self, wanted: Filter, action: Action | None = None, *, limit: int | None = None) -> list[Any]:
        """Return the IDs or keys of everything that matches and, if an action is given, that it can change.

        Count them before an operation on all of them. Jobs and events come oldest first, the rest by name. ``limit``
        bounds the list.
        """
        found: list[Any] = []
        async for ref in selection(self._store, wanted, action).refs(limit):
            if len(found) == limit:
                break
            found.append(ref)
        return found

    async def apply(
        self,
        action: Action,
        wanted: Filter,
        *,
        by: str,
        reason: str = "",
        refs: Sequence[Any] | None = None,
        change: Callable[[Any], Awaitable[bool]] | None = None,
    ) -> BulkResult[Any]:
        """Perform an operation on everything that matches, or on those of ``refs`` that still match.

        Each subject is changed in a transaction of its own, with an entry of its own, one after the other: no lock is
        held for longer than one change takes, and an error in between leaves whole changes behind. ``change`` replaces
        the operation on one subject; it returns whether it changed something.
        """
        what, optional = _BULK[action]
        attributed(what, by, reason, optional=optional)
        chosen = selection(self._store, wanted, action)
        one = self._change_one(action, by, reason) if change is None else change
        changed: list[Any] = []
        unchanged: list[Any] = []
        try:
            for ref in await self.matching(wanted, action) if refs is None else refs:
                try:
                    done = await self._attempt(partial(chosen.matches, ref)) and await one(ref)
                except NotFoundError:  # it was removed after it was looked at
                    done = False
                (changed if done else unchanged).append(ref)
        finally:
            emit(
                _log,
                logging.INFO,
                "operation_applied",
                action=str(action),
                changed=len(changed),
                unchanged=len(unchanged),
                by=by,
                reason=reason,
            )
        return BulkResult(tuple(changed), tuple(unchanged))

    def _change_one(self, action: Action, by: str, reason: str) -> Callable[[Any], Awaitable[bool]]:
        async def change(ref: Any) -> bool:
            match action:
                case Action.JOB_RETRY:
                    return not (await self.retry(ref, by=by, reason=reason)).final
                case Action.JOB_CANCEL:
                    return (await self.cancel(ref, by=by, reason=reason)) in _CANCELLED
                case Action.LANE_HOLD:
                    await self.hold(ref, by=by, reason=reason)
                    return True
                case Action.LANE_RELEASE:
                    return await self.release(ref, by=by, reason=reason)
                case Action.LOCK_FORCE_RELEASE:
                    return await self.force_release(ref, by=by, reason=reason) is not None
                case Action.CLAIM_FORGET:
                    return await self.forget_claim(ref, by=by, reason=reason) is not None
                case _:
                    raise MisuseError(f"{action} cannot be applied to a filter here.", remedy="Pass change=….")

        return change

    # -- parts ---------------------------------------------------------------------------------------------------------

    async def _change(
        self,
        action: Action,
        key: str,
        attribution: Attribution,
        look: Callable[[], Awaitable[Mapping[str, Any] | None]],
        change: Callable[[], Awaitable[T | None]],
    ) -> T | None:
        """Make a change, with its entry in another store's journal if its own store has none."""
        if self._journal is None:
            done: T | None = await self._attempt(change)
            return done
        before = await self._attempt(look)
        if before is None:
            return None
        version = before.get("fence", before.get("version"))
        entry = NewEntry(attribution, action, action.subject_kind, key, json.dumps(before), None, version)
        await self._journal.add(entry)
        done = await self._attempt(change)
        if done is None:  # another process was faster; the entry cannot be taken back
            nothing = entry._replace(before=None, after=json.dumps({"changed": False}), from_version=None)
            await self._journal.add(nothing)
        return done

    async def _attempt(self, operation: Callable[[], Awaitable[Any]]) -> Any:
        return await (operation() if self._repeat is None else self._repeat(operation))


def _known(job: int, state: JobState | None) -> JobState:
    if state is None:
        raise unknown_job(job)
    return state


def unknown_job(job: int) -> NotFoundError:
    """Return the error for a job that does not exist."""
    return NotFoundError(
        f"Job {job} does not exist: it was never enqueued here, or is no longer kept.",
        remedy="List the jobs: interlock jobs list.",
    )


def unknown_event(event: int) -> NotFoundError:
    """Return the error for an event that does not exist."""
    return NotFoundError(
        f"Event {event} does not exist: it was never accepted here, or is no longer kept.",
        remedy="List the events: interlock events list.",
    )


def unknown_entry(entry: int) -> NotFoundError:
    """Return the error for a journal entry that does not exist."""
    return NotFoundError(f"The journal entry {entry} does not exist.", remedy="List them with: interlock journal list.")


def attributed(what: str, by: str, reason: str, *, optional: bool = False) -> Attribution:
    """Check actor and reason, and add the job that the caller runs in."""
    checked_reason(what, reason or "none given" if optional else reason, by)
    for lookup in _cause_lookups:
        cause = lookup()
        if cause is not None:
            return Attribution(by, reason, *cause)
    return Attribution(by, reason)
