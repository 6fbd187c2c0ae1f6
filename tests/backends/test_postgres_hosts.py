"""Which hosts a PostgreSQL URL names, and which of them is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock import Locks, Settings
from interlock.backends.postgres.errors import translated
from interlock.backends.postgres.hosts import Hosts
from interlock.backends.postgres.server import Server
from interlock.errors import InvalidArgumentError, StoreUnavailableError
from interlock.testing.proxy import ThreadedFaultProxy

if TYPE_CHECKING:
    from interlock.testing.servers import PostgresServer


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@a/db", ["postgresql://u:p@a/db"]),
        ("postgresql:///db", ["postgresql:///db"]),
        ("postgres://a:1,b:2/db?x=1&y=%26", ["postgres://a:1/db?x=1&y=%26", "postgres://b:2/db?x=1&y=%26"]),
        ("postgresql://u:p%40@a,b:5433/db", ["postgresql://u:p%40@a/db", "postgresql://u:p%40@b:5433/db"]),
        ("postgresql://a,b/db?port=7", ["postgresql://a:7/db", "postgresql://b:7/db"]),
        ("postgresql://u@/db?host=a,b&port=1,2&sslmode=require",
         ["postgresql://u@a:1/db?sslmode=require", "postgresql://u@b:2/db?sslmode=require"]),
        ("postgresql://[::1]:1,[::2]/db", ["postgresql://[::1]:1/db", "postgresql://[::2]/db"]),
        ("postgresql:///db?host=/run/a,/run/b&port=1",
         ["postgresql:///db?host=/run/a&port=1", "postgresql:///db?host=/run/b&port=1"]),
        ("postgresql://a/db?target_session_attrs=primary", ["postgresql://a/db"]),
    ],
)  # fmt: skip
def test_each_host_of_a_url_has_a_url_of_its_own(url: str, hosts: list[str]) -> None:
    assert [host.url for host in Hosts.of(url).hosts] == hosts


@pytest.mark.parametrize(
    "url",
    [
        "http://a/db",
        "postgresql:a",
        "postgresql://a:x/db",
        "postgresql://a:0/db",
        "postgresql://a:65536/db",
        "postgresql://a:1:2/db",
        "postgresql://a,b,c/db?port=1,2",
        "postgresql://a/db?target_session_attrs=standby",
        "postgresql://a/db?target_session_attrs=",
    ],
)
def test_a_url_that_cannot_work_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidArgumentError):
        Server(url)


async def test_the_first_host_that_can_be_used_is_used(
    interlock_postgres_server: PostgresServer, complete_postgres_url: str
) -> None:
    with ThreadedFaultProxy("127.0.0.1", interlock_postgres_server.port) as silent:
        silent.blackhole()
        place = f"127.0.0.1:{interlock_postgres_server.port}"
        url = complete_postgres_url.replace(place, f"127.0.0.1:1,127.0.0.1:{silent.port},{place}")
        settings = Settings(session_ttl=30, store_wait=6)
        async with Locks.from_url(url, settings=settings) as locks, locks.acquire("key") as lease:
            lease.ensure()
            asked = silent.accepted
            await (await locks._store_client.store._server.connect(3.0)).close()  # type: ignore[attr-defined]
            assert silent.accepted == asked  # the host that worked comes first


async def test_no_host_that_can_be_used_is_an_outage_that_names_them_all() -> None:
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1: .*127\.0\.0\.1:2: ") as raised, translated():
        await Server("postgresql://u:secret@127.0.0.1:1,127.0.0.1:2/db").connect(2.0)
    assert "secret" not in str(raised.value)


async def test_a_standby_or_read_only_server_is_not_used_unless_the_url_says_so(complete_postgres_url: str) -> None:
    for attributes, used in (("read-write", False), ("primary", True), ("any", True)):
        separator = "&" if "?" in complete_postgres_url else "?"
        url = f"{complete_postgres_url}{separator}default_transaction_read_only=on&target_session_attrs={attributes}"
        if used:
            await (await Server(url).connect(5.0)).close()
        else:
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="read-only"):
                await Server(url).connect(5.0)
