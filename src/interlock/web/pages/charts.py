"""Charts as numbers for SVG: where each bar and line goes. The templates draw them; nothing is drawn in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from interlock.clock import as_datetime
from interlock.web.pages.formatting import OPEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.insight.views import Activity, Bucket
    from interlock.ports.jobs import JobState

__all__ = ["ActivityChart", "Bar", "Column", "Part", "Squares", "activity_chart", "parts_of", "squares"]

WIDTH, HEIGHT = 600.0, 100.0
_LEAST_PART = 0.8
_MAX_SQUARES = 10


class Bar(NamedTuple):
    """A part of a column."""

    y: float
    height: float


class Column(NamedTuple):
    """One span of time: what was done, and on top of it what failed."""

    x: float
    width: float
    done: Bar
    failed: Bar
    tip: str


@dataclass(frozen=True, slots=True)
class ActivityChart:
    """The activity chart."""

    columns: tuple[Column, ...]
    accepted: str
    """The points of the line; the span that is not over yet is not part of it."""
    slot: float
    ticks: tuple[int, ...]
    """From the top down."""
    seconds: float
    begins: str
    middle: str
    totals: Mapping[str, int]
    rate: float
    """Recently accepted jobs per second."""


def activity_chart(activity: Activity) -> ActivityChart:
    """Where everything goes, in a space of 600 by 100."""
    buckets = activity.buckets
    top = _round_up(max((max(bucket.accepted, bucket.done + bucket.failed) for bucket in buckets), default=0))
    slot = WIDTH / max(1, len(buckets))
    columns = tuple(_column(index * slot, slot, bucket, activity.seconds, top) for index, bucket in enumerate(buckets))
    points = [
        f"{(index + 0.5) * slot:.2f},{HEIGHT - HEIGHT * bucket.accepted / top:.2f}"
        for index, bucket in enumerate(buckets[:-1])
    ]
    over = buckets[-4:-1]
    spans = len(over) * activity.seconds
    span = len(buckets) * activity.seconds
    return ActivityChart(
        columns,
        " ".join(points),
        slot,
        (top, top // 2, 0) if top % 2 == 0 else (top, 0),
        activity.seconds,
        _ago(span),
        _ago(span / 2),
        {name: sum(getattr(bucket, name) for bucket in buckets) for name in ("accepted", "done", "failed")},
        sum(bucket.accepted for bucket in over) / spans if spans else 0.0,
    )


def _column(x: float, slot: float, bucket: Bucket, seconds: float, top: int) -> Column:
    done, failed = HEIGHT * bucket.done / top, HEIGHT * bucket.failed / top
    gap = slot * 0.18
    begins, ends = as_datetime(bucket.at), as_datetime(bucket.at + seconds)
    tip = (
        f"{begins:%H:%M:%S} - {ends:%H:%M:%S} UTC\n"
        f"accepted {bucket.accepted:,}\ndone {bucket.done:,}\nfailed {bucket.failed:,}"
    )
    return Column(x + gap, slot - 2 * gap, Bar(HEIGHT - done, done), Bar(HEIGHT - done - failed, failed), tip)


class Part(NamedTuple):
    """One state's share of the bar."""

    state: JobState
    jobs: int
    x: float
    width: float


def parts_of(totals: Mapping[JobState, int]) -> Sequence[Part]:
    """How the unfinished jobs stand, as shares of 100. What is there at all can be seen."""
    counts = [(state, totals.get(state, 0)) for state in OPEN]
    everything = sum(count for _, count in counts)
    widths = [max(_LEAST_PART, 100 * count / everything) if count else 0.0 for _, count in counts]
    scale = 100 / sum(widths) if everything else 0.0
    parts: list[Part] = []
    x = 0.0
    for (state, count), width in zip(counts, widths, strict=True):
        parts.append(Part(state, count, x, width * scale))
        x += width * scale
    return parts


class Squares(NamedTuple):
    """Slots as small squares, or as one bar if there are many."""

    width: float
    used: tuple[tuple[float, float], ...]
    free: tuple[tuple[float, float], ...]
    """Each with its place and its width."""


def squares(taken: int, max_count: int) -> Squares:
    """How full a limit is."""
    if max_count <= _MAX_SQUARES:
        places = [(11.0 * index, 8.0) for index in range(max_count)]
        return Squares(11.0 * max_count - 3, tuple(places[:taken]), tuple(places[taken:]))
    width = 107.0 * min(1.0, taken / max_count)
    return Squares(107.0, ((0.0, width),) if taken else (), ((width, 107.0 - width),) if width < 107 else ())


def _round_up(value: int) -> int:
    """The next number that reads well on an axis."""
    step = 1
    while True:
        for factor in (2, 4, 5, 10):
            if value <= factor * step:
                return factor * step
        step *= 10


def _ago(seconds: float) -> str:
    return f"{seconds / 60:g} min ago" if seconds >= 60 else f"{seconds:g} s ago"
