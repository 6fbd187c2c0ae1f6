"""Each fault of the proxy really fires, is counted, and ends with `heal`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest

from interlock.testing.proxy import FaultProxy, ThreadedFaultProxy
from interlock.testing.servers import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SOON = 10.0
BRIEFLY = 0.1


class EchoServer:
    """Answers every chunk with the same chunk, and remembers what came in and how connections ended."""

    def __init__(self) -> None:
        self.port = 0
        self.received = bytearray()
        self.ends: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                self.received += chunk
                writer.write(chunk)
                await writer.drain()
            self.ends["eof"] += 1
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            self.ends["reset"] += 1
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()


@pytest.fixture
async def echo() -> AsyncIterator[EchoServer]:
    server = EchoServer()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(server.serve(reader, writer)))

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    yield server
    listener.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks)


@pytest.fixture
async def proxy(echo: EchoServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", echo.port) as proxy:
        yield proxy
    assert proxy.connections == 0


class Client:
    """A connection to the proxy that asks and awaits the echo."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def get(self, data: bytes) -> None:
        async with asyncio.timeout(SOON):
            assert await self.reader.readexactly(len(data)) == data

    async def ask(self, data: bytes) -> None:
        self.send(data)
        await self.get(data)

    async def hears_nothing(self) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(BRIEFLY):
                await self.reader.read(1)

    async def is_reset(self) -> None:
        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(SOON):
                await self.reader.read(1)


@contextlib.asynccontextmanager
async def connect(proxy: FaultProxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.005)


async def test_without_faults_bytes_and_ends_pass_unchanged(proxy: FaultProxy, echo: EchoServer) -> None:
    data = bytes(range(256)) * 8192
    async with connect(proxy) as client:
        client.send(data)
        client.writer.write_eof()
        await client.get(data)
        assert await client.reader.read() == b""
        await until(lambda: proxy.connections == 0)

    assert echo.ends == {"eof": 1}
    assert proxy.accepted == 1
    assert not +proxy.fired


async def test_delay_applies_both_ways_until_healed(proxy: FaultProxy) -> None:
    async with connect(proxy) as client:
        proxy.delay(0.1)
        start = time.monotonic()
        await client.ask(b"slow")
        assert time.monotonic() - start >= 0.2
        assert proxy.fired["delay"] == 2

        proxy.delay(3600)
        client.send(b"stuck")
        await client.hears_nothing()
        proxy.heal()
        await client.get(b"stuck")


async def test_a_blackhole_swallows_bytes_and_keeps_connections_open(proxy: FaultProxy, echo: EchoServer) -> None:
    async with connect(proxy) as old:
        await old.ask(b"before")
        proxy.blackhole()
        async with connect(proxy) as new:
            for client in (old, new):
                client.send(b"lost")
                await client.hears_nothing()
            await until(lambda: proxy.fired["blackhole"] == 2)
            assert echo.received == b"before"
            assert proxy.connections == 2

            proxy.heal()

            await old.is_reset()
            await new.is_reset()
    async with connect(proxy) as client:
        await client.ask(b"after")


async def test_a_blackhole_spares_connections_that_were_silent(proxy: FaultProxy) -> None:
    async with connect(proxy) as client:
        await client.ask(b"before")
        proxy.blackhole()
        await client.hears_nothing()
        proxy.heal()
        await client.ask(b"after")


@pytest.mark.parametrize("orderly", [True, False])
async def test_in_a_blackhole_the_server_does_not_see_the_client_leave(
    proxy: FaultProxy, echo: EchoServer, orderly: bool
) -> None:
    async with connect(proxy) as client:
        await client.ask(b"before")
        proxy.blackhole()
        if orderly:
            client.writer.close()
        else:
            client.writer.transport.abort()
        await until(lambda: proxy.fired["blackhole"] == 1)
        assert not echo.ends

        proxy.heal()

        await until(lambda: echo.ends["reset"] == 1)


async def test_half_open_holds_replies_and_delivers_them_when_healed(proxy: FaultProxy, echo: EchoServer) -> None:
    async with connect(proxy) as client:
        proxy.half_open()
        client.send(b"heard")
        await until(lambda: echo.received == b"heard")
        await client.hears_nothing()
        assert proxy.fired["half_open"] == 1

        proxy.heal()

        await client.get(b"heard")
        await client.ask(b"again")


async def test_held_replies_do_not_fill_the_memory(proxy: FaultProxy, echo: EchoServer) -> None:
    async with connect(proxy) as client:
        proxy.half_open()
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 1 << 30:
                client.send(bytes(1 << 20))
                sent += 1 << 20
                async with asyncio.timeout(0.5):
                    await client.writer.drain()
        assert sent < 1 << 27


async def test_a_dropped_reply_means_done_but_unanswered(proxy: FaultProxy, echo: EchoServer) -> None:
    async with connect(proxy) as one, connect(proxy) as two:
        await one.ask(b"1")
        await two.ask(b"2")
        proxy.drop_replies(1)

        one.send(b"done")
        await one.is_reset()

        assert echo.received == b"12done"
        assert proxy.fired["drop_replies"] == 1
        await two.ask(b"3")


