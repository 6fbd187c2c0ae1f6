"""What there is before two operations meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, IfFailed, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import new_job, pace, slots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.ports.jobs import FetchedJob
    from tests.interleaving.lab import Lab

__all__ = ["LANE", "LAST_FENCE", "SCENES", "Scene", "prepare"]

LANE = "l"
LAST_FENCE = """
select greatest(
    (select max(c.fence) from interlock.job_fetched c), (select max(j.fence) from interlock.job j),
    (select max(h.fence) from interlock.job_history h), 0)
"""
"""The largest fence under which a job was fetched."""
_SPARE = 10


class Scene:
    """The jobs that were made ready for two operations, by what can be done to them."""

    def __init__(self, lab: Lab, worker: str, ids: range) -> None:
        self.lab = lab
        self.worker = worker
        self._ids = iter(ids[:-_SPARE])
        self.spare = ids[-_SPARE:]
        self.accepted: list[int] = []
        self.in_order: list[int] = []
        self.run: list[FetchedJob] = []
        self.of: dict[str, int] = {}
        """A job that is ``behind``, ``scheduled``, ``waiting``, ``failed`` or ``parked``."""
        self.stopped = False
        """Whether its lane is held or parked."""
        self.suspects = False
        """Whether there are suspects of two halves."""
        self.paused_at: int | None = None
        """The last fence when a pause of the queue had returned."""
        self.like: dict[str, Any] = {}
        """What jobs that come to the lane have."""

    async def add(self, *kinds: str, ordered: bool = True, **changes: Any) -> int:
        """Accept a job in the lane, unless told otherwise."""
        job_id = next(self._ids)
        changes = {"lane": LANE} | changes
        await self.lab.helper.jobs.enqueue([new_job(job_id, **changes)])
        self.accepted.append(job_id)
        if ordered and changes["lane"] == LANE and not changes.get("delay") and not changes.get("coalesce"):
            self.in_order.append(job_id)
        for kind in kinds:
            self.of[kind] = job_id
        return job_id

    async def fetch(self, limit: int = 10) -> list[FetchedJob]:
        """Have the worker fetch."""
        for _ in range(10):
            batch = await self.lab.helper.jobs.fetch(FetchRequest(self.worker, ("q",), ("n",), limit, 10, 5))
            assert isinstance(batch, FetchResult)
            if batch.jobs or batch.recheck_in > 0:
                return list(batch.jobs)
        raise AssertionError("the fetch is cut short for ever")

    async def acknowledge(self, jobs: list[FetchedJob], outcome: Outcome, **how: Any) -> None:
        """Have the worker end fetches."""
        await self.lab.helper.jobs.acknowledge(
            self.worker, [Acknowledgement(job.id, job.fence, outcome, **how) for job in jobs]
        )

    async def take(self, limit: int = 10) -> None:
        """Have the worker fetch what the operations are about."""
        self.run = await self.fetch(limit)
        assert self.run


async def _run(scene: Scene) -> None:
    await scene.add()
    await scene.add()
    await scene.take()
    await scene.add("behind")
    await scene.add()


async def _handled(scene: Scene) -> None:
    """As before, but the signal of what is behind was seen to."""
    await _run(scene)
    assert await scene.fetch() == []


async def _last(scene: Scene) -> None:
    await scene.add()
    await scene.take()


async def _run_and_later(scene: Scene) -> None:
    await scene.add()
    await scene.take()
    await scene.add("scheduled", delay=10.0)


async def _later(scene: Scene) -> None:
    await scene.add("scheduled", delay=10.0)


async def _later_of_two(scene: Scene) -> None:
    await scene.add("scheduled", delay=10.0)
    await scene.add("behind")


async def _not_due(scene: Scene) -> None:
    await scene.add()
    await scene.take()
    await scene.add("scheduled", delay=1000.0)


async def _fresh(scene: Scene) -> None:
    """Nor has anybody fetched anything before."""
    await scene.lab.forget_sessions()
    await scene.add("behind")
    await scene.add()


async def _ready(scene: Scene) -> None:
    await scene.add("behind")
    await scene.add()
    await scene.fetch()
    await scene.lab.helper.jobs.return_unstarted(scene.worker)


async def _head_to_retry(scene: Scene) -> None:
    await scene.add("scheduled")
    await scene.add("behind")
    await scene.acknowledge(await scene.fetch(1), Outcome.RETRY, delay=10.0)


async def _skip(scene: Scene) -> None:
    for kinds in ((), (), ("behind",)):
        await scene.add(*kinds, on_failure=OnFailure.SKIP, ordered=False)
    await scene.take(2)


async def _skipped(scene: Scene) -> None:
    await scene.add("scheduled", on_failure=OnFailure.SKIP, ordered=False)
    await scene.acknowledge(await scene.fetch(), Outcome.RETRY, delay=10.0)
    await scene.add(on_failure=OnFailure.SKIP, ordered=False)
    await scene.take()


async def _park(scene: Scene) -> None:
    await scene.add(on_failure=OnFailure.PARK)
    await scene.add("behind", on_failure=OnFailure.PARK)
    await scene.take(1)


async def _parked_lane(scene: Scene) -> None:
    await scene.add("failed", on_failure=OnFailure.PARK, ordered=False)
    await scene.add("behind", on_failure=OnFailure.PARK)
    await scene.acknowledge(await scene.fetch(1), Outcome.FAILED)
    scene.stopped = True


async def _parked_job(scene: Scene) -> None:
    await scene.add("parked")
    await scene.add("behind")
    await scene.acknowledge(await scene.fetch(1), Outcome.PARKED, error="no")


async def _failed(scene: Scene) -> None:
    await scene.add("failed", ordered=False)
    await scene.acknowledge(await scene.fetch(), Outcome.FAILED)
    await scene.add()
    await scene.take()


async def _held(scene: Scene) -> None:
    await _run(scene)
    await scene.lab.helper.jobs.hold(LANE, Attribution("ann", "why"))
    scene.stopped = True


async def _held_idle(scene: Scene) -> None:
    await _ready(scene)
    await scene.add("scheduled", delay=10.0)
    await scene.lab.helper.jobs.hold(LANE, Attribution("ann", "why"))
    scene.stopped = True


async def _limit(scene: Scene) -> None:
    """One holds the slot; the head of the lane waits for it, and so does another one behind it."""
    uses = (slots(1),)
    await scene.add(lane="", uses=uses)
    await scene.take()
    await scene.add("waiting", uses=uses)
    await scene.add("behind")
    assert await scene.fetch() == []
    await scene.add(lane="", uses=uses)
    assert await scene.fetch() == []


async def _limit_came_free(scene: Scene) -> None:
    """What was freed is not counted yet, and nobody stood in line then."""
    uses = (slots(1),)
    scene.like = {"uses": uses}
    await scene.add(lane="", uses=uses)
    first = await scene.fetch()
    await scene.acknowledge(first, Outcome.DONE)
    await scene.add("behind", uses=uses)
    await scene.add(uses=uses)


async def _limit_in_lanes(scene: Scene) -> None:
    uses = (slots(1),)
    scene.like = {"uses": uses}
    await scene.add(uses=uses)
    await scene.take()
    await scene.add("behind", uses=uses)
    await scene.add("waiting", lane="m", uses=uses)
    await scene.add(lane="m")
    assert await scene.fetch() == []


async def _woken(scene: Scene) -> None:
    """The head of the lane was woken and is offered, and another one stands in line behind it."""
    await _limit(scene)
    await scene.acknowledge(scene.run, Outcome.DONE)
    scene.run = []


async def _two_limits(scene: Scene) -> None:
    uses = (slots(1, "j"), slots(1))
    await scene.add(lane="", uses=uses)
    await scene.take()
    await scene.add("waiting", uses=uses)
    await scene.add("behind", uses=(slots(1),))
    assert await scene.fetch() == []


async def _pace(scene: Scene) -> None:
    uses = (pace(1, 30.0),)
    scene.like = {"uses": uses}
    await scene.add(uses=uses)
    await scene.take()
    await scene.add(uses=uses, lane="m")
    await scene.add("waiting", lane="", uses=uses)
    assert await scene.fetch() == []


async def _coalesce(scene: Scene) -> None:
    scene.like = {"coalesce": True}
    await scene.add()
    await scene.take()
    await scene.add("behind", coalesce=True)
    await scene.add(coalesce=True)


async def _coalesce_ready(scene: Scene) -> None:
    scene.like = {"coalesce": True}
    await scene.add("behind", coalesce=True)
    await scene.fetch()
    await scene.lab.helper.jobs.return_unstarted(scene.worker)
    await scene.add(coalesce=True)


async def _coalesce_in_line(scene: Scene) -> None:
    uses = (slots(1),)
    scene.like = {"coalesce": True, "uses": uses}
    await scene.add(lane="", uses=uses)
    await scene.take()
    await scene.add("waiting", coalesce=True, uses=uses)
    assert await scene.fetch() == []
    await scene.add("behind", coalesce=True, uses=uses)


async def _two_lanes(scene: Scene) -> None:
    """Two fetches, and jobs behind both; one that is due in the other lane."""
    await scene.add(lane="m")
    await scene.take()
    await scene.add()
    scene.run += await scene.fetch()
    await scene.add("behind")
    await scene.add(lane="m")
    await scene.add("scheduled", lane="m", delay=10.0)


async def _two_lanes_two_limits(scene: Scene) -> None:
    """Each lane's run holds one limit; what is behind it wants both, and so do others."""
    both = (slots(1, "j"), slots(1))
    await scene.add(lane="m", uses=(slots(1, "j"),))
    await scene.take()
    await scene.add(uses=(slots(1),))
    scene.run += await scene.fetch()
    await scene.add("behind", uses=both)
    await scene.add(lane="m", uses=(slots(1),))
    await scene.add("waiting", lane="", uses=both)
    await scene.add(lane="", uses=(slots(1),))
    assert await scene.fetch() == []
    scene.like = {"uses": both}


