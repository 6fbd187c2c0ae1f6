"""Webhooks, verified and on disk, compared with a bare Starlette endpoint that parses the same JSON under uvicorn.

A separate process prepares all requests and signatures, and then sends them over 50 open connections.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.harness import console
from benchmarks.jobs.cpu import cpu_seconds
from benchmarks.jobs.drains import fresh_database
from benchmarks.jobs.suite import SETTINGS, settings_of
from benchmarks.webhook_sender import CONNECTIONS, SECRET, payload
from interlock import App, Event, GitHub
from interlock.testing.processes import Worker, receive_async, report
from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

    from benchmarks.harness import Report

__all__ = ["judge_webhooks", "run_webhooks"]

REACH = 0.35
STORES = ("SQLite", "PostgreSQL")
_READY_SECONDS = 60
_RUN_SECONDS = 120


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
    return JSONResponse({"status": "parsed", "event": event["issue"]["number"], "jobs": [], "reason": ""}, 202)


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
        async with Worker.spawn("benchmarks.webhook_sender:send_all", (port, warm_up, count)) as client:
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
        waiting = sum(queue.ready + queue.behind for queue in await app.queues.list())
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
