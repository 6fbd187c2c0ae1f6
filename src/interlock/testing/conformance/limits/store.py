"""The limits port: step by step on a virtual clock, and under concurrency."""

from interlock.testing.conformance.limits.endings import LimitEndingConformance
from interlock.testing.conformance.limits.paces import PaceConformance
from interlock.testing.conformance.limits.races import LimitRaceConformance
from interlock.testing.conformance.limits.slots import SlotConformance

__all__ = ["LimitStoreConformance"]


class LimitStoreConformance(SlotConformance, PaceConformance, LimitEndingConformance, LimitRaceConformance):
    """The promises of the limits port."""
