"""Views of queues, from counts by state and queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.job_views import QueueView
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping

    from interlock.ports.job_views import QueuePause

__all__ = ["queue_views"]


def queue_views(
    queues: Iterable[str],
    found: Mapping[JobState, Counter[str]],
    oldest: Mapping[JobState, Mapping[str, float]],
    workers: Counter[str],
    runners: Counter[str],
    pauses: Mapping[str, QueuePause],
) -> list[QueueView]:
    """Return the views of queues that have jobs or workers or are paused, by name.

    ``oldest`` has, for ready and scheduled jobs, the time of the first one in each queue.
    """
    return [
        QueueView(
            queue=queue,
            ready=found[JobState.READY][queue],
            behind=found[JobState.BEHIND][queue],
            scheduled=found[JobState.SCHEDULED][queue],
            waiting=found[JobState.WAITING][queue],
            fetched=found[JobState.FETCHED][queue],
            running=found[JobState.RUNNING][queue],
            held=found[JobState.HELD][queue],
            parked=found[JobState.PARKED][queue],
            blocked=found[JobState.BLOCKED][queue],
            oldest_ready_at=oldest[JobState.READY].get(queue),
            next_due_at=oldest[JobState.SCHEDULED].get(queue),
            workers=workers[queue],
            runners=runners[queue],
            paused_by=pause.by if pause else "",
            paused_reason=pause.reason if pause else "",
            paused_since=pause.since if pause else None,
        )
        for queue in sorted({*queues, *workers, *pauses})
        for pause in [pauses.get(queue)]
    ]
