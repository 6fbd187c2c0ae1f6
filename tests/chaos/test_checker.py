"""The checker on histories made by hand: what it must report, and what it must not."""

from __future__ import annotations

import pytest

from tests.chaos.checker import Attempt, Fault, History, Verdict, judge, read_attempts
from tests.chaos.records import Journal, Target, Written, read_journals, read_targets

KEY = "red"


def held(
    name: str, fence: int, enter: float, left: float | None, *, ask: float | None = None, ttl: float = 5.0
) -> Attempt:
    """An attempt that was granted. Its process is the part of its name before the colon."""
    asked = enter - 0.01 if ask is None else ask
    one = Attempt(name, name.partition(":")[0], KEY, asked, ttl, 60.0, owner=name, fence=fence, enter=enter)
    one.exit = left
    one.end = enter + 1000 if left is None else left
    return one


def waited(
    name: str, queued: float, *, until: float, fence: int = 0, kind: str = "", wait: float = 60.0, session: str = "s1"
) -> Attempt:
    """An attempt that queued: granted at ``until`` if it has a fence, else over then."""
    one = Attempt(name, name.partition(":")[0], KEY, queued - 0.01, 5.0, wait, places=[(queued, session)])
    one.kind, one.end = kind, until
    if fence:
        one.fence, one.enter, one.exit, one.end = fence, until, until + 0.1, until + 0.1
    return one


def verdict_of(*attempts: Attempt, **more: object) -> Verdict:
    return judge(History(list(attempts), **{"faults": [], **more}))  # type: ignore[arg-type]


def found_in(verdict: Verdict) -> set[str]:
    return {name for name, found in verdict.violations.items() if found}


# -- exclusive ---------------------------------------------------------------------------------------------------------


def test_one_after_the_other_is_clean() -> None:
    verdict = verdict_of(held("a:1", 1, 0.0, 1.0), held("b:1", 2, 1.0, 2.0), held("a:2", 3, 2.5, 3.0))
    assert verdict.clean
    assert verdict.counts["grants"] == 3


def test_two_at_once_are_reported() -> None:
    verdict = verdict_of(held("a:1", 1, 0.0, 1.0), held("b:1", 2, 0.999, 2.0))
    assert found_in(verdict) == {"overlaps"}


def test_one_that_spans_several_overlaps_each() -> None:
    verdict = verdict_of(held("a:1", 1, 0.0, 9.0), held("b:1", 2, 1.0, 2.0), held("c:1", 3, 3.0, 4.0))
    assert len(verdict.overlaps) == 2


def test_other_keys_do_not_matter() -> None:
    other = held("b:1", 2, 0.5, 2.0)
    other.key = "green"
    assert verdict_of(held("a:1", 1, 0.0, 1.0), other).clean


def test_an_overlap_by_a_process_paused_past_its_session_is_counted_apart() -> None:
    pause = Fault("long pause", 0.5, 4.5, "a")
    verdict = verdict_of(held("a:1", 1, 0.0, 4.6), held("b:1", 2, 3.6, 5.0), faults=[pause])
    assert verdict.clean
    assert verdict.counts["paused overlaps"] == 1


@pytest.mark.parametrize(
    ("pause", "why"),
    [
        (Fault("short pause", 0.5, 0.9, "a"), "too short to lose a lease"),
        (Fault("pause", 0.5, 2.0, "a"), "shorter than what was left of session and lease"),
        (Fault("long pause", 0.5, 4.5, "b"), "the other one was paused"),
        (Fault("long pause", 0.5, 4.5, None), "nobody was paused"),
        (Fault("kill -9", 0.5, 4.5, "a"), "no pause at all"),
        (Fault("long pause", -6.0, -1.0, "a"), "it was over before the lease was asked for"),
        (Fault("long pause", 5.7, 9.0, "a"), "it came after the overlap"),
    ],
)
def test_an_overlap_is_not_excused_by(pause: Fault, why: str) -> None:
    verdict = verdict_of(held("a:1", 1, 0.0, 5.6), held("b:1", 2, 3.6, 6.0), faults=[pause])
    assert found_in(verdict) == {"overlaps"}, why


def test_a_pause_excuses_only_what_happens_soon_after_it() -> None:
    pause = Fault("long pause", 0.5, 4.5, "a")
    verdict = verdict_of(held("a:1", 1, 0.0, 6.0), held("b:1", 2, 3.6, 7.0), faults=[pause])
    assert found_in(verdict) == {"overlaps"}


