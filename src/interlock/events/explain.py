"""Explain an event, as text and as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief
from interlock.ports.jobs import JobState
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.events import EventView
    from interlock.ports.job_views import JobView

__all__ = ["as_data", "explain_event"]

_GONE_WRONG = (JobState.FAILED, JobState.QUARANTINED)
_STUCK = (JobState.PARKED, JobState.HELD)


def explain_event(view: EventView, jobs: Sequence[JobView]) -> Explanation[Reason]:
    """Explain an event, given those of its jobs that are still kept."""
    reason, remedy = _reason(view, jobs)
    about = f"{view.source}.{view.type}" + (f" by {view.actor}" if view.actor else "")
    origin = f"replayed by {view.by} from event {view.replay_of}" if view.replay_of else f"delivery {view.delivery!r}"
    lines = [f"event {view.id} is {about}, {origin}, accepted at {as_text(view.received_at)}"]
    lines += [_line(job) for job in sorted(jobs, key=lambda job: job.id)]
    if gone := len(view.jobs) - len(jobs):
        lines.append(f"{gone} of its jobs ended and {'is' if gone == 1 else 'are'} no longer kept")
    return Explanation.of(
        Subject("event", str(view.id)),
        reason,
        _why(reason, view, jobs),
        lines,
        remedy,
        {**as_data(view), "states": {str(job.id): str(job.state) for job in jobs}},
    )


def as_data(view: EventView) -> dict[str, Any]:
    """An event for programs, without its payload."""
    data = view._asdict()
    del data["payload"]
    for name in ("received_at", "seen_at"):
        data[name] = as_text(data[name])
    return {**data, "jobs": list(view.jobs)}


def _reason(view: EventView, jobs: Sequence[JobView]) -> tuple[Reason, str]:
    if any(job.state is JobState.RUNNING for job in jobs):
        return Reason.WORKED_ON, ""
    for job in jobs:
        if job.state in _STUCK:
            return Reason.STUCK, f"see what blocks it: interlock explain job {job.id}"
    for job in jobs:
        if not job.state.final:
            return Reason.WAITING, f"see why: interlock explain job {job.id}"
    for job in jobs:
        if job.state in _GONE_WRONG:
            return Reason.FAILED, f"fix the cause, then: interlock jobs retry {job.id}"
    return (Reason.HANDLED if jobs or not view.jobs else Reason.FORGOTTEN), ""


def _why(reason: Reason, view: EventView, jobs: Sequence[JobView]) -> str:
    if reason is Reason.FORGOTTEN:
        return "its jobs have ended and are no longer kept"
    if not view.jobs:
        return "it caused no job"
    counts: dict[str, int] = {}
    for job in jobs:
        counts[str(job.state)] = counts.get(str(job.state), 0) + 1
    if gone := len(view.jobs) - len(jobs):
        counts["ended"] = gone
    if len(view.jobs) == 1:
        return f"its job is {next(iter(counts))}"
    return brief(f"{len(view.jobs)} jobs: " + ", ".join(f"{count} {state}" for state, count in counts.items()))


def _line(job: JobView) -> str:
    why = f": {brief(job.error)}" if job.error else ""
    lane = f" in lane {job.lane!r}" if job.lane else ""
    return f"job {job.id} ({job.name}){lane} is {job.state}{why}"
