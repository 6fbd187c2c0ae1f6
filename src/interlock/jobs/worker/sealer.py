"""Seals what was added to the journal, so that a later change of it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.jobs.worker.chore import Chore
from interlock.journal.sealer import seal_all

if TYPE_CHECKING:
    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.chore import Health

__all__ = ["seal_periodically"]


async def seal_periodically(engine: JobEngine, health: Health) -> None:
    """Seal the journal about every ``seal_interval`` seconds. Several workers may do so: one of them writes a batch."""
    journal, settings = engine.journal, engine.settings
    if journal is None:
        return
    chore, metrics = Chore("seal", engine.monotonic, health), engine.journal_metrics

    async def seal() -> None:
        metrics.sealed += await seal_all(journal, settings.seal_limit)
        status = await journal.status()
        metrics.unsealed = status.unsealed
        metrics.last_seal = None if status.head is None else status.head.sealed_at / 1_000_000
        metrics.problems = None if status.verification is None else status.verification.problems

    while True:
        await chore.pause(settings.seal_interval)
        await chore.attempt(seal)