def test_a_shorter_pause_counts_when_renewals_failed_already() -> None:
    pause = Fault("pause", 1.5, 2.6, "a")
    attempts = (held("a:1", 1, 0.0, 2.65), held("b:1", 2, 2.55, 3.0))
    assert found_in(verdict_of(*attempts, faults=[pause])) == {"overlaps"}
    assert verdict_of(*attempts, faults=[Fault("blackhole", 0.2, 1.4), pause]).clean


def test_the_dead_hold_nothing_after_their_death() -> None:
    events = [
        {"t": 0.0, "who": "a", "event": "ask", "attempt": "a:1", "key": KEY, "ttl": 5.0, "wait": 1.0},
        {"t": 0.1, "who": "a", "event": "enter", "attempt": "a:1", "key": KEY, "owner": "o", "fence": 1},
        {"t": 3.0, "who": "b", "event": "ask", "attempt": "b:1", "key": KEY, "ttl": 5.0, "wait": 1.0},
        {"t": 3.1, "who": "b", "event": "enter", "attempt": "b:1", "key": KEY, "owner": "p", "fence": 2},
        {"t": 3.2, "who": "b", "event": "exit", "attempt": "b:1", "key": KEY, "writes": 0},
    ]
    attempts, _ = read_attempts(events, {"a": 0.2})
    assert verdict_of(*attempts).clean
    assert verdict_of(*attempts).counts["takeovers after death"] == 1
    attempts, _ = read_attempts(events, {"a": 3.15})  # it was alive, and inside, when b entered
    assert found_in(verdict_of(*attempts)) == {"overlaps"}


def test_force_excuses_an_overlap_only_until_the_holder_heard() -> None:
    attempts = (held("a:1", 1, 0.0, 1.02), held("b:1", 2, 1.0, 2.0))
    assert found_in(verdict_of(*attempts, forced={2: 1.0})) == {"overlaps"}
    assert found_in(verdict_of(*attempts, forced={1: 0.5})) == {"overlaps"}
    assert verdict_of(*attempts, forced={1: 1.0}).clean


def test_a_store_that_lost_its_data_may_grant_again_until_the_holder_hears_of_it() -> None:
    loss = Fault("flush, data lost", 0.5, 0.6)
    verdict = verdict_of(held("a:1", 1, 0.0, 3.0), held("b:1", 2, 1.0, 2.0), faults=[loss])
    assert verdict.clean
    assert verdict.counts["double grants after data loss"] == 1
    too_long = (held("a:1", 1, 0.0, 4.7), held("b:1", 2, 1.0, 2.0))
    assert found_in(verdict_of(*too_long, faults=[loss])) == {"overlaps"}
    granted_after_it = (held("a:1", 1, 0.7, 3.0), held("b:1", 2, 1.0, 2.0))
    assert found_in(verdict_of(*granted_after_it, faults=[loss])) == {"overlaps"}
    assert found_in(verdict_of(*too_long, faults=[Fault("server crash", 0.5, 0.6)])) == {"overlaps"}


# -- fences ------------------------------------------------------------------------------------------------------------


def test_a_fence_that_goes_back_is_reported() -> None:
    verdict = verdict_of(held("a:1", 2, 0.0, 1.0), held("b:1", 1, 2.0, 3.0))
    assert found_in(verdict) == {"fences going back"}


def test_a_fence_used_twice_is_reported_even_on_different_keys() -> None:
    other = held("b:1", 1, 2.0, 3.0)
    other.key = "green"
    assert found_in(verdict_of(held("a:1", 1, 0.0, 1.0), other)) == {"fences going back"}


def test_fences_have_to_grow_also_when_data_was_lost() -> None:
    loss = Fault("server restart, data lost", 1.2, 1.4)
    verdict = verdict_of(held("a:1", 2, 0.0, 1.0), held("b:1", 1, 2.0, 3.0), faults=[loss])
    assert found_in(verdict) == {"fences going back"}


def test_entering_late_after_a_pause_is_no_fence_going_back() -> None:
    late = held("a:1", 1, 5.0, 5.1, ask=0.0)
    verdict = verdict_of(held("b:1", 2, 4.0, 4.5), late, faults=[Fault("long pause", 0.1, 4.95, "a")])
    assert verdict.clean
    assert verdict.counts["paused late entries"] == 1
    assert found_in(verdict_of(held("b:1", 2, 4.0, 4.5), late)) == {"fences going back"}


