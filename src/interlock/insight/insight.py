"""The read side: ``app.insight`` answers every question about what is waiting, running, held and failed.

Each answer is based on one snapshot of each store that it involves. Queries change nothing and block no writer.
"""

from __future__ import annotations

import json
import zlib
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from interlock.arguments import checked_key, checked_limit, checked_line_number, checked_prefix
from interlock.clock import SystemClock, as_text
from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.insight import claims as _claims
from interlock.insight import events as _events
from interlock.insight import jobs as _jobs
from interlock.insight import journal as _journal
from interlock.insight import limits as _limits
from interlock.insight import locks as _locks
from interlock.insight import overview as _overview
from interlock.insight import pipelines as _pipelines
from interlock.insight import records as _records
from interlock.insight import schedules as _schedules
from interlock.insight.activity import Recorder
from interlock.insight.job_logs import job_log as _job_log
from interlock.insight.journal_entry import JournalEntryPage, changes
from interlock.insight.stores import Stores
from interlock.insight.views import Listing
from interlock.operations import unknown_job
from interlock.ports.events import EventFilter
from interlock.ports.insight import LaneShow
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.ports.journal import JournalFilter
from interlock.ports.pipelines import RunFilter, RunState

if TYPE_CHECKING:
    from interlock.clock import Clock
    from interlock.explanation import Explanation
    from interlock.insight.job_rows import (
        JobLog,
        JobPage,
        JobRow,
        LanePage,
        LaneRow,
        QueuePage,
        QueueRow,
        WorkerPage,
        WorkerRow,
    )
    from interlock.insight.pipelines import RunPage, RunRow
    from interlock.insight.record_rows import DeclaredKind, RecordKindRow, RecordPage, RecordRow
    from interlock.insight.schedules import SchedulePage, ScheduleRow
    from interlock.insight.views import (
        Activity,
        ClaimPage,
        ClaimRow,
        EventPage,
        EventRow,
        LimitPage,
        LimitRow,
        LimitSetting,
        LockPage,
        LockRow,
        Overview,
    )
    from interlock.ports.claims import ClaimState
    from interlock.ports.journal import JournalEntry, JournalStatus
    from interlock.ports.store import Store
    from interlock.reasons import Reason

__all__ = ["Insight", "Kind"]

_PULSE = 5
"""Seconds that a pulse covers."""
_MAX_SPANS = 1000
_RUNS = 5
"""How many runs of pipelines the page of a record has."""
_MAX_DIGITS = 19


class Kind(StrEnum):
    """The kinds that can be explained."""

    JOB = "job"
    LANE = "lane"
    QUEUE = "queue"
    LOCK = "lock"
    LIMIT = "limit"
    CLAIM = "claim"
    EVENT = "event"
    SCHEDULE = "schedule"
    RECORD = "record"
    RUN = "run"
    JOURNAL = "journal"


_NEEDS = {Kind.LANE: "jobs", Kind.QUEUE: "jobs", Kind.SCHEDULE: "jobs", Kind.RUN: "records", Kind.JOURNAL: "journal"}
"""The concept that a kind belongs to, unless it is called like the kind."""


