"""The jobs port, step by step on a clock that the test moves, and with many at it at once."""

from interlock.testing.conformance.jobs.accepting import AcceptingConformance
from interlock.testing.conformance.jobs.acknowledging import AcknowledgingConformance
from interlock.testing.conformance.jobs.composing import ComposingConformance
from interlock.testing.conformance.jobs.crashes import CrashConformance
from interlock.testing.conformance.jobs.follow_ups import FollowUpConformance
from interlock.testing.conformance.jobs.history import HistoryConformance
from interlock.testing.conformance.jobs.holds import HoldConformance
from interlock.testing.conformance.jobs.hooks import HooksConformance
from interlock.testing.conformance.jobs.lanes import LaneConformance
from interlock.testing.conformance.jobs.limits import JobSlotConformance
from interlock.testing.conformance.jobs.logs import LogConformance
from interlock.testing.conformance.jobs.notifications import NewsConformance
from interlock.testing.conformance.jobs.order import OrderConformance
from interlock.testing.conformance.jobs.own_lanes import OwnLaneConformance
from interlock.testing.conformance.jobs.paces import JobPaceConformance
from interlock.testing.conformance.jobs.pauses import PauseConformance
from interlock.testing.conformance.jobs.people import PeopleConformance
from interlock.testing.conformance.jobs.races import JobRaceConformance
from interlock.testing.conformance.jobs.refusals import RefusalConformance
from interlock.testing.conformance.jobs.runs import RunConformance
from interlock.testing.conformance.jobs.shared_limits import SharedLimitConformance
from interlock.testing.conformance.jobs.storms import StormConformance
from interlock.testing.conformance.jobs.suspects import SuspectConformance
from interlock.testing.conformance.jobs.transactions import TransactionConformance
from interlock.testing.conformance.jobs.views import JobViewConformance
from interlock.testing.conformance.jobs.walks import WalkConformance

__all__ = ["JobStoreConformance"]


class JobStoreConformance(
    AcceptingConformance,
    TransactionConformance,
    OrderConformance,
    LaneConformance,
    OwnLaneConformance,
    RunConformance,
    HoldConformance,
    PauseConformance,
    AcknowledgingConformance,
    JobSlotConformance,
    JobPaceConformance,
    SharedLimitConformance,
    CrashConformance,
    RefusalConformance,
    SuspectConformance,
    PeopleConformance,
    HooksConformance,
    FollowUpConformance,
    ComposingConformance,
    JobViewConformance,
    HistoryConformance,
    LogConformance,
    NewsConformance,
    JobRaceConformance,
    StormConformance,
    WalkConformance,
):
    """The promises of the jobs port."""
