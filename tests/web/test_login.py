"""The token that opens the dashboard without credentials, and what becomes of logins that fail."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, GitHub
from interlock.errors import MalformedEventError, SignatureError
from interlock.telemetry.budget import LogBudget
from interlock.telemetry.web import WebMetrics
from interlock.web import Credentials, Web
from interlock.web.logins import Logins
from interlock.web.serve import Address, Serving, listening
from tests.web.client import Answer, ask, scope_of, session_cookie
from tests.web.gatehouse import SAME, USERS, basic, made

if TYPE_CHECKING:
    from collections.abc import Sequence

PATHS = ["/", "/metrics", "/stream", "/style", "/nothing", "/act"]


async def anonymous(web: Web, path: str = "/", *headers: tuple[str, str], **more: Any) -> Answer:
    return await ask(web, path=path, headers=headers, signed_in=False, **more)


def bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


# -- the token ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
async def test_this_machine_alone_is_not_enough(path: str) -> None:
    """A proxy on this machine may pass on requests of anybody, and need not say that it does."""
    answer = await anonymous(made(), path)
    assert answer.status == 401
    assert "?token=" in answer.text
    assert answer.header("set-cookie") is None


async def test_the_address_with_the_token_is_exchanged_for_a_cookie() -> None:
    web = made()
    answer = await anonymous(web, f"/nothing?a=1&token={web.token}&b=%26")
    assert answer.status == 303
    assert answer.header("location") == "/nothing?a=1&b=%26"
    assert answer.header("referrer-policy") == "no-referrer"
    assert answer.header("cache-control") == "no-store"
    cookie, _, attributes = (answer.header("set-cookie") or "").partition(";")
    assert cookie.encode() == session_cookie(web)[0][1]
    assert web.token not in cookie
    assert attributes == " Path=/; HttpOnly; SameSite=Strict"
    assert (await anonymous(web, "/", ("Cookie", cookie))).status == 200


async def test_the_token_does_not_stay_in_the_address_of_a_browser_that_is_signed_in() -> None:
    web = made()
    for token in (web.token, "old"):
        answer = await ask(web, path=f"/?token={token}")
        assert (answer.status, answer.header("location")) == (303, "/")


async def test_the_server_does_not_see_the_token_when_it_logs_the_request() -> None:
    web = made()
    scope = scope_of(path=f"/?a=1&token={web.token}")

    async def nothing(*_: Any) -> Any: ...

    await web(scope, nothing, nothing)
    assert web.token not in repr(scope)


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "//evil.example//x"])
async def test_the_redirect_leads_nowhere_else(path: str) -> None:
    web = made()
    answer = await anonymous(web, f"{path}?token={web.token}")
    assert answer.status == 303
    location = answer.header("location") or ""
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))


@pytest.mark.parametrize("token", ["", "x", "é", "TOKEN", "TOKENx"])
async def test_a_wrong_token_is_refused(token: str) -> None:
    web = made()
    given = token.replace("TOKENx", f"{web.token}x").replace("TOKEN", web.token.swapcase())
    for answer in (await anonymous(web, f"/?token={given}"), await anonymous(web, "/", bearer(given))):
        assert answer.status == 401
        assert "not the token" in answer.text
        assert answer.header("set-cookie") is None
    assert web.metrics.failed_logins == {"password": 0, "token": 2, "slowed": 0}


async def test_a_program_brings_the_token_in_a_header_and_may_act() -> None:
    web = made()
    assert (await anonymous(web, "/metrics", bearer(web.token))).status != 401
    assert (await ask(web, "POST", "/act", [bearer(web.token)], b"", signed_in=False)).status == 200
    # What a browser sends has to come from a page of ours all the same.
    refused = await ask(web, "POST", "/act", [bearer(web.token), ("Origin", "http://evil.example")], signed_in=False)
    assert refused.status == 403


async def test_the_token_in_the_address_does_not_act() -> None:
    web = made()
    assert (await ask(web, "POST", f"/act?token={web.token}", [SAME], signed_in=False)).status == 401


async def test_each_start_has_a_token_of_its_own_unless_it_is_handed_down() -> None:
    one, other = made(), made()
    assert one.token != other.token
    assert len(one.token) >= 43
    assert (await anonymous(other, f"/?token={one.token}")).status == 401
    assert (await ask(other, headers=[("Cookie", session_cookie(one)[0][1].decode())], signed_in=False)).status == 401
    successor = Web(one.app, token=one.token, dashboard=False)
    assert (await ask(successor, path="/metrics", headers=[bearer(one.token)], signed_in=False)).status != 401


async def test_credentials_take_the_place_of_the_token() -> None:
    web = made(USERS)
    assert web.token == ""
    assert web.login_url("http://localhost:1/x/") == "http://localhost:1/x/"
    assert (await anonymous(web, "/?token=")).status == 401
    assert (await anonymous(web, "/", bearer(""))).status == 401
    unlocked = made()
    assert unlocked.login_url("http://localhost:1") == f"http://localhost:1/?token={unlocked.token}"


async def test_the_token_lets_in_no_other_machine_and_no_other_name() -> None:
    web = made()
    assert (await anonymous(web, f"/?token={web.token}", client=("10.0.0.1", 1))).status == 403
    assert (await anonymous(web, f"/?token={web.token}", host="evil.example")).status == 403
    assert (await anonymous(web, f"/?token={web.token}", ("X-Forwarded-For", "127.0.0.1"))).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_who_follows_a_link_from_another_site_is_asked_again_from_ours(site: str) -> None:
    """A browser keeps SameSite=Strict cookies to itself when another site sends it here."""
    follows = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
    answer = await anonymous(made(), "/", ("Sec-Fetch-Site", site), *follows)
    assert answer.status == 200
    assert 'http-equiv="refresh"' in answer.text
    assert answer.header("set-cookie") is None
    again = await anonymous(made(), "/", SAME, *follows)
    assert again.status == 401


async def test_the_server_names_the_address_to_open() -> None:
    web = App("memory://").web(dashboard=False)
    async with Serving(web, listening(Address("127.0.0.1", 0))) as serving:
        assert serving.login_url == f"{serving.urls[0]}/?token={web.token}"


async def test_alone_it_prints_the_token_when_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    web = App("memory://").web(dashboard=False)
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None: ...

    await web({"type": "lifespan"}, receive, send)
    assert f"?token={web.token}" in capsys.readouterr().err


# -- failed logins -----------------------------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("interlock.web.security.Logins", lambda metrics: Logins(metrics, made))
    return made


async def statuses(web: Web, attempts: Sequence[str], **more: Any) -> list[int]:
    return [(await ask(web, headers=[basic(text)], **more)).status for text in attempts]


async def test_failed_logins_are_counted_logged_and_slowed(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    web = made(USERS)
    elsewhere = {"client": ("203.0.113.9", 1), "host": "dash.example.com"}
    assert await statuses(web, ["ann:x"] * 8, **elsewhere) == [401] * 6 + [429] * 2
    assert web.metrics.failed_logins == {"password": 6, "token": 0, "slowed": 2}
    assert caplog.text.count("web_login_failed") == 6
    assert "client='203.0.113.9'" in caplog.text
    assert "ann" not in caplog.text

    # Neither is the right password looked at before its time; other addresses are not affected.
    assert await statuses(web, ["bob:b"], **elsewhere) == [429]
    assert await statuses(web, ["bob:b"], client=("203.0.113.10", 1)) == [200]
    clock.now += 1
    assert await statuses(web, ["bob:b", "ann:x", "bob:b"], **elsewhere) == [200, 401, 429]
    clock.now += 1.5
    refused = await ask(web, headers=[basic("bob:b")], **elsewhere)
    assert (refused.status, refused.header("retry-after")) == (429, "1")
    clock.now += 1
    assert await statuses(web, ["bob:b"], **elsewhere) == [200]


async def test_a_wait_is_never_longer_than_ten_seconds_and_is_forgotten(clock: Clock) -> None:
    logins = Logins(WebMetrics(), clock)
    for _ in range(2000):
        logins.failed("10.0.0.1", "password")
    assert logins.seconds_to_wait("10.0.0.1") == 10
    clock.now += 900
    assert logins.seconds_to_wait("10.0.0.1") == 0
    logins.failed("10.0.0.1", "password")
    assert logins.seconds_to_wait("10.0.0.1") == 0


async def test_a_browser_that_is_signed_in_is_not_slowed_by_others_at_its_address(clock: Clock) -> None:
    web = made(USERS)
    page = await ask(web, headers=[basic("bob:b")])
    cookie = ("Cookie", (page.header("set-cookie") or "").partition(";")[0])
    await statuses(web, ["ann:x"] * 10)
    assert (await ask(web, headers=[basic("bob:b"), cookie])).status == 200
    assert (await ask(web, headers=[basic("ann:päss:wörd"), cookie])).status == 429  # it is bob's
    assert (await ask(web, headers=[basic("bob:x"), cookie])).status == 429


async def test_wrong_tokens_are_slowed_too(clock: Clock) -> None:
    web = made()
    found = [(await anonymous(web, "/?token=x")).status for _ in range(8)]
    assert found == [401] * 6 + [429] * 2
    assert (await ask(web)).status == 200


async def test_to_come_without_credentials_is_no_failure(clock: Clock) -> None:
    web = made(USERS)
    for _ in range(20):
        assert (await ask(web)).status == 401
    assert web.metrics.failed_logins["password"] == 0


def test_only_so_many_addresses_are_remembered(clock: Clock) -> None:
    logins = Logins(WebMetrics(), clock)
    for number in range(5000):
        logins.failed(f"10.0.{number // 256}.{number % 256}", "password")
    assert len(logins._failures) == 1000


def test_an_ipv6_client_cannot_choose_another_address(clock: Clock) -> None:
    logins = Logins(WebMetrics(), clock)
    for number in range(6):
        logins.failed(f"2001:db8::{number:x}", "password")
    assert logins.seconds_to_wait("2001:db8::ffff") == 1
    assert logins.seconds_to_wait("2001:db8:0:1::1") == 0
    for _ in range(6):
        logins.failed("::ffff:10.0.0.1", "password")
    assert logins.seconds_to_wait("10.0.0.1") == 1
    logins.failed("no address", "password")


async def test_failed_logins_are_part_of_the_metrics() -> None:
    async with App("memory://") as app:
        web = app.web(credentials=Credentials({"ann": "x"}), dashboard=False)
        await statuses(web, ["ann:wrong"])
        text = (await ask(web, path="/metrics", headers=[basic("ann:x")])).text
    assert 'interlock_web_failed_logins_total{how="password"} 1.0' in text


# -- the log -----------------------------------------------------------------------------------------------------------


def test_a_budget_lets_so_many_through_and_tells_how_many_were_not() -> None:
    clock = Clock()
    budget = LogBudget(2, 60, monotonic=clock)
    assert [budget.admit() for _ in range(5)] == [0, 0, None, None, None]
    clock.now += 59
    assert budget.admit() is None
    clock.now += 1
    assert [budget.admit() for _ in range(3)] == [4, 0, None]


async def test_unsigned_webhooks_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    app = App("memory://")
    app.source(GitHub(secret="a secret"))
    async with app:
        for _ in range(1000):
            with pytest.raises(SignatureError):
                await app.events.receive("github", {"x-github-event": "issues"}, b"{}")
        metrics = app.events.metrics
        assert sum(metrics.refusals.values()) == 1000
        signature = hmac.new(b"a secret", b"[]", hashlib.sha256).hexdigest()
        headers = {"x-github-event": "issues", "x-hub-signature-256": f"sha256={signature}"}
        with pytest.raises(MalformedEventError):  # a reason of its own
            await app.events.receive("github", headers, b"[]")
    assert caplog.text.count("event_refused") == 11


async def test_what_is_no_http_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with Serving(App("memory://").web(dashboard=False), listening(Address("127.0.0.1", 0))) as serving:
            for _ in range(50):
                reader, writer = await asyncio.open_connection("127.0.0.1", int(serving.urls[0].rpartition(":")[2]))
                writer.write(b"nonsense\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 400")
                writer.close()
    assert 1 <= caplog.text.count("Invalid HTTP request") <= 10
