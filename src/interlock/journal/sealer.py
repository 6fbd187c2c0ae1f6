"""Seals what has been added to a journal, batch by batch.

No transaction is open while a batch is hashed: the store refuses a batch that another sealer has written meanwhile,
and entries never change. A sealer that dies at any point leaves either a whole sealed batch or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.journal.hashing import draft_seal

if TYPE_CHECKING:
    from interlock.ports.journal import JournalStore, Seal

__all__ = ["seal_all", "seal_next"]


async def seal_next(store: JournalStore, size: int) -> Seal | None:
    """Seal up to ``size`` entries; return the seal, or None if there was nothing to seal or another was faster."""
    unsealed = await store.unsealed(size)
    if not unsealed.rows:
        return None
    seal = draft_seal(unsealed)
    return seal if await store.seal(seal, [row[0] for row in unsealed.rows]) else None


async def seal_all(store: JournalStore, size: int) -> int:
    """Seal batch after batch until less than a full batch was left; return how many entries were sealed.

    A busy journal gets a partial batch only at the end, and the loop ends there even if entries keep arriving.
    """
    count = 0
    while True:
        seal = await seal_next(store, size)
        if seal is None:
            return count
        count += seal.size
        if seal.size < size:
            return count
