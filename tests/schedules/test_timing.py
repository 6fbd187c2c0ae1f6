"""When schedules fire: expressions, time zones and daylight saving time, and what is refused."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest

from interlock.errors import InvalidArgumentError
from interlock.schedules.timing import Timing, duration


def _local(expression: str, zone: str, start: str, count: int) -> list[str]:
    """The next times after a local time, as local times with their offsets."""
    info = ZoneInfo(zone)
    begin = datetime.fromisoformat(start).replace(tzinfo=info).timestamp()
    times = islice(Timing.of(expression, None, zone).times(begin, 0.0), count)
    return [datetime.fromtimestamp(at, info).strftime("%d %H:%M%z") for at in times]


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        # Clocks go from 02:00 to 03:00: 02:30 does not exist.
        ("Europe/Berlin", "2027-03-27 12:00", ["28 03:00+0200", "29 02:30+0200"]),
        ("America/New_York", "2027-03-13 12:00", ["14 03:00-0400", "15 02:30-0400"]),
        # Clocks go from 02:00 to 02:30: 02:30 exists.
        ("Australia/Lord_Howe", "2027-10-02 12:00", ["03 02:30+1100", "04 02:30+1100"]),
        # Clocks go back from 03:00 to 02:00 (and in New York from 02:00 to 01:00): 02:30 exists twice in Berlin.
        ("Europe/Berlin", "2027-10-30 12:00", ["31 02:30+0200", "01 02:30+0100"]),
        ("America/New_York", "2027-11-06 12:00", ["07 02:30-0500", "08 02:30-0500"]),
        # Clocks go back from 02:00 to 01:30.
        ("Australia/Lord_Howe", "2027-04-03 12:00", ["04 02:30+1030", "05 02:30+1030"]),
    ],
)
def test_a_daily_time_fires_once_on_the_days_when_clocks_change(zone: str, start: str, expected: list[str]) -> None:
    assert _local("30 2 * * *", zone, start, 2) == expected


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        ("America/New_York", "2027-11-06 12:00", ["07 01:30-0400", "08 01:30-0500"]),
        ("Australia/Lord_Howe", "2027-04-03 12:00", ["04 01:30+1100", "05 01:30+1030"]),
    ],
)
def test_a_time_that_exists_twice_fires_the_first_time(zone: str, start: str, expected: list[str]) -> None:
    assert _local("30 1 * * *", zone, start, 2) == expected


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", "2027-03-28"),
        ("Europe/Berlin", "2027-10-31"),
        ("America/New_York", "2027-03-14"),
        ("America/New_York", "2027-11-07"),
        ("Australia/Lord_Howe", "2027-10-03"),
        ("Australia/Lord_Howe", "2027-04-04"),
    ],
)
def test_every_ten_minutes_goes_on_by_real_time_when_clocks_change(zone: str, day: str) -> None:
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp()
    times = list(islice(Timing.of("*/10 * * * *", None, zone).times(begin, 0.0), 100))

    assert {later - earlier for earlier, later in pairwise(times)} == {600.0}


CHANGES = {
    "Europe/Berlin": ("2027-03-28", "2027-10-31"),
    "America/New_York": ("2027-03-14", "2027-11-07"),
    "Australia/Lord_Howe": ("2027-04-04", "2027-10-03"),
    "Africa/Cairo": ("2027-04-30", "2027-10-29"),
}


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("expression", ["30 1 * * *", "30 2 * * *", "0 2,3 * * *", "*/15 0-3 * * *", "0 * * * *"])
def test_times_only_grow_wherever_the_search_starts(zone: str, expression: str) -> None:
    timing = Timing.of(expression, None, zone)
    for day in CHANGES[zone]:
        begin = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() - 2 * 86400
        whole = list(islice(timing.times(begin, 0.0), 80))
        assert whole == sorted(set(whole))
        for at in whole:
            after = timing.after(at, 0.0)
            # A search that starts in the hour that exists twice may skip what it showed before, and repeats nothing.
            assert after is not None
            assert after > at
            assert timing.after(at - 1, 0.0) == at or timing.after(at - 1, 0.0) in whole


def test_weekday_zero_is_sunday() -> None:
    start = datetime(2027, 1, 1, tzinfo=UTC).timestamp()  # a Friday
    for sunday in ("0", "7", "SUN"):
        at = Timing.of(f"0 0 * * {sunday}", None).after(start, 0.0)
        assert at == datetime(2027, 1, 3, tzinfo=UTC).timestamp()


HOSTILE = {
    "very long": "* " * 500_000,
    "many terms": ",".join(["1"] * 100_000) + " * * * *",
    "a step of zero": "*/0 * * * *",
    "nested ranges": "1-5-9/2-3 * * * *",
    "nested steps": "*/1/1/1/1 * * * *",
    "a huge number": "9" * 110 + " * * * *",
    "February 30": "0 0 30 2 *",
    "the 31st of short months": "0 0 31 2,4,6,9,11 *",
    "a first day that is a fifth Monday": "0 0 */31 * 1#5",
    "a first day that is a last Monday": "0 0 */31 * 1L",
    "a fifth weekday that never is": "59 23 */31 12 0#5,1#5,2#5,3#5,4#5,5#5,6#5",
    "six fields": "* * * * * *",
    "four fields": "* * * *",
    "a nickname": "@daily",
    "other digits": "٣ * * * *",
    "a NUL character": "\0 * * * *",
    "reversed": "5-1 * * * *",
    "empty": "",
    "a list": ["* * * * *"],
}


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_expression_is_refused_within_10_ms(expression: object) -> None:
    shortest = 1.0
    for _ in range(5):  # of other processes, not of the check
        began = time.perf_counter()
        with pytest.raises(InvalidArgumentError) as refused:
            Timing.of(expression, None)
        shortest = min(shortest, time.perf_counter() - began)

    assert shortest < 0.010
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "rare", ["0 0 29 2 *", "0 0 29 2 */7", "0 0 * 2 1#5", "0 0 L * *", "0 0 LW * *", "0 0 13 * 5", "0 0 31 12 *"]
)
def test_a_rare_but_sensible_expression_is_accepted(rare: str) -> None:
    assert Timing.of(rare, None).after(time.time(), 0.0) is not None


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "Europe", "x" * 200, "Europe/Berlin\0", None, 5])
def test_an_unknown_time_zone_is_refused(zone: object) -> None:
    with pytest.raises(InvalidArgumentError, match="time zone"):
        Timing.of("* * * * *", None, zone)


@pytest.mark.parametrize("every", [9.99, 0, -1, 30 * 86400 + 1, float("nan"), float("inf"), True, "60", timedelta(0)])
def test_an_interval_out_of_bounds_is_refused(every: object) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid interval"):
        Timing.of(None, every)


def test_exactly_one_of_cron_and_interval_is_needed() -> None:
    for cron, every in ((None, None), ("* * * * *", 60)):
        with pytest.raises(InvalidArgumentError, match="exactly one"):
            Timing.of(cron, every)


def test_an_interval_does_not_drift_in_a_million_steps() -> None:
    timing, anchor = Timing.of(None, 10.1), 1_800_000_000.3
    at = anchor + 10.1 * 1_000_000

    assert timing.after(at - 5, anchor) == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(10, "10 seconds"), (60, "minute"), (90, "90 seconds"), (300, "5 minutes"), (3600, "hour"), (172800, "2 days")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
    assert Timing.of(None, seconds).words == f"every {words}"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute (UTC)"),
        ("*/5 * * * *", "every 5 minutes (UTC)"),
        ("0 3 * * *", "at 03:00 every day (UTC)"),
        ("17 4 * * 1-5", "at 04:17 on Monday through Friday (UTC)"),
    ],
)
def test_expressions_in_words(expression: str, words: str) -> None:
    assert Timing.of(expression, None).words == words


@pytest.mark.parametrize("day", ["2027-04-04", "2027-10-03"])
def test_clocks_that_change_by_half_an_hour_take_no_time_away(day: str) -> None:
    found = _local("20 */3 * * *", "Australia/Lord_Howe", day, 4)

    assert [at[3:8] for at in found] == ["00:20", "03:20", "06:20", "09:20"]
