"""The server around the web app: where it listens, what a connection may cost, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from interlock.errors import InvalidArgumentError, MisuseError
from interlock.web import Credentials, Web
from interlock.web.answers import answer
from interlock.web.protocol import BoundedProtocol
from interlock.web.serve import Address, Serving, check_exposure, listening
from tests.web.stand_in import StandIn

LOCAL = Address("127.0.0.1", 0)


def made() -> Web:
    return Web(StandIn(), dashboard=False)  # type: ignore[arg-type]


async def connected(serving: Serving) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(serving.urls[0].rpartition(":")[2]))


async def closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server hangs up without a word."""
    try:
        async with asyncio.timeout(5):
            return await reader.read() == b""
    except ConnectionError:
        return True


async def hung_up(serving: Serving) -> None:
    """Wait until the server has no connection."""
    async with asyncio.timeout(5):
        while serving._server.server_state.connections:
            await asyncio.sleep(0)


# -- where -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[::1]:0", "::1", 0),
        ("localhost:8080", "localhost", 8080),
        (" a:1 ", "a", 1),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "host", "host:", "::1:80", "a:65536", "a:-1", "http://a:1", "a b:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid address"):
        Address.parse(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com"])
def test_what_others_can_see_needs_credentials(host: str) -> None:
    with pytest.raises(MisuseError, match="without credentials"):
        check_exposure(Address(host, 80), None)
    check_exposure(Address(host, 80), Credentials({"ann": "x"}))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.3.4.5"])
def test_what_only_this_machine_sees_needs_none(host: str) -> None:
    check_exposure(Address(host, 80), None)


def test_a_name_that_leads_elsewhere_is_not_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.9.8.7", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(MisuseError, match=r"10\.9\.8\.7"):
        listening(Address("localhost", 0))


def test_all_addresses_of_a_name_get_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        (socket.AF_INET, ("127.0.0.1", 0)),
        (socket.AF_INET, ("127.0.0.2", 0)),
        (socket.AF_INET, ("192.0.2.1", 0)),
    ]
    found = [(family, socket.SOCK_STREAM, 6, "", place) for family, place in places]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    sockets = listening(Address("bot.example.com", 0))  # the last one is no address of this machine
    names = [one.getsockname() for one in sockets]
    for one in sockets:
        one.close()
    assert [name[0] for name in names] == ["127.0.0.1", "127.0.0.2"]
    assert len({name[1] for name in names}) == 1


def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(MisuseError, match="Cannot listen on"):
        listening(Address("nothing.invalid", 0))


# -- connections -------------------------------------------------------------------------------------------------------


async def test_who_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.web.protocol._HEAD_SECONDS", 0.05)
    async with Serving(made(), listening(LOCAL)) as serving:
        for said in (b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: x\r\n"):
            reader, writer = await connected(serving)
            writer.write(said)
            assert await closed(reader)
            writer.close()


async def test_a_head_that_comes_in_drops_is_given_up_also_on_a_connection_that_was_fine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.web.protocol._HEAD_SECONDS", 0.05)
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"POST /webhooks/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert b"404" in await reader.readuntil(b"}")
        writer.write(b"POST /webhooks/nobody HTTP/1.1\r\n")
        assert await closed(reader)
        writer.close()


async def test_a_body_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.web.protocol._HEAD_SECONDS", 0.02)
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        writer.write(b"}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 202")
        writer.close()


async def test_a_head_that_is_too_large_is_given_up() -> None:
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 100_000)
        assert await closed(reader)
        writer.close()


async def test_so_is_one_that_comes_in_one_piece() -> None:
    async with Serving(made(), listening(LOCAL)) as serving:
        for long in (b"GET /health?%b HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /health HTTP/1.1\r\nX-Long: %b\r\n\r\n"):
            reader, writer = await connected(serving)
            writer.write(long % (b"x" * 70_000))
            assert await closed(reader)
            writer.close()


async def test_a_path_that_is_none_is_answered_and_ends_the_connection() -> None:
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(2):
            assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()


async def test_headers_after_a_body_have_the_same_bound() -> None:
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        writer.write(b"X-More: 123456789\r\n" * 5000)
        assert await closed(reader)
        writer.close()


