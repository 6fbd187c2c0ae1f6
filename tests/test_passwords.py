"""A password in a URL appears in no representation, no error and no log."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pytest

from interlock import App, Locks, Settings
from interlock.cli.store_url import StoreUrl
from interlock.errors import InterlockError
from interlock.testing.clock import until

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = "canary-4f1c9"
URLS = [
    "postgresql://bot:{}@127.0.0.1:1/bot",
    "postgresql://bot:{}@127.0.0.1:port/bot",
    "postgresql://bot:{}@127.0.0.1:99999/bot",
    "postgresql://bot:{}@[::1/bot",
    "postgresql://bot:{}@127.0.0.1:1,127.0.0.1:x/bot",
    "postgresql://bot:{}@127.0.0.1:1/bot?sslmode=bogus",
    "postgresql://bot:{}@127.0.0.1:1/bot?sslmode=verify-full&sslrootcert=/nowhere/ca.pem",
    "postgresql://127.0.0.1:1/bot?password={}",
    "postgresql://bot:pass/{}@127.0.0.1:1/bot",
    "redis://:{}@127.0.0.1:1/0",
    "redis://:{}@127.0.0.1:port/0",
    "redis://:{}@127.0.0.1:1/first",
    "redis://:{}@127.0.0.1:1/0?unknown=1",
    "rediss://:{}@127.0.0.1:1/0?ssl_ca_certs=/nowhere/ca.pem",
    "mysql://bot:{}@127.0.0.1/bot",
    "sqlite://bot:{}@127.0.0.1/bot.db",
]


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level("DEBUG")
    yield caplog
    assert CANARY not in caplog.text


@pytest.mark.parametrize("url", URLS)
async def test_no_error_shows_a_password(url: str, everything_logged: pytest.LogCaptureFixture) -> None:
    async def use() -> None:
        async with asyncio.timeout(20):
            await Locks.from_url(url.format(CANARY), store_wait=0.2).open()

    with pytest.raises(InterlockError) as raised:
        await use()

    assert CANARY not in "".join(traceback.format_exception(raised.value))
    assert CANARY not in repr(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1:port", "[::1"])
def test_no_error_shows_the_password_of_the_address_to_listen_at(host: str) -> None:
    with pytest.raises(InterlockError) as raised:
        Locks.from_url("postgresql://127.0.0.1:1/bot", listen_url=f"postgresql://bot:{CANARY}@{host}")

    assert CANARY not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("rest", ["127.0.0.1:1", "127.0.0.1:1/x?sslmode=bogus"])
async def test_no_log_shows_the_password_of_the_address_to_listen_at(
    complete_postgres_url: str, rest: str, everything_logged: pytest.LogCaptureFixture
) -> None:
    locks = Locks.from_url(complete_postgres_url, listen_url=f"postgresql://bot:{CANARY}@{rest}", store_wait=2)

    async with locks, locks.acquire("key"):
        await until(lambda: [record for record in everything_logged.records if "listen" in record.message], within=20)


async def test_a_wrong_password_is_not_repeated(
    complete_postgres_url: str, everything_logged: pytest.LogCaptureFixture
) -> None:
    parts = urlsplit(complete_postgres_url)
    netloc = f"no_such_role:{CANARY}@{parts.netloc.rpartition('@')[2]}"
    with pytest.raises(InterlockError) as raised:
        await Locks.from_url(urlunsplit(parts._replace(netloc=netloc)), store_wait=0.5).open()

    assert CANARY not in "".join(traceback.format_exception(raised.value))


def test_no_representation_shows_a_password() -> None:
    url = f"postgresql://bot:{CANARY}@127.0.0.1:1/bot"
    app = App(url, listen_url=url)
    things = [
        Settings(listen_url=url),
        StoreUrl(url),
        app,
        app.locks,
        app.jobs,
        app.insight,
        app.locks._store_client,
        app.locks._store_client.settings,
        app.locks._store_client.store,
        app.locks._store_client.store.sessions,
    ]

    for thing in things:
        assert CANARY not in repr(thing)
        assert CANARY not in str(thing)
