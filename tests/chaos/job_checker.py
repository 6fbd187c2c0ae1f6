"""Judges a jobs run by the journals of the processes and by how jobs ended in the store.

Everything here is a pure function of a `JobHistory`. What was accepted has ended as it should, acknowledged once and by
whoever held it last; jobs of a lane run one at a time and in the order in which they were accepted; no job runs in two
places at once; and no limit is exceeded. Handlers that ran on because their process had been paused past its session
are counted apart: that they ran is excused, an acknowledgement of theirs never.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.faults import Pauses
from tests.chaos.job_history import NEVER, Acknowledging, Final, Given, JobHistory, Run, Ticket
from tests.chaos.job_order import Turn, inversions
from tests.chaos.limit_checker import LimitHistory, Start, judge_limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.limits import Use

__all__ = ["JobVerdict", "judge_jobs"]

_CLOCKS = 0.02
"""How far the store's reading of the clock may differ from ours."""
MAX_CRASHES = 3
_ENDS = {
    "permanent": {"failed"},
    "discard": {"discarded"},
    "coalesce": {"done", "superseded"},
}
"""How a job with this fate may end; "done" unless it is named here."""


@dataclass
class JobVerdict:
    """Counts of what happened, and every violation in words."""

    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    enqueued_twice: list[str] = field(default_factory=list)
    inversions: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    run_twice: list[str] = field(default_factory=list)
    run_after_end: list[str] = field(default_factory=list)
    fences_going_back: list[str] = field(default_factory=list)
    double_acknowledged: list[str] = field(default_factory=list)
    late_acknowledged: list[str] = field(default_factory=list)
    live_refused: list[str] = field(default_factory=list)
    wrong_ends: list[str] = field(default_factory=list)
    crashes_without_cause: list[str] = field(default_factory=list)
    too_many: list[str] = field(default_factory=list)
    too_often: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    @property
    def violations(self) -> dict[str, list[str]]:
        return {
            "lost": self.lost,
            "enqueued twice": self.enqueued_twice,
            "order inversions": self.inversions,
            "overlaps in a lane": self.overlaps,
            "run by two at once": self.run_twice,
            "run after its end": self.run_after_end,
            "fences going back": self.fences_going_back,
            "double acknowledgements": self.double_acknowledged,
            "late acknowledgements accepted": self.late_acknowledged,
            "acknowledgements refused to the holder": self.live_refused,
            "ended otherwise than its handler said": self.wrong_ends,
            "crashes without a cause": self.crashes_without_cause,
            "too many at once": self.too_many,
            "too many in a span": self.too_often,
            "never finished": self.unfinished,
            "oddities": self.oddities,
        }

    @property
    def clean(self) -> bool:
        return not any(self.violations.values())


def judge_jobs(history: JobHistory) -> JobVerdict:
    """Check every promise."""
    verdict = JobVerdict(Counter(history.counts), unfinished=list(history.unfinished), oddities=list(history.oddities))
    excuses = _Excuses(history)
    runs = sorted(history.runs, key=lambda run: run.start)
    by_id: dict[int, list[Run]] = {}
    by_lane: dict[str, list[Run]] = {}
    for run in runs:
        by_id.setdefault(run.id, []).append(run)
        ticket = history.tickets.get(run.ticket)
        if ticket is not None and ticket.lane:
            by_lane.setdefault(ticket.lane, []).append(run)
    for lane, in_lane in by_lane.items():
        _check_overlaps(lane, in_lane, excuses, verdict)
    _check_ids(history, by_id, verdict)
    _check_runs(by_id, excuses, verdict)
    _check_acknowledgements(history, by_id, excuses, verdict)
    _check_ends(history, by_id, verdict)
    _check_order(history, by_id, excuses, verdict)
    _check_crashes(history, verdict)
    _check_limits(history, runs, excuses, verdict)
    _count(history, by_id, verdict)
    return verdict


class _Excuses:
    """Knows which runs went on, or began, although their session had ended, because of a pause.

    A run whose end the store took is none of them: it held the job.
    """

    def __init__(self, history: JobHistory) -> None:
        self._pauses = Pauses(history.faults, history.session_ttl)
        self._held = {
            (one.id, one.fence) for one in history.acknowledgings if one.accepted and one.outcome != "returned"
        }
        self._known: dict[int, float | None] = {}

    def since(self, run: Run) -> float | None:
        """When the pause began that excuses it."""
        if id(run) not in self._known:
            pause = None if (run.id, run.fence) in self._held else self._pauses.excuse(run)
            self._known[id(run)] = None if pause is None else pause.begin
        return self._known[id(run)]

    def at(self, run: Run, moment: float) -> bool:
        """Whether it is excused for running at that moment."""
        since = self.since(run)
        return since is not None and since < moment


