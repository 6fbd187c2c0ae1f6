"""The operations that meet."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import MisuseError
from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, IfFailed, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import new_job
from tests.interleaving.scenes import LANE, LAST_FENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.ports.jobs import FetchedJob
    from interlock.ports.store import Store
    from tests.interleaving.scenes import Scene

__all__ = ["ACTS", "LONG", "MINOR", "Side", "possible"]


_OTHER = {"a": "b", "b": "a"}


class Side(NamedTuple):
    """Who does something, and with which of the ids that nobody has used."""

    store: Store
    session: str
    scene: Scene
    new_id: int


async def _fetch(side: Side) -> Sequence[FetchedJob]:
    batch = await side.store.jobs.fetch(FetchRequest(side.session, ("q",), ("n",), 10, 10, 5, side.scene.lab.turn))
    assert isinstance(batch, FetchResult)
    return batch.jobs


async def _work(side: Side) -> None:
    ends = [Acknowledgement(job.id, job.fence, Outcome.DONE) for job in await _fetch(side)]
    await side.store.jobs.acknowledge(side.session, ends)


def _acknowledge(outcome: Outcome, **how: Any) -> Callable[[Side], Awaitable[object]]:
    """End the first of the run so; the others did not start."""

    async def acknowledge(side: Side) -> None:
        first, *others = side.scene.run
        rest = Outcome.DONE if outcome is Outcome.DONE else Outcome.RETURNED
        ends = [Acknowledgement(first.id, first.fence, outcome, **how)]
        ends += [Acknowledgement(job.id, job.fence, rest) for job in others]
        await side.store.jobs.acknowledge(side.scene.worker, ends)

    return acknowledge


async def _acknowledge_part(side: Side) -> None:
    first = side.scene.run[0]
    await side.store.jobs.acknowledge(side.scene.worker, [Acknowledgement(first.id, first.fence, Outcome.DONE)])


async def _enqueue(side: Side, *, again: bool = False) -> None:
    with suppress(MisuseError):  # if the other side has sent it again
        await side.store.jobs.enqueue([new_job(side.new_id, lane=LANE, **side.scene.like)], again=again)
    side.scene.accepted.append(side.new_id)


def _then(*acts: Callable[[Side], Awaitable[object]]) -> Callable[[Side], Awaitable[object]]:
    """One after the other, each a transaction."""

    async def one_after_the_other(side: Side) -> None:
        for act in acts:
            await act(side)

    return one_after_the_other


async def _enqueue_after(side: Side) -> None:
    """Accept a job that waits for the first one of the run, whatever becomes of it."""
    after = (side.scene.run[0].id,)
    await side.store.jobs.enqueue([new_job(side.new_id, after=after, if_failed=IfFailed.RUN)])
    side.scene.accepted.append(side.new_id)


async def _enqueue_again(side: Side) -> None:
    await _enqueue(side, again=True)


def _cancel(kind: str) -> Callable[[Side], Awaitable[object]]:
    return lambda side: side.store.jobs.cancel(side.scene.of[kind], Attribution("ann", "why"))


def _retry(kind: str) -> Callable[[Side], Awaitable[object]]:
    def retry(side: Side) -> Awaitable[object]:
        side.scene.in_order = [job_id for job_id in side.scene.in_order if job_id != side.scene.of[kind]]
        return side.store.jobs.retry(side.scene.of[kind], Attribution("ann"))

    return retry


async def _pause(side: Side) -> None:
    await side.store.jobs.pause("q", Attribution("ann", "why"))
    ((fence,),) = await side.store.jobs._operations.fetch(LAST_FENCE)  # type: ignore[attr-defined]
    side.scene.paused_at = fence


ACTS: dict[str, Callable[[Side], Awaitable[object]]] = {
    "fetch": _fetch,
    "fetch as the other": lambda side: _fetch(side._replace(session=_OTHER[side.session])),
    "fetch and work": _work,
    "done": _acknowledge(Outcome.DONE),
    "done and fetch": _then(_acknowledge(Outcome.DONE), _fetch),
    "done in part": _acknowledge_part,
    "fail": _acknowledge(Outcome.FAILED, error="no"),
    "retry later": _acknowledge(Outcome.RETRY, delay=30.0),
    "retry now": _acknowledge(Outcome.RETRY),
    "snooze": _acknowledge(Outcome.SNOOZED, delay=30.0),
    "park": _acknowledge(Outcome.PARKED, error="no"),
    "hand back": lambda side: side.store.jobs.return_unstarted(side.scene.worker),
    "give up the fetch": lambda side: side.store.jobs.return_unstarted(
        _OTHER[side.session], fetch_number=side.scene.lab.turn
    ),
    "rescue": lambda side: side.store.jobs.rescue(),
    "cancel running": lambda side: side.store.jobs.cancel(side.scene.run[0].id, Attribution("ann", "why")),
    "cancel behind": _cancel("behind"),
    "cancel scheduled": _cancel("scheduled"),
    "cancel waiting": _cancel("waiting"),
    "cancel parked": _cancel("parked"),
    "cancel blocked": _cancel("blocked"),
    "retry scheduled by hand": _retry("scheduled"),
    "retry failed by hand": _retry("failed"),
    "retry parked by hand": _retry("parked"),
    "retry blocked by hand": _retry("blocked"),
    "hold": lambda side: side.store.jobs.hold(LANE, Attribution("ann", "why")),
    "release": lambda side: side.store.jobs.release(LANE, ANN),
    "pause": _pause,
    "enqueue": _enqueue,
    "enqueue and fetch": _then(_enqueue, _fetch),
    "enqueue again": _enqueue_again,
    "enqueue after it": _enqueue_after,
    "enqueue after it and fetch": _then(_enqueue_after, _fetch),
    "enqueue again and work": _then(_enqueue_again, _work),
    "await": lambda side: side.store.jobs.watch_end(side.session, side.scene.accepted),
    "sweep": lambda side: side.store.sessions.sweep(),
}
LONG = frozenset(
    {"enqueue after it and fetch", "fetch and work", "done and fetch", "enqueue and fetch", "enqueue again and work"}
)
"""Those of several transactions, which come while another one stands still."""
MINOR = frozenset({"fetch as the other", "snooze", "park", "retry now", "await", "sweep"})
"""Those that differ little from others, or do little."""
_OF_RUNS = (
    *("done", "done and fetch", "fail", "retry later", "retry now", "snooze", "park"),
    *("hand back", "rescue", "cancel running", "enqueue after it", "enqueue after it and fetch"),
)


def possible(act: str, scene: Scene) -> bool:
    """Whether the scene has what the operation is about."""
    if act in _OF_RUNS:
        return bool(scene.run)
    if act == "done in part":
        return len(scene.run) > 1
    if act == "fetch as the other":
        return scene.suspects
    if act == "release":
        return scene.stopped
    if act.startswith("cancel "):
        return act.removeprefix("cancel ") in scene.of
    if act.endswith(" by hand"):
        return act.split(" ")[1] in scene.of
    return True
