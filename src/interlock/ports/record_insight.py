"""The read side of records: what people ask about kinds of records, and the declarations that programs leave for it.

``RecordStore`` writes and reads whole records; ``RecordInsight`` lists them without their bodies. Every query takes a
bounded time: counts end at ``MAX_RECORDS_COUNTED``, and a search stops after ``MAX_SCANNED`` IDs and says where to
continue. Queries change nothing and wait for no lock.

**Declarations.** A program declares its kinds: the model, the machine and the strategies. The pages and the command
line run in other processes, so the program leaves each declaration in the store when it opens. Two versions of a
program may run side by side and declare a kind differently. Each distinct declaration is kept, and the one of the
process that opened last is the newest. A declaration that is the newest already is not written again.
docs/decisions/0061 says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MAX_DECLARATIONS",
    "MAX_RECORDS_COUNTED",
    "MAX_SCANNED",
    "KindDeclaration",
    "RecordInsight",
    "RecordSlice",
    "RecordSummary",
    "StatusCount",
]

MAX_RECORDS_COUNTED = 1_000
"""Counts of one status end here: this value means "or more". A kind may have many statuses, and a page counts them all
once a second."""
MAX_SCANNED = 10_000
"""How many IDs one search reads at most."""
MAX_DECLARATIONS = 5
"""How many distinct declarations of a kind are kept: the newest."""


class RecordSummary(NamedTuple):
    """A record without its body."""

    id: str
    version: int
    status: str
    """Empty if its kind has no machine."""
    fence: int | None
    created_at: float
    updated_at: float


class RecordSlice(NamedTuple):
    """Records of a kind by ID."""

    records: Sequence[RecordSummary]
    more: str | None
    """Continue after this ID; None at the end. It may be set although fewer records than requested were found."""


class StatusCount(NamedTuple):
    """How many records of a kind have a status, counted up to ``MAX_RECORDS_COUNTED``."""

    kind: str
    status: str
    records: int


class KindDeclaration(NamedTuple):
    """How a program declared a kind."""

    kind: str
    text: str
    """A JSON object, as it was given."""
    first_at: float
    """When a program first declared the kind like this."""
    declared_at: float
    """When it last became the newest declaration of its kind."""


class RecordInsight(Protocol):
    """Queries about the records of one store and namespace. Requires RECORDS."""

    async def search(
        self,
        kind: str,
        *,
        status: str = "",
        contains: str = "",
        limit: int = 50,
        after: str = "",
        scan: int = MAX_SCANNED,
    ) -> RecordSlice:
        """List records of a kind by ID: at most ``limit``, those after ``after``, whose ID contains ``contains``.

        ``status`` selects one status. Upper and lower case are different. Reads at most ``scan`` IDs.
        """
        ...

    async def counts(self, *, limit: int = 500, bound: int = MAX_RECORDS_COUNTED) -> Sequence[StatusCount]:
        """Count the records of each kind by status, each up to ``bound``; at most ``limit`` counts, in order."""
        ...

    async def declare(self, kind: str, text: str) -> None:
        """Keep a declaration of a kind as the newest one, and forget all but the ``MAX_DECLARATIONS`` newest.

        Writes nothing if it is the newest already.
        """
        ...

    async def declarations(self, kind: str = "") -> Sequence[KindDeclaration]:
        """Return the declarations of a kind, or of all kinds, by kind, the newest of each first."""
        ...
