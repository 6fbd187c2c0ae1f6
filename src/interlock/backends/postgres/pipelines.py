"""Runs of pipelines. A checkpoint is one statement, which waits for transactions that have locked its record."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.backends.pacing import micros, seconds
from interlock.backends.pipeline_rows import stored_runs
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.errors import LOCKED_REMEDY
from interlock.backends.postgres.queries import PipelineQueries
from interlock.backends.postgres.records import change_columns, write_answer
from interlock.errors import StoreUnavailableError
from interlock.ports.pipelines import FetchEnded, Saved
from interlock.ports.records import Skipped, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.pool import Pool
    from interlock.backends.postgres.reader import Reader
    from interlock.clock import Clock
    from interlock.ports.pipelines import Checkpoint, RunFilter, RunPosition, StoredRun
    from interlock.ports.records import Busy, Conflict, LeaseLost, StaleFence
    from interlock.settings import Settings

__all__ = ["PostgresPipelines"]

_LATEST = 2**63 - 1
_MAX_ATTEMPTS = 10  # of a checkpoint whose record others delete and create again
_sql = PipelineQueries()


class PostgresPipelines:
    """Implements the pipelines port."""

    def __init__(self, pool: Pool, reader: Reader, settings: Settings, clock: Clock | None) -> None:
        # Checkpoints of different runs do not wait for each other: each has a connection of its own.
        self._connection = partial(OrderedConnection, pool, settings.store_wait / 2, hold=True, bounded=True)
        self._upkeep = OrderedConnection(pool, settings.store_wait / 2)
        self._reader = reader
        self._namespace = settings.namespace
        self._clock = clock_of(clock)

    async def save(self, checkpoint: Checkpoint) -> Saved | FetchEnded | Conflict | Busy | StaleFence | LeaseLost:
        """Store a checkpoint."""
        args = self._arguments(checkpoint)
        for _ in range(_MAX_ATTEMPTS):
            try:
                (row,) = await self._connection().fetch(_sql.save, *args)
            except StoreUnavailableError as error:
                if not isinstance(error.__cause__, asyncpg.QueryCanceledError):
                    raise
                raise StoreUnavailableError(
                    f"Another transaction has kept {checkpoint.kind} {checkpoint.record!r} locked for too long.",
                    remedy=LOCKED_REMEDY,
                ) from error.__cause__
            if row[0] == "saved":
                return Saved(row[1], seconds(row[2]))
            if row[0] == "ended":
                return FetchEnded()
            if row[0] != "blocked":
                answer = write_answer(row)
                assert not isinstance(answer, (Written, Skipped)), "a single change is written or refused"
                return answer
        raise StoreUnavailableError(
            f"Other transactions keep deleting and creating {checkpoint.kind} {checkpoint.record!r}."
        )

    async def get(self, id: int) -> StoredRun | None:  # noqa: A002
        """Return a run."""
        found = await self._runs(_sql.get, id)
        return found[0] if found else None

    async def list(
        self,
        filter: RunFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: RunPosition | None = None,
    ) -> Sequence[StoredRun]:
        """List runs."""
        at, id = (_LATEST, _LATEST) if before is None else (micros(before.started_at), before.id)  # noqa: A001
        args: list[Any] = [at, id, filter.pipeline, filter.kind, str(filter.state or ""), limit]
        if filter.record:
            return await self._runs(_sql.list_record, *args, filter.record)
        return await self._runs(_sql.list_all, *args)

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Remove old runs."""
        args = (self._namespace, micros(keep), limit, self._clock())
        return int((await self._upkeep.fetch(_sql.prune, *args))[0][0])

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._upkeep.close()

    async def _runs(self, statement: str, *args: Any) -> Sequence[StoredRun]:
        runs = await self._reader.fetch(statement, self._namespace, *args)
        stages = await self._reader.fetch(_sql.stages, [row[0] for row in runs]) if runs else []
        return stored_runs(runs, stages)

    def _arguments(self, checkpoint: Checkpoint) -> tuple[Any, ...]:
        stage = None if checkpoint.stage is None else json.dumps(list(checkpoint.stage), ensure_ascii=False)
        entries = [
            [list(entry.attribution), entry.action, entry.subject_key, entry.before, entry.after]
            for entry in checkpoint.entries
        ]
        return (
            self._namespace,
            checkpoint.id,
            checkpoint.fence,
            checkpoint.step,
            checkpoint.pipeline,
            checkpoint.kind,
            checkpoint.record,
            checkpoint.mode,
            json.dumps(checkpoint.names, ensure_ascii=False),
            str(checkpoint.state),
            checkpoint.state.final,
            checkpoint.uid,
            checkpoint.version,
            checkpoint.error,
            stage,
            json.dumps(entries, ensure_ascii=False),
            self._clock(),
            *(([None] * 21) if checkpoint.change is None else change_columns(checkpoint.change)),
        )
