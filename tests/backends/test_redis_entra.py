"""Tokens of Entra ID instead of passwords: every connection authenticates anew before its token ends.

A small identity provider on loopback speaks the managed-identity protocol of App Service and issues tokens that end
soon. Each token is for a user of its own, so that the server shows which token a connection goes by; a user whose
token has ended is removed, which disconnects whoever still uses it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
from redis.credentials import StreamingCredentialProvider

from interlock import Locks, Settings
from interlock.backends import from_url
from interlock.backends.redis import RedisStore
from interlock.errors import InvalidArgumentError, StoreError, StoreUnavailableError
from interlock.testing.lookup import get_or_none
from interlock.testing.servers import RedisServer
from tests.backends.outages import SHORT, SMALL, SOON, STEADY, STORE_WAIT, Events, no_longer_than, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIFE = 2.0
SECRET = "the header's secret"
RULES = ["on", "resetpass", "~*", "&*", "+@all"]


class IdentityProvider:
    """Issues a token to whoever may ask, and lets the server accept it."""

    def __init__(self, accept: Callable[[str, str], None]) -> None:
        self.issued: list[str] = []
        self.asked_for: list[dict[str, list[str]]] = []
        self.life = LIFE
        self.away = False
        self.refused = 0
        self._accept = accept
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._http.server_port}/msi/token"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        with self._lock:
            if self.away:
                self.refused += 1
                request.close_connection = True
                return
            assert request.headers["X-IDENTITY-HEADER"] == SECRET
            self.asked_for.append(parse_qs(urlsplit(request.path).query))
            user = f"identity-{len(self.issued) + 1}"
            end = time.time() + self.life
            token = token_for(user, end)
            self._accept(user, token)
            self.issued.append(user)
            body = json.dumps({"access_token": token, "expires_on": str(int(end)), "resource": "r"}).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def token_for(user: str, end: float) -> str:
    def part(claims: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'oid': user, 'exp': end})}.c2lnbmF0dXJl"


@pytest.fixture(scope="module")
def running() -> Iterator[RedisServer]:
    """A Redis that lets nobody in without a token."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def admin(running: RedisServer) -> Iterator[redis.Redis]:
    """The one who may do anything. Everybody else needs a token."""
    with redis.Redis.from_url(running.url()) as anybody:
        anybody.flushall()
        anybody.execute_command("ACL", "SETUSER", "admin", *RULES, ">password")
    with redis.Redis(port=running.port, username="admin", password="password", decode_responses=True) as admin:
        admin.execute_command("ACL", "SETUSER", "default", "off")
        yield admin
        admin.execute_command("ACL", "SETUSER", "default", "on")
        for user in set(admin.acl_users()) - {"admin", "default"}:
            admin.acl_deluser(user)


@pytest.fixture
def provider(admin: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityProvider]:
    provider = IdentityProvider(lambda user, token: accept(admin, user, token))
    monkeypatch.setenv("IDENTITY_ENDPOINT", provider.url)
    monkeypatch.setenv("IDENTITY_HEADER", SECRET)
    yield provider
    provider.close()


@pytest.fixture
def url(running: RedisServer) -> str:
    return f"{running.url()}?auth=entra&client_id=1234"


def accept(admin: redis.Redis, user: str, password: str) -> None:
    admin.execute_command("ACL", "SETUSER", user, *RULES, f">{password}")


def connections(admin: redis.Redis) -> dict[str, str]:
    """The server's clients and the users they are, once they have said so."""
    nobody = ("admin", "default")
    return {client["id"]: client["user"] for client in admin.client_list() if client["user"] not in nobody}


async def test_every_connection_authenticates_anew_before_its_token_ends(
    admin: redis.Redis, provider: IdentityProvider, url: str, events: Events
) -> None:
    async with Locks.from_url(url, settings=STEADY) as locks, locks.acquire("key") as lease:
        await until(lambda: len(connections(admin)) == 3)
        before = connections(admin)
        first_users = set(before.values())
        await until(lambda: not first_users & set(connections(admin).values()), LIFE)
        for user in first_users:
            admin.acl_deluser(user)  # their tokens have ended by now

        view = await get_or_none(locks, "key")
        assert view is not None
        assert view.holder is not None
        assert view.holder.fence == lease.fence
        assert set(connections(admin)) == set(before), "a connection was lost"
        assert provider.asked_for[0]["client_id"] == ["1234"]
    assert not events["session_renewal_failed"]
    assert not events["listen_failed"]


