"""Events: deliveries from outside, each accepted once, and the jobs that they cause."""

from interlock.events.event import Event
from interlock.events.events import Events
from interlock.events.github import GitHub
from interlock.events.receipt import Receipt, ReceiptStatus
from interlock.events.signed import Hmac
from interlock.events.source import Incoming, Source
from interlock.events.views import EventView
from interlock.ports.events import EventFilter
from interlock.reasons import Reason

__all__ = [
    "Event",
    "EventFilter",
    "Reason",
    "EventView",
    "Events",
    "GitHub",
    "Hmac",
    "Incoming",
    "Receipt",
    "Source",
    "ReceiptStatus",
]
