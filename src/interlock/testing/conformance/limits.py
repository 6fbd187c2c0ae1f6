"""The limits port, step by step on a clock that the test moves, and with many at it at once."""

from interlock.testing.conformance.limit_endings import LimitEndingConformance
from interlock.testing.conformance.limit_paces import PaceConformance
from interlock.testing.conformance.limit_races import LimitRaceConformance
from interlock.testing.conformance.limit_slots import SlotConformance

__all__ = ["LimitStoreConformance"]


class LimitStoreConformance(SlotConformance, PaceConformance, LimitEndingConformance, LimitRaceConformance):
    """What the limits port promises."""
