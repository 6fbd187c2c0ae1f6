"""Who may change anything: pages of ours, and programs that bring credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.web.client import Answer, ask
from tests.web.gatehouse import SAME, USERS, basic, made

if TYPE_CHECKING:
    from interlock.web import Web

FORM = ("Content-Type", "application/x-www-form-urlencoded")


async def visited(web: Web, *headers: Any, **more: Any) -> tuple[str, str]:
    """The cookie and the token that a page gives."""
    answer = await ask(web, headers=headers, **more)
    cookie = answer.header("set-cookie")
    assert cookie is not None
    return cookie.partition(";")[0], answer.text.partition("|")[2]


async def act(web: Web, *headers: Any, csrf: str = "", why: str = "x", **more: Any) -> Answer:
    return await ask(web, "POST", "/act", [FORM, *headers], f"why={why}&csrf={csrf}".encode(), **more)


async def test_a_form_of_ours_may_act() -> None:
    web = made()
    cookie, token = await visited(web)
    for origin in (SAME, ("Origin", "http://localhost:8080"), ("Origin", "https://localhost:8080")):
        answer = await act(web, origin, ("Cookie", f"a=b; {cookie}; c=d"), csrf=token, why="it+hangs")
        assert answer.json == {"by": "", "why": "it hangs", "body": 82}


async def test_a_script_of_ours_may_act_with_the_token_in_a_header() -> None:
    web = made()
    cookie, token = await visited(web)
    answer = await ask(web, "POST", "/act", [SAME, ("Cookie", cookie), ("X-CSRF-Token", token)], b"")
    assert answer.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "")],
        [("Origin", "localhost:8080")],
        [("Origin", "http://localhost:8081")],
        [("Origin", "http://localhost:8080"), ("Origin", "http://localhost:8080")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "none")],
        [("Sec-Fetch-Site", "cross-site"), ("Origin", "http://localhost:8080")],
        [("Referer", "http://localhost:8080/")],
    ],
)
async def test_what_does_not_come_from_a_page_of_ours_may_not_act(headers: Any) -> None:
    web = made()
    cookie, token = await visited(web)
    answer = await act(web, *headers, ("Cookie", cookie), csrf=token)
    assert answer.status == 403


async def test_cookie_and_token_are_both_needed() -> None:
    web = made()
    cookie, token = await visited(web)
    name = cookie.partition("=")[0]
    for jar, csrf in (
        (None, token),
        (cookie, ""),
        (cookie, "wrong"),
        (cookie, token.upper()),
        (f"{name}=", ""),
        (f"{name}=made-up", "made-up"),
        (f"x{cookie}", token),
        (f"{name}é={token}", token),
    ):
        answer = await act(web, SAME, *([("Cookie", jar)] if jar else []), csrf=csrf)
        assert answer.status == 403, (jar, csrf)
        assert "Reload it" in answer.text


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data; boundary=x", b"csrf=TOKEN"),
        ("text/plain", b"csrf=TOKEN"),
        ("application/json", b'{"csrf": "TOKEN"}'),
        ("application/x-www-form-urlencoded", b"csrf=TOKEN&csrf=TOKEN"),
        ("application/x-www-form-urlencoded", b"&".join([b"a=b"] * 2000) + b"&csrf=TOKEN"),
        ("application/x-www-form-urlencoded", b"CSRF=TOKEN"),
    ],
)
async def test_the_token_counts_once_and_in_a_form_only(kind: str, body: bytes) -> None:
    web = made()
    cookie, token = await visited(web)
    headers = [SAME, ("Cookie", cookie), ("Content-Type", kind)]
    assert (await ask(web, "POST", "/act", headers, body.replace(b"TOKEN", token.encode()))).status == 403


async def test_an_action_that_is_too_large_or_broken_is_refused() -> None:
    web = made()
    cookie, token = await visited(web)
    headers = [SAME, FORM, ("Cookie", cookie), ("X-CSRF-Token", token)]
    assert (await ask(web, "POST", "/act", headers, [b"x" * 600_000] * 2)).status == 413
    assert (await ask(web, "POST", "/act", [*headers, ("Content-Length", "x")], b"")).status == 400
    assert (await ask(web, "POST", "/act", headers, [b"x"], leaves=True)).status == 0


async def test_a_program_with_credentials_may_act_without_a_token() -> None:
    answer = await act(made(USERS), basic("bob:b"))
    assert answer.json == {"by": "bob", "why": "x", "body": 11}


@pytest.mark.parametrize(
    "header",
    [
        ("Cookie", "a=b"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Referer", "http://evil.example/"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "no-cors"),
    ],
)
async def test_a_browser_that_sends_credentials_by_itself_is_no_program(header: tuple[str, str]) -> None:
    """Browsers send the credentials that they know with what any other page makes them send."""
    assert (await act(made(USERS), basic("bob:b"), header)).status == 403


async def test_a_program_without_credentials_may_not_act() -> None:
    assert (await act(made())).status == 403


async def test_processes_with_the_same_credentials_accept_one_anothers_pages() -> None:
    cookie, token = await visited(made(USERS), basic("bob:b"))
    answer = await act(made(USERS), basic("bob:b"), SAME, ("Cookie", cookie), csrf=token)
    assert answer.status == 200
    assert (await act(made(USERS), basic("ann:päss:wörd"), SAME, ("Cookie", cookie), csrf=token)).status == 403


async def test_without_credentials_each_process_has_tokens_of_its_own() -> None:
    cookie, token = await visited(made())
    assert (await act(made(), SAME, ("Cookie", cookie), csrf=token)).status == 403


async def test_a_prefix_cannot_write_headers() -> None:
    """It may come from a path, where an app is mounted under a parameter."""
    answer = await ask(made(), root_path="/a;b\r\nX: y")
    assert "; Path=/a%3Bb%0D%0AX%3A%20y; HttpOnly;" in (answer.header("set-cookie") or "")


async def test_the_cookie_is_for_one_port_and_prefix_and_set_once() -> None:
    web = made()
    answer = await ask(web, host="localhost:8080", root_path="/ops/interlock")
    cookie = answer.header("set-cookie")
    assert cookie is not None
    value, *rest = cookie.split("; ")
    assert value.startswith("interlock_csrf_8080=")
    assert rest == ["Path=/ops/interlock", "HttpOnly", "SameSite=Strict"]
    known = await ask(web, headers=[("Cookie", value)], host="localhost:8080", root_path="/ops/interlock")
    assert known.header("set-cookie") is None
    secure = await ask(web, scheme="https", host="localhost")
    assert (secure.header("set-cookie") or "").endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    assert (await ask(web, path="/metrics")).header("set-cookie") is None