# -- writes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["written", "stored"])
def test_a_stale_write_is_reported(where: str) -> None:
    good = [Written(KEY, 1, "a:1", 0.0), Written(KEY, 1, "a:1", 0.1), Written("green", 9, "c:1", 0.2)]
    assert verdict_of(**{where: [*good, Written(KEY, 2, "b:1", 0.3)]}).clean
    going_back = [*good, Written(KEY, 2, "b:1", 0.3), Written(KEY, 1, "a:1", 0.4)]
    assert found_in(verdict_of(**{where: going_back})) == {"stale writes accepted"}


def test_a_stale_write_is_reported_even_if_fences_do_not_tell() -> None:
    rows = [Written(KEY, 7, "a:1", 0.0), Written(KEY, 7, "b:1", 0.1), Written(KEY, 7, "a:1", 0.2)]
    assert found_in(verdict_of(written=rows)) == {"stale writes accepted"}


def test_a_refused_write_needs_a_paused_writer() -> None:
    one = held("a:1", 1, 0.0, 4.6)
    one.refused = 4.55
    assert found_in(verdict_of(one)) == {"writes of live holders refused"}
    excused = verdict_of(one, faults=[Fault("long pause", 0.5, 4.5, "a")])
    assert excused.clean
    assert excused.counts["stale writes refused"] == 1


def test_a_write_that_the_target_took_and_lost_is_reported() -> None:
    one = held("a:1", 1, 0.0, 1.0)
    one.writes = 2
    there = [Written(KEY, 1, "a:1", 0.1), Written(KEY, 1, "a:1", 0.2)]
    assert verdict_of(one, written=there).clean
    assert found_in(verdict_of(one, written=there[:1])) == {"acknowledged writes lost"}


def test_an_acknowledged_write_that_is_not_there_is_reported() -> None:
    there = [Written(KEY, 1, "a:1", 0.0)]
    assert verdict_of(stored=there, acknowledged=["a:1"]).clean
    assert found_in(verdict_of(stored=there, acknowledged=["a:1", "b:1"])) == {"acknowledged writes lost"}


# -- fair --------------------------------------------------------------------------------------------------------------


def test_a_waiter_overtaken_by_a_newcomer_is_reported() -> None:
    waiter = waited("a:1", 1.0, until=3.0, fence=3)
    assert found_in(verdict_of(waiter, held("b:1", 2, 2.0, 2.5, ask=1.1))) == {"FIFO inversions"}


def test_a_waiter_overtaken_before_it_gave_up_is_reported() -> None:
    waiter = waited("a:1", 1.0, until=3.0, kind="LockTimeoutError", wait=2.0)
    assert found_in(verdict_of(waiter, held("b:1", 2, 2.0, 2.5, ask=1.1))) == {"FIFO inversions"}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (held("b:1", 2, 2.0, 2.5, ask=0.9), "it had asked before the waiter was known to queue"),
        (held("b:1", 4, 3.2, 3.5, ask=1.1), "it was granted the key after the waiter"),
        (held("b:1", 4, 2.9, 2.95, ask=1.1), "its fence says that it was granted after the waiter, who heard late"),
    ],
)
def test_it_is_no_inversion_when(other: Attempt, why: str) -> None:
    assert "FIFO inversions" not in found_in(verdict_of(waited("a:1", 1.0, until=3.0, fence=3), other)), why


def test_who_gave_up_may_be_followed() -> None:
    waiter = waited("a:1", 1.0, until=3.5, kind="LockTimeoutError", wait=2.0)
    assert verdict_of(waiter, held("b:1", 2, 3.1, 3.2, ask=1.1)).clean


def test_who_lost_its_session_queues_anew_and_then_keeps_its_place() -> None:
    waiter = waited("a:1", 1.0, until=9.0, fence=5)
    lost = {"s1": 1.5}
    early, late = held("b:1", 2, 2.0, 2.1, ask=1.1), held("b:2", 3, 8.5, 8.6, ask=8.0)
    assert verdict_of(waiter, early, sessions_lost=lost).clean
    # Even if it never said that it queues again, it must by then.
    assert found_in(verdict_of(waiter, late, sessions_lost=lost)) == {"FIFO inversions"}
    waiter.places.append((2.5, "s2"))
    assert verdict_of(waiter, early, sessions_lost=lost).clean
    after = held("b:3", 4, 3.0, 3.1, ask=2.6)
    assert found_in(verdict_of(waiter, after, sessions_lost=lost)) == {"FIFO inversions"}
    assert found_in(verdict_of(waiter, early, sessions_lost={"s9": 1.5})) == set()  # somebody else's session


