"""The audit at the end of the story: what was promised, compared with the tables, the jobs and the moderation API."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from interlock import JobState
from sentinel.database import execute_query
from sentinel.report_service import ACTION
from sentinel.scheduler import list_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sentinel.console import Console
    from sentinel.database import Row

__all__ = ["Audit", "Seen", "audit"]

_TOLERANCE = 0.001
"""Seconds by which two clocks of one machine may differ, and the trace be written late."""


@dataclass
class Seen:
    """The observations of the director and of the processes of the story."""

    trace: Sequence[Mapping[str, Any]] = ()
    """Starts and ends of reports and of turns, in every process."""
    killed: Mapping[int, float] = field(default_factory=dict[int, float])
    """When each killed worker was killed."""
    accepted: Counter[int] = field(default_factory=Counter[int])
    """How often an operator's click on a target was answered with 202."""
    edits: Counter[int] = field(default_factory=Counter[int])
    """How many edits of each schedule were answered with yes."""
    cooldowns: Sequence[tuple[float, float]] = ()
    """Each cooldown with the time from which it applied."""
    reviews: Mapping[str, int] = field(default_factory=dict[str, int])
    """The reviews that the moderation API has made, by key."""
    overlaps: Sequence[str] = ()
    """Items of which the moderation API was asked to make two reviews at once."""


@dataclass
class Audit:
    """What was checked, and every violation."""

    targets: int = 0
    reports: Counter[str] = field(default_factory=Counter[str])
    """How the reports' jobs ended."""
    runs: int = 0
    shortest_gap: float | None = None
    """The shortest time between two starts of one account, less its cooldown."""
    firings: int = 0
    edits: int = 0
    violations: list[str] = field(default_factory=list[str])

    def expect(self, holds: bool, what: str) -> None:
        """Note a violation unless something holds."""
        if not holds:
            self.violations.append(what)


async def audit(console: Console, seen: Seen) -> Audit:
    """Check everything. All work has to be finished."""
    found = Audit()
    await _check_targets(found, console, seen)
    _check_gaps(found, seen)
    _check_overlaps(found, seen)
    await _check_schedules(found, console, seen)
    return found


async def _check_targets(found: Audit, console: Console, seen: Seen) -> None:
    """Each target's status agrees with its last row in report_logs, and each row with its job."""
    targets = await execute_query("select * from targets order by id")
    logs = await execute_query("select * from report_logs where action = ? order by id", (ACTION,))
    of_target: defaultdict[int, list[Row]] = defaultdict(list)
    for row in logs:
        of_target[row["target_id"]].append(row)
    found.targets = len(targets)
    for target in targets:
        name = f"target #{target['id']}"
        last = of_target[target["id"]][-1:]
        expected = {True: "completed", False: "failed"}[bool(last[0]["success"])] if last else "pending"
        reset = target["status"] == "pending" and target["job_id"] is None
        found.expect(
            target["status"] == expected or reset, f"{name} is {target['status']}, and its log says {expected}"
        )
        clicks = seen.accepted[target["id"]]
        rows = len(of_target[target["id"]])
        found.expect(rows >= clicks, f"{name} was accepted {clicks} times and has {rows} rows in report_logs")
    of_job = Counter(row["job_id"] for row in logs)
    success = {row["job_id"]: bool(row["success"]) for row in logs}
    jobs = await console.app.jobs.matching(*JobState, name=ACTION)
    for job_id in jobs:
        view = await console.app.jobs.get(job_id)
        found.reports[view.state] += 1
        found.expect(of_job[job_id] == 1, f"job {job_id} has {of_job[job_id]} rows in report_logs")
        done = view.state is JobState.DONE
        found.expect(view.state.final, f"job {job_id} never ended: it is {view.state}")
        found.expect(success.get(job_id) is done, f"job {job_id} is {view.state}, and its log says otherwise")
        found.expect(not done or f"job-{job_id}" in seen.reviews, f"job {job_id} is done and made no review")
    found.expect(set(of_job) <= set(jobs), "report_logs has rows of unknown jobs")


def _check_gaps(found: Audit, seen: Seen) -> None:
    """Two starts of one account, by a report or by a turn, are as far apart as its cooldown."""
    starts: defaultdict[int, list[tuple[float, str]]] = defaultdict(list)
    for line in seen.trace:
        if line["event"] == "start":
            starts[line["account"]].append((line["at"], f"job {line['job']}" if "job" in line else "a turn"))
    for account, times in starts.items():
        times.sort()
        for (first, one), (second, other) in pairwise(times):
            # Where the cooldown changed in between, either applied.
            applied = [seconds for at, seconds in seen.cooldowns if at <= first][-1:]
            applied += [seconds for at, seconds in seen.cooldowns if first < at <= second]
            spare = second - first - min(applied, default=0.0)
            found.shortest_gap = spare if found.shortest_gap is None else min(found.shortest_gap, spare)
            found.expect(
                spare >= -_TOLERANCE,
                f"account {account} was used by {one} and {second - first:.3f} s later by {other}, at {second:.3f}",
            )


def _check_overlaps(found: Audit, seen: Seen) -> None:
    """No target is processed twice at once. A run that was killed ended then."""
    begun: dict[tuple[int, int], float] = {}
    runs: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for line in seen.trace:
        if "target" not in line:
            continue
        key = (line["pid"], line["job"])
        if line["event"] == "start":
            begun[key] = line["at"]
        else:
            runs[line["target"]].append((begun.pop(key), line["at"]))
    targets = {(line["pid"], line["job"]): line["target"] for line in seen.trace if "target" in line}
    for key, at in begun.items():
        found.expect(key[0] in seen.killed, f"job {key[1]} started in process {key[0]} and never ended there")
        runs[targets[key]].append((at, max(at, seen.killed.get(key[0], at))))
    for target, spans in runs.items():
        found.runs += len(spans)
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            found.expect(start >= end, f"target #{target} was processed twice at once, for {end - start:.3f} s")
    for item in seen.overlaps:
        found.violations.append(f"two reviews of {item} were made at once")


async def _check_schedules(found: Audit, console: Console, seen: Seen) -> None:
    """No edit was lost, and what fires is what the table says."""
    for row in await list_tasks():
        edits = seen.edits[row["id"]]
        found.edits += edits
        found.expect(
            row["version"] == edits + 1, f"schedule {row['id']} has version {row['version']} after {edits} edits"
        )
    found.firings = len(await console.app.jobs.matching(*JobState, name=console.task.name))
