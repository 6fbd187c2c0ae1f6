"""The events port, step by step on a clock that the test moves, and with many at it at once."""

from interlock.testing.conformance.events.accepting import EventAcceptingConformance
from interlock.testing.conformance.events.keeping import EventKeepingConformance
from interlock.testing.conformance.events.races import EventRaceConformance

__all__ = ["EventStoreConformance"]


class EventStoreConformance(EventAcceptingConformance, EventKeepingConformance, EventRaceConformance):
    """What the events port promises."""
