from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import Locks

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


def test_up_applies_everything_once(cli: Callable[..., Any], store_url: str) -> None:
    first = cli("migrate", "up", "--url", store_url)
    second = cli("migrate", "up", "--url", store_url)

    assert first.exit_code == second.exit_code == 0
    assert first.stdout.startswith("0001 sessions_and_locks\n")
    assert second.stdout == ""
    assert "Nothing to apply" in second.stderr


def test_status_tells_pending_from_applied(cli: Callable[..., Any], store_url: str) -> None:
    before = cli("migrate", "status", "--url", store_url)
    before_json = json.loads(cli("migrate", "status", "--json", "--url", store_url).stdout)
    cli("migrate", "up", "--url", store_url)
    after = cli("migrate", "status", "--url", store_url)
    after_json = json.loads(cli("migrate", "status", "--json", "--url", store_url).stdout)

    assert "pending" in before.stdout
    assert "interlock migrate up" in before.stderr
    assert "pending" not in after.stdout
    assert "All applied" in after.stderr
    assert before_json[0] == {"version": 1, "name": "sessions_and_locks", "applied_at": None}
    assert all(migration["applied_at"].endswith("+00:00") for migration in after_json)


def test_status_leaves_no_file_behind(cli: Callable[..., Any], tmp_path: Path) -> None:
    assert cli("migrate", "status", "--url", f"sqlite:///{tmp_path / 'no.db'}").exit_code == 0

    assert list(tmp_path.iterdir()) == []


def test_printed_sql_applied_by_hand_completes_the_schema(cli: Callable[..., Any], store_url: str) -> None:
    script = cli("migrate", "sql", "--url", store_url).stdout

    _apply(store_url, script)

    status = json.loads(cli("migrate", "status", "--json", "--url", store_url).stdout)
    assert all(migration["applied_at"] for migration in status)
    assert json.loads(cli("migrate", "up", "--json", "--url", store_url).stdout) == []
    assert asyncio.run(_take_a_lock(store_url)) > 0


def test_pending_sql_is_what_the_store_lacks(cli: Callable[..., Any], store_url: str) -> None:
    whole = cli("migrate", "sql", "--url", store_url)
    before = cli("migrate", "sql", "--pending", "--url", store_url)
    cli("migrate", "up", "--url", store_url)
    after = cli("migrate", "sql", "--pending", "--url", store_url)

    assert before.stdout == whole.stdout
    assert (after.exit_code, after.stdout) == (0, "")
    assert "Nothing is pending" in after.stderr


def test_grants_are_printed_for_each_role(cli: Callable[..., Any]) -> None:
    result = cli("migrate", "grants", "--worker", "bot", "--reader", "a", "--reader", "b", "--url", NOWHERE)

    assert result.exit_code == 0
    assert 'grant select on all tables in schema interlock to "b";' in result.stdout
    assert result.stdout.count("grant usage on schema interlock to") == 3


def test_grants_need_a_role_and_a_store_with_roles(cli: Callable[..., Any], tmp_path: Path) -> None:
    for arguments, said in (
        (["--url", NOWHERE], "No role was named"),
        (["--worker", "", "--url", NOWHERE], "Invalid role name"),
        (["--worker", "bot", "--url", f"sqlite:///{tmp_path}/bot.db"], "has no roles"),
    ):
        result = cli("migrate", "grants", *arguments)
        assert result.exit_code != 0
        assert said in result.stderr


def test_sql_needs_no_server(cli: Callable[..., Any]) -> None:
    result = cli("migrate", "sql", "--url", NOWHERE)

    assert result.exit_code == 0
    assert "create schema if not exists interlock" in result.stdout


@pytest.mark.parametrize("command", ["up", "status", "sql"])
def test_memory_has_no_schema(cli: Callable[..., Any], command: str) -> None:
    result = cli("migrate", command, "--url", "memory://")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "A store of kind memory has no schema." in result.stderr


@pytest.mark.full
def test_ten_processes_migrate_at_once_and_each_step_is_applied_once(
    spawn: Callable[..., subprocess.Popen[str]], cli: Callable[..., Any], store_url: str
) -> None:
    processes = [spawn("migrate", "up", "--json", "--url", store_url) for _ in range(10)]
    outputs = [process.communicate(timeout=60) for process in processes]

    assert [process.returncode for process in processes] == [0] * 10, [error for _, error in outputs]
    applied = [migration["version"] for output, _ in outputs for migration in json.loads(output)]
    status = json.loads(cli("migrate", "status", "--json", "--url", store_url).stdout)
    assert sorted(applied) == [migration["version"] for migration in status]
    assert all(migration["applied_at"] for migration in status)


def _apply(url: str, script: str) -> None:
    """Run a script as psql or the sqlite3 shell would."""
    if url.startswith("sqlite"):
        db = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        db.executescript(script)
        db.close()
        return

    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    asyncio.run(execute())


async def _take_a_lock(url: str) -> int:
    async with Locks.from_url(url) as locks, locks.acquire("key") as lease:
        return lease.fence
