"""The operations that meet."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import MisuseError
from interlock.ports.jobs import Appetite, Batch, Outcome, Settlement
from interlock.testing.conformance.jobs.bench import new_job
from tests.interleaving.scenes import LANE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.ports.jobs import ClaimedJob
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


async def _claim(side: Side) -> Sequence[ClaimedJob]:
    batch = await side.store.jobs.claim(Appetite(side.session, ("q",), ("n",), 10, 10, 5, side.scene.lab.turn))
    assert isinstance(batch, Batch)
    return batch.jobs


async def _work(side: Side) -> None:
    ends = [Settlement(job.id, job.fence, Outcome.DONE) for job in await _claim(side)]
    await side.store.jobs.settle(side.session, ends)


def _settle(outcome: Outcome, **how: Any) -> Callable[[Side], Awaitable[object]]:
    """End the first of the run so; the others did not start."""

    async def settle(side: Side) -> None:
        first, *others = side.scene.run
        rest = Outcome.DONE if outcome is Outcome.DONE else Outcome.RETURNED
        ends = [Settlement(first.id, first.fence, outcome, **how)]
        ends += [Settlement(job.id, job.fence, rest) for job in others]
        await side.store.jobs.settle(side.scene.worker, ends)

    return settle


async def _settle_part(side: Side) -> None:
    first = side.scene.run[0]
    await side.store.jobs.settle(side.scene.worker, [Settlement(first.id, first.fence, Outcome.DONE)])


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


async def _enqueue_again(side: Side) -> None:
    await _enqueue(side, again=True)


def _cancel(kind: str) -> Callable[[Side], Awaitable[object]]:
    return lambda side: side.store.jobs.cancel(side.scene.of[kind], "why", "ann")


def _retry(kind: str) -> Callable[[Side], Awaitable[object]]:
    def retry(side: Side) -> Awaitable[object]:
        side.scene.in_order = [job_id for job_id in side.scene.in_order if job_id != side.scene.of[kind]]
        return side.store.jobs.retry(side.scene.of[kind], "ann")

    return retry


ACTS: dict[str, Callable[[Side], Awaitable[object]]] = {
    "claim": _claim,
    "claim as the other": lambda side: _claim(side._replace(session=_OTHER[side.session])),
    "claim and work": _work,
    "done": _settle(Outcome.DONE),
    "done and claim": _then(_settle(Outcome.DONE), _claim),
    "done in part": _settle_part,
    "fail": _settle(Outcome.FAILED, error="no"),
    "retry later": _settle(Outcome.RETRY, delay=30.0),
    "retry now": _settle(Outcome.RETRY),
    "snooze": _settle(Outcome.SNOOZED, delay=30.0),
    "park": _settle(Outcome.PARKED, error="no"),
    "hand back": lambda side: side.store.jobs.hand_back(side.scene.worker),
    "give up the claim": lambda side: side.store.jobs.hand_back(_OTHER[side.session], turn=side.scene.lab.turn),
    "rescue": lambda side: side.store.jobs.rescue(),
    "cancel running": lambda side: side.store.jobs.cancel(side.scene.run[0].id, "why", "ann"),
    "cancel behind": _cancel("behind"),
    "cancel later": _cancel("later"),
    "cancel waiting": _cancel("waiting"),
    "cancel parked": _cancel("parked"),
    "retry later by hand": _retry("later"),
    "retry failed by hand": _retry("failed"),
    "retry parked by hand": _retry("parked"),
    "hold": lambda side: side.store.jobs.hold(LANE, "why", "ann"),
    "release": lambda side: side.store.jobs.release(LANE),
    "enqueue": _enqueue,
    "enqueue and claim": _then(_enqueue, _claim),
    "enqueue again": _enqueue_again,
    "enqueue again and work": _then(_enqueue_again, _work),
    "await": lambda side: side.store.jobs.await_end(side.session, side.scene.accepted),
    "sweep": lambda side: side.store.sessions.sweep(),
}
LONG = frozenset({"claim and work", "done and claim", "enqueue and claim", "enqueue again and work"})
"""Those of several transactions, which come while another one stands still."""
MINOR = frozenset({"claim as the other", "snooze", "park", "retry now", "await", "sweep"})
"""Those that differ little from others, or do little."""
_OF_RUNS = (
    *("done", "done and claim", "fail", "retry later", "retry now", "snooze", "park"),
    *("hand back", "rescue", "cancel running"),
)


def possible(act: str, scene: Scene) -> bool:
    """Whether the scene has what the operation is about."""
    if act in _OF_RUNS:
        return bool(scene.run)
    if act == "done in part":
        return len(scene.run) > 1
    if act == "claim as the other":
        return scene.suspects
    if act == "release":
        return scene.stopped
    if act.startswith("cancel "):
        return act.removeprefix("cancel ") in scene.of
    if act.endswith(" by hand"):
        return act.split(" ")[1] in scene.of
    return True
