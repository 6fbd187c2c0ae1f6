"""The options of schedules that are declared in code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from interlock.jobs.options import JobDefinitionOptions

if TYPE_CHECKING:
    from interlock.arguments import Seconds

__all__ = ["CronOptions", "MisfireName", "OverlapName", "ScheduleOptions"]

MisfireName = Literal["skip", "once", "catch_up"]
OverlapName = Literal["skip", "queue"]


class ScheduleOptions(JobDefinitionOptions, total=False):
    """The options of ``every``: its own, and those of the job."""

    misfire: MisfireName
    grace: Seconds
    overlap: OverlapName | None
    jitter: Seconds


class CronOptions(ScheduleOptions, total=False):
    """The options of ``cron``."""

    timezone: str
