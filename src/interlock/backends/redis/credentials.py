"""Credentials that change: tokens that an identity provider issues for a limited time.

A provider may block, so it is called in a thread. Every connection authenticates again well before its token expires.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from redis.credentials import StreamingCredentialProvider

from interlock.errors import StoreError, StoreUnavailableError
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.credentials import CredentialProvider

    from interlock.backends.redis.server import RawConnection

__all__ = ["Credentials", "Renewal", "token_expiry"]

_log = logging.getLogger("interlock.redis")
_RENEW_AFTER = 0.7  # of a token's remaining lifetime
_MIN_PAUSE, _MAX_PAUSE = 0.2, 30.0


class Credentials:
    """The credentials of a provider, for any event loop and thread."""

    def __init__(self, provider: CredentialProvider) -> None:
        self._provider = provider
        self._one_at_a_time = threading.Lock()
        self._renewals: dict[Renewal, None] = {}
        if isinstance(provider, StreamingCredentialProvider):
            provider.on_next(self._on_next)
            provider.on_error(self._on_error)

    async def get(self) -> tuple[str | None, str]:
        """Return the current user and password."""
        try:
            given = await asyncio.to_thread(self._get)
        except (asyncio.CancelledError, StoreError):
            raise
        except Exception as error:
            raise StoreUnavailableError(
                f"Could not get credentials for Redis: {str(error) or type(error).__name__}.",
                remedy="Check the identity and its provider, then retry.",
            ) from error
        return (given[0], given[1]) if len(given) > 1 else (None, given[0])

    def add(self, renewal: Renewal) -> None:
        """Notify a renewal when the provider pushes new credentials."""
        self._renewals[renewal] = None

    def remove(self, renewal: Renewal) -> None:
        """Stop notifying a renewal."""
        self._renewals.pop(renewal, None)

    def _get(self) -> tuple[str, ...]:
        with self._one_at_a_time:
            return tuple(self._provider.get_credentials())

    def _on_next(self, _token: Any) -> None:
        for renewal in list(self._renewals):
            renewal.now()

    def _on_error(self, error: Exception) -> None:
        emit(_log, logging.WARNING, "redis_token_renewal_failed", error=str(error))
        for renewal in list(self._renewals):
            renewal.now()


class Renewal:
    """Keeps one connection authenticated. ``authenticate`` sends AUTH on it and raises if that is refused."""

    def __init__(self, credentials: Credentials, authenticate: Callable[[str | None, str], Awaitable[Any]]) -> None:
        self._credentials = credentials
        self._authenticate = authenticate
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None
        credentials.add(self)

    @classmethod
    def of(
        cls,
        credentials: Credentials | None,
        raw: RawConnection,
        authenticate: Callable[[str | None, str], Awaitable[Any]],
    ) -> Renewal | None:
        """Start renewing for a new connection; None if its password never expires."""
        if credentials is None:
            return None
        renewal = cls(credentials, authenticate)
        renewal._schedule(raw.password)
        return renewal

    def now(self) -> None:
        """Renew at once; may be called on any thread."""
        with contextlib.suppress(RuntimeError):  # that event loop is closed
            self._loop.call_soon_threadsafe(self._begin)

    def stop(self) -> None:
        """Stop renewing, because the connection is closed."""
        self._credentials.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._work is not None:
            self._work.cancel()

    def _schedule(self, password: str | None) -> None:
        end = token_expiry(password)
        if end is not None:
            pause = max(_MIN_PAUSE, (end - time.time()) * _RENEW_AFTER)
            self._timer = self._loop.call_later(pause, self._begin)

    def _begin(self) -> None:
        if self._work is None or self._work.done():
            if self._timer is not None:
                self._timer.cancel()
            self._work = self._loop.create_task(self._renew(), name="interlock-redis-auth")

    async def _renew(self) -> None:
        pause = _MIN_PAUSE
        while True:
            try:
                user, password = await self._credentials.get()
                await self._authenticate(user, password)
            except StoreUnavailableError as error:
                emit(_log, logging.WARNING, "redis_token_renewal_failed", error=str(error))
            except StoreError as error:
                emit(_log, logging.ERROR, "redis_token_refused", error=str(error))
            else:
                self._schedule(password)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)


def token_expiry(password: str | None) -> float | None:
    """Return when a JSON web token expires; None for other passwords. Only the server can verify the token."""
    parts = (password or "").split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, TypeError, KeyError):
        return None
