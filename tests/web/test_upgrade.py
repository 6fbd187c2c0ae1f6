"""Requests that offer to switch to another protocol are answered in HTTP/1.1, with their whole body."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
from typing import TYPE_CHECKING, NamedTuple

import pytest

from interlock import App, Event, GitHub
from interlock.web import Web
from interlock.web.serve import Address, Serving, listening
from tests.web.stand_in import StandIn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
WEBSOCKET = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
POST = b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\n"
BODY = b'{"action": "opened"}'
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"5\r\n" + BODY[:5] + b"\r\n%x\r\n" % (len(BODY) - 5) + BODY[5:] + b"\r\n0\r\n\r\n"

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes


@contextlib.asynccontextmanager
async def connection_to(web: Web) -> AsyncIterator[Link]:
    async with Serving(web, listening(Address("127.0.0.1", 0))) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(serving.urls[0].rpartition(":")[2]))
        yield reader, writer
        writer.close()


@contextlib.asynccontextmanager
async def stand_in() -> AsyncIterator[tuple[StandIn, Link]]:
    app = StandIn()
    async with connection_to(Web(app, dashboard=False)) as link:  # type: ignore[arg-type]
        yield app, link


async def answer_from(reader: asyncio.StreamReader) -> Answer:
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return Answer(int(head.split()[1]), head, await reader.readexactly(length))


@pytest.mark.parametrize("sent", [POST + H2C + LENGTH + BODY, POST + H2C + CHUNKED + CHUNKS], ids=["length", "chunked"])
@pytest.mark.parametrize("pieces", ["whole", "head and body", "bytes"])
async def test_a_request_that_offers_h2c_keeps_its_body(sent: bytes, pieces: str) -> None:
    async with stand_in() as (app, (reader, writer)):
        end = sent.index(b"\r\n\r\n") + 4
        parts = {"whole": [sent], "head and body": [sent[:end], sent[end:]], "bytes": [bytes([one]) for one in sent]}
        for part in parts[pieces]:
            writer.write(part)
            await asyncio.sleep(0)
        assert (await answer_from(reader)).status == 202
        ((_, headers, body),) = app.events.received
    assert body == BODY
    assert headers["http2-settings"] == "AAMAAABkAAQAoAAAAAIAAAAA"


async def test_further_requests_follow_on_the_same_connection() -> None:
    async with stand_in() as (app, (reader, writer)):
        for sent in (POST + H2C + LENGTH + BODY, POST + LENGTH + BODY, POST + H2C + CHUNKED + CHUNKS):
            writer.write(sent)
            assert (await answer_from(reader)).status == 202
        writer.write((POST + H2C + LENGTH + BODY) * 3 + POST + LENGTH + BODY)  # ahead of their turn
        for _ in range(4):
            assert (await answer_from(reader)).status == 202
    assert [body for _, _, body in app.events.received] == [BODY] * 7


async def test_a_request_to_close_is_followed() -> None:
    async with stand_in() as (app, (reader, writer)):
        writer.write(POST + H2C.replace(b"Upgrade, HTTP2-Settings", b"close, Upgrade, HTTP2-Settings") + LENGTH + BODY)
        answer = await answer_from(reader)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
    assert answer.status == 202
    assert b"connection: close" in answer.head
    assert len(app.events.received) == 1


async def test_a_body_that_waits_for_100_continue_is_read() -> None:
    async with stand_in() as (app, (reader, writer)):
        writer.write(POST + H2C + b"Expect: 100-continue\r\n" + LENGTH)
        async with asyncio.timeout(5):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        assert (await answer_from(reader)).status == 202
    assert app.events.received[0][2] == BODY


async def test_a_signed_delivery_that_offers_h2c_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    app = App("memory://")
    app.source(GitHub(secret="a secret"))

    @app.on("github.issues.*")
    async def triage(event: Event) -> None: ...

    signature = hmac.new(b"a secret", BODY, hashlib.sha256).hexdigest().encode()
    signed = b"X-GitHub-Event: issues\r\nX-GitHub-Delivery: d1\r\nX-Hub-Signature-256: sha256=" + signature + b"\r\n"
    with caplog.at_level(logging.WARNING):
        async with app, connection_to(app.web(dashboard=False)) as (reader, writer):
            writer.write(POST + H2C + signed + LENGTH + BODY)
            assert (await answer_from(reader)).status == 202
    assert caplog.text == ""


@pytest.mark.parametrize("path", [b"/health", b"/stream", b"/nothing", b"/webhooks/github"])
async def test_a_websocket_handshake_is_answered_like_any_request(path: bytes) -> None:
    async with stand_in() as (app, (reader, writer)):
        app.is_open = False
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        plain = await answer_from(reader)
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + WEBSOCKET + b"\r\n")
        assert (await answer_from(reader))[::2] == plain[::2]
        writer.write(POST + LENGTH + BODY)
        assert (await answer_from(reader)).status == 202


@pytest.mark.parametrize("target", [b"example.com:443", b"/health"])
async def test_connect_is_refused_and_ends_the_connection(target: bytes) -> None:
    async with stand_in() as (_, (reader, writer)):
        writer.write(b"CONNECT " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01")
        async with asyncio.timeout(5):
            told = await reader.read()
    assert told.startswith(b"HTTP/1.1 40")
    assert told.count(b"HTTP/1.1") == 1
    assert b"connection: close" in told.lower()


async def test_a_head_that_is_too_large_is_given_up_all_the_same() -> None:
    async with stand_in() as (_, (reader, writer)):
        writer.write(POST + H2C + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(5):
                assert await reader.read() == b""
