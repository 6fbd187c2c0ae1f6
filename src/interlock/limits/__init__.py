"""Limits: slots (N at once), rates (N per period) and cooldowns (a gap between starts)."""

from interlock.limits.kinds import Cooldown, Limit, Rate, Slots
from interlock.limits.limits import Limits, Starting
from interlock.limits.reservation import Reservation
from interlock.limits.views import LimitOverride, LimitUser, LimitView
from interlock.reasons import Reason

__all__ = [
    "Cooldown",
    "Limit",
    "LimitOverride",
    "LimitUser",
    "LimitView",
    "Limits",
    "Rate",
    "Reason",
    "Reservation",
    "Slots",
    "Starting",
]
