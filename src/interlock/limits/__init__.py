"""Limits: how much at once, how often, and how far apart."""

from interlock.limits.kinds import Cooldown, Limit, Rate, Slots
from interlock.limits.limits import Limits, Starting
from interlock.limits.reservation import Reservation
from interlock.limits.views import LimitUser, LimitView
from interlock.reasons import Reason

__all__ = [
    "Cooldown",
    "Limit",
    "LimitUser",
    "LimitView",
    "Limits",
    "Rate",
    "Reason",
    "Reservation",
    "Slots",
    "Starting",
]
