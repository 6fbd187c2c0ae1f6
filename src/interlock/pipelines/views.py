"""Runs as people and programs see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from interlock.clock import as_datetime
from interlock.ports.pipelines import StageState

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.ports.pipelines import StoredRun, StoredStage

__all__ = ["PENDING", "WAITING", "Run", "RunView", "StageView", "run_view", "waiting_run"]

R_co = TypeVar("R_co", covariant=True)
PENDING = "pending"
"""The state of a stage that has not started."""
WAITING = "waiting"
"""The state of a run whose job has not started."""


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage of a run."""

    name: str
    position: int
    state: str
    """pending, running, completed or failed."""
    attempt: int
    """How many times it has started."""
    started_at: datetime | None
    """When its last attempt started."""
    ended_at: datetime | None
    error: str

    @property
    def duration(self) -> float | None:
        """The seconds that its last attempt took; None until it has ended."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class RunView:
    """A run of a pipeline."""

    id: int
    """The ID of the run, which is that of its job."""
    pipeline: str
    kind: str
    record_id: str
    mode: str
    state: str
    """waiting, running, completed, failed or skipped; or how its job ended otherwise, such as cancelled."""
    started_at: datetime | None
    ended_at: datetime | None
    version: int | None
    """The version of the record after the last checkpoint."""
    error: str
    stages: tuple[StageView, ...]

    @property
    def duration(self) -> float | None:
        """The seconds from its start to its end; None until it has ended."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def failures(self) -> tuple[StageView, ...]:
        """The stages that failed."""
        return tuple(stage for stage in self.stages if stage.state == StageState.FAILED)

    def stage(self, name: str) -> StageView:
        """One stage by its name."""
        return next(stage for stage in self.stages if stage.name == name)


@dataclass(frozen=True, slots=True)
class Run(Generic[R_co]):
    """A run that has ended, with the record as it is stored."""

    record: R_co
    view: RunView

    @property
    def id(self) -> int:
        """The ID of the run."""
        return self.view.id

    @property
    def state(self) -> str:
        """completed or skipped."""
        return self.view.state

    @property
    def mode(self) -> str:
        """The effect that failed stages had on it."""
        return self.view.mode

    @property
    def stages(self) -> tuple[StageView, ...]:
        """Its stages in order."""
        return self.view.stages

    @property
    def failures(self) -> tuple[StageView, ...]:
        """The stages that failed, which the mode allowed."""
        return self.view.failures


def run_view(stored: StoredRun, state: str = "") -> RunView:
    """A stored run; ``state`` is how its job ended if the run itself has not."""
    found = {stage.name: stage for stage in stored.stages}
    names = dict.fromkeys([*stored.names, *found])
    stages = tuple(_stage(name, position, found.get(name)) for position, name in enumerate(names))
    return RunView(
        stored.id,
        stored.pipeline,
        stored.kind,
        stored.record,
        stored.mode,
        state or str(stored.state),
        as_datetime(stored.started_at),
        None if stored.ended_at is None else as_datetime(stored.ended_at),
        stored.version,
        stored.error,
        stages,
    )


def waiting_run(id: int, pipeline: str, kind: str, record: str, mode: str, names: tuple[str, ...]) -> RunView:  # noqa: A002
    """A run that has not started."""
    stages = tuple(_stage(name, position, None) for position, name in enumerate(names))
    return RunView(id, pipeline, kind, record, mode, WAITING, None, None, None, "", stages)


def _stage(name: str, position: int, stored: StoredStage | None) -> StageView:
    if stored is None:
        return StageView(name, position, PENDING, 0, None, None, "")
    ended = None if stored.ended_at is None else as_datetime(stored.ended_at)
    return StageView(
        name, position, str(stored.state), stored.attempt, as_datetime(stored.started_at), ended, stored.error
    )
