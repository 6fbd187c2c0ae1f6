"""The example as a user runs it: its names, its README, its commands and its story."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sentinel.database import execute_query
from sentinel.scheduler import create_task
from sentinel.story.audit import Seen, audit
from sentinel.target_service import process_target
from tests.examples.sentinel.targets import create_test_target, stored, until_status

if TYPE_CHECKING:
    from sentinel.console import Console
    from sentinel.moderation_api import Moderation

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "sentinel"
SIGNATURES = {
    "sentinel.config": {"get_config": []},
    "sentinel.cooldowns": {
        "check_cooldown": ["account_id"],
        "check_and_wait_cooldown": ["account_id"],
        "_cleanup_stale_cooldowns": [],
    },
    "sentinel.database": {
        "execute_query": ["statement", "parameters"],
        "execute_insert": ["statement", "parameters"],
        "execute_in_transaction": ["operation"],
    },
    "sentinel.target_service": {
        "_claim_target_for_processing": ["target_id"],
        "process_target": ["target"],
        "get_target": ["target_id"],
        "update_target_status": ["target_id", "status"],
    },
    "sentinel.report_service": {
        "execute_report_for_target": ["target_id"],
        "_run_report_in_background": ["target_id"],
    },
    "sentinel.scheduler": {
        "get_task": ["task_id"],
        "update_task": ["task_id", "data"],
        "start_scheduler": [],
        "_register_job": ["row"],
        "_deactivate_task_after_job_failure": ["task_id", "error"],
    },
    "sentinel.api": {"execute_report": ["target_id"]},
}
COLUMNS = {
    "targets": {"id", "status", "updated_at"},
    "scheduled_tasks": {"id", "task_type", "cron_expression", "interval_seconds", "is_active"},
    "report_logs": {"target_id", "action", "success", "error_message"},
    "accounts": {"id"},
}


def test_every_documented_name_and_signature_exists() -> None:
    for module, names in SIGNATURES.items():
        for name, parameters in names.items():
            found = getattr(importlib.import_module(module), name)
            assert inspect.iscoroutinefunction(found), name
            assert list(inspect.signature(found).parameters)[: len(parameters)] == parameters, name


async def test_every_documented_table_has_its_columns(console: Console) -> None:
    await process_target(target := await create_test_target())
    await console.app.drain()
    await create_task({"task_type": "process_pending", "interval_seconds": 60})

    assert target["status"] == "pending"
    for table, columns in COLUMNS.items():
        (row, *_) = await execute_query(f"select * from {table}")
        assert columns <= set(row), table


def run(*arguments: str, cwd: Path = EXAMPLE, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(EXAMPLE), **environment},
        capture_output=True,
        text=True,
        timeout=170,
    )


def test_the_example_in_the_readme_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "example.py").write_text(block)

    done = run("example.py", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "[False, True]\n1\n"


def test_every_variable_in_the_readme_exists() -> None:
    named = set(re.findall(r"^\| `(SENTINEL_\w+)", (EXAMPLE / "README.md").read_text("utf-8"), re.MULTILINE))
    source = "\n".join(path.read_text("utf-8") for path in (EXAMPLE / "sentinel").rglob("*.py"))

    assert named == set(re.findall(r"SENTINEL_\w+", source))


@pytest.mark.full
async def test_interlock_run_works_on_what_another_process_enqueued(
    console: Console, url: str, moderation_url: str, moderation: Moderation
) -> None:
    target = await create_test_target()
    await process_target(target)
    worker = subprocess.Popen(
        [sys.executable, "-m", "interlock", "run", "sentinel.program:app"],
        cwd=EXAMPLE,
        env={**os.environ, "SENTINEL_URL": url, "SENTINEL_MODERATION_URL": moderation_url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await until_status(target["id"], "completed", seconds=60)
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait, 30)
    assert len(moderation.calls) == 1


@pytest.mark.full
def test_serving_ends_cleanly_with_a_signal(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sentinel", "--port", "0"],
        cwd=EXAMPLE,
        env={**os.environ, "SENTINEL_URL": f"sqlite:///{tmp_path}/sentinel.db"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Console: http://127.0.0.1:")
        assert "/interlock/?token=" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.full
def test_serving_other_machines_needs_a_token() -> None:
    done = run("-m", "sentinel", "--host", "0.0.0.0", SENTINEL_TOKEN="")

    assert done.returncode == 1
    assert "Set SENTINEL_TOKEN" in done.stderr


async def test_the_audit_finds_what_is_wrong(console: Console) -> None:
    target = await create_test_target()
    await process_target(target)
    await console.app.drain()
    task = await create_task({"task_type": "process_pending", "interval_seconds": 60})
    job, number, account = (await stored(target["id"]))["job_id"], target["id"], target["account_id"]

    def seen(**changes: Any) -> Seen:
        run = {"pid": 7, "job": job, "target": number, "account": account}
        good = {
            "trace": [run | {"event": "start", "at": 10.0}, run | {"event": "end", "at": 11.0}],
            "accepted": Counter({number: 1}),
            "cooldowns": [(0.0, 90.0)],
            "reviews": {f"job-{job}": 1},
        }
        return Seen(**good | changes)

    clean = await audit(console, seen())
    assert clean.violations == []
    assert (clean.targets, clean.runs, clean.reports) == (1, 1, {"done": 1})
    (start, end) = seen().trace
    again = [start | {"at": 10.5, "pid": 8}, end | {"at": 12.0, "pid": 8}]
    for changes, violation in (
        ({"reviews": {}}, "is done and made no review"),
        ({"accepted": Counter({number: 2})}, "was accepted 2 times and has 1 rows"),
        (
            {"trace": [start, end, start | {"at": 80.0, "pid": 8}], "killed": {8: 81.0}},
            f"was used by job {job} and 70.000 s later by job {job}",
        ),
        ({"trace": [start, *again, end], "cooldowns": [(0.0, 0.1)]}, "was processed twice at once"),
        ({"trace": [start]}, "never ended there"),
        ({"overlaps": ["item"]}, "two reviews of item"),
        ({"edits": Counter({task["id"]: 1})}, "has version 1 after 1 edits"),
    ):
        assert violation in "\n".join((await audit(console, seen(**changes))).violations)
    await execute_query("update targets set status = 'failed' where id = ?", (number,))
    assert "is failed, and its log says completed" in (await audit(console, seen())).violations[0]


@pytest.mark.full
def test_a_story_that_is_ended_by_ctrl_c_has_no_violation() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sentinel.story", "--seconds", "60", "--workers", "1", "--kill-every", "1.5"],
        cwd=EXAMPLE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "with kill -9" in line:
                process.send_signal(signal.SIGINT)
                break
        said += process.stdout.read()
        assert process.wait(100) == 0, said
    finally:
        process.kill()
        process.communicate()
    assert said.endswith("Nothing was lost, doubled, stuck or too early.\n")


@pytest.mark.full
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_long_story_has_no_violation(request: pytest.FixtureRequest, store: str) -> None:
    more = [] if store == "sqlite" else ["--url", request.getfixturevalue("complete_postgres_url")]
    done = run("-m", "sentinel.story", "--seconds", "30", *more)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Nothing was lost, doubled, stuck or too early.\n")
