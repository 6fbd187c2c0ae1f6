"""Apps that receive signed deliveries, for the suites of the public API of events."""

from __future__ import annotations

import hmac
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from interlock.events import GitHub
from interlock.ports.store import Capability
from interlock.testing.conformance.jobs.apps import AppSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interlock.app import App
    from interlock.events import Receipt

__all__ = ["SECRET", "EventAppSuite", "delivery", "issue"]

SECRET = "It's a Secret to Everybody"


def issue(number: int = 7, **more: Any) -> dict[str, Any]:
    """A short form of what GitHub sends when an issue is opened."""
    payload: dict[str, Any] = {
        "action": "opened",
        "issue": {"number": number, "title": "It does not work"},
        "repository": {"full_name": "acme/api"},
        "sender": {"login": "ann"},
    }
    return payload | more


def delivery(payload: Any, guid: str, kind: str = "issues", *, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    """Headers and body of a signed GitHub delivery."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    headers = {
        "content-type": "application/json",
        "x-github-event": kind,
        "x-github-delivery": guid,
        "x-hub-signature-256": f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}",
    }
    return headers, body


class EventAppSuite(AppSuite):
    """Tests with one or more apps that receive events from ``github``, in real time."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.JOBS, Capability.EVENTS)

    @asynccontextmanager
    async def hearing(self, url: str, **settings: Any) -> AsyncIterator[App]:
        """An open app with the source, whose own account is ``mybot[bot]``."""
        async with self.app(url, **settings) as app:
            app.source(GitHub(SECRET, own=("mybot[bot]",)))
            yield app

    async def send(self, app: App, guid: str, kind: str = "issues", **more: Any) -> Receipt:
        """Deliver an opened issue, or a variation of it."""
        return await app.events.receive("github", *delivery(issue(**more), guid, kind))
