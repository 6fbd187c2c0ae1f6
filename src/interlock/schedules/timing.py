"""When a schedule fires: a cron expression in a time zone, or a fixed grid. Pure arithmetic, bounded in time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from interlock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.arguments import Seconds

__all__ = ["MAX_EVERY", "MAX_EXPRESSION", "MIN_EVERY", "Passed", "Timing", "checked_timezone", "duration"]

MIN_EVERY = 10.0
"""The shortest interval in seconds."""
MAX_EVERY = 30 * 86400.0
"""The longest interval in seconds."""
MAX_EXPRESSION = 120
"""The longest cron expression in characters."""
_MAX_ZONE = 64
_CHARACTERS = re.compile(r"[0-9A-Za-z*,/#\- \t]*")
_ZONE = re.compile(r"[A-Za-z0-9_+\-/]+")
_SYNTAX = "Use five fields: minute, hour, day of month, month, day of week (0 is Sunday), such as '*/5 * * * *'."
_MICROS = 1_000_000
_FIRST_STRETCH = 3600.0


class Passed(NamedTuple):
    """The times up to now that a schedule has not fired for."""

    times: tuple[float, ...]
    """The earliest ones."""
    latest: float
    total: int
    """How many there are; at least this many if ``more``."""
    more: bool
    """Whether there are further times between ``times`` and ``latest``."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Exactly one of a cron expression and an interval."""

    cron: str
    every: float
    timezone: str

    @classmethod
    def of(cls, cron: Any, every: Any, timezone: Any = "UTC") -> Timing:
        """Validate a timing. Takes under 10 ms for any input."""
        if (cron is None) == (every is None):
            raise InvalidArgumentError(
                "A schedule needs exactly one of cron and every.", remedy="Pass cron='*/5 * * * *' or every=300."
            )
        zone = checked_timezone(timezone)
        if cron is None:
            return cls("", _checked_every(every), zone)
        return cls(_checked_cron(cron), 0.0, zone)

    @classmethod
    def stored(cls, cron: str, every: float, timezone: str) -> Timing:
        """Validate a timing as it is stored, with empty values for what it lacks."""
        return _stored(cron, every, timezone)

    def after(self, at: float, anchor: float) -> float | None:
        """The first time after ``at``; None if there is none. ``anchor`` is a time on the grid of an interval."""
        return next(self.times(at, anchor), None)

    def times(self, after: float, anchor: float) -> Iterator[float]:
        """All times after this one, in order."""
        return self._cron_times(after) if self.cron else self._grid(after, anchor)

    def passed(self, first: float, now: float, anchor: float, limit: int) -> Passed:
        """The times from ``first``, which is one of them, up to ``now``."""
        rest = (at for at in islice(self.times(first, anchor), limit))
        found = [first]
        for at in rest:
            if at > now:
                break
            found.append(at)
        if len(found) <= limit:
            return Passed(tuple(found), found[-1], len(found), more=False)
        times = tuple(found[:limit])
        return Passed(times, self._latest(found[-1], now, anchor), self._count(first, now, anchor, limit), more=True)

    def _latest(self, known: float, now: float, anchor: float) -> float:
        """The last time up to ``now``: looks back further and further, so that no long list is walked through."""
        if not self.cron:
            step = round(self.every * _MICROS)
            begin, end = round(anchor * _MICROS), round(now * _MICROS)
            return (begin + (end - begin) // step * step) / _MICROS
        stretch, latest = _FIRST_STRETCH, known
        while True:
            start = max(now - stretch, known)
            for at in self.times(start, anchor):
                if at > now:
                    break
                latest = at
            if latest > known or start <= known:
                return latest
            stretch *= 4

    def _count(self, first: float, now: float, anchor: float, limit: int) -> int:
        return limit + 1 if self.cron else int((now - first) // self.every) + 1

    def _grid(self, after: float, anchor: float) -> Iterator[float]:
        # Whole microseconds, so that the grid does not drift.
        step, begin = round(self.every * _MICROS), round(anchor * _MICROS)
        at = begin + ((round(after * _MICROS) - begin) // step + 1) * step
        while True:
            yield at / _MICROS
            at += step

    def _cron_times(self, after: float) -> Iterator[float]:
        from interlock.schedules.cron_search import CronSearch

        search = CronSearch(self.cron, datetime.fromtimestamp(after, ZoneInfo(self.timezone)))
        last = after
        while True:
            try:
                at = next(search).timestamp()
            except (StopIteration, OverflowError, ValueError):  # no match, or beyond the year 9999
                return
            # At the end of daylight saving time the search may begin with a time that has passed.
            if at > last:
                last = at
                yield at

    @property
    def words(self) -> str:
        """The timing in plain words: "every 5 minutes", or "at 03:00 every day (Europe/Berlin)"."""
        if not self.cron:
            return f"every {duration(self.every)}"
        from interlock.schedules.cron_search import explained

        text = explained(self.cron)
        for long, short in _WORDS.items():
            text = text.replace(long, short)
        return f"{text[:1].lower()}{text[1:]} ({self.timezone})"


_ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_WORDS = {
    "Every minute of every hour": "every minute",
    **{f"very {word} minute of every hour": f"very {n} minutes" for n, word in enumerate(_ORDINALS, 2)},
    **{f"very {n}th minute of every hour": f"very {n} minutes" for n in range(11, 31)},
}


@lru_cache(1024)
def _stored(cron: str, every: float, timezone: str) -> Timing:
    return Timing.of(cron or None, every or None, timezone)


def checked_timezone(timezone: object) -> str:
    """Validate the name of a time zone."""
    if not isinstance(timezone, str) or not 0 < len(timezone) <= _MAX_ZONE or not _ZONE.fullmatch(timezone):
        raise InvalidArgumentError(f"Invalid time zone {_brief(timezone)}.", remedy=_ZONES)
    try:
        ZoneInfo(timezone)
    except (OSError, ValueError, LookupError):  # ZoneInfoNotFoundError is a KeyError; a folder gives an OSError
        raise InvalidArgumentError(f"Unknown time zone {timezone!r}.", remedy=_ZONES) from None
    return timezone


_ZONES = "Use a name of the IANA database, such as 'Europe/Berlin', or 'UTC'."


def _checked_cron(cron: object) -> str:
    if not isinstance(cron, str):
        raise InvalidArgumentError(f"A cron expression is text, not {_brief(cron)}.", remedy=_SYNTAX)
    if len(cron) > MAX_EXPRESSION:
        raise InvalidArgumentError(
            f"The cron expression {_brief(cron)} has {len(cron):,} characters.",
            remedy=f"Use at most {MAX_EXPRESSION}, or several schedules.",
        )
    fields = cron.split()
    if not _CHARACTERS.fullmatch(cron) or len(fields) != 5:
        raise InvalidArgumentError(f"Invalid cron expression {cron!r}.", remedy=_SYNTAX)
    from interlock.schedules.cron_search import CronSearch, CronSimError

    text = " ".join(fields)
    try:
        found = next(CronSearch(text, datetime.now(UTC)), None)
    except (CronSimError, AssertionError, ValueError, IndexError) as error:
        why = str(error).lower() or "invalid"
        raise InvalidArgumentError(f"Invalid cron expression {cron!r}: {why}.", remedy=_SYNTAX) from None
    if found is None:
        raise InvalidArgumentError(
            f"The cron expression {cron!r} never matches.", remedy="Choose days that exist in its months."
        )
    return text


def _checked_every(every: Seconds | object) -> float:
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not MIN_EVERY <= seconds <= MAX_EVERY:
        raise InvalidArgumentError(
            f"Invalid interval {_brief(every)}.",
            remedy=f"Use {MIN_EVERY:g} to {MAX_EVERY:,.0f} seconds (30 days), or a timedelta.",
        )
    return round(float(seconds) * _MICROS) / _MICROS


def duration(seconds: float) -> str:
    """A duration in plain words, in the largest unit that fits: "5 minutes", "90 seconds"."""
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return unit if count == 1 else f"{count} {unit}s"
    return "second" if seconds == 1 else f"{seconds:g} seconds"


def _brief(value: object) -> str:
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"
