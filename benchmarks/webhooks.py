"""Webhooks, verified and on disk, compared with a bare Starlette endpoint that parses the same JSON under uvicorn.

A separate process prepares all requests and signatures, and then sends them over 50 open connections.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import hmac
import json
import statistics
import tempfile
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.harness import console, percentile
from benchmarks.jobs.cpu import cpu_seconds
from benchmarks.jobs.drains import fresh_database
from benchmarks.jobs.suite import SETTINGS, settings_of
from interlock import App, Event, GitHub
from interlock.testing.processes import Worker, receive_async, report
from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

    from benchmarks.harness import Report

__all__ = ["judge_webhooks", "run_webhooks"]

SECRET = "a secret of the usual length, as people have them"
CONNECTIONS = 50
LANES = 1000
REACH = 0.35
STORES = ("SQLite", "PostgreSQL")
_READY_SECONDS = 60
_RUN_SECONDS = 120


# -- what is sent ------------------------------------------------------------------------------------------------------


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


# -- who sends ---------------------------------------------------------------------------------------------------------


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


# -- who answers -------------------------------------------------------------------------------------------------------


def serve(which: str, url: str) -> None:
    """Run the server: the bare endpoint, or Interlock on a store."""

    async def run() -> None:
        if which == "bare":
            await listen(Starlette(routes=[Route("/webhooks/github", bare, methods=["POST"])]))
            return
        async with defined(url) as app:
            await listen(app.web())

    uvloop.run(run())


async def bare(request: Request) -> JSONResponse:
    event = await request.json()
    return JSONResponse({"verdict": "parsed", "event": event["issue"]["number"], "jobs": [], "reason": ""}, 202)


def defined(url: str) -> App:
    app = App(url)
    app.source(GitHub(SECRET, own="mybot[bot]"))

    @app.on("github.issues.*", lane="{repository.full_name}#{issue.number}", ignore="dependabot[bot]")
    async def triage(event: Event) -> None: ...

    return app


async def listen(app: Any) -> None:
    """The same uvicorn for both."""
    config = uvicorn.Config(app, port=0, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()  # as `interlock run` does
    report("listening", port=server.servers[0].sockets[0].getsockname()[1])
    await receive_async("stop")
    server.should_exit = True
    await serving


# -- the run -----------------------------------------------------------------------------------------------------------


async def measure(report: Report, name: str, which: str, url: str, count: int) -> float:
    async with Worker.spawn("benchmarks.webhooks:serve", (which, url)) as server:
        port = (await server.wait_for("listening", _READY_SECONDS))["port"]
        warm_up = max(CONNECTIONS, count // 10)
        before = cpu_seconds([server.pid])
        async with Worker.spawn("benchmarks.webhooks:send_all", (port, warm_up, count)) as client:
            found = await client.result(timeout=_RUN_SECONDS)
        used = cpu_seconds([server.pid]) - before
        server.send("stop")
        await server.wait(_READY_SECONDS)
    report.add(f"webhooks {name}", found["rate"], "webhooks/s")
    report.add(f"latency p50 {name}", found["p50"], "ms", more_is_better=False)
    report.add(f"latency p99 {name}", found["p99"], "ms", more_is_better=False)
    report.add(f"CPU {name}", used / (warm_up + count) * 1e6, "ms/1,000 webhooks", more_is_better=False)
    if which != "bare":
        await check(url, warm_up + count)
    rate: float = found["rate"]
    return rate


async def check(url: str, count: int) -> None:
    """Check that everything that was answered with 202 is stored once, with its job."""
    async with defined(url) as app:
        waiting = sum(queue.ready + queue.behind for queue in await app.jobs.queues())
        assert waiting == count, f"{waiting} jobs after {count} webhooks"


@asynccontextmanager
async def fresh_store(store: str, server: PostgresServer, directory: Path) -> AsyncIterator[str]:
    if store == "SQLite":
        with tempfile.TemporaryDirectory(dir=directory) as inside:
            yield f"sqlite:///{inside}/webhooks.db"
    else:
        url = fresh_database(server)
        yield url
        server.drop_database(url.rpartition("/")[2])


async def run_webhooks(report: Report, directory: Path, *, quick: bool) -> None:
    rounds, count = (2, 3_000) if quick else (5, 15_000)
    report.notes.append(f"uvicorn {uvicorn.__version__} with httptools and uvloop, {CONNECTIONS} connections")
    report.notes.append(f"payload {len(json.dumps(payload(1), separators=(',', ':'))):,} bytes")
    with PostgresServer(settings=SETTINGS) as server:
        report.notes.append(await settings_of(server))
        for round_ in range(rounds):
            console.print(f"webhooks: round {round_ + 1} of {rounds} …", style="dim")
            for store in STORES:
                bare_rate = await measure(report, "bare Starlette", "bare", "", count)
                async with fresh_store(store, server, directory) as url:
                    rate = await measure(report, f"Interlock on {store}", "interlock", url, count)
                report.add(f"ratio: {store} to bare", rate / bare_rate, "×")


def judge_webhooks(report: Report) -> None:
    for store in STORES:
        figure = report.figures[f"ratio: {store} to bare"]
        report.judge(figure.name, f"≥{REACH:g}", figure.median >= REACH)
