"""The earliest time that fits a pace, compared with trying every time in turn."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from interlock.backends.pacing import Pace, Quota, earliest_fit, earliest_for_all

times = st.lists(st.integers(0, 40), max_size=12).map(sorted)
figures = st.builds(Quota, st.integers(1, 4), st.integers(1, 15))


def fits(times: list[int], figure: Quota, at: int) -> bool:
    """No ``max_count`` of the times lie, together with ``at``, within less than ``per``: by looking at all of them."""
    return all(max(*some, at) - min(*some, at) >= figure.per for some in combinations(times, figure.max_count))


def first_that_fits(wanted: list[tuple[list[int], Quota]], at: int) -> int:
    while not all(fits(times, figure, at) for times, figure in wanted):
        at += 1
    return at


@given(times, figures, st.integers(0, 40))
def test_the_earliest_fit_is_the_first_time_that_fits(times: list[int], figure: Quota, at: int) -> None:
    assert earliest_fit(times, figure, at) == first_that_fits([(times, figure)], at)


@given(st.lists(st.tuples(times, figures), max_size=3), st.integers(0, 40))
def test_the_earliest_fit_for_several_paces_is_the_first_time_that_fits_all(
    wanted: list[tuple[list[int], Quota]], at: int
) -> None:
    paces = [
        Pace(str(number), [figure], lambda after, times=times: [time for time in times if time > after])  # type: ignore[misc]
        for number, (times, figure) in enumerate(wanted)
    ]
    found, held_by = earliest_for_all(paces, at)

    assert found == first_that_fits(wanted, at)
    assert (held_by == "") == (found == at)


@given(times, figures, st.integers(0, 40))
def test_times_a_whole_span_ago_do_not_matter(times: list[int], figure: Quota, at: int) -> None:
    recent = [time for time in times if time > at - figure.per]

    assert earliest_fit(times, figure, at) == earliest_fit(recent, figure, at)
