"""What a Redis URL may say, and which servers are refused because leases would not be safe there."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from interlock import Locks, Settings
from interlock.backends import from_url
from interlock.backends.redis.address import Address
from interlock.backends.redis.replies import failure_of
from interlock.backends.redis.server import Server
from interlock.errors import CapabilityError, InvalidArgumentError, StoreError, StoreUnavailableError
from interlock.testing.servers import RedisServer
from tests.backends.outages import SHORT, Events

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def admin(server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url(), decode_responses=True) as client:
        client.flushall()
        yield client


def test_a_url_names_server_database_and_user() -> None:
    options = Address.of("redis://eva:p%40ss@cache.example.com:6380/3").options

    assert (options["host"], options["port"], options["db"]) == ("cache.example.com", 6380, 3)
    assert (options["username"], options["password"]) == ("eva", "p@ss")


def test_a_url_may_name_a_socket() -> None:
    address = Address.of("redis+unix:///run/redis.sock?db=2")

    assert (address.options["path"], address.options["db"]) == ("/run/redis.sock", 2)


def test_tls_checks_certificate_and_host_name_unless_told_otherwise_which_it_cannot_be() -> None:
    options = Address.of("rediss://cache.example.com").options

    assert (options["ssl_cert_reqs"], options["ssl_check_hostname"]) == ("required", True)


@pytest.mark.parametrize(
    "url",
    [
        "rediss://:secret@server/?ssl_cert_reqs=none",
        "rediss://:secret@server/?ssl_check_hostname=false",
        "rediss://:secret@server/?ssl_ca_certs=/no/such/file",
        "redis://:secret@server/?ssl_ca_certs=ca.pem",
        "redis://:secret@server/?socket_timeout=5",
        "redis://:secret@server/zero",
        "redis://:secret@server:port/0",
        "redis://:secret@server/0#part",
    ],
)
def test_what_a_url_cannot_mean_is_refused_without_showing_the_password(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        from_url(url, settings=Settings())

    assert "secret" not in str(raised.value)


def test_an_address_does_not_show_its_password() -> None:
    assert "secret" not in f"{Address.of('redis://eva:secret@server')!r}"


async def test_a_wrong_password_is_an_error_that_names_the_remedy_and_not_the_password(
    server: RedisServer, admin: redis.Redis
) -> None:
    with pytest.raises(StoreError, match="user and password") as raised:
        await Locks.from_url(f"redis://eva:secret@127.0.0.1:{server.port}", settings=SHORT).open()

    assert not isinstance(raised.value, StoreUnavailableError)
    assert "secret" not in str(raised.value)


async def test_a_user_that_may_not_run_scripts_is_told_what_it_needs(server: RedisServer, admin: redis.Redis) -> None:
    admin.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@read", "+ping")
    with pytest.raises(StoreError, match=r"\+@scripting") as raised:
        await Locks.from_url(f"redis://reader:secret@127.0.0.1:{server.port}", settings=SHORT).open()

    assert not isinstance(raised.value, StoreUnavailableError)


async def test_a_user_with_just_the_rights_it_needs_is_enough(server: RedisServer, admin: redis.Redis) -> None:
    rights = "~interlock:* resetchannels &interlock:* -@all +@scripting +@read +@write +@pubsub +@connection +time"
    admin.execute_command("ACL", "SETUSER", "worker", "on", ">secret", *rights.split())
    url = f"redis://worker:secret@127.0.0.1:{server.port}"
    async with Locks.from_url(url, settings=SHORT) as locks, locks.acquire("key") as lease:
        lease.ensure()


async def test_a_server_that_drops_any_key_when_its_memory_is_full_is_refused(
    server: RedisServer, admin: redis.Redis
) -> None:
    admin.config_set("maxmemory-policy", "allkeys-lru")
    admin.config_set("maxmemory", "100mb")
    try:
        with pytest.raises(CapabilityError, match="noeviction"):
            await Locks.from_url(server.url(), settings=SHORT).open()
        admin.config_set("maxmemory-policy", "volatile-lru")
        async with Locks.from_url(server.url(), settings=SHORT):
            pass
    finally:
        admin.config_set("maxmemory", "0")
        admin.config_set("maxmemory-policy", "noeviction")


async def test_a_cluster_is_refused() -> None:
    with RedisServer(settings={"cluster-enabled": "yes"}) as cluster, pytest.raises(CapabilityError, match="cluster"):
        await Locks.from_url(cluster.url(), settings=SHORT).open()


async def test_it_is_said_when_a_restart_would_forget_leases(
    server: RedisServer, admin: redis.Redis, events: Events
) -> None:
    async with Locks.from_url(server.url(), settings=SHORT):
        pass
    assert len(events["redis_not_persistent"]) == 1

    with RedisServer(appendonly=True) as durable:
        async with Locks.from_url(durable.url(), settings=SHORT):
            pass
    assert len(events["redis_not_persistent"]) == 1


@pytest.mark.parametrize("then", [None, OSError("and then")])
async def test_a_connection_that_is_reset_while_it_is_made_is_not_complained_about_later(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, then: OSError | None
) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    monkeypatch.delattr(asyncio.StreamReaderProtocol, "__del__")  # which the collector may call too late
    connect = redis.asyncio.Connection.connect

    async def be_reset(connection: Any) -> None:
        await connect(connection)
        connection._writer.transport.get_protocol().connection_lost(ConnectionResetError(104, "reset"))
        if then is not None:
            raise then

    monkeypatch.setattr(redis.asyncio.Connection, "connect", be_reset)
    here = Server(Address.of(server.url()), None)
    if then is None:
        (await here.connect(5.0)).close()
    else:
        with pytest.raises(StoreUnavailableError):
            await here.connect(5.0)
    await asyncio.sleep(0)
    gc.collect()

    assert complaints == []


@pytest.mark.parametrize(
    ("reply", "passes"),
    [
        ("LOADING Redis is loading the dataset in memory", True),
        ("READONLY You can't write against a read only replica.", True),
        ("ERR Error running script: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.", True),
        ("MASTERDOWN Link with MASTER is down", True),
        ("BUSY Redis is busy running a script.", True),
        ("ERR max number of clients reached", True),
        ("NOAUTH Authentication required.", False),
        ("WRONGPASS invalid username-password pair", False),
        ("NOPERM this user has no permissions to run the 'evalsha' command", False),
        ("ERR unknown command", False),
    ],
)
def test_what_may_pass_by_itself_is_told_from_what_has_to_be_mended(reply: str, passes: bool) -> None:
    assert isinstance(failure_of(reply), StoreUnavailableError) is passes
