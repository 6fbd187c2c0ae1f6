"""Sentences about a suspect: the crash, its group, and the suspects that it must not run beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.jobs.reasons import blocking, named
from interlock.ports.jobs import MAX_CRASHES

if TYPE_CHECKING:
    from interlock.ports.job_views import Attempt, JobSituation, JobView, RunningSuspects, Suspicion, WorkerView

__all__ = ["about_crashes", "about_suspect", "suspicion_data", "what_it_waits_for", "who"]


def who(worker: WorkerView | None) -> str:
    """A worker, for the middle of a sentence."""
    return "a worker" if worker is None else f"{worker.program}, process {worker.pid} on {worker.host}"


def about_suspect(situation: JobSituation) -> list[str]:
    """The crash that made a job a suspect, and its group; nothing if it is not one."""
    if situation.suspicion is None:
        return []
    crash = _crash(situation.job)
    died = "a worker" if crash is None else who(crash.worker)
    since = "" if crash is None else f", which was noticed at {as_text(crash.ended_at)}"
    return [f"it is a suspect: {died} died while it had this job{since}", _group(situation.suspicion)]


def what_it_waits_for(situation: JobSituation) -> list[str]:
    """Where suspects run that a suspect must not run beside, and where others of its half do."""
    if situation.suspicion is None:
        return []
    in_the_way = blocking(situation)
    beside = [one for one in situation.suspicion.running if one.same_half]
    lines = [f"of its half, {named(one.jobs, one.total)} already run in {who(one.worker)}" for one in beside]
    if not in_the_way:
        return [*lines, "no suspect that it would have to wait for runs: a worker with a free runner takes it"]
    lines += [f"it waits for {named(one.jobs, one.total)} of {_which(one)} in {who(one.worker)}" for one in in_the_way]
    return [*lines, "suspects of two halves never share a process: another worker may take it meanwhile"]


def about_crashes(job: JobView) -> list[str]:
    """How many crashes count for a job that has not ended."""
    if not job.crashes:
        return []
    died = "a worker has died" if job.crashes == 1 else f"{job.crashes} workers have died"
    return [f"{died} while it was the only suspect: it is quarantined after {MAX_CRASHES}"]


def suspicion_data(situation: JobSituation) -> dict[str, Any] | None:
    """The same for programs; None if the job is not a suspect."""
    if situation.suspicion is None:
        return None
    crash = _crash(situation.job)
    return {
        "worker": None if crash is None else crash.worker._asdict(),
        "noticed_at": None if crash is None else as_text(crash.ended_at),
        "half": list(situation.suspicion.half),
        "half_count": situation.suspicion.half_count,
        "other_half": list(situation.suspicion.other_half),
        "other_count": situation.suspicion.other_count,
        "running": [
            {
                "worker": one.worker._asdict(),
                "same_half": one.same_half,
                "same_group": one.same_group,
                "jobs": list(one.jobs),
                "total": one.total,
            }
            for one in situation.suspicion.running
        ],
    }


def _crash(job: JobView) -> Attempt | None:
    """The crash that made it a suspect, if its attempts still tell."""
    return next((attempt for attempt in reversed(job.attempts) if attempt.outcome == "crashed"), None)


def _group(suspicion: Suspicion) -> str:
    mine = named(suspicion.half, suspicion.half_count)
    left = suspicion.half_count + suspicion.other_count
    if left == 1:
        return "no other suspect of that crash is left"
    if not suspicion.other_count:
        return f"{left} suspects of that crash are left and run side by side: {mine}"
    other = named(suspicion.other_half, suspicion.other_count)
    return f"{left} suspects of that crash are left, in two halves: {mine}; and {other}"


def _which(running: RunningSuspects) -> str:
    return "the other half" if running.same_group else "another crash"
