"""Recomputes every hash of a journal and names what does not match.

A verification reads batch by batch, so its memory is bounded. It may run while entries are added, sealed and pruned.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from interlock.journal.hashing import FIRST, leaves_of, parse_leaves, root_of, seal_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.ports.journal import Batch, JournalStore, Seal

__all__ = ["JournalProblem", "ProblemKind", "VerificationReport", "Verifier", "verify"]

_PAGE = 2000
_MAX_PROBLEMS = 100


class ProblemKind(StrEnum):
    """The kinds of problems that a verification finds."""

    ENTRY_CHANGED = "entry_changed"
    ENTRY_MISSING = "entry_missing"
    ENTRY_ADDED = "entry_added"
    SEAL_CHANGED = "seal_changed"
    SEAL_MISSING = "seal_missing"
    HEAD_MISSING = "head_missing"


class JournalProblem(NamedTuple):
    """One thing that is not as it was sealed."""

    kind: ProblemKind
    batch: int | None
    entry: int | None
    message: str


class VerificationReport(NamedTuple):
    """The result of a verification."""

    batches: int
    """How many seals were checked."""
    entries: int
    """How many entries were hashed again."""
    pruned_batches: int
    """How many of the batches retention has removed; their seals were checked."""
    pruned_entries: int
    pruned_until: float | None
    """The time of the newest entry that retention has removed."""
    unsealed: int
    """How many entries are not sealed yet, and so not proven (counted up to 100,000)."""
    head_batch: int
    """The newest batch; 0 if nothing is sealed."""
    head: str
    """The hash of its seal. Keep it elsewhere: it proves everything up to here."""
    problem_count: int
    problems: tuple[JournalProblem, ...]
    """The first 100 problems."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was sealed."""
        return self.problem_count == 0


async def verify(store: JournalStore, *, head: str = "") -> VerificationReport:
    """Verify a whole journal, and that it still contains the seal with the hash ``head``, if one is given."""
    verifier = Verifier((await store.status()).namespace, head)
    while batches := await store.batches(verifier.batch, _PAGE):
        for batch in batches:
            verifier.check(batch)
    for stray, entry in await store.strays(_MAX_PROBLEMS):
        verifier.add(
            ProblemKind.ENTRY_ADDED, None, entry, f"Entry {entry} says it is in batch {stray}, which has no seal."
        )
    status = await store.status()
    return verifier.report(status.unsealed, first_kept=status.pruned_batches + 1)


