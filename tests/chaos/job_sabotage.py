"""Ways to break what jobs promise, to prove that the checker notices: they stand between library and store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.ports.jobs import Acknowledged, FetchResult, OnFailure, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.jobs import Acknowledgement, FetchedJob, FetchRequest, NewJob, SessionEnded
    from interlock.ports.limits import Use

__all__ = ["HOW", "sabotage"]

HOW = {
    "loses what it accepts": "lost",
    "acknowledges and forgets": "never finished",
    "forgets what is done": "run after its end",
    "failed is done": "ended otherwise than its handler said",
    "stores twice": "enqueued twice",
    "gives one job to two": "run by two at once",
    "falling fences": "fences going back",
    "anybody acknowledges": "double acknowledgements",
    "refuses the holder": "acknowledgements refused to the holder",
    "last in, first out": "order inversions",
    "gives up its place": "order inversions",
    "no lanes": "overlaps in a lane",
    "one too many": "too many at once",
    "no pace": "too many in a span",
    "cries crash": "crashes without a cause",
}
"""By the way to break a promise: the violation that has to be found."""

_HIGH = 10**15


def sabotage(store: Any, how: str) -> None:
    """Break a store's jobs as named; "" breaks nothing. A store that several share is broken once."""
    if how and not hasattr(store.jobs, "sabotaged"):
        store.jobs.sabotaged = how
        Saboteur(store.jobs, store.insight).begin(how)


class Saboteur:
    """Breaks one store."""

    def __init__(self, jobs: Any, insight: Any) -> None:
        self._jobs = jobs
        self._ids = jobs.ids
        self._enqueue = jobs.enqueue
        self._fetch = jobs.fetch
        self._acknowledge = jobs.acknowledge
        self._insight = insight
        self._list = insight.jobs
        self._count = 0
        self._forgotten: set[int] = set()
        self._invented: set[tuple[int, int]] = set()

    def begin(self, how: str) -> None:
        """Break the promise from now on."""
        for wrong, port, method in (
            (self._wrong_jobs, self._jobs, "enqueue"),
            (self._wrong_batch, self._jobs, "fetch"),
            (self._wrong_acknowledging, self._jobs, "acknowledge"),
            (self._wrong_views, self._insight, "jobs"),
        ):
            if method in _STEPS[how]:
                setattr(port, method, wrong(how))

    def _now_and_then(self, every: int) -> bool:
        self._count += 1
        return self._count % every == 0

    def _wrong_jobs(self, how: str) -> Any:
        async def enqueue(jobs: Sequence[NewJob], *, again: bool = False) -> Any:
            jobs = list(jobs)
            if how == "loses what it accepts" and self._now_and_then(10):
                jobs.pop()
            elif how == "stores twice" and self._now_and_then(10):
                (new,) = await self._ids(1)
                jobs.append(jobs[0]._replace(id=new))
            elif how == "last in, first out":
                jobs.reverse()
            elif how == "gives up its place":
                jobs = [job._replace(on_failure=OnFailure.SKIP) for job in jobs]
            elif how == "no lanes":
                jobs = [job._replace(lane="") for job in jobs]
            elif how == "one too many":
                jobs = [job._replace(uses=tuple(_one_more(use) for use in job.uses)) for job in jobs]
            elif how == "no pace":
                jobs = [job._replace(uses=tuple(use for use in job.uses if not use.per)) for job in jobs]
            return await self._enqueue(jobs, again=again)

        return enqueue

    def _wrong_batch(self, how: str) -> Any:
        async def fetch(request: FetchRequest) -> FetchResult | SessionEnded:
            batch = await self._fetch(request)
            jobs: list[FetchedJob] = list(batch.jobs) if isinstance(batch, FetchResult) else []
            if not jobs:
                return batch  # type: ignore[no-any-return]
            if how == "falling fences":
                jobs = [job._replace(fence=_HIGH - job.fence) for job in jobs]
            elif how == "gives one job to two" and self._now_and_then(3):
                jobs.append(jobs[0]._replace(lane=""))
            elif how == "anybody acknowledges" and self._now_and_then(3):
                invented = jobs[0].fence + _HIGH  # no fence that the store may come to
                self._invented.add((jobs[0].id, invented))
                jobs.append(jobs[0]._replace(fence=invented, lane=""))
            return batch._replace(jobs=jobs)  # type: ignore[no-any-return]

        return fetch

    def _wrong_acknowledging(self, how: str) -> Any:
        async def acknowledge(session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
            if how == "falling fences":
                return await self._acknowledge(
                    session, [one._replace(fence=_HIGH - one.fence) for one in acknowledgements]
                )  # type: ignore[no-any-return]
            done = {one.id for one in acknowledgements if one.outcome is Outcome.DONE}
            if how == "forgets what is done":
                forget = {id_ for id_ in done - self._forgotten if self._now_and_then(10)}
                self._forgotten |= forget
                acknowledgements = [_again(one) if one.id in forget else one for one in acknowledgements]
            elif how == "failed is done":
                acknowledgements = [_done(one) if one.outcome is Outcome.RETRY else one for one in acknowledgements]
            elif how == "acknowledges and forgets":
                ignored = {id_ for id_ in done if self._now_and_then(50)}
                return await self._partly(session, acknowledgements, lambda one: one.id in ignored)
            elif how == "anybody acknowledges":
                return await self._partly(session, acknowledgements, lambda one: (one.id, one.fence) in self._invented)
            acknowledged = await self._acknowledge(session, acknowledgements)
            if how == "refuses the holder" and self._now_and_then(3):
                return acknowledged._replace(accepted=[False] * len(acknowledgements))  # type: ignore[no-any-return]
            return acknowledged  # type: ignore[no-any-return]

        return acknowledge

    async def _partly(
        self, session: str, acknowledgements: Sequence[Acknowledgement], without: Callable[[Acknowledgement], bool]
    ) -> Acknowledged:
        """Acknowledge some, and say yes to all."""
        acknowledged = await self._acknowledge(session, [one for one in acknowledgements if not without(one)])
        return Acknowledged([True] * len(acknowledgements), acknowledged.ready)

    def _wrong_views(self, how: str) -> Any:
        async def jobs(*args: Any, **more: Any) -> Any:
            found = await self._list(*args, **more)
            if how != "cries crash":
                return found
            wrong = [one._replace(job=one.job._replace(crashes=2)) for one in found.situations]
            return found._replace(situations=wrong)

        return jobs


_STEPS = {
    "loses what it accepts": {"enqueue"},
    "acknowledges and forgets": {"acknowledge"},
    "forgets what is done": {"acknowledge"},
    "failed is done": {"acknowledge"},
    "stores twice": {"enqueue"},
    "gives one job to two": {"fetch"},
    "falling fences": {"fetch", "acknowledge"},
    "anybody acknowledges": {"fetch", "acknowledge"},
    "refuses the holder": {"acknowledge"},
    "last in, first out": {"enqueue"},
    "gives up its place": {"enqueue"},
    "no lanes": {"enqueue"},
    "one too many": {"enqueue"},
    "no pace": {"enqueue"},
    "cries crash": {"jobs"},
}


def _one_more(use: Use) -> Use:
    return use if use.per else use._replace(max_count=use.max_count + 1)


def _again(one: Acknowledgement) -> Acknowledgement:
    return one._replace(outcome=Outcome.SNOOZED, delay=0.0)


def _done(one: Acknowledgement) -> Acknowledgement:
    return one._replace(outcome=Outcome.DONE, error="", trace="")
