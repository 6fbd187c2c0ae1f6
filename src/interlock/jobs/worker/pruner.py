"""Removes what is old: the history of jobs, their events, runs of pipelines, and sealed journal entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.jobs.worker.chore import Chore

if TYPE_CHECKING:
    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.chore import Health

__all__ = ["prune_periodically"]

_INTERVAL = 60.0
_MAX_ROWS = 10_000
_PLENTY = 1000


async def prune_periodically(engine: JobEngine, health: Health) -> None:
    """Prune about once a minute, each time until little is left to remove."""
    chore = Chore("prune", engine.monotonic, health)

    async def prune() -> None:
        removed = _PLENTY
        while removed >= _PLENTY:
            removed = await engine.jobs.prune(engine.settings.keep_history, limit=_MAX_ROWS)
            if engine.events is not None:
                removed = max(removed, await engine.events.prune(limit=_MAX_ROWS))
            if engine.pipelines is not None:
                removed = max(removed, await engine.pipelines.prune(engine.settings.keep_history, limit=_MAX_ROWS))
            if engine.journal is not None:
                removed = max(removed, await engine.journal.prune(engine.settings.keep_journal, limit=_MAX_ROWS))

    while True:
        await chore.pause(_INTERVAL)
        await chore.attempt(prune)