# -- what runs ---------------------------------------------------------------------------------------------------------


def _check_overlaps(lane: str, runs: Iterable[Run], excuses: _Excuses, verdict: JobVerdict) -> None:
    """Runs of one lane, in the order in which they started."""
    at_work: list[Run] = []
    for later in runs:
        at_work = [run for run in at_work if run.left > later.start]
        for earlier in at_work:
            if earlier.id == later.id:
                continue  # that is told as a job run by two
            if excuses.at(earlier, later.start) or excuses.at(later, later.start):
                verdict.counts["paused overlaps in a lane"] += 1
            else:
                verdict.overlaps.append(f"{lane}: {_told(earlier)} was still at work when {_told(later)} began")
        at_work.append(later)


def _check_order(history: JobHistory, by_id: dict[int, list[Run]], excuses: _Excuses, verdict: JobVerdict) -> None:
    by_lane: dict[str, list[Turn]] = {}
    for ticket in history.tickets.values():
        runs = by_id.get(ticket.id, ()) if ticket.id is not None else ()
        starts = [run.start for run in runs if not excuses.at(run, run.start)]
        if ticket.lane and starts:
            # One that gives up its place when it is to be retried is in order only as it starts first.
            floating = ticket.kind == "skip" or ticket.id in history.quarantined
            last = starts[0] if floating else starts[-1]
            by_lane.setdefault(ticket.lane, []).append(Turn(ticket, starts[0], last))
    for turns in by_lane.values():
        verdict.counts["jobs checked for order"] += len(turns)
        verdict.inversions += inversions(turns)


def _check_runs(by_id: dict[int, list[Run]], excuses: _Excuses, verdict: JobVerdict) -> None:
    """A job is run by one at a time, under a fence of its own each time, larger than those before."""
    for runs in by_id.values():
        fences: dict[int, Run] = {}
        newest: Run | None = None
        for run in runs:
            if run.fence in fences:
                verdict.run_twice.append(f"{_told(run)} runs what was fetched once, as {_told(fences[run.fence])} does")
            fences[run.fence] = run
            if newest is None:
                newest = run
                continue
            if newest.left > run.start:
                if excuses.at(min(newest, run, key=lambda one: one.fence), run.start):
                    verdict.counts["paused runs of one job at once"] += 1
                else:
                    verdict.run_twice.append(f"{_told(newest)} was still at work when {_told(run)} began")
            if run.fence < newest.fence and not excuses.at(run, run.start):
                verdict.fences_going_back.append(f"{_told(run)} began after {_told(newest)}")
            if run.fence > newest.fence:
                newest = run


# -- what became of it -------------------------------------------------------------------------------------------------


def _check_ids(history: JobHistory, by_id: dict[int, list[Run]], verdict: JobVerdict) -> None:
    """Each ticket is one job. Learns which one it is where the enqueuer did not hear it."""
    for id_, runs in by_id.items():
        ticket = history.tickets.get(runs[0].ticket)
        if ticket is None or any(run.ticket != ticket.name for run in runs):
            verdict.oddities.append(f"job {id_} ran with a ticket that it cannot have: {_told(runs[0])}")
        elif ticket.id is None:
            ticket.id = id_
        elif ticket.id != id_:
            verdict.enqueued_twice.append(f"{ticket.name} is job {ticket.id} and job {id_}")
    known = {ticket.id for ticket in history.tickets.values() if ticket.id is not None}
    unsure = sum(ticket.accepted == NEVER for ticket in history.tickets.values())
    strays = [id_ for id_ in history.final if id_ not in known]
    verdict.counts["jobs there whose enqueuer did not hear"] = len(strays) + sum(
        ticket.accepted == NEVER and ticket.id is not None for ticket in history.tickets.values()
    )
    if verdict.counts["jobs there whose enqueuer did not hear"] > unsure:
        verdict.enqueued_twice.append(f"{len(strays)} jobs that nobody asked for, such as {strays[:5]}")