async def test_a_new_connection_uses_the_newest_token(admin: redis.Redis, provider: IdentityProvider, url: str) -> None:
    async with Locks.from_url(url, settings=SHORT) as locks, locks.acquire("key") as lease:
        await until(lambda: len(connections(admin)) == 3)
        first = set(connections(admin).values())
        for user in first:
            admin.acl_deluser(user)  # a token that has ended: its connections are closed

        async with locks.acquire("another", wait=SOON):
            pass
        await until(lambda: len(connections(admin)) == 3)
        assert not first & set(connections(admin).values())
        lease.ensure()


async def test_a_provider_that_is_away_for_a_while_is_asked_again_in_time(
    admin: redis.Redis, provider: IdentityProvider, url: str, events: Events
) -> None:
    async with Locks.from_url(url, settings=STEADY) as locks, locks.acquire("key") as lease:
        await until(lambda: len(connections(admin)) == 3)
        before = connections(admin)
        provider.away = True
        await until(lambda: bool(events["redis_token_renewal_failed"]), LIFE)
        provider.away = False
        await until(lambda: not set(before.values()) & set(connections(admin).values()), LIFE)

        assert set(connections(admin)) == set(before)
        lease.ensure()
        async with locks.acquire("another"):
            pass


async def test_a_provider_that_is_away_at_the_start_is_unavailable_in_bounded_time(
    provider: IdentityProvider, url: str
) -> None:
    provider.away = True
    locks = Locks.from_url(url, settings=SHORT)

    async with no_longer_than(STORE_WAIT + SMALL):
        with pytest.raises(StoreUnavailableError, match="Could not get credentials"):
            await locks.open()
    provider.away = False

    async with locks, locks.acquire("key") as lease:
        lease.ensure()


async def test_a_token_that_the_server_does_not_accept_is_refused_and_not_shown(
    provider: IdentityProvider, url: str
) -> None:
    tokens: list[str] = []
    provider._accept = lambda _, token: tokens.append(token)

    with pytest.raises(StoreError, match="refused") as raised:
        await Locks.from_url(url, settings=SHORT).open()

    assert not isinstance(raised.value, StoreUnavailableError)
    assert tokens[0] not in str(raised.value)


class Pushing(StreamingCredentialProvider):
    """A provider that says by itself when there is something new; its passwords do not say when they end."""

    def __init__(self) -> None:
        self.current = ("pushed-1", "one")
        self.push: Callable[[Any], None] = lambda _: None

    def get_credentials(self) -> tuple[str, str]:
        return self.current

    def on_next(self, callback: Callable[[Any], None]) -> None:
        self.push = callback

    def on_error(self, callback: Callable[[Exception], None]) -> None:
        pass

    def is_streaming(self) -> bool:
        return True


async def test_a_provider_of_ones_own_may_push_new_credentials(admin: redis.Redis, running: RedisServer) -> None:
    provider = Pushing()
    accept(admin, *provider.current)
    store = RedisStore(running.url(), STEADY, credentials=provider)
    await store.open()
    try:
        await store.messages.listen("session", lambda _: None, lambda *_: None)
        assert set(connections(admin).values()) == {"pushed-1"}
        before = set(connections(admin))
        provider.current = ("pushed-2", "two")
        accept(admin, *provider.current)
        await asyncio.to_thread(provider.push, None)

        await until(lambda: set(connections(admin).values()) == {"pushed-2"})
        assert set(connections(admin)) == before
    finally:
        await store.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://cache.example.com/?auth=entra",
        "redis://user:secret@127.0.0.1/?auth=entra",
        "rediss://cache.example.com/?auth=kerberos",
        "rediss://cache.example.com/?client_id=1234",
    ],
)
def test_what_would_show_a_token_or_means_nothing_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        from_url(url, settings=Settings())

    assert "secret" not in str(raised.value)
