"""Pipelines, the runs of ordered stages over records: the contract that every store with records and jobs keeps.

**A run is a job.** It has the job's ID, and is stored from its first checkpoint on.

**Checkpoints.** :meth:`PipelineStore.save` writes one checkpoint: the progress of a run and of one stage, the change of
the record that belongs to it, and their journal entries, in one transaction or not at all. The same transaction checks
that the job's fetch is in force. So a run that another worker has taken over writes nothing any more, and a stage whose
end is stored has had its effect on the record exactly once.

**Repeating.** The checkpoints of one fetch are numbered. One that is already stored is not stored again: the answer is
that of the first time. So a checkpoint whose answer was lost can be repeated.

**Time.** Runs and stages get their times from the store's clock when the checkpoint is written.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import NewEntry
    from interlock.ports.records import Busy, Conflict, LeaseLost, RecordChange, StaleFence

__all__ = [
    "Checkpoint",
    "FetchEnded",
    "PipelineStore",
    "RunFilter",
    "RunPosition",
    "RunState",
    "Saved",
    "StageProgress",
    "StageState",
    "StoredRun",
    "StoredStage",
]


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    """It has begun and has not ended. The state of its job shows whether it runs right now or waits."""
    COMPLETED = "completed"
    """It went through all of its stages."""
    FAILED = "failed"
    """A stage failed that the run could not do without."""
    SKIPPED = "skipped"
    """There was nothing to do, so no stage ran."""

    @property
    def final(self) -> bool:
        """Whether the run has ended."""
        return self is not RunState.RUNNING


class StageState(StrEnum):
    """The state of a stage in one run."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class StoredStage(NamedTuple):
    """A stage of a run that has started at least once."""

    name: str
    position: int
    """Its place among the stages of the pipeline, from 0."""
    state: StageState
    attempt: int
    """How many times it has started in this run."""
    started_at: float
    """When its last attempt started."""
    ended_at: float | None
    error: str
    """Why its last attempt failed, in one line."""


class StoredRun(NamedTuple):
    """A run as it is kept."""

    id: int
    pipeline: str
    kind: str
    """The kind of its record."""
    record: str
    """The ID of its record."""
    mode: str
    state: RunState
    names: tuple[str, ...]
    """The names of the pipeline's stages, in order, when the run began."""
    started_at: float
    ended_at: float | None
    uid: str
    """The record's."""
    version: int | None
    """The version of the record after the last checkpoint; None if the record did not exist."""
    error: str
    stages: tuple[StoredStage, ...]
    """By position."""


class StageProgress(NamedTuple):
    """How far a stage is."""

    name: str
    position: int
    state: StageState
    attempt: int
    error: str = ""


class Checkpoint(NamedTuple):
    """The content of one transaction."""

    id: int
    """The run's ID, which is that of its job."""
    fence: int
    """The fence of the job's fetch."""
    step: int
    """The number of the checkpoint in this fetch, from 1."""
    pipeline: str
    kind: str
    record: str
    mode: str
    names: tuple[str, ...]
    state: RunState
    uid: str
    version: int | None
    """The record's version, if the checkpoint does not change it."""
    error: str = ""
    stage: StageProgress | None = None
    change: RecordChange | None = None
    """A change that replaces the record; its own journal entry is part of it."""
    entries: tuple[NewEntry, ...] = ()


class Saved(NamedTuple):
    """The checkpoint is stored."""

    version: int | None
    """The record's version afterwards."""
    updated_at: float
    """When the record was changed, if the checkpoint changed it; otherwise the time of the checkpoint."""


class FetchEnded(NamedTuple):
    """The job's fetch is not in force any more: another worker may have it. Nothing was stored."""


class RunFilter(NamedTuple):
    """Which runs. Empty values select all."""

    pipeline: str = ""
    kind: str = ""
    record: str = ""
    """Needs ``kind``."""
    state: RunState | None = None


class RunPosition(NamedTuple):
    """A place in the list of runs."""

    started_at: float
    id: int


class PipelineStore(Protocol):
    """Runs of pipelines in one store and namespace. Requires JOBS and RECORDS in the same store."""

    async def save(self, checkpoint: Checkpoint) -> Saved | FetchEnded | Conflict | Busy | StaleFence | LeaseLost:
        """Store a checkpoint, or nothing.

        The fetch is checked first (``FetchEnded``). Then the change is checked and made as :meth:`RecordStore.write`
        does it; its refusal is the answer. A run gets its ``ended_at`` with a final state, a stage with a state other
        than running. Durable when it returns.
        """
        ...

    async def get(self, id: int) -> StoredRun | None:  # noqa: A002
        """Return a run; None if it is unknown."""
        ...

    async def list(
        self,
        filter: RunFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: RunPosition | None = None,
    ) -> Sequence[StoredRun]:
        """List runs, the one that started last first: at most ``limit``, those before ``before``."""
        ...

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Remove runs that ended more than ``keep`` seconds ago, in a bounded batch; return how many.

        A run that has not ended is removed if it started before then and its job is unknown.
        """
        ...