async def test_a_body_that_comes_with_its_head_is_no_part_of_it() -> None:
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        head = b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
        writer.write(head + b"x" * 200_000)
        assert (await reader.readline()).startswith(b"HTTP/1.1 202")
        writer.close()


async def test_who_says_next_to_nothing_after_an_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.web.protocol._HEAD_SECONDS", 0.05)
    web = made()
    web.app.is_open = False  # type: ignore[misc]
    async with Serving(web, listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 503")
        assert serving._server.server_state.connections
        writer.write(b"\r\n")
        await hung_up(serving)
        writer.close()


async def test_drops_of_a_body_that_nobody_reads_keep_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.web.protocol._HEAD_SECONDS", 0.1)
    web = made()
    web.app.is_open = False  # type: ignore[misc]
    async with Serving(web, listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        await reader.readuntil(b"}")
        async with asyncio.timeout(5):
            while serving._server.server_state.connections:
                writer.write(b"x")
                await asyncio.sleep(0.01)
        writer.close()


@pytest.mark.parametrize("path", [b"/webhooks/nobody", b"/health", b"/metrics"])
@pytest.mark.parametrize("body", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
async def test_a_body_that_is_not_read_ends_its_connection(path: bytes, body: bytes) -> None:
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"PUT %b HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % (path, body))
        async with asyncio.timeout(2):
            told = await reader.read()
        assert told.startswith(b"HTTP/1.1 40")
        assert b"connection: close\r\n" in told
        writer.close()


async def test_who_asks_ahead_without_end_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    over = asyncio.Event()

    async def waits(_: Web, scope: Any, receive: Any, send: Any) -> None:
        await over.wait()
        await answer(send, 200, b"")

    monkeypatch.setattr(Web, "__call__", waits)
    async with Serving(made(), listening(LOCAL)) as serving:
        reader, writer = await connected(serving)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        assert await closed(reader)
        writer.close()
        over.set()


@pytest.mark.parametrize("how", ["paused", "closing", "idle"])
async def test_who_does_not_read_the_answer_is_hung_up_on(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def tells(_: Web, scope: Any, receive: Any, send: Any) -> None:
        await answer(send, 200, b"x" * 30_000_000, more=[(b"connection", b"close")] if how == "closing" else [])

    def roomy(self: BoundedProtocol, transport: Any) -> None:
        begin(self, transport)
        transport.set_write_buffer_limits(10**9)  # so that it is never told to pause

    begin = BoundedProtocol.connection_made
    monkeypatch.setattr(Web, "__call__", tells)
    monkeypatch.setattr("interlock.web.protocol._WRITE_SECONDS", 0.05)
    if how != "paused":
        monkeypatch.setattr(BoundedProtocol, "connection_made", roomy)
    serving = Serving(made(), listening(LOCAL))
    serving._server.config.timeout_keep_alive = 0 if how == "idle" else 60
    async with serving:
        reader, writer = await connected(serving)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await hung_up(serving)
        writer.close()


async def test_there_are_only_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.web.protocol.MAX_CONNECTIONS", 2)
    async with Serving(made(), listening(LOCAL)) as serving:
        links = [await connected(serving) for _ in range(3)]
        assert await closed(links[2][0])
        for reader, writer in links[:2]:
            writer.write(b"POST /webhooks/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        for _, writer in links:
            writer.close()


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_a_server_that_ends_by_itself_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    failed = asyncio.Event()
    async with Serving(made(), listening(LOCAL), on_failure=failed.set) as serving:
        assert not serving.failed
        assert serving._task is not None
        serving._task.cancel()
        async with asyncio.timeout(5):
            await failed.wait()
        assert serving.failed
    assert "web_server_failed" in caplog.text


async def test_one_that_is_told_to_end_is_not() -> None:
    failed: list[Any] = []
    serving = Serving(made(), listening(LOCAL), on_failure=lambda: failed.append(1))
    async with serving:
        reader, writer = await connected(serving)
        serving.wind_down()
        assert await closed(reader)
        writer.close()
    assert not serving.failed
    assert failed == []


async def test_the_second_word_waits_for_nobody() -> None:
    serving = Serving(made(), listening(LOCAL))
    async with serving:
        _, writer = await connected(serving)
        writer.write(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
        await writer.drain()
        serving.wind_down()
        serving.halt()
        async with asyncio.timeout(5):
            assert serving._task is not None
            await asyncio.wait([serving._task])
        writer.close()
