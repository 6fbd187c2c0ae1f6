"""The test servers are real, durable and restartable, and they never outlive their owner."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest

from interlock.testing import servers
from interlock.testing.processes import Worker, receive, report
from interlock.testing.servers import (
    ExternalPostgres,
    ExternalRedis,
    LocalServer,
    PostgresServer,
    RedisServer,
    ServerFailedError,
    bundled_postgres,
    free_port,
    process,
)
from interlock.testing.servers.redis import redis_command
from interlock.testing.servers.tcp import first_outgoing_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


async def query(url: str, sql: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    return process.state(pid) in "XZ"


async def test_committed_data_survives_sigkill(postgres: PostgresServer) -> None:
    await query(postgres.url(), "CREATE TABLE kept AS SELECT 42 AS answer")
    port, pid = postgres.port, postgres.pid
    children = process.descendants(pid)

    postgres.kill()
    assert children
    assert all(gone(process) for process in (pid, *children))
    assert not postgres.running
    postgres.start()

    assert postgres.port == port
    assert await query(postgres.url(), "SELECT answer FROM kept") == 42


async def test_kill_ends_a_backend_that_is_busy(postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(postgres.url())
    backend = await connection.fetchval("SELECT pg_backend_pid()")
    endless = "DO $$ BEGIN LOOP END LOOP; END $$"
    busy = asyncio.create_task(connection.execute(endless))
    running = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {backend} AND state = 'active'"
    while await query(postgres.url(), running) != 1:
        assert not busy.done()

    postgres.kill()

    assert gone(backend)
    with pytest.raises((OSError, asyncpg.PostgresConnectionError)):
        await busy
    postgres.start()


async def test_commits_are_durable_and_connections_are_many(postgres: PostgresServer) -> None:
    assert await query(postgres.url(), "SHOW fsync") == "on"
    assert await query(postgres.url(), "SHOW synchronous_commit") == "on"
    assert await query(postgres.url(), "SHOW max_connections") == "200"


async def test_databases_are_created_and_dropped_while_in_use(postgres: PostgresServer) -> None:
    postgres.create_database('odd "name')
    connection = await asyncpg.connect(postgres.url("odd%20%22name"))

    postgres.drop_database('odd "name')
    postgres.drop_database('odd "name')

    with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
        await connection.fetchval("SELECT 1")
    connection.terminate()
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await query(postgres.url("odd%20%22name"), "SELECT 1")


async def test_a_stopped_server_keeps_its_data_and_close_removes_it() -> None:
    server = PostgresServer()
    try:
        server.start()
        server.start()
        await query(server.url(), "CREATE TABLE kept ()")
        server.stop()
        server.stop()
        server.restart()
        assert await query(server.url(), "SELECT count(*) FROM kept") == 0
        pid, directory = server.pid, server.directory
    finally:
        server.close()

    assert gone(pid)
    assert not directory.exists()
    server.close()


async def test_each_bundled_major_version_starts() -> None:
    with PostgresServer(bin_dir=bundled_postgres(16)) as server:
        assert str(await query(server.url(), "SHOW server_version")).startswith("16.")
    with pytest.raises(ServerFailedError, match="no PostgreSQL 9"):
        bundled_postgres(9)


def test_a_server_that_cannot_start_shows_its_log_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"max_connections": "none"})

    with pytest.raises(ServerFailedError, match="max_connections"):
        server.start()

    directory = server.directory
    server.close()
    assert not directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server as another account")
async def test_root_may_use_an_installation_that_only_root_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = bundled_postgres().parent
    package = source.parent
    hidden = tmp_path / package.name / source.name
    shutil.copytree(source, hidden, symlinks=True)
    shutil.copytree(f"{package}.libs", tmp_path / f"{package.name}.libs")
    tmp_path.chmod(0o700)

    with tempfile.TemporaryDirectory() as open_directory:
        Path(open_directory).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", open_directory)
        for _ in range(2):
            with PostgresServer(bin_dir=hidden / "bin") as server:
                assert await query(server.url(), "SELECT 1") == 1
        assert len(list(Path(open_directory).iterdir())) == 1


@pytest.mark.parametrize(("appendonly", "left"), [(True, ":1"), (False, ":0")])
def test_redis_keeps_acknowledged_writes_over_sigkill_when_append_only(appendonly: bool, left: str) -> None:
    with RedisServer(appendonly=appendonly) as server:
        redis_command(server.url(3), "SET", "key", "value")

        server.kill()
        server.start()

        with pytest.raises(ServerFailedError, match=left):  # an integer reply is no "+OK"
            redis_command(server.url(3), "EXISTS", "key")


def own_a_server(kind: str) -> None:
    server: LocalServer = PostgresServer() if kind == "postgres" else RedisServer()
    with server:
        report("started", pid=server.pid, directory=str(server.directory))
        receive("stop")


@pytest.mark.parametrize("kind", ["postgres", "redis"])
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        signal.SIGTERM,
        signal.SIGINT,
    ],
)
async def test_no_server_outlives_its_owner(kind: str, number: signal.Signals) -> None:
    async with Worker.spawn(f"{__name__}:own_a_server", [kind]) as owner:
        started = await owner.wait_for("started", timeout=60)
        family = [started["pid"], *process.descendants(started["pid"])]
        assert not any(map(gone, family))

        os.kill(owner.pid, number)
        await owner.wait()

    await until(lambda: all(map(gone, family)))
    await until(lambda: not Path(started["directory"]).exists())


async def test_an_owner_that_ends_in_order_leaves_nothing() -> None:
    async with Worker.spawn(f"{__name__}:own_a_server", ["postgres"]) as owner:
        started = await owner.wait_for("started", timeout=60)
        owner.send("stop")
        assert await owner.wait(30) == 0

    assert gone(started["pid"])
    assert not Path(started["directory"]).exists()


def test_free_ports_are_outside_the_range_of_outgoing_connections() -> None:
    assert all(1024 < free_port() < first_outgoing_port() for _ in range(50))


async def test_the_fixture_gives_an_empty_database_to_an_async_test(interlock_postgres_url: str) -> None:
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"

    assert await query(interlock_postgres_url, tables) == 0
    await query(interlock_postgres_url, "CREATE TABLE mine ()")


@pytest.mark.parametrize("_time", [1, 2])
def test_the_fixture_gives_an_empty_database_to_a_sync_test(interlock_postgres_url: str, _time: int) -> None:
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"

    assert asyncio.run(query(interlock_postgres_url, tables)) == 0
    asyncio.run(query(interlock_postgres_url, "CREATE TABLE mine ()"))


@pytest.mark.parametrize("_time", [1, 2])
def test_the_redis_fixture_gives_an_empty_database(interlock_redis_url: str, _time: int) -> None:
    with pytest.raises(ServerFailedError, match=":0"):
        redis_command(interlock_redis_url, "DBSIZE")
    redis_command(interlock_redis_url, "SET", "mine", "1")


async def test_a_server_named_in_the_environment_is_used(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TEST_POSTGRES_URL", postgres.url() + "?application_name=mine")
    url = servers.postgres_url_from_environment()
    assert url is not None
    external = ExternalPostgres(url)

    external.create_database("elsewhere")
    try:
        assert await query(external.url("elsewhere"), "SHOW application_name") == "mine"
        assert urlsplit(external.url()).path == "/postgres"
    finally:
        external.drop_database("elsewhere")


def test_only_the_database_in_the_url_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    with RedisServer() as server:
        monkeypatch.setenv("INTERLOCK_TEST_REDIS_URL", server.url(4))
        url = servers.redis_url_from_environment()
        assert url is not None
        for database in (4, 5):
            redis_command(server.url(database), "SET", "key", "value")

        ExternalRedis(url).flush()

        for database, left in ((4, ":0"), (5, ":1")):
            with pytest.raises(ServerFailedError, match=left):
                redis_command(server.url(database), "DBSIZE")
