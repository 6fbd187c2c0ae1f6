"""Schedules: cron expressions and intervals that enqueue jobs, in code or edited at run time."""

from interlock.ports.schedules import FiringKind, FiringOutcome, Misfire, Overlap, ScheduleOrigin, ScheduleState
from interlock.schedules.schedules import Schedules
from interlock.schedules.views import Firing, Occurrence, Preview, Schedule

__all__ = [
    "Firing",
    "FiringKind",
    "FiringOutcome",
    "Misfire",
    "Occurrence",
    "Overlap",
    "Preview",
    "Schedule",
    "ScheduleOrigin",
    "ScheduleState",
    "Schedules",
]