def _check_acknowledgements(
    history: JobHistory, by_id: dict[int, list[Run]], excuses: _Excuses, verdict: JobVerdict
) -> None:
    begun: dict[int, list[Given]] = {}
    for given in history.given:
        begun.setdefault(given.id, []).append(given)
    ends: dict[int, Acknowledging] = {}
    for one in history.acknowledgings:
        if not one.accepted:
            verdict.counts["acknowledgements refused"] += 1
            _check_refusal(one, history, verdict)
            continue
        # Returning what is somebody else's by now changes nothing, and may be answered either way.
        if one.outcome != "returned" and _fetched_since(one, begun.get(one.id, ())):
            verdict.late_acknowledged.append(f"{_acknowledged(one)} was accepted when another had fetched it already")
        if one.outcome in ("done", "failed", "discarded", "cancelled"):
            before = ends.setdefault(one.id, one)
            if before.fence != one.fence:
                verdict.double_acknowledged.append(
                    f"{_acknowledged(before)} and {_acknowledged(one)} were both accepted"
                )
    for id_, end in ends.items():
        final = history.final.get(id_)
        if final is not None and id_ not in history.quarantined and final.fence != end.fence:
            verdict.double_acknowledged.append(f"{_acknowledged(end)} was accepted, but in the end it is {final}")
        for run in by_id.get(id_, ()):
            if run.start > end.answered and run.fence != end.fence:
                if excuses.at(run, run.start):
                    verdict.counts["paused runs after the end"] += 1
                else:
                    verdict.run_after_end.append(f"{_told(run)} began after {_acknowledged(end)} was accepted")


def _fetched_since(one: Acknowledging, given: Iterable[Given]) -> bool:
    return any(fetch.fence > one.fence and fetch.answered < one.asked for fetch in given)


def _check_refusal(one: Acknowledging, history: JobHistory, verdict: JobVerdict) -> None:
    final = history.final.get(one.id)
    if final is not None and final.state == "done" and final.fence <= one.fence and one.outcome != "returned":
        verdict.live_refused.append(f"{_acknowledged(one)} was refused, and nobody ever had it after: {final}")


def _check_ends(history: JobHistory, by_id: dict[int, list[Run]], verdict: JobVerdict) -> None:
    """Everything accepted has ended as its handler said, last of all."""
    tickets = {ticket.id: ticket for ticket in history.tickets.values()}
    for ticket in history.tickets.values():
        final = history.final.get(ticket.id) if ticket.id is not None else None
        if final is None:
            if ticket.accepted < NEVER or ticket.id in by_id:
                verdict.lost.append(f"{ticket.name} (job {ticket.id}, {ticket.lane or 'no lane'}) is gone")
            continue
        allowed = _ENDS.get(ticket.fate, {"done"}) | ({"cancelled"} if ticket.cancel is not None else set())
        if final.state not in allowed:
            verdict.lost.append(f"{ticket.name} (job {ticket.id}, fate {ticket.fate}) is {final.state} in the end")
        elif final.state == "superseded":
            successor = tickets.get(final.superseded_by)
            if successor is None and final.superseded_by in history.final:
                continue  # its enqueuer did not hear, and it did not run either
            overtaken = successor is not None and (successor.delay or successor.accepted >= ticket.ask)
            if successor is None or successor.lane != ticket.lane or not overtaken:
                verdict.lost.append(f"{ticket.name} (job {ticket.id}) was superseded by {successor}")
        elif final.state != "cancelled":
            _check_last_run(ticket, final, by_id.get(ticket.id or 0, ()), history, verdict)


def _check_last_run(
    ticket: Ticket, final: Final, runs: Iterable[Run], history: JobHistory, verdict: JobVerdict
) -> None:
    last = next((run for run in runs if run.fence == final.fence), None)
    if last is None or last.how != final.state:
        did = "nobody ran it" if last is None else f"{_told(last)} ended as {last.how or 'nothing'}"
        verdict.wrong_ends.append(f"{ticket.name} (job {ticket.id}) is {final.state} under {final.fence}, but {did}")
    failures = int(ticket.fate.removeprefix("fails ")) if ticket.fate.startswith("fails ") else 0
    if final.attempt != failures + 1 and ticket.id not in history.quarantined:
        verdict.wrong_ends.append(f"{ticket.name} (job {ticket.id}, {ticket.fate}) took {final.attempt} attempts")


