"""A server's certificate is checked as the URL says, and what does not verify is refused and said."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import asyncpg
import pytest

from interlock import Locks, Settings
from interlock.errors import StoreError, StoreUnavailableError
from interlock.testing.servers import PostgresServer
from tests.system.pgbouncer import DEBIAN_POSTGRES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.authority import Authority

pytestmark = pytest.mark.system

STORE_WAIT = 3.0
SETTINGS = Settings(session_ttl=3, store_wait=STORE_WAIT)
USER = "tls_user"


@pytest.fixture(scope="module")
def server(authorities: tuple[Authority, Authority]) -> Iterator[PostgresServer]:
    """A PostgreSQL that lets one user in by TLS only. Its certificate is for localhost, not for 127.0.0.1."""
    certificate, key = authorities[0].issue("server", "DNS:localhost")
    with PostgresServer(bin_dir=DEBIAN_POSTGRES, ssl_cert=certificate, ssl_key=key) as server:
        asyncio.run(create_user(server))
        rules = server.directory / "data" / "pg_hba.conf"
        others = rules.read_text()
        rules.write_text(f"hostssl all {USER} 127.0.0.1/32 trust\nhost all {USER} all reject\n{others}")
        server.restart()
        yield server


async def create_user(server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"create role {USER} login superuser")
    await connection.close()


def url(server: PostgresServer, host: str, sslmode: str, authority: Authority | None = None) -> str:
    root = f"&sslrootcert={quote(str(authority.certificate))}" if authority else ""
    return f"postgresql://{USER}@{host}:{server.port}/postgres?sslmode={sslmode}{root}"


async def connections_of_the_user(server: PostgresServer) -> list[tuple[bool, str]]:
    connection = await asyncpg.connect(server.url())
    try:
        rows = await connection.fetch(
            "select ssl, coalesce(version, '') from pg_stat_ssl join pg_stat_activity using (pid) where usename = $1",
            USER,
        )
        return [tuple(row) for row in rows]
    finally:
        await connection.close()


def open_sockets(port: int) -> int:
    """How many sockets of this process are, or are about to be, connected to a port of 127.0.0.1."""
    sockets = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            sockets.add(target.removeprefix("socket:[").removesuffix("]"))
    connected = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            connected += fields[9] in sockets and int(fields[2].rpartition(":")[2], 16) == port
    return connected


async def refused(server: PostgresServer, url: str) -> StoreError:
    """Open, and give the error; see that it came in time and that nothing is left behind."""
    begun = time.monotonic()
    with pytest.raises(StoreError) as raised:
        await Locks.from_url(url, settings=SETTINGS).open()
    assert time.monotonic() - begun < STORE_WAIT + 1

    deadline = time.monotonic() + 5
    while open_sockets(server.port):
        assert time.monotonic() < deadline, "a socket is left"
        await asyncio.sleep(0.01)
    assert await connections_of_the_user(server) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("interlock-session")]
    return raised.value


async def test_the_debian_build_speaks_tls(server: PostgresServer, authorities: tuple[Authority, Authority]) -> None:
    trusted = ssl.create_default_context(cafile=authorities[0].certificate)
    connection = await asyncpg.connect(f"postgresql://{USER}@localhost:{server.port}/postgres", ssl=trusted)
    encrypted = await connection.fetchval("select ssl from pg_stat_ssl where pid = pg_backend_pid()")
    await connection.close()

    assert encrypted is True


async def test_verify_full_works_and_every_connection_is_encrypted(
    server: PostgresServer, authorities: tuple[Authority, Authority]
) -> None:
    async with Locks.from_url(url(server, "localhost", "verify-full", authorities[0]), settings=SETTINGS) as locks:
        async with locks.acquire("key") as lease:
            lease.ensure()
        connections = await connections_of_the_user(server)

        assert len(connections) >= 3  # heartbeat, listener and at least one for operations
        assert all(encrypted and version.startswith("TLSv1.") for encrypted, version in connections)


async def test_another_authoritys_certificate_is_refused(
    server: PostgresServer, authorities: tuple[Authority, Authority]
) -> None:
    for sslmode in ("verify-ca", "verify-full"):
        error = await refused(server, url(server, "localhost", sslmode, authorities[1]))

        assert not isinstance(error, StoreUnavailableError)  # it does not pass by itself
        assert "certificate verify failed" in str(error)
        assert "sslrootcert" in error.remedy


async def test_a_certificate_for_another_host_is_refused(
    server: PostgresServer, authorities: tuple[Authority, Authority]
) -> None:
    error = await refused(server, url(server, "127.0.0.1", "verify-full", authorities[0]))

    assert not isinstance(error, StoreUnavailableError)
    assert "IP address mismatch" in str(error)
    async with Locks.from_url(url(server, "127.0.0.1", "verify-ca", authorities[0]), settings=SETTINGS):
        pass  # the authority alone is right


async def test_a_plain_connection_is_refused_where_the_server_wants_tls(server: PostgresServer) -> None:
    error = await refused(server, url(server, "127.0.0.1", "disable"))

    assert not isinstance(error, StoreUnavailableError)
    assert "pg_hba.conf rejects connection" in str(error)
    assert "no encryption" in str(error)


async def test_tls_is_not_given_up_where_the_server_has_none(authorities: tuple[Authority, Authority]) -> None:
    with PostgresServer(bin_dir=DEBIAN_POSTGRES) as plain:
        begun = time.monotonic()
        with pytest.raises(StoreError, match="rejected SSL upgrade"):
            await Locks.from_url(url(plain, "127.0.0.1", "verify-full", authorities[0]), settings=SETTINGS).open()
        assert time.monotonic() - begun < STORE_WAIT + 1


async def test_a_missing_authority_file_is_said(server: PostgresServer, tmp_path: Path) -> None:
    missing = quote(str(tmp_path / "missing.crt"))
    error = await refused(server, f"{url(server, 'localhost', 'verify-full')}&sslrootcert={missing}")

    assert not isinstance(error, StoreUnavailableError)
    assert "sslrootcert" in str(error)


async def test_a_certificate_that_is_replaced_while_running_is_refused_and_the_old_one_works_again(
    authorities: tuple[Authority, Authority],
) -> None:
    ours, theirs = authorities
    certificate, key = ours.issue("first", "DNS:localhost")
    wrong_certificate, wrong_key = theirs.issue("second", "DNS:localhost")
    with PostgresServer(bin_dir=DEBIAN_POSTGRES, ssl_cert=certificate, ssl_key=key) as server:
        address = f"postgresql://postgres@localhost:{server.port}/postgres?sslmode=verify-full"
        async with Locks.from_url(
            f"{address}&sslrootcert={quote(str(ours.certificate))}",
            settings=Settings(session_ttl=3, store_wait=1.5, stuck_work="report"),
        ) as locks:
            async with locks.acquire("before"):
                pass
            (server.directory / "server.crt").write_bytes(wrong_certificate.read_bytes())
            (server.directory / "server.key").write_bytes(wrong_key.read_bytes())
            await asyncio.to_thread(server.restart)

            begun = time.monotonic()
            with pytest.raises(StoreError):
                await locks.acquire("during")
            assert time.monotonic() - begun < 3

            (server.directory / "server.crt").write_bytes(certificate.read_bytes())
            (server.directory / "server.key").write_bytes(key.read_bytes())
            await asyncio.to_thread(server.restart)
            async with locks.acquire("after", wait=10) as lease:
                lease.ensure()
