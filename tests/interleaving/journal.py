"""Appending, sealing, pruning and verifying that meet at a chosen step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.journal.sealer import seal_all, seal_next
from interlock.journal.verifier import verify
from interlock.ports.journal import Attribution, NewEntry
from tests.interleaving.planted import Bug

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.ports.store import Store
    from tests.interleaving.lab import Lab

__all__ = ["JOURNAL_ACTS", "JOURNAL_BUGS", "KEEP", "count_steps", "meet", "prepare"]

_ENTRY = NewEntry(Attribution("ann", "why"), "lock.force_release", "lock", "k", '{"a": 1}')
KEEP = 50.0
_EMPTY = "delete from interlock.journal; delete from interlock.journal_seal; delete from interlock.journal_verification"


async def _append(store: Store) -> None:
    await store.journal.add(_ENTRY)


async def _seal(store: Store) -> None:
    await seal_next(store.journal, 3)


async def _prune(store: Store) -> None:
    await store.journal.prune(KEEP, limit=2)


async def _verify(store: Store) -> None:
    report = await verify(store.journal)
    assert report.ok, report.problems


JOURNAL_ACTS: dict[str, Callable[[Store], Awaitable[None]]] = {
    "append": _append,
    "seal": _seal,
    "prune": _prune,
    "verify": _verify,
}
JOURNAL_BUGS = {
    "a batch is a range of IDs": (
        Bug(
            (
                (
                    "journal_unsealed",
                    "j.id > p_after",
                    "j.id > (select coalesce(max(s.last_id), 0) from interlock.journal_seal s)",
                ),
            ),
            "",
            "",
            "",
        ),
        "append",
        "append and seal",
    ),
    "entries are pruned whether they are sealed or not": (
        Bug((("journal_prune", "j.batch between first and last", "j.at < now - p_keep"),), "", "", ""),
        "prune",
        "append",
    ),
    "a seal overwrites the seal of another": (
        Bug(
            (
                (
                    "journal_seal",
                    "on conflict (namespace, batch) do nothing",
                    "on conflict (namespace, batch) do update set root = excluded.root, hash = excluded.hash",
                ),
                ("journal_seal", "and j.batch is null", ""),
            ),
            "",
            "",
            "",
        ),
        "seal",
        "append and seal",
    ),
}
"""Bugs, each with a pair that suffers from it."""


async def _append_and_seal(store: Store) -> None:
    await _append(store)
    await seal_all(store.journal, 10)


JOURNAL_ACTS["append and seal"] = _append_and_seal


async def prepare(lab: Lab) -> int:
    """Make two old batches of two entries and one young one, and leave two unsealed entries, one of them old.

    Returns how many entries there are.
    """
    await lab.connection.execute(_EMPTY)
    journal = lab.helper.journal
    for _ in range(4):
        await journal.add(_ENTRY)
    await seal_all(journal, 2)
    await journal.add(_ENTRY)
    lab.clock.advance(100.0)
    await journal.add(_ENTRY)
    await seal_next(journal, 1)
    await journal.add(_ENTRY)
    return 7


async def count_steps(lab: Lab, act: str) -> int:
    """How many steps an act has if nothing is in its way."""
    await prepare(lab)
    return await lab.gate.steps(JOURNAL_ACTS[act](lab.first))


async def meet(lab: Lab, first: str, second: str, step: int) -> list[str]:
    """Let the second act run while the first one stands still at a step; return what is wrong afterwards."""
    there = await prepare(lab)
    answers = await lab.gate.interleave(step, JOURNAL_ACTS[first](lab.first), JOURNAL_ACTS[second](lab.second))
    wrong = [f"{type(answer).__name__}: {answer}" for answer in answers if isinstance(answer, BaseException)]
    added = (first, second).count("append") + (first, second).count("append and seal")
    journal = lab.helper.journal
    await seal_all(journal, 3)
    report = await verify(journal)
    wrong += [problem.message for problem in report.problems]
    if report.unsealed:
        wrong.append(f"{report.unsealed} entries are never sealed")
    if report.entries + report.pruned_entries != there + added:
        wrong.append(f"{report.entries} entries and {report.pruned_entries} pruned of {there + added}")
    left = await lab.connection.fetchval("select count(*) from interlock.journal")
    if left != report.entries:
        wrong.append(f"{left} entries are stored, {report.entries} verified")
    pruned = await lab.connection.fetch(
        "select s.batch from interlock.journal_seal s where s.pruned_at is not null and s.newest_at > $1",
        round((lab.clock.now() - 50.0) * 1e6),
    )
    wrong += [f"batch {batch} was pruned too early" for (batch,) in pruned]
    return wrong