def _check_crashes(history: JobHistory, verdict: JobVerdict) -> None:
    """A crash is counted only for what was fetched by somebody who did not acknowledge it."""
    acknowledged = {(one.id, one.fence) for one in history.acknowledgings if one.accepted}
    open_ends = Counter(given.id for given in history.given if (given.id, given.fence) not in acknowledged)
    for id_, final in (*history.final.items(), *history.quarantined.items()):
        if final.crashes > open_ends[id_] + history.unheard_fetches:
            verdict.crashes_without_cause.append(
                f"job {id_} counts {final.crashes} crashes, but was left unacknowledged {open_ends[id_]} times"
            )
    for id_, final in history.quarantined.items():
        if final.crashes < MAX_CRASHES:
            verdict.crashes_without_cause.append(f"job {id_} was quarantined after {final.crashes} crashes")


# -- limits ------------------------------------------------------------------------------------------------------------


def _check_limits(history: JobHistory, runs: Sequence[Run], excuses: _Excuses, verdict: JobVerdict) -> None:
    slots: list[Start] = []
    paces: dict[Use, list[tuple[float, float, Run]]] = {}
    fetches = {(given.id, given.fence): given for given in history.given}
    for run in runs:
        ticket = history.tickets.get(run.ticket)
        for use in ticket.uses if ticket is not None else ():
            if use.per and (fetch := fetches.get((run.id, run.fence))) is not None:
                paces.setdefault(use, []).append((fetch.answered, fetch.asked, run))
            elif not use.per:
                ask = NEVER if excuses.since(run) is None else run.ask
                one = Start(f"job {run.id}", run.who, (use,), ask, 0.0, run.ttl, run.start)
                one.exit, one.died = run.end, run.died
                slots.append(one)
    judged = judge_limits(LimitHistory(slots, history.faults, session_ttl=history.session_ttl))
    verdict.too_many = judged.too_many
    verdict.counts.update({name: figure for name, figure in judged.counts.items() if name != "starts"})
    for use, starts in paces.items():
        verdict.counts[f"starts under {use.key.partition(':')[0]}s"] += len(starts)
        _check_span(use, sorted(starts, key=lambda start: start[:2]), verdict)


def _check_span(use: Use, starts: Sequence[tuple[float, float, Run]], verdict: JobVerdict) -> None:
    """What starts is the fetch, at some time between its request and its answer."""
    for number in range(use.max_count, len(starts)):
        some = starts[number - use.max_count : number + 1]
        span = some[-1][0] - min(asked for _, asked, _ in some)
        if span < use.per - _CLOCKS:
            told = "; ".join(_told(run) for _, _, run in some)
            verdict.too_often.append(f"{use.key}: {len(some)} were fetched within {span:.3f} s: {told}")


# -- counting ----------------------------------------------------------------------------------------------------------


def _count(history: JobHistory, by_id: dict[int, list[Run]], verdict: JobVerdict) -> None:
    counts = verdict.counts
    counts["jobs accepted"] = sum(ticket.accepted < NEVER for ticket in history.tickets.values())
    counts["jobs asked for, answer not heard"] = len(history.tickets) - counts["jobs accepted"]
    counts["lanes"] = len({ticket.lane for ticket in history.tickets.values() if ticket.lane})
    counts["runs"] = len(history.runs)
    counts["quarantined, then retried by hand"] = len(history.quarantined)
    for run in history.runs:
        counts[f"runs that ended as {run.how or 'nothing: their process died'}"] += 1
    for final in history.final.values():
        counts[f"jobs {final.state}"] += 1
    dead = [run for run in history.runs if run.end is None]
    followed = [(run, later) for run in dead for later in by_id[run.id] if later.fence > run.fence]
    counts["died at work"] = len(dead)
    counts["taken over from the dead"] = len({(run.id, run.fence) for run, _ in followed})


def _told(run: Run) -> str:
    about = f"job {run.id} ({run.ticket}, fence {run.fence}, attempt {run.attempt})"
    return f"{about} in {run.who} at work {run.start:.3f}..{run.left:.3f}"


def _acknowledged(one: Acknowledging) -> str:
    return f"{one.outcome} of job {one.id} under fence {one.fence} by {one.who} at {one.asked:.3f}"
