"""What has to hold when nobody is at work, and when all work is done."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from tests.interleaving.scenes import LAST_FENCE

if TYPE_CHECKING:
    from tests.interleaving.lab import Lab
    from tests.interleaving.scenes import Scene

__all__ = ["standing", "worked_off"]

_ROUNDS = 30
_STANDING = """
with fetched as (
    select c.fence, o.id, o.run, j.lane, q.key, q.max_count, q.per
    from interlock.job_fetched c
    cross join lateral unnest(c.ids, c.runs) as o (id, run)
    left join interlock.job j on j.id = o.id
    left join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) q on true
),
keys as (
    select k.key, coalesce((select count(*) from fetched c where c.key = k.key), 0) as held,
           (select min(c.max_count) from fetched c where c.key = k.key and c.per = 0) as max_count,
           coalesce((select l.taken from interlock.job_limit l where l.key = k.key), 0)
           - coalesce((select sum(f.count) from interlock.job_slot_freed f where f.key = k.key), 0) as counted
    from (select l.key from interlock.job_limit l union select c.key from fetched c where c.key is not null) k
)
select 'a job is fetched twice: ' || c.id from fetched c group by c.id having count(distinct c.fence) > 1
union all
select 'a job has ended and is fetched: ' || c.id from fetched c
where not exists (select from interlock.job j where j.id = c.id)
union all
select 'two runs of one lane: ' || c.lane from fetched c where c.lane is not null
group by c.lane having count(distinct (c.fence, c.run)) > 1
union all
select 'a fetched lane is not known as such: ' || c.lane from fetched c
where c.lane is not null and not exists (select from interlock.job_lane l where l.lane = c.lane and l.fetched)
union all
select 'a lane counts as fetched: ' || l.lane from interlock.job_lane l
where l.fetched and not exists (select from fetched c where c.lane = l.lane)
union all
select 'a fetched job is ready too: ' || r.id from interlock.job_ready r
join fetched c on c.id = r.id or c.lane = r.lane
union all
select 'a fetched job comes later too: ' || l.id from interlock.job_scheduled l join fetched c on c.id = l.id
union all
select 'a fetched job is in line too: ' || w.id from interlock.job_limit_wait w join fetched c on c.id = w.id
union all
select 'a fetched job waits for others too: ' || a.id from interlock.job_after a join fetched c on c.id = a.id
union all
select 'a ready job waits for others too: ' || a.id from interlock.job_after a join interlock.job_ready r on r.id = a.id
union all
select 'a job waits for others and has a position: ' || j.id from interlock.job_after a
join interlock.job j on j.id = a.id and j.position is not null
union all
select 'who waits for others has ended: ' || a.id from interlock.job_after a
where not exists (select from interlock.job j where j.id = a.id)
union all
select 'a fetch that was given up: ' || c.fence from interlock.job_fetched c join interlock.job_session w on w.id =
c.session_id where c.fetch_number between 1 and w.refused_fetches
union all
select 'suspects of two halves in ' || c.session from interlock.job_fetched c
cross join lateral unnest(c.ids) as o (id) join interlock.job j on j.id = o.id and j.half is not null
group by c.session having count(distinct j.half) > 1
union all
select 'a ready job is of another half: ' || r.id from interlock.job_ready r join interlock.job j on j.id = r.id
where r.half is distinct from j.half or (r.class = 2) <> (j.half is not null)
union all
select 'its end was asked for and it does not run: ' || j.id from interlock.job j
where j.cancelled is not null and not exists (select from fetched c where c.id = j.id)
union all
select 'too many hold ' || k.key from keys k where k.held > k.max_count
union all
select k.key || ' counts ' || k.counted || ' instead of ' || k.held from keys k where k.counted <> k.held
"""
_STUCK = """
select j.id from interlock.job j
where j.parked is null
  and not exists (
      select from interlock.job_lane l
      where l.lane = j.lane and (l.held_since is not null or l.parked_since is not null))
  and not exists (
      select from interlock.job p where p.lane = j.lane and p.parked is not null and p.position < j.position)
  and not exists (select from interlock.job_after a join interlock.job p on p.id = a.needs where a.id = j.id)
"""
_LEFT = " union all ".join(
    f"select '{table} has ' || t::text from interlock.{table} t"
    for table in (
        "job_ready",
        "job_scheduled",
        "job_fetched",
        "job_lane",
        "job_signal",
        "job_limit_wait",
        "job_slot_freed",
        "job_after",
        "job_after_signal",
    )
)


async def standing(lab: Lab) -> list[str]:
    """What is wrong between two transactions."""
    return [row[0] for row in await lab.connection.fetch(_STANDING)]


async def worked_off(lab: Lab, scene: Scene) -> list[str]:
    """Work off what is there, let go on what people have stopped, and say what was wrong with it."""
    if scene.paused_at is not None:
        fence = await lab.connection.fetchval(LAST_FENCE)
        if fence > scene.paused_at:
            return [f"fence {fence} was given after the pause, which returned at {scene.paused_at}"]
        await lab.helper.jobs.resume("q", ANN)
    wrong = await _work(lab)
    wrong += [f"nobody comes for {row[0]}" for row in await lab.connection.fetch(_STUCK)]
    if wrong:
        return wrong
    stopped = await lab.connection.fetch("select substr(lane, 9) from interlock.job_lane")
    parked = await lab.connection.fetch("select id from interlock.job where parked is not null")
    for (lane,) in stopped:
        await lab.helper.jobs.release(lane, ANN)
    for (job_id,) in parked:
        await lab.helper.jobs.retry(job_id, Attribution("ann"))
    if stopped or parked:
        wrong += await _work(lab)
    wrong += [f"nobody comes for {row[0]}" for row in await lab.connection.fetch("select id from interlock.job")]
    wrong += [row[0] for row in await lab.connection.fetch(_LEFT)]
    ended = await lab.connection.fetch("select id, fence, state from interlock.job_history order by id, fence")
    if [row["id"] for row in ended] != sorted({*scene.accepted}):
        wrong.append(f"accepted: {sorted({*scene.accepted})}, ended: {[row['id'] for row in ended]}")
    fences = [row["fence"] for row in ended if row["state"] == 0 and row["id"] in scene.in_order]
    if fences != sorted(fences):
        wrong.append(f"not in order: {[(row['id'], row['fence']) for row in ended]}")
    return wrong


async def _work(lab: Lab) -> list[str]:
    """Fetch and acknowledge until a fetch gives nothing and says that nothing will come by itself."""
    for _ in range(_ROUNDS):
        fetches = await lab.connection.fetch(
            "select c.session, o.id, c.fence from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id)"
        )
        ends = defaultdict(list)
        for session, job_id, fence in fetches:
            ends[session].append(Acknowledgement(job_id, fence, Outcome.DONE))
        for session, acknowledgements in ends.items():
            await lab.helper.jobs.acknowledge(session, acknowledgements)
        lab.clock.advance(1001.0)
        batch = await lab.helper.jobs.fetch(FetchRequest("c", ("q",), ("n",), 100, 100, 5))
        assert isinstance(batch, FetchResult)
        if wrong := await standing(lab):
            return wrong
        if not batch.jobs and batch.recheck_in == math.inf:
            return []
    return ["there is no end to it"]
