"""The journal as listings: entries of every store of the app that has a journal, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.clock import as_text
from interlock.errors import InvalidArgumentError
from interlock.explanation import Explanation, Subject
from interlock.insight.views import Listing, Problem
from interlock.ports.journal import Action, JournalPosition
from interlock.ports.store import Capability
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock.ports.journal import JournalEntry, JournalFilter, JournalStatus, JournalStore
    from interlock.ports.store import Store

__all__ = [
    "SUBJECT_KINDS",
    "explain_journal",
    "journal_listing",
    "journal_problems",
    "journals",
    "position_of",
    "position_text",
]

_LAG = 600.0

SUBJECT_KINDS = tuple(dict.fromkeys(action.subject_kind for action in Action))
"""The kinds of subjects of entries."""


def journals(stores: Sequence[Store]) -> list[JournalStore]:
    """The journals of these stores, each store once."""
    distinct = {id(store): store for store in stores}.values()
    return [store.journal for store in distinct if Capability.JOURNAL in store.capabilities]


async def journal_listing(
    stores: Sequence[JournalStore], wanted: JournalFilter, limit: int, before: str, now: float
) -> Listing[JournalEntry]:
    """Entries that match, newest first, of all these journals together."""
    position = position_of(before) if before else None
    found: list[JournalEntry] = []
    for store in stores:
        found += await store.list(wanted, limit=limit + 1, before=position)
    found.sort(key=lambda entry: (entry.at, entry.id), reverse=True)
    rows = tuple(found[:limit])
    more = position_text(rows[-1]) if len(found) > limit else None
    return Listing(rows, more, now)


def journal_problems(status: JournalStatus, now: float) -> Iterator[Problem]:
    """Yield what is wrong with a journal: a verification that failed, and entries that nothing seals."""
    last = status.verification
    if last is not None and last.problems:
        more = f" and {last.problems - 1} more" if last.problems > 1 else ""
        yield Problem(
            f"the journal was changed after it was sealed, as a verification found at {as_text(last.at)}:"
            f" {last.problem.rstrip('.')}{more}",
            "journal",
            "",
            "find out who can write to the store, restore the entries from a backup, then: interlock journal verify",
        )
    if status.unsealed_since is not None and now - status.unsealed_since > _LAG:
        count = f"{status.unsealed} journal {'entry is' if status.unsealed == 1 else 'entries are'}"
        yield Problem(
            f"{count} not sealed, the first since {as_text(status.unsealed_since)}",
            "journal",
            "",
            "start a worker: interlock run module:app, or seal them: interlock journal seal",
        )


def explain_journal(status: JournalStatus, now: float) -> Explanation[Reason]:
    """Explain how far a journal is sealed, and what its last verification found."""
    head, last = status.head, status.verification
    lines: list[str] = []
    if head is None:
        lines.append("The journal has no seal yet")
    else:
        lines.append(f"The journal is sealed up to batch {head.batch}, sealed at {as_text(head.sealed_at / 1e6)}")
    if status.unsealed_since is not None:
        count = f"{status.unsealed:,} {'entry is' if status.unsealed == 1 else 'entries are'}"
        lines.append(f"{count} not sealed, the first since {as_text(status.unsealed_since)}")
    if last is None:
        lines.append("It was never verified")
    else:
        result = f"{last.problems} problems, the first: {last.problem}" if last.problems else "intact"
        lines.append(f"It was last verified at {as_text(last.at)}: {result}")
    if status.pruned_batches:
        lines.append(f"Retention has removed the entries of {status.pruned_batches:,} batches; their seals are kept")
    data = {
        "unsealed": status.unsealed,
        "unsealed_since": None if status.unsealed_since is None else as_text(status.unsealed_since),
        "sealed_batch": None if head is None else head.batch,
        "sealed_at": None if head is None else as_text(head.sealed_at / 1e6),
        "verified_at": None if last is None else as_text(last.at),
        "problems": 0 if last is None else last.problems,
        "pruned_batches": status.pruned_batches,
    }
    problems = list(journal_problems(status, now))
    if last is not None and last.problems:
        reason, why = Reason.TAMPERED, "was changed after it was sealed"
    elif problems:
        reason, why = Reason.SEALING_LATE, f"has {status.unsealed:,} entries that nothing seals"
    elif status.unsealed:
        reason, why = Reason.UNSEALED, f"has {status.unsealed:,} entries that are not sealed yet"
    else:
        reason, why = Reason.SEALED, "is sealed"
    return Explanation.of(Subject("journal", ""), reason, why, lines, problems[0].remedy if problems else "", data)


def position_text(entry: JournalEntry) -> str:
    """Where a list continues behind an entry."""
    return f"{entry.at:.6f}-{entry.id}"


def position_of(text: str) -> JournalPosition:
    """Parse where a list continues."""
    at, _, number = text.partition("-")
    try:
        return JournalPosition(float(at), int(number))
    except (ValueError, OverflowError):
        raise InvalidArgumentError(
            f"Invalid position {text[:40]!r} in the journal.", remedy="Pass `more` of the page before, unchanged."
        ) from None
