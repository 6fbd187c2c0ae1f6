"""The promises of ``app.jobs`` and of workers, through the public API and the whole engine, in real time."""

from interlock.testing.conformance.jobs.explaining import TellingConformance
from interlock.testing.conformance.jobs.log_users import LogUserConformance
from interlock.testing.conformance.jobs.queue_users import QueueUserConformance
from interlock.testing.conformance.jobs.running import RunningConformance
from interlock.testing.conformance.jobs.together import TogetherConformance

__all__ = ["JobsConformance"]


class JobsConformance(
    RunningConformance, TogetherConformance, QueueUserConformance, TellingConformance, LogUserConformance
):
    """What ``app.jobs`` promises."""
