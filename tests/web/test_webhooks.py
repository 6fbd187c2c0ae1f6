"""Webhooks over ASGI: what is answered, in which order things are checked, and what never gets as far as the app."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.errors import (
    EventRefusedError,
    MalformedEventError,
    MisuseError,
    SchemaMismatchError,
    SignatureError,
    StoreUnavailableError,
)
from interlock.web import Web, webhooks
from interlock.web.webhooks import MAX_BYTES
from tests.web.client import ask, scope_of
from tests.web.stand_in import Receipt, StandIn

HOOK = "/webhooks/github"


def made(outcome: Any = None) -> tuple[StandIn, Web]:
    app = StandIn(outcome)
    return app, Web(app, dashboard=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Receipt("accepted", 7, (8, 9)), 202),
        (Receipt("duplicate", 7, (8,), "seen before"), 200),
        (Receipt("ignored", None, (), "nobody listens"), 200),
    ],
)
async def test_what_became_of_an_event_is_answered_as_json(outcome: Receipt, status: int) -> None:
    app, web = made(outcome)
    answer = await ask(web, "POST", HOOK, [("X-One", "1")], b"{}")
    assert answer.status == status
    assert answer.header("content-type") == "application/json"
    assert answer.json == {
        "status": outcome.status,
        "event": outcome.event,
        "jobs": list(outcome.jobs),
        "cause": outcome.cause,
    }
    ((source, headers, body),) = app.events.received
    assert (source, headers["x-one"], body) == ("github", "1", b"{}")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SignatureError(), 401),
        (MalformedEventError("no object"), 400),
        (EventRefusedError("lane= failed"), 422),
        (StoreUnavailableError("postgres at 10.0.0.1 is away"), 503),
        (SchemaMismatchError(), 503),
        (TimeoutError(), 503),
        (MisuseError("Events are not open."), 503),
        (RuntimeError("a driver at 10.0.0.1 raised what nobody expected"), 503),
    ],
)
async def test_each_way_to_fail_has_its_status(error: Exception, status: int) -> None:
    _, web = made(error)
    answer = await ask(web, "POST", HOOK, body=b"{}")
    assert answer.status == status
    assert answer.json["status"] == "refused"
    assert answer.json["event"] is None
    assert "10.0.0.1" not in answer.text
    assert (answer.header("retry-after") is not None) == (status == 503)


@pytest.mark.parametrize(
    "source", ["gitlab", "", "github/", "github/x", "GitHub", "../github", "%00", "é", "a" * 10_000]
)
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_source_that_nobody_defined_is_not_found(source: str, method: str) -> None:
    app, web = made()
    answer = await ask(web, method, f"/webhooks/{source}", body=b"{}")
    assert answer.status == 404
    assert not app.events.received


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "", "post"])
async def test_only_post_is_taken(method: str) -> None:
    app, web = made()
    answer = await ask(web, method, HOOK, body=b"{}")
    assert (answer.status, answer.header("allow")) == (405, "POST")
    assert not app.events.received


# -- bodies ------------------------------------------------------------------------------------------------------------


async def test_a_body_in_pieces_is_put_together() -> None:
    app, web = made()
    answer = await ask(web, "POST", HOOK, body=[b"{", b"", b'"a"', b": 1}"])
    assert answer.status == 202
    assert app.events.received[0][2] == b'{"a": 1}'


async def test_a_body_of_the_largest_size_is_taken() -> None:
    app, web = made()
    assert (await ask(web, "POST", HOOK, body=b"x" * MAX_BYTES)).status == 202
    half = b"x" * (MAX_BYTES // 2)
    assert (await ask(web, "POST", HOOK, body=[half, half])).status == 202
    assert [len(body) for _, _, body in app.events.received] == [MAX_BYTES, MAX_BYTES]


@pytest.mark.parametrize("pieces", [[b"x" * (MAX_BYTES + 1)], [b"x" * MAX_BYTES, b"x"], [b"x" * 1000] * 5001])
async def test_a_body_that_is_too_large_is_refused_while_it_comes(pieces: list[bytes]) -> None:
    app, web = made()
    answer = await ask(web, "POST", HOOK, body=pieces, hangs=True)
    assert (answer.status, answer.header("connection")) == (413, "close")
    assert not app.events.received


@pytest.mark.parametrize("length", [str(MAX_BYTES + 1), "9" * 18, "9" * 5000])
async def test_a_body_that_says_it_is_too_large_is_not_read(length: str) -> None:
    app, web = made()
    answer = await ask(web, "POST", HOOK, [("Content-Length", length)], body=[], hangs=True)
    assert answer.status == 413
    assert not app.events.received


@pytest.mark.parametrize("length", ["", "-1", "+5", "1_0", "0x10", "1.5", " 5", "٣", "5, 5", "nan"])
async def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    app, web = made()
    answer = await ask(web, "POST", HOOK, [("Content-Length", length.encode())], b"{}")
    assert answer.status == 400
    assert not app.events.received


async def test_a_body_that_does_not_come_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    app, web = made()
    monkeypatch.setattr("interlock.web.webhooks._SECONDS", 0.02)
    for begun in ([], [b"{"]):
        answer = await ask(web, "POST", HOOK, body=begun, hangs=True)
        assert (answer.status, answer.header("connection")) == (408, "close")
    assert not app.events.received


async def test_a_client_that_leaves_is_not_answered() -> None:
    app, web = made()
    for begun in ([], [b"{"]):
        assert (await ask(web, "POST", HOOK, body=begun, leaves=True)).status == 0
    assert not app.events.received


async def test_all_unfinished_bodies_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    _, web = made()
    bodies = web._webhooks._bodies
    monkeypatch.setattr(bodies, "together", 1000)
    first = asyncio.ensure_future(ask(web, "POST", HOOK, body=[b"x" * 900], hangs=True))
    while not bodies.held:
        await asyncio.sleep(0)
    answer = await ask(web, "POST", HOOK, body=[b"x" * 200], hangs=True)
    assert (answer.status, answer.header("retry-after")) == (503, "5")
    assert (await ask(web, "POST", HOOK, body=b"x" * 2000)).status == 202  # came whole, and is not kept
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert bodies.held == 0


async def test_a_store_that_hangs_is_not_waited_for_longer_than_senders_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    app, web = made()

    async def receive(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(app.events, "receive", receive)
    for bound in ("_STORE_SECONDS", "_SECONDS"):
        with monkeypatch.context() as shorter:
            shorter.setattr(f"interlock.web.webhooks.{bound}", 0.02)
            assert (await ask(web, "POST", HOOK, body=b"{}")).status == 503


def test_all_of_it_fits_into_the_ten_seconds_that_github_waits() -> None:
    assert webhooks._STORE_SECONDS < webhooks._SECONDS <= 8


async def test_of_a_header_that_comes_twice_the_first_counts() -> None:
    app, web = made()
    await ask(web, "POST", HOOK, [("X-Sig", "a"), ("X-Sig", "b"), ("X-Raw", b"\xff\xfe")], b"{}")
    headers = app.events.received[0][1]
    assert headers["x-sig"] == "a"
    assert headers["x-raw"] == "ÿþ"


async def test_blanks_around_a_value_are_no_part_of_it() -> None:
    app, web = made()
    await ask(web, "POST", HOOK, [("X-GitHub-Delivery", "same "), ("X-Sig", " \ta b\t")], b"{}")
    headers = app.events.received[0][1]
    assert (headers["x-github-delivery"], headers["x-sig"]) == ("same", "a b")


async def test_what_comes_after_a_body_is_no_header() -> None:
    app, web = made()
    scope = scope_of("POST", HOOK, [("X-Sig", "a")])

    async def receive() -> Any:
        scope["headers"].append((b"x-late", b"b"))  # as uvicorn does with the trailers of a body in chunks
        return {"type": "http.request", "body": b"{}"}

    async def send(_: Any) -> None: ...

    await web(scope, receive, send)
    assert app.events.received[0][1] == {"x-sig": "a", "host": "localhost:8080"}


# -- around it ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "/interlock", "/a/b"])
async def test_webhooks_come_in_under_any_prefix(root: str) -> None:
    _, web = made()
    assert (await ask(web, "POST", HOOK, body=b"{}", root_path=root)).status == 202


async def test_webhooks_need_neither_credentials_nor_a_known_host() -> None:
    _, web = made()
    assert (await ask(web, "POST", HOOK, body=b"{}", client=("203.0.113.9", 1), host="bot.example.com")).status == 202
    assert (await ask(web, "POST", HOOK, body=b"{}", client=None, host=None)).status == 202


async def test_answers_are_counted_by_source_and_status() -> None:
    _, web = made()
    await ask(web, "POST", HOOK, body=b"{}")
    await ask(web, "POST", HOOK, body=b"{}")
    await ask(web, "GET", HOOK)
    await ask(web, "POST", "/webhooks/nobody")
    await ask(web, "POST", "/webhooks/nobody-else")
    text = (await ask(web, "GET", "/metrics")).text
    assert 'interlock_webhook_answers_total{source="github",status="202"} 2.0' in text
    assert 'interlock_webhook_answers_total{source="github",status="405"} 1.0' in text
    assert 'interlock_webhook_answers_total{source="",status="404"} 2.0' in text
    assert 'interlock_webhook_seconds_count{source="github"} 3.0' in text