class Verifier:
    """Checks one batch after the other, in the order of their numbers."""

    def __init__(self, namespace: str, head: str = "") -> None:
        self._namespace = namespace
        self._wanted = head
        self._found_wanted = False
        self._last: Seal | None = None
        self._last_hash = FIRST
        self._any_kept = False
        self._pruned_late: list[int] = []
        self._batches = self._entries = self._pruned = self._pruned_entries = 0
        self._pruned_until: int | None = None
        self._problems: list[JournalProblem] = []
        self._count = 0

    @property
    def batch(self) -> int:
        """The batch that was checked last."""
        return 0 if self._last is None else self._last.batch

    def add(self, kind: ProblemKind, batch: int | None, entry: int | None, message: str) -> None:
        """Note a problem."""
        self._count += 1
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(JournalProblem(kind, batch, entry, message))

    def check(self, batch: Batch) -> None:
        """Check a batch against its seal, and the seal against the one before."""
        seal = batch.seal
        for problem in (*self._check_seal(seal), *self._check_entries(batch)):
            self.add(*problem)
        self._batches += 1
        self._entries += len(batch.rows)
        self._last = seal
        self._found_wanted = self._found_wanted or (bool(self._wanted) and self._last_hash.hex() == self._wanted)

    def report(self, unsealed: int, first_kept: int) -> VerificationReport:
        """Conclude; ``first_kept`` is the oldest batch that is not pruned now."""
        for batch in self._pruned_late:
            # Retention removes the oldest batches first. One behind a kept batch is fine only if that is gone now too.
            if batch > first_kept:
                message = f"The entries of batch {batch} are missing, though batch {first_kept} before it is kept."
                self.add(ProblemKind.ENTRY_MISSING, batch, None, message)
        if self._wanted and not self._found_wanted:
            self.add(
                ProblemKind.HEAD_MISSING,
                None,
                None,
                f"No seal has the hash {self._wanted[:64]}: the end of the journal was removed, or it was sealed anew.",
            )
        return VerificationReport(
            batches=self._batches,
            entries=self._entries,
            pruned_batches=self._pruned,
            pruned_entries=self._pruned_entries,
            pruned_until=None if self._pruned_until is None else self._pruned_until / 1_000_000,
            unsealed=unsealed,
            head_batch=self.batch,
            head="" if self._last is None else self._last_hash.hex(),
            problem_count=self._count,
            problems=tuple(self._problems),
        )

    def _check_seal(self, seal: Seal) -> Iterator[JournalProblem]:
        last, before = self._last, self._last_hash
        expected = 1 if last is None else last.batch + 1
        if seal.batch > expected:
            gone = f"batch {expected}" if seal.batch == expected + 1 else f"batches {expected} to {seal.batch - 1}"
            yield JournalProblem(ProblemKind.SEAL_MISSING, expected, None, f"The seal of {gone} is missing.")
        elif seal.previous != before and (last is None or seal.previous != last.hash):
            yield JournalProblem(
                ProblemKind.SEAL_CHANGED, seal.batch, None, f"Seal {seal.batch} does not continue seal {expected - 1}."
            )
        self._last_hash = seal_hash(self._namespace, seal)
        if seal.hash != self._last_hash:
            yield JournalProblem(
                ProblemKind.SEAL_CHANGED, seal.batch, None, f"Seal {seal.batch} was changed: its hash does not match."
            )

    def _check_entries(self, batch: Batch) -> Iterator[JournalProblem]:
        seal, rows = batch
        if seal.pruned_at is not None:
            yield from self._check_pruned(batch)
            return
        self._any_kept = True
        actual = leaves_of(rows)
        if root_of(actual) == seal.root:
            if seal.leaves != actual:
                message = f"Seal {seal.batch} was changed: its list of entries does not match its root."
                yield JournalProblem(ProblemKind.SEAL_CHANGED, seal.batch, None, message)
            return
        if not isinstance(seal.leaves, bytes) or root_of(seal.leaves) != seal.root:
            message = f"Seal {seal.batch} or the entries of its batch were changed: the root does not match."
            yield JournalProblem(ProblemKind.SEAL_CHANGED, seal.batch, None, message)
            return
        sealed, found = parse_leaves(seal.leaves), parse_leaves(actual)
        for entry in sorted(sealed.keys() | found.keys()):
            if entry not in found:
                kind, what = ProblemKind.ENTRY_MISSING, "is missing"
            elif entry not in sealed:
                kind, what = ProblemKind.ENTRY_ADDED, "was added after the batch was sealed"
            elif sealed[entry] != found[entry]:
                kind, what = ProblemKind.ENTRY_CHANGED, "was changed after it was sealed"
            else:
                continue
            yield JournalProblem(kind, seal.batch, entry, f"Entry {entry} of batch {seal.batch} {what}.")

    def _check_pruned(self, batch: Batch) -> Iterator[JournalProblem]:
        seal, rows = batch
        if self._any_kept and len(self._pruned_late) < _MAX_PROBLEMS:
            self._pruned_late.append(seal.batch)
        for row in rows:
            message = f"Entry {row[0]} was added to batch {seal.batch}, which retention has removed."
            yield JournalProblem(ProblemKind.ENTRY_ADDED, seal.batch, row[0], message)
        self._pruned += 1
        self._pruned_entries += seal.size
        self._pruned_until = max(self._pruned_until or 0, seal.newest_at)
