"""Runs of pipelines in SQLite. A checkpoint is one immediate transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import micros, seconds
from interlock.backends.pipeline_rows import stored_runs
from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.queries import PipelineQueries
from interlock.ports.pipelines import FetchEnded, Saved, StageState
from interlock.ports.records import Skipped, Written

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from interlock.backends.sqlite.jobs import Run
    from interlock.backends.sqlite.records import SqliteRecords
    from interlock.clock import Clock
    from interlock.ports.pipelines import Checkpoint, RunFilter, RunPosition, StoredRun
    from interlock.ports.records import Busy, Conflict, LeaseLost, StaleFence

__all__ = ["SqlitePipelines"]

_LATEST = 2**63 - 1
_sql = PipelineQueries()


class SqlitePipelines:
    """Implements the pipelines port. ``records`` are in the same file."""

    def __init__(self, write: Run, read: Run, namespace: str, clock: Clock, records: SqliteRecords) -> None:
        self._write = write
        self._read = read
        self._namespace = namespace
        self._now = clock.now
        self._records = records

    async def save(self, checkpoint: Checkpoint) -> Saved | FetchEnded | Conflict | Busy | StaleFence | LeaseLost:
        """Store a checkpoint."""
        return await self._write(lambda db: self._save(db, checkpoint))

    async def get(self, id: int) -> StoredRun | None:  # noqa: A002
        """Return a run."""
        found = await self._fetch(_sql.get, {"id": id})
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
        values = {**filter._asdict(), "state": filter.state or "", "before_at": at, "before_id": id, "limit": limit}
        return await self._fetch(_sql.list_record if filter.record else _sql.list_all, values)

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Remove old runs."""
        values = {"namespace": self._namespace, "before": micros(self._now() - keep), "limit": limit}

        def prune(db: sqlite3.Connection) -> int:
            ids = json.dumps([id for (id,) in db.execute(_sql.old_runs, values)])  # noqa: A001
            db.execute(_sql.delete_stages, {"ids": ids})
            return db.execute(_sql.delete_runs, {"ids": ids}).rowcount

        return await self._write(prune)

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _save(
        self, db: sqlite3.Connection, checkpoint: Checkpoint
    ) -> Saved | FetchEnded | Conflict | Busy | StaleFence | LeaseLost:
        values: dict[str, Any] = {**checkpoint._asdict(), "namespace": self._namespace}
        for part in ("stage", "change", "entries"):
            del values[part]
        if db.execute(_sql.fetch_in_force, {"id": checkpoint.id, "fence": checkpoint.fence}).fetchone() is None:
            return FetchEnded()
        last = db.execute(_sql.last_checkpoint, {"id": checkpoint.id}).fetchone()
        if last is not None and last[:2] == (checkpoint.fence, checkpoint.step):
            return Saved(last[2], seconds(last[3]))
        saved: Saved | None = None
        if checkpoint.change is not None:
            (answer,) = self._records.write_within(db, [checkpoint.change])
            assert not isinstance(answer, Skipped), "a single change is never skipped"
            if not isinstance(answer, Written):
                return answer
            saved = Saved(*answer)
        # Read after the write, so that the journal shows the record's change before the end of the stage.
        now = self._now()
        if saved is None:
            saved = Saved(checkpoint.version, seconds(micros(now)))
        for entry in checkpoint.entries:
            add_entry(db, self._namespace, now, entry)
        values |= {
            "names": json.dumps(checkpoint.names, ensure_ascii=False),
            "version": saved.version,
            "written_at": micros(saved.updated_at),
            "now": micros(now),
            "ended": checkpoint.state.final,
        }
        db.execute(_sql.save_run, values)
        if checkpoint.stage is not None:
            self._save_stage(db, checkpoint, micros(now))
        return saved

    def _save_stage(self, db: sqlite3.Connection, checkpoint: Checkpoint, now: int) -> None:
        assert checkpoint.stage is not None
        name, position, state, attempt, error = checkpoint.stage
        values = {"id": checkpoint.id, "stage": name, "position": position, "state": state, "attempt": attempt}
        db.execute(_sql.save_stage, values | {"now": now, "ended": state is not StageState.RUNNING, "error": error})

    # -- reads -------------------------------------------------------------------------------------------------------

    async def _fetch(self, statement: str, values: dict[str, Any]) -> Sequence[StoredRun]:
        values = {"namespace": self._namespace, **values}

        def read(db: sqlite3.Connection) -> Sequence[StoredRun]:
            runs = db.execute(statement, values).fetchall()
            return stored_runs(runs, db.execute(_sql.stages, {"ids": json.dumps([row[0] for row in runs])}))

        return await self._read(read)