async def test_only_the_replies_asked_for_are_dropped(proxy: FaultProxy) -> None:
    async with connect(proxy) as one, connect(proxy) as two:
        proxy.drop_replies(2, containing=b"COMMIT")

        await one.ask(b"BEGIN")
        for client in (one, two):
            client.send(b"COMMIT")
            await client.is_reset()

        assert proxy.fired["drop_replies"] == 2
    async with connect(proxy) as three:
        await three.ask(b"COMMIT")


async def test_a_transaction_whose_reply_was_dropped_is_committed(interlock_postgres_url: str) -> None:
    parts = urlsplit(interlock_postgres_url)
    direct = await asyncpg.connect(interlock_postgres_url)
    await direct.execute("CREATE TABLE done ()")
    async with FaultProxy(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        connection = await asyncpg.connect(proxy.url(interlock_postgres_url))
        proxy.drop_replies(1, containing=b"INSERT")

        with pytest.raises((OSError, asyncpg.PostgresConnectionError)):
            await connection.execute("INSERT INTO done DEFAULT VALUES")

        assert proxy.fired["drop_replies"] == 1
        assert await direct.fetchval("SELECT count(*) FROM done") == 1
    await direct.close()


async def test_reset_cuts_every_connection_on_both_sides(proxy: FaultProxy, echo: EchoServer) -> None:
    async with connect(proxy) as one, connect(proxy) as two:
        await one.ask(b"1")
        await two.ask(b"2")

        proxy.reset()

        await one.is_reset()
        await two.is_reset()
        await until(lambda: echo.ends["reset"] == 2)
        assert proxy.fired["reset"] == 2
        assert proxy.connections == 0
    async with connect(proxy) as client:
        await client.ask(b"new")


async def test_refused_connections_fail_until_healed(proxy: FaultProxy) -> None:
    async with connect(proxy) as old:
        await old.ask(b"before")
        port = proxy.port
        for _ in range(3):
            proxy.refuse()
            proxy.refuse()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", proxy.port)
            await old.ask(b"still")
            proxy.heal()
            async with connect(proxy) as new:
                await new.ask(b"after")

        assert proxy.fired["refuse"] == 3
        assert proxy.port == port


async def test_a_target_that_is_down_resets_the_client() -> None:
    async with FaultProxy("127.0.0.1", free_port()) as proxy, connect(proxy) as client:
        await client.is_reset()
        assert proxy.fired["unreachable"] == 1


@pytest.mark.parametrize("fault", ["blackhole", "half_open"])
async def test_the_proxy_closes_with_connections_stuck_in_a_fault(echo: EchoServer, fault: str) -> None:
    async with FaultProxy("127.0.0.1", echo.port) as proxy:
        getattr(proxy, fault)()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"stuck")
        await until(lambda: proxy.fired[fault] == 1)
    client = Client(reader, writer)
    await client.is_reset()
    writer.transport.abort()


async def test_a_connection_cut_before_it_was_served_is_closed(proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.setblocking(False)
        assert proxy._listener is not None
        proxy._accept(proxy._listener)
        proxy.reset()
        async with asyncio.timeout(SOON):
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


def test_urls_point_to_the_proxy_and_keep_the_rest() -> None:
    proxy = FaultProxy("db.example", 5432)
    proxy.port = 1234

    url = proxy.url("postgresql://user:p%40ss@db.example:5432/name?sslmode=disable")

    assert url == "postgresql://user:p%40ss@127.0.0.1:1234/name?sslmode=disable"
    assert proxy.url("redis://localhost/3") == "redis://127.0.0.1:1234/3"


def test_the_threaded_proxy_has_the_same_controls_for_blocking_code() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = listener.getsockname()
        with ThreadedFaultProxy(*target) as proxy:
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON) as client:
                server, _ = listener.accept()
                with server:
                    proxy.half_open()
                    client.sendall(b"question")
                    assert server.recv(100) == b"question"
                    server.sendall(b"answer")
                    deadline = time.monotonic() + SOON
                    while not proxy.fired["half_open"]:
                        assert time.monotonic() < deadline
                    proxy.heal()
                    assert client.recv(100) == b"answer"
                    assert proxy.connections == proxy.accepted == 1

                    proxy.delay(0.05)
                    start = time.monotonic()
                    client.sendall(b"slow")
                    assert server.recv(100) == b"slow"
                    assert time.monotonic() - start >= 0.05
                    proxy.heal()

                    proxy.drop_replies(1, containing=b"x")
                    server.sendall(b"x")
                    with pytest.raises(ConnectionResetError):
                        client.recv(100)
            proxy.blackhole()
            proxy.reset()
            proxy.refuse()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", proxy.port))
            assert proxy.url("tcp://elsewhere:1") == f"tcp://127.0.0.1:{proxy.port}"
            assert proxy.fired["refuse"] == proxy.fired["drop_replies"] == 1