def test_a_session_of_somebody_else_or_lost_later_is_no_excuse() -> None:
    attempts = (waited("a:1", 1.0, until=3.0, fence=3), held("b:1", 2, 2.0, 2.5, ask=1.1))
    assert found_in(verdict_of(*attempts, sessions_lost={"s2": 1.5})) == {"FIFO inversions"}
    assert found_in(verdict_of(*attempts, sessions_lost={"s1": 3.5})) == {"FIFO inversions"}


@pytest.mark.parametrize("kind", ["server restart", "server crash"])
def test_the_end_of_a_server_is_no_excuse_for_losing_the_queue(kind: str) -> None:
    attempts = (waited("a:1", 1.0, until=3.0, fence=3), held("b:1", 2, 2.0, 2.5, ask=1.1))
    faults = [Fault(kind, 1.2, 1.8)]
    assert found_in(verdict_of(*attempts, faults=faults)) == {"FIFO inversions"}


def test_who_lost_its_place_with_all_data_queues_anew() -> None:
    loss = Fault("server crash, data lost", 1.05, 1.1)
    waiter = waited("a:1", 1.0, until=9.0, fence=3)
    assert verdict_of(waiter, held("b:1", 2, 2.0, 2.5, ask=1.5), faults=[loss]).clean
    late = held("b:1", 2, 8.0, 8.5, ask=7.5)
    assert found_in(verdict_of(waiter, late, faults=[loss])) == {"FIFO inversions"}
    heard_later = waited("a:1", 1.2, until=9.0, fence=3)
    heard_later.placed = 1.0
    assert verdict_of(heard_later, held("b:1", 2, 2.0, 2.5, ask=1.5), faults=[loss]).clean


def test_who_died_waiting_is_judged_up_to_its_death_unless_it_was_paused() -> None:
    waiter = waited("a:1", 1.0, until=6.0)
    other = held("b:1", 2, 5.0, 5.1, ask=1.1)
    assert found_in(verdict_of(waiter, other)) == {"FIFO inversions"}
    assert verdict_of(waiter, other, faults=[Fault("long pause", 1.5, 6.0, "a")]).clean
    assert found_in(verdict_of(waiter, other, faults=[Fault("short pause", 1.5, 1.8, "a")])) == {"FIFO inversions"}


def test_a_grant_that_was_never_heard_counts_as_a_turn() -> None:
    waiter = waited("a:1", 1.0, until=9.0, fence=3)
    waiter.unheard = [1.5]
    early, late = held("b:1", 2, 2.0, 2.5, ask=1.1), held("b:1", 2, 7.0, 7.5, ask=1.1)
    assert found_in(verdict_of(waiter, early)) == {"FIFO inversions"}, "its lease could not have run out by then"
    assert verdict_of(waiter, late).clean


def test_oddities_are_violations() -> None:
    assert found_in(verdict_of(oddities=["a worker crashed"])) == {"oddities"}


# -- the records -------------------------------------------------------------------------------------------------------


async def test_a_target_refuses_smaller_fences_only(tmp_path) -> None:
    one, same_file = Target(tmp_path, KEY), Target(tmp_path, KEY)
    assert await one.write(5, "a:1")
    assert await same_file.write(5, "a:1")
    assert await same_file.write(12, "b:1")
    assert not await one.write(5, "a:1")
    assert [(row.fence, row.attempt) for row in read_targets(tmp_path)] == [(5, "a:1"), (5, "a:1"), (12, "b:1")]
    one.close()
    same_file.close()


def test_journals_are_merged_by_time(tmp_path) -> None:
    journals = [Journal(tmp_path, who) for who in ("a", "b")]
    for event in ("first", "second"):
        for journal in journals:
            journal.note(event)
    assert [(e["who"], e["event"]) for e in read_journals(tmp_path)] == [
        *(("a", "first"), ("b", "first"), ("a", "second"), ("b", "second")),
    ]
    for journal in journals:
        journal.close()
