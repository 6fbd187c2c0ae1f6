"""Bugs to plant in jobs, in the store and in the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.sqlite import job_acknowledge, job_fetch, job_finish, job_rows
from interlock.backends.sqlite.job_hooks import enqueue_hooks
from interlock.backends.sqlite.job_rows import JobRows
from interlock.backends.sqlite.jobs import SqliteJobs
from interlock.jobs.engine import JobEngine
from interlock.jobs.worker.completer import Completer
from interlock.jobs.worker.coordinator import Coordinator
from interlock.jobs.worker.runner import Runner
from interlock.jobs.worker.runner_pool import RunnerPool
from interlock.ports.jobs import Acknowledged, FetchResult, Outcome
from tests.simulation.planting import around, bugs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from interlock.ports.jobs import Acknowledgement, FetchRequest, NewJob

__all__ = ["BUGS"]

BUGS, _breaks = bugs()


# -- the store -----------------------------------------------------------------------------------------------------


@_breaks("acknowledged", "acknowledging does not check the fence")
def _(patch: pytest.MonkeyPatch) -> None:
    async def acknowledge(
        original: Any, self: Any, session: str, acknowledgements: Sequence[Acknowledgement]
    ) -> Acknowledged:
        def now(rows: JobRows) -> list[Acknowledgement]:
            found = rows.all("select id, fence from interlock_job_fetched")
            fences = {id: fence for id, fence in found}  # noqa: A001, C416
            return [one._replace(fence=fences.get(one.id, one.fence)) for one in acknowledgements]

        changed = await self._do(now)
        acknowledged: Acknowledged = await original(self, _session_of(self, changed, session), changed)
        return acknowledged

    around(patch, SqliteJobs, "acknowledge", acknowledge)


@_breaks("pause", "a fetch does not look for paused queues")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_rows.sql, "kinds", job_rows.sql.kinds.replace("where not exists", "where true or not exists"))


def _session_of(jobs: Any, acknowledgements: Sequence[Acknowledgement], session: str) -> str:
    """The session that has the first of them now."""
    return _holders.get(acknowledgements[0].id, session) if acknowledgements else session


_holders: dict[int, str] = {}


@_breaks("live", "jobs are taken from sessions that live")
def _(patch: pytest.MonkeyPatch) -> None:
    def rescue(original: Any, rows: JobRows, limit: int) -> Any:
        rows._values["now_s"] = float(rows._values["now_s"]) + 2.0
        return original(rows, limit)

    _around_function(patch, job_acknowledge, "rescue", rescue)


@_breaks("durable", "jobs of sessions that have ended are never taken from them")
def _(patch: pytest.MonkeyPatch) -> None:
    _around_function(patch, job_acknowledge, "rescue", lambda _original, _rows, _limit: [])


@_breaks("order", "a retry loses its place in the lane")
def _(patch: pytest.MonkeyPatch) -> None:
    def renew(original: Any, self: Any, fetch: Any, job: Any, **changes: Any) -> None:
        if "due_at" in changes and job.lane is not None:
            changes["position"] = None
        original(self, fetch, job, **changes)

    around(patch, job_acknowledge._Ending, "_renew", renew)


@_breaks("limits", "slots are never counted as taken")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_fetch, "add_uses", lambda _rows, _fetched: None)


@_breaks("limits", "starts do not count for a pace")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_fetch, "add_starts", lambda *_: None)


@_breaks("durable", "slots are not freed")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_acknowledge, "free", lambda _rows, _ended: set())


@_breaks("durable", "a free slot wakes nobody")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_acknowledge, "wake", lambda _rows, _keys: set())
    patch.setattr(job_fetch, "wake", lambda _rows, _keys: set())


@_breaks("durable", "a lane does not go on after its head")
def _(patch: pytest.MonkeyPatch) -> None:
    def advance(original: Any, self: JobRows, lanes: Any) -> None:
        if not any("a" in lane for lane in lanes):
            original(self, lanes)

    around(patch, JobRows, "advance_lanes", advance)


@_breaks("fence", "every fetch has the same fence")
def _(patch: pytest.MonkeyPatch) -> None:
    async def fetch(original: Any, self: Any, request: FetchRequest) -> Any:
        answer = await original(self, request)
        if isinstance(answer, FetchResult):
            return answer._replace(jobs=[job._replace(fence=1) for job in answer.jobs])
        return answer

    around(patch, SqliteJobs, "fetch", fetch)


@_breaks("exclusive", "a worker hands back what it runs")
def _(patch: pytest.MonkeyPatch) -> None:
    async def return_unstarted(
        original: Any, self: Any, session: str, but: Sequence[int] = (), **fetch_number: Any
    ) -> int:
        count: int = await original(self, session, (), **fetch_number)
        return count

    around(patch, SqliteJobs, "return_unstarted", return_unstarted)


@_breaks("suspects", "a session forgets which half it has")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_fetch.sql, "half_of_session", "select null where :namespace is null and :session is null")


@_breaks("suspects", "a crash counts for every job that was there")
def _(patch: pytest.MonkeyPatch) -> None:
    def take(original: Any, self: Any, fetch: Any, job: Any, half: int, **_: Any) -> Any:
        return original(self, fetch, job, half, alone=True)

    around(patch, job_acknowledge._Ending, "take", take)


@_breaks("hooks", "only jobs that are done have hooks")
def _(patch: pytest.MonkeyPatch) -> None:
    def only_done(original: Any, rows: JobRows, ids: Sequence[int]) -> None:
        done = {id for (id,) in rows.all("select id from interlock_job_history where state = 'done'")}  # noqa: A001
        original(rows, [number for number in ids if number in done])

    _around_function(patch, job_finish, "enqueue_hooks", only_done)


@_breaks("hooks", "an acknowledgement that is repeated enqueues the hooks again")
def _(patch: pytest.MonkeyPatch) -> None:
    def again(original: Any, rows: JobRows, acknowledgements: Any, late: list[int], accepted: list[bool]) -> None:
        original(rows, acknowledgements, late, accepted)
        enqueue_hooks(rows, [acknowledgements[at].id for at in late if accepted[at]])

    _around_function(patch, job_acknowledge, "_accept_repeated", again)


@_breaks("follow-ups", "follow-ups do not wait for the answer to the acknowledgement")
def _(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(original: Any, rows: JobRows, session: str, given: Sequence[Acknowledgement]) -> Acknowledged:
        jobs = [job for one in given for job in one.follow_ups]
        acknowledged: Acknowledged = original(rows, session, [one._replace(follow_ups=()) for one in given])
        if jobs:
            job_acknowledge.enqueue(rows, jobs, again=True)
        return acknowledged

    _around_function(patch, job_acknowledge, "acknowledge", acknowledge)


# -- the worker ----------------------------------------------------------------------------------------------------


@_breaks("follow-ups", "follow-ups are sent after the acknowledgement")
def _(patch: pytest.MonkeyPatch) -> None:
    async def send(original: Any, self: Any, session_batch: Any, batch: Sequence[Acknowledgement], jobs: Any) -> bool:
        following = [job for one in batch for job in one.follow_ups]
        ready: bool = await original(self, session_batch, [one._replace(follow_ups=()) for one in batch], jobs)
        if following:
            ids = await self._engine.follow_up_ids(len(following))
            await self._jobs.enqueue([job._replace(id=number) for job, number in zip(following, ids, strict=True)])
        return ready

    around(patch, Completer, "_acknowledge", send)


@_breaks("follow-ups", "a handler that fails keeps its follow-ups for the next attempt")
def _(patch: pytest.MonkeyPatch) -> None:
    kept: dict[int, list[Any]] = {}

    def done(original: Any, self: Any, job: Any, *about: Any) -> Any:
        self._current.follow_ups = [*kept.pop(job.id, ()), *(self._current.follow_ups or ())] or None
        return original(self, job, *about)

    def ended(original: Any, self: Any, job: Any, session_batch: Any, value: Any, error: Any) -> Any:
        if error is not None and (follow_ups := getattr(self, "_current", None) and self._current.follow_ups):
            kept.setdefault(job.id, []).extend(follow_ups)
        return original(self, job, session_batch, value, error)

    around(patch, Runner, "_done", done)
    around(patch, Runner, "_ended", ended)


@_breaks("durable", "a fetch whose answer was lost is forgotten")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordinator, "doubt", lambda _self: None)


@_breaks("durable", "an enqueue whose answer was lost gets other ids")
def _(patch: pytest.MonkeyPatch) -> None:
    async def again(_original: Any, self: Any, jobs: Sequence[NewJob], started: float) -> Any:
        ids = await self._ids.take(len(jobs))
        return await self.jobs.enqueue([job._replace(id=number) for job, number in zip(jobs, ids, strict=True)])

    around(patch, JobEngine, "_enqueue_again", again)


@_breaks("order", "the next job of a run does not wait for the store")
def _(patch: pytest.MonkeyPatch) -> None:
    def add(original: Any, self: Any, session_batch: Any, acknowledgement: Acknowledgement, job: Any) -> None:
        original(self, session_batch, acknowledgement, job)
        if acknowledgement.outcome is not Outcome.RETURNED:
            self._release(session_batch, [acknowledgement], [True])

    around(patch, Completer, "add", add)


@_breaks("exclusive", "hand-backs that come late return what was fetched since")
def _(patch: pytest.MonkeyPatch) -> None:
    async def return_unstarted(
        original: Any, self: Any, session: str, but: Sequence[int] = (), **fetch_number: Any
    ) -> int:
        count: int = await original(self, session, but)
        return count

    around(patch, SqliteJobs, "return_unstarted", return_unstarted)


@_breaks("live", "handlers run on when the session is lost")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, RunnerPool, "_drop", lambda _original, self, _session: self.buffer.empty())


@_breaks("live", "a worker starts what it fetched under a session that is over")
def _(patch: pytest.MonkeyPatch) -> None:
    def start(original: Any, self: Any, job: Any, session_batch: Any) -> Any:
        session = session_batch.session
        lost, deadline = session.lost, session.deadline
        session.lost, session.deadline = False, float("inf")
        try:
            return original(self, job, session_batch)
        finally:
            session.lost, session.deadline = lost, deadline

    around(patch, Runner, "_start", start)
    around(patch, RunnerPool, "_drop", lambda _original, _self, _session: None)


def _around_function(patch: pytest.MonkeyPatch, module: Any, name: str, replacement: Any) -> None:
    original = getattr(module, name)
    patch.setattr(module, name, lambda *args: replacement(original, *args))
