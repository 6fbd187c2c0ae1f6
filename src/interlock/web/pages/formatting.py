"""How pages say details: numbers, spans of time, states with their colour and sign, and texts that cannot play tricks.

Whatever comes out of a store is escaped by the templates; here its control characters are made visible besides, so
that a key cannot turn the direction of a line or hide in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlock.insight.views import MAX_COUNTED
from interlock.ports.jobs import JobState
from interlock.ports.record_insight import MAX_RECORDS_COUNTED

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OPEN", "STATES", "brief", "count", "count_status", "long_span", "number", "plural", "short_span", "visible"]

STATES: Mapping[str, tuple[str, str]] = {
    "ready": ("blue", "circle"),
    "fetched": ("blue", "arrow"),
    "running": ("teal", "spinner"),
    "behind": ("slate", "behind"),
    "waiting": ("amber", "hourglass"),
    "scheduled": ("violet", "clock"),
    "blocked": ("violet", "hourglass"),
    "held": ("orange", "hand"),
    "parked": ("rose", "parked"),
    "done": ("green", "check"),
    "failed": ("red", "cross"),
    "quarantined": ("red", "shield"),
    "discarded": ("slate", "minus"),
    "cancelled": ("slate", "minus"),
    "superseded": ("slate", "behind"),
    "expired": ("slate", "clock"),
    # of runs
    "completed": ("green", "check"),
    "skipped": ("slate", "minus"),
    # of schedules and their firings
    "active": ("green", "clock"),
    "paused": ("orange", "hand"),
    "off": ("red", "cross"),
    "orphaned": ("amber", "warning"),
    "enqueued": ("green", "check"),
    "overlap": ("amber", "behind"),
    "missed": ("orange", "minus"),
    # of locks, limits, claims and events
    "free": ("slate", "circle"),
    "full": ("orange", "hourglass"),
    "room": ("green", "check"),
    "in progress": ("teal", "spinner"),
    "new": ("blue", "circle"),
    "abandoned": ("orange", "cross"),
    "idle": ("slate", "circle"),
    "worked on": ("teal", "spinner"),
    "stuck": ("orange", "hand"),
    "handled": ("green", "check"),
    "forgotten": ("slate", "minus"),
}
"""For each state its colour and its sign: nothing is said by colour alone."""

OPEN = (
    JobState.RUNNING,
    JobState.FETCHED,
    JobState.READY,
    JobState.WAITING,
    JobState.BEHIND,
    JobState.SCHEDULED,
    JobState.BLOCKED,
    JobState.HELD,
    JobState.PARKED,
)
"""The states of jobs that are not finished, in the order in which pages show them."""

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with what cannot be seen, or would turn the direction of what follows, written out."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def brief(text: str, limit: int = 300) -> str:
    """The text, cut."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def number(value: int) -> str:
    """Any number, in groups of three."""
    return f"{value:,}"


def count(value: int) -> str:
    """What was counted up to a bound."""
    return f"{MAX_COUNTED:,}+" if value >= MAX_COUNTED else f"{value:,}"


def count_status(value: int) -> str:
    """The number of records that have a status, counted up to a bound."""
    return f"{MAX_RECORDS_COUNTED:,}+" if value >= MAX_RECORDS_COUNTED else f"{value:,}"


def plural(value: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{count(value)} {one if value == 1 else many or f'{one}s'}"


def short_span(seconds: float) -> str:
    """How long, in one unit. The script in the browser says the same."""
    seconds = max(0.0, seconds)
    for size, unit, limit in ((1, "s", 60), (60, "m", 3600), (3600, "h", 172_800)):
        if seconds < limit:
            return f"{int(seconds / size)}{unit}"
    return f"{int(seconds / 86_400)}d"


def long_span(seconds: float) -> str:
    """How long something took, as exactly as one wants to know."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, next_unit in ((86_400, "d", "h"), (3600, "h", "m"), (60, "m", "s")):
        if whole >= (172_800 if unit == "d" else size):
            smaller = {"h": 3600, "m": 60, "s": 1}[next_unit]
            return f"{whole // size}{unit} {whole % size // smaller}{next_unit}"
    return f"{whole}s"
