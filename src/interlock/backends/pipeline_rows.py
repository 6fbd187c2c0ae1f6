"""Rows of runs and stages, which are the same in every store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import seconds
from interlock.ports.pipelines import RunState, StageState, StoredRun, StoredStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["stored_runs"]


def stored_runs(runs: Iterable[Sequence[Any]], stages: Iterable[Sequence[Any]]) -> list[StoredRun]:
    """Put runs and their stages together."""
    by_run: dict[int, list[StoredStage]] = {}
    for run, *stage in stages:
        by_run.setdefault(run, []).append(_stage(stage))
    return [_run(row, by_run.get(row[0], ())) for row in runs]


def _run(row: Sequence[Any], stages: Sequence[StoredStage]) -> StoredRun:
    id, pipeline, kind, record, mode, state, names, started_at, ended_at, uid, version, error = row  # noqa: A001
    what = (id, pipeline, kind, record, mode, RunState(state), tuple(json.loads(names)))
    ended = None if ended_at is None else seconds(ended_at)
    return StoredRun(*what, seconds(started_at), ended, uid, version, error, tuple(stages))


def _stage(row: Sequence[Any]) -> StoredStage:
    name, position, state, attempt, started_at, ended_at, error = row
    ended = None if ended_at is None else seconds(ended_at)
    return StoredStage(name, position, StageState(state), attempt, seconds(started_at), ended, error)
