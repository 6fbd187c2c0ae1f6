"""Jobs, lanes and queues in a few words for tables, and as data for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.text import Text

from interlock.cli.output import shown
from interlock.clock import as_datetime, as_text
from interlock.explanation import span
from interlock.jobs.reasons import where
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from interlock.ports.job_logs import Progress
    from interlock.ports.job_views import Attempt, JobView, LaneView, QueueView

__all__ = [
    "state_cell",
    "job_data",
    "lane_data",
    "moment",
    "progress_data",
    "progress_text",
    "tail",
    "queue_data",
    "span",
    "where",
]

_TIMES = ("enqueued_at", "due_at", "fetched_at", "finished_at", "result_kept_until", "seen_at")
_COLOURS = {
    JobState.FETCHED: "blue",
    JobState.RUNNING: "green",
    JobState.DONE: "green",
    JobState.FAILED: "red",
    JobState.QUARANTINED: "red",
    JobState.PARKED: "yellow",
    JobState.HELD: "yellow",
    JobState.SCHEDULED: "cyan",
    JobState.WAITING: "cyan",
    JobState.BLOCKED: "cyan",
    JobState.BEHIND: "dim",
    JobState.SUPERSEDED: "dim",
    JobState.EXPIRED: "dim",
}
_AT_LENGTH = ("arguments", "options", "result", "result_kept_until", "attempts")


def state_cell(state: JobState) -> Text:
    """A state in a table."""
    return Text(str(state), _COLOURS.get(state, ""))


def tail(text: str) -> Text:
    """The last column of a table: cut where a terminal ends, whole in a pipe."""
    return Text(shown(text), no_wrap=True, overflow="ellipsis")


def moment(at: float) -> str:
    """A time in a table, in UTC."""
    return f"{as_datetime(at):%m-%d %H:%M:%S}"


def job_data(job: JobView, *, brief: bool = False) -> dict[str, Any]:
    """A job; ``brief`` as in a list, without what lists do not read."""
    data = job._asdict()
    for name in _TIMES:
        data[name] = None if data[name] is None else as_text(data[name])
    data["state"] = str(job.state)
    data["worker"] = None if job.worker is None else job.worker._asdict()
    data["uses"] = [use._asdict() for use in job.uses]
    data["attempts"] = [_attempt(attempt) for attempt in job.attempts]
    for name in ("arguments", "options", "result"):
        data[name] = json.loads(data[name]) if data[name] else None
    return {name: value for name, value in data.items() if not (brief and name in _AT_LENGTH)}


def progress_text(progress: Progress) -> str:
    """A progress in a few words: ``40%: copying``."""
    percent = f"{progress.percent}%"
    return f"{percent}: {progress.message}" if progress.message else percent


def progress_data(progress: Progress | None) -> dict[str, Any] | None:
    """A progress."""
    return None if progress is None else {**progress._asdict(), "at": as_text(progress.at)}


def lane_data(lane: LaneView) -> dict[str, Any]:
    """A lane."""
    data = lane._asdict()
    for name in ("since", "held_since", "parked_since", "seen_at"):
        data[name] = None if data[name] is None else as_text(data[name])
    data["state"] = str(lane.state)
    data["worker"] = None if lane.worker is None else lane.worker._asdict()
    return data


def queue_data(queue: QueueView) -> dict[str, Any]:
    """A queue."""
    data = queue._asdict()
    for name in ("oldest_ready_at", "next_due_at", "paused_since"):
        data[name] = None if data[name] is None else as_text(data[name])
    return data


def _attempt(attempt: Attempt) -> dict[str, Any]:
    data = attempt._asdict()
    data["started_at"], data["ended_at"] = as_text(attempt.started_at), as_text(attempt.ended_at)
    data["worker"] = attempt.worker._asdict()
    return data
