"""kill -9 at any statement of a run: it finishes elsewhere, and every stage has had its effect once."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from interlock import App
from interlock.errors import JobFailedError, PipelineError
from interlock.testing.processes import Worker
from tests.pipelines.intake import STAGES, TTL, declare

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.pipelines import Pipeline
    from interlock.records import Records
    from tests.pipelines.intake import Intent

SAMPLED = {"sqlite": range(3, 130, 15), "postgres": range(2, 45, 5)}
"""Some of the statements, or writes to a socket, of a run."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


async def _killed_runs_finish(
    url: str, steps: list[int | None], *, seed: int, timeout: float, fails: bool = False, planted: bool = False
) -> tuple[int, int]:
    """Kill processes in the middle of runs, and let this one finish what they left."""
    app = App(url, session_ttl=TTL)
    intents, pipeline = declare(app, fails=fails)
    async with app:
        async with Worker.spawn("tests.pipelines.intake:run_rounds", (url, steps, seed, fails, planted)) as victims:
            told = await victims.wait_for("killed", timeout=timeout)
        ids = [intent.id for intent in await intents.list(limit=1000)]
        async with app.worker():
            for job in await app.jobs.list(name="pipeline.intake", limit=1000):
                with suppress(JobFailedError):
                    await app.jobs.result_of(job.id, wait=60)
        for record_id in ids:
            await (_check_failed if fails else _check)(intents, pipeline, record_id)
        return told["count"], told["rounds"]


async def _check(intents: Records[Intent], pipeline: Pipeline[Intent], record_id: str) -> None:
    """The record, its run and its journal agree, and no stage had its effect twice."""
    runs = await pipeline.list(record_id)
    if not runs:
        # The process died before its run was accepted.
        runs = [(await pipeline.run(record_id)).view]
    (run,) = runs
    record = await intents.get(record_id)
    journal = [(entry, json.loads(entry.after or "{}")) for entry in reversed(await intents.history(record_id))]
    fixed = {"fixed": 1} if any(entry.action == "record.correct" for entry, _ in journal) else {}

    assert (run.state, [stage.state for stage in run.stages]) == ("completed", ["completed"] * len(STAGES))
    assert (record.status, record.count) == ("completed", len(STAGES))
    assert record.payload == dict.fromkeys(STAGES, 1) | {"own": 1} | fixed
    ends = Counter(after["_stage"] for entry, after in journal if entry.action == "record.stage_complete")
    assert ends == dict.fromkeys(STAGES, 1)
    starts = Counter(after["_stage"] for entry, after in journal if entry.action == "record.stage_start")
    assert {stage.name: stage.attempt for stage in run.stages} == dict(starts)
    changes = [(entry, after) for entry, after in journal if entry.to_version is not None]
    assert [entry.to_version for entry, _ in changes] == list(range(record.version + 1))
    assert sum("_stage" in after for _, after in changes) == len(STAGES)
    statuses = [after["status"] for _, after in changes if "status" in after]
    assert statuses[-1] == record.status


async def _check_failed(intents: Records[Intent], pipeline: Pipeline[Intent], record_id: str) -> None:
    """The failure is stored once, with its status."""
    if not await pipeline.list(record_id):
        with pytest.raises(PipelineError):
            await pipeline.run(record_id)
    (run,) = await pipeline.list(record_id)
    record = await intents.get(record_id)
    journal = [(entry, json.loads(entry.after or "{}")) for entry in reversed(await intents.history(record_id))]

    assert (run.state, [stage.state for stage in run.stages]) == ("failed", [*["completed"] * 3, "failed"])
    assert (record.status, record.count) == ("failed", 3)
    actions = Counter(entry.action for entry, _ in journal)
    assert (actions["record.stage_fail"], actions["record.transition"]) == (1, 1)
    starts = Counter(after["_stage"] for entry, after in journal if entry.action == "record.stage_start")
    assert {stage.name: stage.attempt for stage in run.stages} == dict(starts)


@pytest.mark.full
async def test_a_run_that_is_killed_finishes_elsewhere(url: str) -> None:
    sampled: list[int | None] = [*SAMPLED["sqlite" if url.startswith("sqlite") else "postgres"], None, None, None]
    killed, rounds = await _killed_runs_finish(url, sampled, seed=7, timeout=60)
    assert killed >= rounds // 2, "the processes were killed too late"


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_a_run_is_killed_at_every_statement(url: str) -> None:
    killed, rounds = await _killed_runs_finish(url, [0], seed=7, timeout=500)
    assert killed == rounds - 1
    assert killed > 30


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_a_failing_run_is_killed_at_every_statement(url: str) -> None:
    killed, rounds = await _killed_runs_finish(url, [0], seed=7, timeout=500, fails=True)
    assert killed == rounds - 1
    assert killed > 30


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
async def test_runs_are_killed_at_many_moments(url: str, seed: int) -> None:
    killed, _ = await _killed_runs_finish(url, [None] * 40, seed=seed, timeout=200)
    assert killed > 10


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_a_record_that_is_written_in_a_transaction_of_its_own_is_noticed(tmp_path: Path) -> None:
    """The planted bug: a process that dies between the two transactions leaves a stage that has its effect twice."""
    with pytest.raises(AssertionError, match=r"count|payload|==") as caught:
        await _killed_runs_finish(f"sqlite:///{tmp_path}/interlock.db", [0], seed=7, timeout=500, planted=True)
    assert "killed too late" not in str(caught.value)