class Insight:
    """Queries about an app's stores, which have to be open. It has no session, and nothing to close.

    A query that a store does not support raises ``CapabilityError``; see :attr:`parts`. An unknown job, event or worker
    raises ``NotFoundError``; a key or a lane that is not in use is reported as such.
    """

    def __init__(
        self, store: Store, *, locks: Store | None = None, claims: Store | None = None, clock: Clock | None = None
    ) -> None:
        self._stores = Stores(store, locks or store, claims or store, clock or SystemClock())
        self._recorder = Recorder(self._stores)

    @property
    def parts(self) -> frozenset[str]:
        """The supported concepts: jobs, events, limits, locks, claims, journal, records."""
        return self._stores.parts

    # -- all of it -----------------------------------------------------------------------------------------------------

    async def overview(self) -> Overview:
        """An overview of everything, problems first."""
        async with self._stores.at("locks", "claims"):
            return await _overview.overview(self._stores)

    async def activity(self, seconds: float = 600.0, buckets: int = 60) -> Activity:
        """How many jobs were accepted, done and failed in each of ``buckets`` equal spans up to now."""
        self._stores.need("jobs")
        if not 1 <= buckets <= _MAX_SPANS or not 0.1 <= seconds / buckets <= 86_400:
            raise InvalidArgumentError(
                f"Invalid spans: {buckets!r} in {seconds!r} seconds.",
                remedy=f"Use 1 to {_MAX_SPANS:,} spans of 0.1 s to a day each.",
            )
        async with self._stores.at():
            return await self._recorder.activity(seconds / buckets, buckets)

    async def pulse(self) -> dict[str, Any]:
        """The few values that change all the time, as data, for live displays. Costs almost nothing.

        ``{"states": {state: count}, "running": n, "accepted": n, "done": n, "failed": n, "seconds": s,
        "problems": n, "version": text, "seen_at": iso}``; ``accepted``, ``done`` and ``failed`` are those of the last
        ``seconds``. ``version`` changes whenever a count or one of the figures has changed. Without jobs only
        ``locks`` (held and waiting), ``version`` and ``seen_at``.
        """
        async with self._stores.at("locks"):
            return await self._pulse()

    async def _pulse(self) -> dict[str, Any]:
        stores = self._stores
        locks = await stores.locks.locks.count()
        data: dict[str, Any] = {"locks": {"held": locks.held, "waiting": locks.waiting}}
        seen_at = locks.seen_at
        if stores.has_jobs:
            counts = await stores.store.insight.counts()
            workers = await stores.store.insight.workers(limit=100)
            lately = (await self._recorder.activity(1.0, _PULSE)).buckets
            data |= {
                "states": {str(state): counts.states.get(state, 0) for state in JobState},
                "running": counts.states.get(JobState.RUNNING, 0),
                "accepted": sum(bucket.accepted for bucket in lately),
                "done": sum(bucket.done for bucket in lately),
                "failed": sum(bucket.failed for bucket in lately),
                "seconds": float(_PULSE),
                "workers": len(workers),
                "problems": len(await _overview.problems(stores, counts, workers)),
            }
            seen_at = counts.seen_at
        version = f"{zlib.crc32(json.dumps(data, sort_keys=True).encode()):08x}"
        return {**data, "version": version, "seen_at": as_text(seen_at)}

    # -- jobs ----------------------------------------------------------------------------------------------------------

    async def jobs(
        self,
        filter: JobFilter | None = None,  # noqa: A002
        *,
        limit: int = 50,
        before: str | int | None = None,
    ) -> Listing[JobRow]:
        """Jobs, newest first by ID, each with its reason."""
        self._stores.need("jobs")
        wanted, number = _checked(filter or JobFilter()), _before(before)
        async with self._stores.at("locks"):
            return await _jobs.job_listing(self._stores, wanted, checked_limit(limit), number)

    async def job(self, id: int) -> JobPage:  # noqa: A002
        """One job in detail."""
        self._stores.need("jobs")
        async with self._stores.at("locks"):
            page = await _jobs.job_page(self._stores, _number(id))
            run = await _pipelines.run_of_job(self._stores, page.job)
            if run is None:
                return page
            why = await _pipelines.with_stage(self._stores, cast("Explanation[Reason]", page.explanation))
            return page._replace(run=run, why=why.why, explanation=why)

    async def job_log(self, id: int, *, after: int | None = 0, limit: int = 1000) -> JobLog:  # noqa: A002
        """A part of a job's log: the lines with numbers above ``after``, or the last ones for None.

        If the job had ended when this was read and ``more`` is false, nothing will be added to its log, unless a person
        retries the job.
        """
        self._stores.need("jobs")
        number = _number(id)
        after = None if after is None else checked_line_number(after)
        async with self._stores.at():
            found = await self._stores.store.insight.get(number)
            if found is None:
                raise unknown_job(number)
            return await _job_log(self._stores, found, after=after, limit=checked_limit(limit))

    async def queues(self) -> tuple[QueueRow, ...]:
        """All queues, with their jobs and workers."""
        self._stores.need("jobs")
        async with self._stores.at():
            return tuple(_overview.queue_rows(await self._stores.store.insight.counts()))

    async def queue(self, name: str, *, limit: int = 50) -> QueuePage:
        """One queue with its workers, and its newest unfinished jobs."""
        self._stores.need("jobs")
        async with self._stores.at("locks"):
            return await _overview.queue_page(self._stores, checked_key(name), checked_limit(limit))

    async def workers(self, *, limit: int = 100) -> Listing[WorkerRow]:
        """Live workers, and the queues that they serve."""
        self._stores.need("jobs")
        async with self._stores.at():
            found = await self._stores.store.insight.workers(limit=checked_limit(limit))
        return Listing(tuple(map(_jobs.worker_row, found)), None, self._stores.now())

    async def worker(self, session: str, *, limit: int = 100) -> WorkerPage:
        """One live worker and the jobs that it has."""
        self._stores.need("jobs")
        async with self._stores.at("locks"):
            return await _jobs.worker_page(self._stores, checked_key(session), checked_limit(limit))

    # -- lanes ---------------------------------------------------------------------------------------------------------

    async def lanes(self, *, show: str = "", limit: int = 50, after: str | None = None) -> Listing[LaneRow]:
        """Lanes by name, each with its reason.

        ``show`` is one of ``running``, ``fetched``, ``waiting`` (has jobs, none at a worker), ``held`` (by a person),
        ``parked`` (after a failure), or empty for all.
        """
        self._stores.need("jobs")
        if show not in set(LaneShow):
            raise InvalidArgumentError(
                f"Invalid show {show!r}.", remedy=f"Valid values: {', '.join(filter(None, LaneShow))}."
            )
        async with self._stores.at("locks"):
            return await _jobs.lane_listing(
                self._stores, LaneShow(show), checked_limit(limit), checked_prefix(after or "")
            )

    async def lane(self, name: str, *, limit: int = 50) -> LanePage:
        """One lane in detail, with its first jobs in order."""
        self._stores.need("jobs")
        async with self._stores.at("locks"):
            return await _jobs.lane_page(self._stores, checked_key(name), checked_limit(limit))

    # -- locks, limits, claims -----------------------------------------------------------------------------------------

    async def locks(self, *, limit: int = 50, after: str | None = None) -> Listing[LockRow]:
        """Keys with a holder or waiters, by name."""
        self._stores.need("locks")
        async with self._stores.at("locks"):
            return await _locks.lock_listing(self._stores, checked_limit(limit), checked_prefix(after or ""))

    async def lock(self, key: str, *, limit: int = 1000) -> LockPage:
        """The holder of a key, and its waiters in order."""
        self._stores.need("locks")
        async with self._stores.at("locks"):
            return await _locks.lock_page(self._stores, checked_key(key), checked_limit(limit))

    async def limit_settings(self) -> tuple[LimitSetting, ...]:
        """The figures of limits that people have set, by name."""
        self._stores.need("limits")
        overrides = await self._stores.overrides()
        return tuple(filter(None, map(_limits.setting_of, overrides.values())))

    async def limits(self, *, limit: int = 50, after: str | None = None) -> Listing[LimitRow]:
        """Limits in use, by key."""
        self._stores.need("limits")
        async with self._stores.at():
            return await _limits.limit_listing(self._stores, checked_limit(limit), checked_prefix(after or ""))

    async def limit(self, key: str, *, limit: int = 100) -> LimitPage:
        """The users of a limit, and its waiters in order."""
        self._stores.need("limits")
        async with self._stores.at():
            return await _limits.limit_page(self._stores, checked_key(key), checked_limit(limit))

    async def claims(
        self, *, prefix: str = "", state: ClaimState | None = None, limit: int = 50, after: str | None = None
    ) -> Listing[ClaimRow]:
        """Claims that are kept, by key."""
        self._stores.need("claims")
        where = (checked_prefix(prefix), state, checked_limit(limit), checked_prefix(after or ""))
        async with self._stores.at("claims"):
            return await _claims.claim_listing(self._stores, *where)

    async def claim(self, key: str) -> ClaimPage:
        """One claim in detail."""
        self._stores.need("claims")
        async with self._stores.at("claims"):
            return await _claims.claim_page(self._stores, checked_key(key))

    # -- events --------------------------------------------------------------------------------------------------------

    async def events(
        self,
        filter: EventFilter | None = None,  # noqa: A002
        *,
        limit: int = 50,
        before: str | int | None = None,
    ) -> Listing[EventRow]:
        """Events, newest first, each with the state of its jobs."""
        self._stores.need("events")
        wanted, number = EventFilter(*map(checked_prefix, filter or EventFilter())), _before(before)
        async with self._stores.at():
            return await _events.event_listing(self._stores, wanted, checked_limit(limit), number)

    async def event(self, id: int) -> EventPage:  # noqa: A002
        """One event with its payload, and the jobs that it caused."""
        self._stores.need("events")
        async with self._stores.at("locks"):
            return await _events.event_page(self._stores, _number(id))

    # -- schedules -----------------------------------------------------------------------------------------------------

    async def schedules(self, *, limit: int = 50, after: str | None = None) -> Listing[ScheduleRow]:
        """Schedules by name, each with why it fires or does not."""
        self._stores.need("jobs")
        async with self._stores.at():
            return await _schedules.schedule_listing(self._stores, checked_limit(limit), checked_prefix(after or ""))

    async def schedule(self, name: str) -> SchedulePage:
        """One schedule in detail: its next times in plain words, and its last firings with their jobs."""
        self._stores.need("jobs")
        async with self._stores.at():
            return await _schedules.schedule_page(self._stores, checked_key(name))

    # -- the journal ---------------------------------------------------------------------------------------------------

    async def journal(
        self,
        filter: JournalFilter | None = None,  # noqa: A002
        *,
        limit: int = 50,
        before: str | None = None,
    ) -> Listing[JournalEntry]:
        """List who changed what, when and why, newest first. ``filter`` narrows it by subject, actor, action or time.

        Entries of all stores of the app that have a journal are listed together.
        """
        self._stores.need("journal")
        wanted = filter or JournalFilter()
        if wanted.subject_key and not wanted.subject_kind:
            raise InvalidArgumentError(
                "A filter with a subject_key needs a subject_kind.",
                remedy=f"Valid values: {', '.join(_journal.SUBJECT_KINDS)}.",
            )
        for text in wanted[:4]:
            checked_prefix(text)
        stores = self._stores
        return await _journal.journal_listing(
            _journal.journals([stores.store, stores.locks, stores.claims]),
            wanted,
            checked_limit(limit),
            before or "",
            stores.now(),
        )

    async def journal_entry(self, id: int) -> JournalEntry | None:  # noqa: A002
        """Return one entry of the app's durable store, or None if it is not kept there."""
        self._stores.need("journal")
        return await self._stores.store.journal.get(_number(id))

    async def journal_page(self, id: int) -> JournalEntryPage:  # noqa: A002
        """Return one entry of the app's durable store, with the difference that the change made."""
        entry = await self.journal_entry(id)
        if entry is None:
            raise NotFoundError(f"There is no journal entry {id}.", remedy="It was never added here, or is pruned.")
        return JournalEntryPage(entry, *changes(entry), self._stores.seen(self._stores.now(), "journal"))

    async def journal_status(self) -> JournalStatus:
        """Return how far the journal of the app's durable store is sealed and verified."""
        self._stores.need("journal")
        return await self._stores.store.journal.status()

    # -- records -------------------------------------------------------------------------------------------------------

    async def record_kinds(self) -> Listing[RecordKindRow]:
        """The kinds that have records or were declared, by name, each with its counts by status."""
        self._stores.need("records")
        async with self._stores.at():
            return await _records.kind_rows(self._stores)

    async def record_kind(self, kind: str) -> DeclaredKind:
        """The newest declaration of a kind: its model, its machine and its strategies."""
        self._stores.need("records")
        async with self._stores.at():
            return await _records.record_machine(self._stores, checked_key(kind))

    async def records(
        self, kind: str, *, status: str = "", contains: str = "", limit: int = 50, after: str | None = None
    ) -> Listing[RecordRow]:
        """Records of a kind by ID, each with its reason. ``contains`` is a part of the ID."""
        self._stores.need("records")
        texts = (checked_key(kind), checked_prefix(status), checked_prefix(contains))
        async with self._stores.at():
            return await _records.record_listing(
                self._stores, *texts, checked_limit(limit), checked_prefix(after or "")
            )

    async def record(self, ref: str, *, limit: int = 20, before: str | None = None) -> RecordPage:
        """One record in detail, such as ``Intent/42``: its fields, versions, corrections, editor and machine.

        ``limit`` and ``before`` (``more`` of the page before) select the versions.
        """
        self._stores.need("records")
        which = _records.parse_ref(ref)
        async with self._stores.at():
            page = await _records.record_page(self._stores, which, checked_limit(limit), before or "")
            runs = await _pipelines.run_listing(self._stores, RunFilter("", *which), _RUNS, "")
            return page._replace(runs=runs.rows)

    # -- pipelines -----------------------------------------------------------------------------------------------------

    async def runs(
        self, *, pipeline: str = "", record: str = "", state: str = "", limit: int = 50, before: str | None = None
    ) -> Listing[RunRow]:
        """Runs of pipelines that have started, the last one first, each with its stages and its reason.

        ``record`` is called ``KIND/ID``; ``state`` is one of a run's own states, such as ``failed``.
        """
        self._stores.need("records")
        if state and state not in set(RunState):
            raise InvalidArgumentError(f"Invalid state {state!r}.", remedy=f"Valid values: {', '.join(RunState)}.")
        which = _records.parse_ref(record) if record else ("", "")
        wanted = RunFilter(checked_prefix(pipeline), *which, RunState(state) if state else None)
        async with self._stores.at("locks"):
            return await _pipelines.run_listing(self._stores, wanted, checked_limit(limit), before or "")

    async def run(self, id: int) -> RunPage:  # noqa: A002
        """One run in detail."""
        self._stores.need("records")
        async with self._stores.at("locks"):
            return await _pipelines.run_page(self._stores, _number(id))

    # -- why -----------------------------------------------------------------------------------------------------------

    async def explain(self, kind: Kind | str, ref: str | int = "") -> Explanation[Reason]:
        """Explain why something is as it is, and what to do: anything of a :class:`Kind`.

        A record is called ``KIND/ID``, and a run has the number of its job. The journal needs no ``ref``.
        """
        if kind not in set(Kind):
            raise InvalidArgumentError(f"A {kind!r} cannot be explained.", remedy=f"Valid values: {', '.join(Kind)}.")
        stores, what = self._stores, Kind(kind)
        stores.need(_NEEDS.get(what, f"{what}s"))
        async with stores.at("locks", "claims"):
            match what:
                case Kind.JOB:
                    return await _pipelines.with_stage(stores, await _jobs.explain_a_job(stores, _number(ref)))
                case Kind.LANE:
                    return await _jobs.explain_a_lane(stores, checked_key(ref))
                case Kind.QUEUE:
                    return _overview.explain_queue(await stores.store.insight.counts(), checked_key(ref))
                case Kind.LOCK:
                    return await _locks.explain_a_lock(stores, checked_key(ref))
                case Kind.LIMIT:
                    return await _limits.explain_a_limit(stores, checked_key(ref))
                case Kind.CLAIM:
                    return await _claims.explain_a_claim(stores, checked_key(ref))
                case Kind.EVENT:
                    return await _events.explain_an_event(stores, _number(ref))
                case Kind.SCHEDULE:
                    return await _schedules.explain_a_schedule(stores, checked_key(ref))
                case Kind.RECORD:
                    return await _records.explain_a_record(stores, _records.parse_ref(ref))
                case Kind.RUN:
                    return await _pipelines.explain_a_run(stores, _number(ref))
                case Kind.JOURNAL:
                    return _journal.explain_journal(await stores.store.journal.status(), stores.now())


def _checked(wanted: JobFilter) -> JobFilter:
    """Check a filter."""
    if unknown := set(wanted.states) - set(JobState):
        raise InvalidArgumentError(
            f"{unknown.pop()!r} is not a job state.", remedy=f"Valid values: {', '.join(JobState)}."
        )
    texts = map(checked_prefix, (wanted.name, wanted.queue, wanted.lane))
    return JobFilter(tuple(map(JobState, wanted.states)), *texts)


def _number(given: object) -> int:
    """Parse the ID of a job or an event, as in a URL."""
    text = str(given)
    digits = not isinstance(given, bool) and text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    if not digits or not 0 < int(text) < 2**63:
        raise InvalidArgumentError(f"{text[:40]!r} is not the ID of a job or an event.", remedy="Pass a whole number.")
    return int(text)


def _before(given: str | int | None) -> int | None:
    return None if given is None or given == "" else _number(given)
