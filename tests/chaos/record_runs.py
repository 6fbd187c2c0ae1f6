"""One records run per store: changes under the nemesis while every process seals, then the verdict, then tampering."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from interlock import App
from interlock.journal import ProblemKind
from tests.chaos.nemesis import MORE_SECONDS, Fleet, Nemesis, Pace
from tests.chaos.outcome import Outcome
from tests.chaos.places import place
from tests.chaos.record_worker import INCREMENTS, Counted, RecordPlan, declare, increments_of
from tests.chaos.records import read_journals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from interlock.journal import EntryView
    from interlock.ports.journal import JournalEntry

__all__ = ["Change", "Entry", "entry_of", "judge_records", "run_records"]

_PAGE = 1000


class Entry(NamedTuple):
    """A journal entry about a record."""

    id: int
    change: str
    action: str
    record: str
    from_version: int | None
    to_version: int | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Change(NamedTuple):
    """A change that a process tried to make, and what it knows of its end: done, refused, or unknown."""

    name: str
    kind: str
    record: str
    end: str


_ACTIONS = {
    "edit": "record.edit",
    "update": "record.update",
    "correct": "record.correct",
    "transition": "record.transition",
}


def judge_records(
    changes: Sequence[Change], entries: Sequence[Entry], records: Sequence[tuple[Counted, int]]
) -> dict[str, list[str]]:
    """Compare what processes know with the journal, and the journal with the records and their counts of corrections.

    Returns the violations by kind.
    """
    found: dict[str, list[str]] = {
        name: []
        for name in (
            "acknowledged without an entry",
            "refused with an entry",
            "made twice",
            "entries without a change",
            "other than asked for",
            "versions with gaps",
            "wrong steps",
            "wrong sums",
        )
    }
    asked = {change.name: change for change in changes}
    by_change, by_record = defaultdict(list), defaultdict(list)
    for entry in entries:
        by_record[entry.record].append(entry)
        if entry.action != "record.create":
            by_change[entry.change].append(entry)
    for change in changes:
        made = len(by_change[change.name])
        if made > 1:
            found["made twice"].append(f"{change} has {made} entries")
        if change.end == "done" and not made:
            found["acknowledged without an entry"].append(str(change))
        if change.end == "refused" and made:
            found["refused with an entry"].append(str(change))
    for name, its in by_change.items():
        change_of = asked.get(name)
        if change_of is None and its:
            found["entries without a change"].append(str(its[0]))
        elif any((one.action, one.record) != (_ACTIONS[change_of.kind], change_of.record) for one in its if change_of):
            found["other than asked for"].append(f"{change_of}: {its}")
    writes = Counter((one.after or {}).get("_write") for one in entries)
    found["made twice"] += [
        f"{count} entries have the write ID {write}" for write, count in writes.items() if count > 1
    ]
    for record, corrections in records:
        _judge_record(record, corrections, by_record[record.id], found)
    return found


def _judge_record(record: Counted, corrections: int, entries: list[Entry], found: dict[str, list[str]]) -> None:
    entries.sort(key=lambda entry: -1 if entry.to_version is None else entry.to_version)
    versions = [(entry.from_version, entry.to_version) for entry in entries]
    if versions != [(None, 0), *((n, n + 1) for n in range(record.version))]:
        found["versions with gaps"].append(f"{record.id} is at {record.version}: {versions}")
    kinds = Counter(entry.action for entry in entries)
    increments = sum(kinds[_ACTIONS[kind]] for kind in INCREMENTS)
    if (record.count, corrections) != (increments, kinds["record.correct"]):
        found["wrong sums"].append(
            f"{record.id}: {record.count} and {corrections} corrections instead of {increments} and"
            f" {kinds['record.correct']}"
        )
    count, status, mark = 0, "new", ""
    for entry in entries[1:]:
        before, after = entry.before or {}, entry.after or {}
        if entry.action in (_ACTIONS[kind] for kind in INCREMENTS):
            count += 1
            right = (before.get("count"), after.get("count")) == (count - 1, count)
        elif entry.action == "record.transition":
            right, status = (before.get("status"), after.get("status")) == (status, entry.change), entry.change
        else:
            right, mark = (before.get("mark"), after.get("mark")) == (mark, entry.change), entry.change
        if not right:
            found["wrong steps"].append(str(entry))
    if (record.status, record.mark) != (status, mark):
        found["wrong sums"].append(f"{record.id} is {record}, and its entries lead to {status} and {mark}")


async def run_records(
    kind: str,
    folder: Path,
    seed: int,
    *,
    pace: Pace,
    processes: int,
    increments: int,
    seconds: float,
    scale: float = 1.0,
    **changes: object,
) -> Outcome:
    """Let each slot of processes acknowledge so many increments under faults, within so many seconds; then judge."""
    begun = time.monotonic()
    with place(kind, folder, scale=scale) as store:
        about = {"url": store.url, "folder": str(folder), "increments": increments, "seconds": seconds + MORE_SECONDS}
        plan = RecordPlan(**{**about, **changes})  # type: ignore[arg-type]
        app = App(plan.url, settings=plan.settings)
        records = declare(app)
        async with app:
            for number in range(plan.records):
                await records.create(Counted(id=f"r{number}"), by="setup")
            await app.journal.seal()
            head = (await app.journal.verify()).head
        fleet = Fleet(plan, processes, seed, store.ways, "tests.chaos.record_worker:run")

        def enough() -> bool:
            return all(increments_of(folder, f"w{slot}") >= increments for slot in range(processes))

        try:
            await fleet.ready()
            await Nemesis(fleet, store.faults, seed, pace=pace).run(1.0, enough=enough, max_seconds=seconds)
            await fleet.stop()
        finally:
            fleet.close()
        events = read_journals(folder)
        async with app:
            await app.journal.seal()
            report = await app.journal.verify(head=head)
            entries = await _entries(app)
            kept = [(one, records.corrections(one).count) for one in await records.list()]
        violations = judge_records(_changes(events), entries, kept)
        violations["seals"] = [problem.message for problem in report.problems]
        if report.unsealed or report.entries != len(entries):
            violations["seals"].append(f"{report.entries} of {len(entries)} entries are sealed")
        violations["oddities"] = fleet.oddities + [str(event) for event in events if event["event"] == "oops"]
        if not enough():
            violations["oddities"].append(f"not enough increments in {seconds:g} s")
        violations["tampering not found"] = await _tampered(app, store.url, entries, random.Random(seed))
    ends = Counter(change.end for change in _changes(events))
    counts = Counter(
        {
            "acknowledged increments": sum(increments_of(folder, f"w{slot}") for slot in range(processes)),
            "acknowledged changes": ends["done"],
            "changes with an unknown end": ends["unknown"],
            "of these made": len(entries) - len(kept) - ends["done"],
            "refused changes": ends["refused"],
            "journal entries": len(entries),
            "seals": report.batches,
        }
    )
    return Outcome("records", store.name, seed, time.monotonic() - begun, counts, violations, fleet.fired)


def _changes(events: list[dict[str, Any]]) -> list[Change]:
    tried = {event["change"]: event for event in events if event["event"] == "try"}
    ends = {event["change"]: event["event"] for event in events if event["event"] in ("done", "refused")}
    return [Change(name, event["kind"], event["record"], ends.get(name, "unknown")) for name, event in tried.items()]


async def _entries(app: App) -> list[Entry]:
    found: list[Entry] = []
    last = None
    while page := await app.journal.list(kind="record", limit=_PAGE, before=last):
        last = page[-1]
        found += map(entry_of, page)
    return found


def entry_of(one: EntryView | JournalEntry) -> Entry:
    """Take what the checks need from an entry."""
    before, after = (json.loads(value) if isinstance(value, str) else value for value in (one.before, one.after))
    record = one.subject_key.partition(":")[2]
    return Entry(one.id, one.actor, one.action, record, one.from_version, one.to_version, before, after)


async def _tampered(app: App, url: str, entries: Sequence[Entry], dice: random.Random) -> list[str]:
    """Change one byte of an entry, and remove one: each has to be found, and nothing else."""
    wrong: list[str] = []
    changed, removed = dice.sample([entry for entry in entries if entry.action != "record.create"], 2)
    other = changed.change[:-1] + ("x" if changed.change[-1] != "x" else "y")
    for statement, entry, kind in (
        (f"update interlock.journal set actor = '{other}' where id = {changed.id}", changed, ProblemKind.ENTRY_CHANGED),
        (f"update interlock.journal set actor = '{changed.change}' where id = {changed.id}", None, None),
        (f"delete from interlock.journal where id = {removed.id}", removed, ProblemKind.ENTRY_MISSING),
    ):
        await _execute(url, statement)
        async with app:
            problems = (await app.journal.verify()).problems
        expected = [] if entry is None else [(kind, entry.id)]
        if [(problem.kind, problem.entry) for problem in problems] != expected:
            wrong.append(f"{statement}: {problems}")
    return wrong


async def _execute(url: str, statement: str) -> None:
    """Run a statement behind Interlock's back."""
    if url.startswith("postgres"):
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()
        return
    database = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    database.execute(statement.replace("interlock.", "interlock_"))
    database.close()
