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
    assert before_json["migrations"][0] == {"version": 1, "name": "sessions_and_locks", "applied_at": None}
    assert all(migration["applied_at"].endswith("+00:00") for migration in after_json["migrations"])
    if store_url.startswith("postgres"):
        assert "functions" in after.stdout
        assert before_json["functions"] == {
            "version": 1,
            "state": "pending",
            "applied_version": None,
            "applied_at": None,
        }
        assert (after_json["functions"]["state"], after_json["functions"]["applied_version"]) == ("current", 1)
    else:
        assert after_json["functions"] is None


def test_verify_exits_with_1_if_the_schema_differs(cli: Callable[..., Any], store_url: str) -> None:
    before = cli("migrate", "verify", "--url", store_url)
    cli("migrate", "up", "--url", store_url)
    after = cli("migrate", "verify", "--url", store_url)
    as_json = cli("migrate", "verify", "--json", "--url", store_url)

    assert (before.exit_code, before.stderr) == (1, "1 difference.\n")
    assert "lacks migrations 1 sessions_and_locks" in before.stdout
    assert (after.exit_code, after.stdout, after.stderr) == (0, "", "No differences.\n")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (0, [])


def test_altered_functions_are_shown_and_restored(cli: Callable[..., Any], interlock_postgres_url: str) -> None:
    url = interlock_postgres_url
    cli("migrate", "up", "--url", url)
    _apply(url, "update interlock.function_set set checksum = 'another'")

    status = cli("migrate", "status", "--url", url)
    refused = cli("migrate", "up", "--url", url)
    restored = cli("migrate", "up", "--restore", "--url", url)

    assert "(altered)" in status.stdout
    assert "interlock migrate verify" in status.stderr
    assert refused.exit_code == 1
    assert "migrate up --restore" in refused.stderr
    assert (restored.exit_code, restored.stdout) == (0, "functions 1\n")


def test_newer_functions_are_shown(cli: Callable[..., Any], interlock_postgres_url: str) -> None:
    cli("migrate", "up", "--url", interlock_postgres_url)
    _apply(interlock_postgres_url, "insert into interlock.function_set (version, checksum) values (9, '')")

    status = cli("migrate", "status", "--url", interlock_postgres_url)

    assert "(version 9, which is newer)" in status.stdout
    assert "All applied" in status.stderr


def test_older_functions_are_shown_as_pending(cli: Callable[..., Any], interlock_postgres_url: str) -> None:
    cli("migrate", "up", "--url", interlock_postgres_url)
    _apply(interlock_postgres_url, "update interlock.function_set set version = 0")

    status = cli("migrate", "status", "--url", interlock_postgres_url)
    pending = cli("migrate", "sql", "--pending", "--url", interlock_postgres_url)

    assert "pending (version 0 was applied" in status.stdout
    assert "interlock migrate up" in status.stderr
    assert "create or replace function interlock.seconds" in pending.stdout
    assert "create table interlock.lock" not in pending.stdout


def test_status_leaves_no_file_behind(cli: Callable[..., Any], tmp_path: Path) -> None:
    assert cli("migrate", "status", "--url", f"sqlite:///{tmp_path / 'no.db'}").exit_code == 0

    assert list(tmp_path.iterdir()) == []


def test_printed_sql_applied_by_hand_completes_the_schema(cli: Callable[..., Any], store_url: str) -> None:
    script = cli("migrate", "sql", "--url", store_url).stdout

    _apply(store_url, script)

    status = json.loads(cli("migrate", "status", "--json", "--url", store_url).stdout)
    assert all(migration["applied_at"] for migration in status["migrations"])
    assert cli("migrate", "verify", "--url", store_url).exit_code == 0
    applied = json.loads(cli("migrate", "up", "--json", "--url", store_url).stdout)
    assert applied == {"migrations": [], "functions": None}
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


@pytest.mark.parametrize("command", ["up", "status", "sql", "verify"])
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
    applied = [migration["version"] for output, _ in outputs for migration in json.loads(output)["migrations"]]
    status = json.loads(cli("migrate", "status", "--json", "--url", store_url).stdout)
    assert sorted(applied) == [migration["version"] for migration in status["migrations"]]
    assert all(migration["applied_at"] for migration in status["migrations"])


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