async def _suspect(scene: Scene) -> None:
    """The head of the lane and a job without one may have killed their worker."""
    await scene.add("behind")
    await scene.add(lane="")
    await scene.fetch()
    scene.lab.clock.advance(61.0)
    await scene.lab.helper.jobs.rescue()
    scene.suspects = True
    await scene.add()


async def _alone(scene: Scene) -> None:
    await scene.lab.forget_sessions()
    await scene.add(lane="")
    await scene.take()
    await scene.add("behind", lane="")
    await scene.add("scheduled", lane="", delay=10.0)


async def _awaited(scene: Scene) -> None:
    """Jobs with and without a lane wait for the first one of the run."""
    await scene.add()
    await scene.add()
    await scene.take()
    first = scene.run[0].id
    await scene.add("blocked", lane="", after=(first,), if_failed=IfFailed.RUN)
    await scene.add(after=(first, scene.run[1].id), if_failed=IfFailed.CANCEL, ordered=False)
    assert await scene.fetch() == []


async def _parked_for_another(scene: Scene) -> None:
    await scene.add("failed", lane="", ordered=False)
    failed = await scene.fetch()
    await scene.add("blocked", after=(failed[0].id,), if_failed=IfFailed.PARK, ordered=False)
    await scene.acknowledge(failed, Outcome.FAILED)
    assert await scene.fetch() == []


