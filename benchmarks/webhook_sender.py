"""A client that sends signed webhooks over open connections, each as soon as the last one was answered.

It prepares all requests and signatures before it starts, and belongs in a separate process.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import statistics
import time
from typing import Any

import uvloop

from benchmarks.harness import percentile

__all__ = ["CONNECTIONS", "SECRET", "payload", "send_all"]

SECRET = "a secret of the usual length, as people have them"
CONNECTIONS = 50
LANES = 1000


def payload(number: int) -> dict[str, Any]:
    """The payload of an opened issue, as GitHub sends it: about 7 KB."""
    owner = _account("acme", 1)
    url = "https://api.github.com/repos/acme/rocket"
    names = "forks keys teams hooks events assignees branches tags blobs trees statuses languages stargazers commits"
    links = {f"{name}_url": f"{url}/{name}{{/sha}}" for name in names.split()}
    return {
        "action": "opened",
        "issue": {
            **{f"{name}_url": f"{url}/issues/{number}/{name}" for name in ("labels", "comments", "events")},
            "id": 2_000_000_000 + number,
            "node_id": f"I_kwDOABCDEF5{number:08x}",
            "number": number,
            "title": f"The build of {number} fails on a clean checkout",
            "user": _account("ann", 7),
            "labels": [
                {"id": one, "node_id": f"LA_{one}", "name": f"label {one}", "color": "d73a4a", "default": one == 1}
                for one in range(4)
            ],
            "state": "open",
            "locked": False,
            "assignees": [_account("bob", 8), _account("eve", 9)],
            "milestone": None,
            "comments": 0,
            "created_at": "2026-01-01T00:00:00Z",
            "author_association": "CONTRIBUTOR",
            "body": "Steps: clone it, run `make`, and look at the last line.\r\n\r\n```\nerror: it fails\n```\r\n" * 12,
            "reactions": dict.fromkeys(("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"), 0),
        },
        "repository": {
            "id": 1,
            "name": "rocket",
            "full_name": "acme/rocket",
            "private": False,
            "owner": owner,
            "description": "Goes up, and comes down again",
            **links,
            "size": 12_345,
            "topics": ["space", "fuel", "paint"],
            "default_branch": "main",
        },
        "organization": owner,
        "sender": _account("ann", 7),
        "installation": {"id": 42, "node_id": "MDIzOk"},
    }


def _account(login: str, number: int) -> dict[str, Any]:
    url = f"https://api.github.com/users/{login}"
    names = "followers following gists starred subscriptions organizations repos events received_events"
    links = {f"{name}_url": f"{url}/{name}" for name in names.split()}
    return {"login": login, "id": number, "node_id": f"U_{number}", "url": url, **links, "type": "User"}


def requests(count: int) -> list[bytes]:
    """Complete requests, each a separate delivery, for issues in 1,000 lanes."""
    bodies = [json.dumps(payload(number), separators=(",", ":")).encode() for number in range(LANES)]
    heads = [
        (
            "POST /webhooks/github HTTP/1.1\r\nHost: bot.example.com\r\nUser-Agent: GitHub-Hookshot/044aadd\r\n"
            f"Accept: */*\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "X-GitHub-Event: issues\r\nX-GitHub-Hook-ID: 1\r\n"
            f"X-Hub-Signature-256: sha256={_signed(body)}\r\nX-GitHub-Delivery: "
        ).encode()
        for body in bodies
    ]
    return [
        heads[number % LANES] + b"72d3162e-cc78-11e3-81ab-%012x\r\n\r\n" % number + bodies[number % LANES]
        for number in range(count)
    ]


def _signed(body: bytes) -> str:
    return hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


class _Connection(asyncio.Protocol):
    """Sends the next request when the response to the last one has arrived."""

    def __init__(self, work: Any, latencies: list[float], done: asyncio.Future[None]) -> None:
        self._work = work
        self._latencies = latencies
        self._done = done
        self._heard = b""
        self._sent = 0.0
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self) -> None:
        request = next(self._work, None)
        if request is None:
            self._transport.close()
            self._done.set_result(None)
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head, end, body = self._heard.partition(b"\r\n\r\n")
        if not end:
            return
        begin = head.index(b"content-length: ") + 16
        length = int(head[begin : head.find(b"\r", begin) if b"\r" in head[begin:] else None])
        if len(body) < length:
            return
        assert head.startswith(b"HTTP/1.1 202 "), self._heard
        self._latencies.append(time.perf_counter() - self._sent)
        self._heard = b""
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("the server closed the connection"))


def send_all(port: int, warm_up: int, count: int) -> dict[str, float]:
    """Rate and latencies from the first request to the last response. The warm-up does not count."""

    async def run() -> dict[str, float]:
        loop = asyncio.get_running_loop()
        made = requests(warm_up + count)
        for part in (made[:warm_up], made[warm_up:]):
            work, latencies = iter(part), list[float]()
            ends = [loop.create_future() for _ in range(CONNECTIONS)]
            connections = [
                (await loop.create_connection(lambda end=end: _Connection(work, latencies, end), "127.0.0.1", port))[1]  # type: ignore[misc] # noqa: B023
                for end in ends
            ]
            begun = time.perf_counter()
            for connection in connections:
                connection.send()
            await asyncio.gather(*ends)
            seconds = time.perf_counter() - begun
        return {
            "rate": count / seconds,
            "p50": statistics.median(latencies) * 1000,
            "p99": percentile(latencies, 0.99) * 1000,
        }

    return uvloop.run(run())
