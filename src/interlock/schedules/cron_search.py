"""Cron expressions by cronsim, with a bounded search. Loaded only when an expression is used."""

from __future__ import annotations

from datetime import UTC, date, datetime

from cronsim import CronSim, CronSimError

__all__ = ["CronSearch", "CronSimError", "explained"]

_MAX_DAYS_SEARCHED = 1500


class CronSearch(CronSim):
    """The times of an expression after a start. Gives up after as many days as a rare but sensible one needs."""

    def __init__(self, expression: str, start: datetime) -> None:
        self._searched = 0
        super().__init__(expression, start)

    def match_day(self, d: date) -> bool:
        """Whether a day matches."""
        self._searched += 1
        if self._searched > _MAX_DAYS_SEARCHED:
            raise StopIteration
        return super().match_day(d)

    def advance_hour(self) -> bool:
        """Move to the next hour that matches; False if the current one does.

        Continues with full hours also after clocks were changed by half an hour, as on Lord Howe Island.
        """
        if self.dt.hour in self.hours:
            return False
        self.dt = self.dt.replace(minute=0, second=0)
        while self.dt.hour not in self.hours:
            self.tick(3600 - self.dt.minute * 60)
            if self.dt.hour == 0:
                break  # the month and the day are checked again
        return True

    def __next__(self) -> datetime:
        self._searched = 0
        return super().__next__()


def explained(expression: str) -> str:
    """A valid expression in plain words."""
    return CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)).explain()
