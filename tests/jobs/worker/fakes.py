"""A store for jobs that tests hold in their hands: what it does can be delayed, refused, or answered to nobody."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from interlock.backends.memory.messages import MemoryMessages
from interlock.backends.memory.sessions import MemorySessions
from interlock.clock import SystemClock
from interlock.errors import StoreUnavailableError
from interlock.jobs.definition import Definition
from interlock.jobs.engine import JobEngine
from interlock.jobs.options import JobOptions
from interlock.jobs.worker import Worker
from interlock.ports.jobs import Acknowledged, Acknowledgement, FetchedJob, FetchResult, Outcome, Rescued, SessionEnded
from interlock.settings import Settings
from interlock.store_client import StoreClient
from interlock.testing.clock import until
from interlock.testing.simulator import SeededLoop, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from interlock.clock import Clock
    from interlock.ports.job_logs import JobReport, LogBounds
    from interlock.ports.jobs import FetchRequest
    from interlock.sessions import Session

SETTINGS = Settings(stuck_work="report", store_wait=1.0, recheck_interval=30.0)
_END_WITHIN = 10.0


class FakeJobs:
    """As much of the port as a worker uses. Every operation is noted in ``calls`` when it takes effect.

    ``gates[name]`` holds an operation up before it takes effect, ``answers[name]`` after that. ``away`` refuses all;
    ``lose[name]`` counts down the answers to be lost; ``mishaps[name]`` holds errors to raise instead of acting.
    It gives at most ``limit`` jobs; if it is ``generous``, up to so many whatever was asked for, and whole lanes.
    """

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions
        self._position = 0
        self._fence = 0
        self._listeners: list[Callable[[], None]] = []
        self.ready: dict[int, FetchedJob] = {}
        self.fetched: dict[int, tuple[str, FetchedJob]] = {}
        self.ended: dict[int, Acknowledgement] = {}
        self.one_ended = asyncio.Event()
        self.cancelling: dict[int, str] = {}
        self.acknowledged: list[Acknowledgement] = []
        self.refused: list[Acknowledgement] = []
        self.calls: list[tuple[Any, ...]] = []
        self.fetch_numbers: dict[int, int] = {}
        self.barred = -1
        self.appetites: list[FetchRequest] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.answers: dict[str, asyncio.Event] = {}
        self.lose: defaultdict[str, int] = defaultdict(int)
        self.mishaps: defaultdict[str, list[Exception]] = defaultdict(list)
        self.under_way: defaultdict[str, int] = defaultdict(int)
        self.away = False
        self.recheck_in = math.inf
        self.silent = False
        self.limit = 10_000
        self.any_name = False
        self.generous = False
        self.only_at_once = False
        self.pruned: list[float] = []
        self.rescued: list[Sequence[Rescued]] = []
        self.reports: dict[tuple[int, int], list[JobReport]] = {}

    # -- for tests -----------------------------------------------------------------------------------------------------

    def add(self, name: str = "work", lane: str = "", arguments: str = "{}", **changes: Any) -> int:
        self._position += 1
        now = time.time()
        job = FetchedJob(self._position, name, "default", lane, 0, 1, 0, None, 50, now, now, arguments, "", ())
        self.ready[job.id] = job._replace(**changes)
        return job.id

    def add_many(self, count: int, name: str = "work", lane: str = "", **changes: Any) -> list[int]:
        return [self.add(name, lane, **changes) for _ in range(count)]

    def tell(self) -> None:
        for call in list(self._listeners):
            call()

    def gate(self, name: str) -> asyncio.Event:
        event = self.gates[name] = asyncio.Event()
        return event

    def answer(self, name: str) -> asyncio.Event:
        event = self.answers[name] = asyncio.Event()
        return event

    def outcomes(self, *ids: int) -> list[str]:
        """How these ended, or what was last said of them."""
        last = {acknowledgement.id: acknowledgement.outcome.value for acknowledgement in self.acknowledged}
        return [last.get(job, "nothing") for job in ids]

    def called(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == name]

    # -- the port ------------------------------------------------------------------------------------------------------

    async def _enter(self, name: str) -> None:
        self.under_way[name] += 1
        if name in self.gates:
            await self.gates[name].wait()
        else:
            await asyncio.sleep(0)
        if self.mishaps[name]:
            raise self.mishaps[name].pop(0)
        if self.away:
            raise StoreUnavailableError

    async def _leave(self, name: str) -> None:
        if name in self.answers:
            await self.answers[name].wait()
        if self.lose[name]:
            self.lose[name] -= 1
            raise StoreUnavailableError
        if self.away:
            raise StoreUnavailableError

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        try:
            await self._enter("fetch")
            self.appetites.append(request)
            if self._sessions.alive_until.get(request.session, 0.0) == 0.0:
                return SessionEnded()
            jobs = self._give(request)
            self.calls.append(("fetch", request.session, [job.id for job in jobs]))
            await self._leave("fetch")
            return FetchResult(jobs, self.recheck_in)
        finally:
            self.under_way["fetch"] -= 1

    def _give(self, request: FetchRequest) -> list[FetchedJob]:
        if request.fetch_number <= self.barred:
            return []
        self._fence += 1
        busy = {job.lane for _, job in self.fetched.values() if job.lane}
        runs: dict[Any, list[FetchedJob]] = {}
        for job in sorted(self.ready.values(), key=lambda job: job.id):
            if (self.any_name or job.name in request.names) and job.lane not in busy:
                run = runs.setdefault(job.lane or job.id, [])
                if len(run) < request.run or self.generous:
                    run.append(job)
        given: list[FetchedJob] = []
        limit = self.limit if self.generous else min(request.limit, self.limit)
        if self.only_at_once:
            limit = min(limit, request.at_once)
        for run in runs.values():
            given += run[: max(0, limit - len(given))]
        for index, job in enumerate(given):
            given[index] = job = job._replace(fence=self._fence)
            del self.ready[job.id]
            self.fetched[job.id] = (request.session, job)
            self.fetch_numbers[job.id] = request.fetch_number
        return given

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        try:
            await self._enter("acknowledge")
            accepted = [self._acknowledge(session, acknowledgement) for acknowledgement in acknowledgements]
            self.calls.append(("acknowledge", session, [acknowledgement.id for acknowledgement in acknowledgements]))
            await self._leave("acknowledge")
            return Acknowledged(accepted, bool(self.ready) and not self.silent)
        finally:
            self.under_way["acknowledge"] -= 1

    def _acknowledge(self, session: str, acknowledgement: Acknowledgement) -> bool:
        owner, job = self.fetched.get(acknowledgement.id, ("", None))
        if job is None or owner != session or job.fence != acknowledgement.fence:
            if acknowledgement in self.acknowledged:
                return True
            self.refused.append(acknowledgement)
            return False
        del self.fetched[acknowledgement.id]
        self.acknowledged.append(acknowledgement)
        if acknowledgement.outcome is Outcome.RETURNED or (
            acknowledgement.outcome is Outcome.SNOOZED and not acknowledgement.delay
        ):
            self.ready[job.id] = job
        elif acknowledgement.outcome not in (Outcome.RETRY, Outcome.SNOOZED):
            self.ended[job.id] = acknowledgement
            self.one_ended.set()
        return True

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        try:
            await self._enter("return_unstarted")
            self.barred = max(self.barred, fetch_number or 0)
            back = [job for owner, job in self.fetched.values() if owner == session and job.id not in but]
            back = [job for job in back if fetch_number is None or self.fetch_numbers[job.id] <= fetch_number]
            for job in back:
                del self.fetched[job.id]
                self.ready[job.id] = job
            self.calls.append(("return_unstarted", session, sorted(but), [job.id for job in back]))
            await self._leave("return_unstarted")
            return len(back)
        finally:
            self.under_way["return_unstarted"] -= 1

    async def rescue(self, *, limit: int = 1000) -> Sequence[Rescued]:
        await self._enter("rescue")
        self.calls.append(("rescue",))
        return self.rescued.pop(0) if self.rescued else []

    async def prune(self, keep_history: float, *, limit: int = 10_000) -> int:
        await self._enter("prune")
        self.pruned.append(keep_history)
        return 0

    async def vacuum(self) -> float:
        await self._enter("vacuum")
        return math.inf

    async def register_worker(
        self,
        session: str,
        queues: Sequence[str],
        names: Sequence[str],
        runners: int,
        reads: Sequence[Any] = (),
        queue_runners: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        await self._enter("register_worker")
        self.calls.append(("register_worker", session, tuple(queues), tuple(names), runners))

    async def report_started(self, session: str, started: Sequence[tuple[int, int]]) -> None:
        await self._enter("report_started")
        self.calls.append(("report_started", session, sorted(job for job, _ in started)))

    async def append_logs(self, reports: Sequence[JobReport], bounds: LogBounds) -> Sequence[bool]:
        try:
            await self._enter("append_logs")
            self.calls.append(("append_logs", [report.id for report in reports]))
            answers = [self._append(report) for report in reports]
            await self._leave("append_logs")
            return answers
        finally:
            self.under_way["append_logs"] -= 1

    def _append(self, report: JobReport) -> bool:
        _, job = self.fetched.get(report.id, ("", None))
        if job is None or job.fence != report.fence:
            return False
        known = self.reports.setdefault((report.id, report.fence), [])
        if len(known) < report.number:
            known.append(report)
        return True

    def log_of(self, job: int) -> list[str]:
        """The lines that were appended for a job."""
        return [
            line.text
            for (id, _), reports in self.reports.items()  # noqa: A001
            if id == job
            for report in reports
            for chunk in report.chunks
            for line in chunk.lines
        ]

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(call)
        return lambda: self._listeners.remove(call)


class FakeStore:
    """A store with nothing but sessions, messages and jobs."""

    name = "fake"
    migrations = None
    capabilities = frozenset[Any]()

    def __init__(self, clock: Clock) -> None:
        self.sessions = MemorySessions(clock)
        self.messages = MemoryMessages()
        self.jobs = FakeJobs(self.sessions)
        self.insight = None

    def lifeline(self) -> None: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...


class Floor:
    """Where workers work: an engine on such a store."""

    def __init__(self, engine: JobEngine, store: FakeStore) -> None:
        self.engine = engine
        self.store = store
        self.jobs = store.jobs

    @property
    def session(self) -> Session:
        return self.engine.session

    def job(self, function: Callable[..., Any], name: str = "work", **options: Any) -> None:
        """Define a job."""
        self.engine.definitions[name] = Definition(function, JobOptions.of(options), name=name)

    def worker(self, concurrency: int = 5, **options: Any) -> Worker:
        return Worker(self.engine, concurrency=concurrency, **options)

    @asynccontextmanager
    async def at_work(self, worker: Worker | None = None) -> AsyncIterator[Worker]:
        """A worker that is stopped in the end, whatever it runs."""
        worker = worker or self.worker()
        worker.open()
        try:
            yield worker
        finally:
            await worker.stop()

    def lose_session(self) -> Session:
        """The heartbeat says that the session is lost."""
        session = self.session
        session.lost = True
        self.engine.session_lost(session)
        return session

    def taken(self, job: int, why: str, fence: int | None = None) -> None:
        """The store tells of the fetch of a job that is in force, or of another one, that somebody wants it back."""
        session, fetched = self.jobs.fetched.get(job, (self.session.id, None))
        told = fetched.fence if fence is None and fetched is not None else fence or 0
        self.engine.taken(f"{session}.{told}.j{job}", why)

    async def until_ended(self, *ids: int) -> None:
        """Wait for jobs, and fail if for a while none ends."""
        while left := set(ids) - self.jobs.ended.keys():
            self.jobs.one_ended.clear()
            try:
                async with asyncio.timeout(_END_WITHIN):
                    await self.jobs.one_ended.wait()
            except TimeoutError:
                raise AssertionError(f"no job ended within {_END_WITHIN} s: {left} are left") from None

    async def until_said(self, *ids: int) -> None:
        await until(lambda: "nothing" not in self.jobs.outcomes(*ids), what=f"something was said of {ids}")


def simulate(scenario: Callable[[Floor], Awaitable[None]]) -> None:
    """Run a scenario on a seeded loop, where the clock moves only when nothing is ready."""
    loop = SeededLoop(1)

    async def main() -> None:
        async with floor(VirtualClock(loop)) as place:
            await scenario(place)

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


@asynccontextmanager
async def floor(clock: Clock | None = None, settings: Settings = SETTINGS) -> AsyncIterator[Floor]:
    store = FakeStore(clock or SystemClock())
    engine = JobEngine(StoreClient(store, settings, clock), {})  # type: ignore[arg-type]
    await engine.open()
    try:
        yield Floor(engine, store)
    finally:
        await engine.close()
