"""The events port: step by step on a virtual clock, and under concurrency."""

from interlock.testing.conformance.events.accepting import EventAcceptingConformance
from interlock.testing.conformance.events.keeping import EventKeepingConformance
from interlock.testing.conformance.events.races import EventRaceConformance

__all__ = ["EventStoreConformance"]


class EventStoreConformance(EventAcceptingConformance, EventKeepingConformance, EventRaceConformance):
    """The promises of the events port."""