async def _expired(scene: Scene) -> None:
    """The head of the lane, one in line, one that is due later, and one that is at a worker have expired."""
    uses = (slots(1),)
    await scene.add(lane="", uses=uses)
    await scene.add(lane="m", expires=30.0)
    await scene.take()
    await scene.add("waiting", lane="", uses=uses, expires=30.0)
    assert await scene.fetch() == []
    await scene.add("behind", expires=30.0, ordered=False)
    await scene.add()
    await scene.add("scheduled", delay=1000.0, expires=30.0, ordered=False)
    await scene.add(lane="", expires=30.0)


_PREPARE: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "a run with jobs behind it": _run,
    "a run with jobs behind it that are known": _handled,
    "a run with nothing behind it": _last,
    "a run with a due job behind it": _run_and_later,
    "a run with a job behind it that is not due": _not_due,
    "a lane that is not known with a due job": _later,
    "a lane that is not known with a due job and another": _later_of_two,
    "a lane that is not known": _fresh,
    "a lane that is offered": _ready,
    "a lane whose head is due again": _head_to_retry,
    "a run of jobs that are skipped": _skip,
    "a run with a skipped job that is due again": _skipped,
    "a run of jobs that park": _park,
    "a parked lane": _parked_lane,
    "a parked job": _parked_job,
    "a run after a failed job": _failed,
    "a held lane with a run": _held,
    "a held lane": _held_idle,
    "a lane that waits for a limit": _limit,
    "a limit that came free": _limit_came_free,
    "lanes that share a limit": _limit_in_lanes,
    "a lane that was woken": _woken,
    "a lane that waits for one of two limits": _two_limits,
    "a pace": _pace,
    "a run with jobs behind it that coalesce": _coalesce,
    "a lane that is offered and coalesces": _coalesce_ready,
    "a lane that waits for a limit and coalesces": _coalesce_in_line,
    "two lanes with runs": _two_lanes,
    "two lanes with runs and two limits": _two_lanes_two_limits,
    "a lane with a suspect": _suspect,
    "jobs without a lane": _alone,
    "a run that other jobs wait for": _awaited,
    "a job that is parked because another failed": _parked_for_another,
    "jobs that have expired": _expired,
}
SCENES = tuple(_PREPARE)


async def prepare(lab: Lab, name: str) -> Scene:
    """Make a scene. The worker's session has ended then, and what was delayed a little is due."""
    worker = await lab.fresh()
    scene = Scene(lab, worker, await lab.helper.jobs.ids(100))
    await _PREPARE[name](scene)
    lab.clock.advance(61.0)
    return scene
