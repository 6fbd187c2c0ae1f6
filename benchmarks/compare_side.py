"""One side of a comparison of two commits: fill a store, drain it, take locks, receive webhooks.

`benchmarks.compare` runs this file as a script, once with each commit's sources on the path, and reads what it prints:
one JSON object a line. It therefore uses only the part of the public surface that both commits share.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import sys
import time
from typing import Any

import uvicorn
import uvloop

from interlock import App, Event, Slots

try:
    from interlock import GitHub
except ImportError:
    from interlock.events import GitHub  # type: ignore[assignment, no-redef, unused-ignore]

CHUNK = 5_000
LANES = 1_000
SLOTS = 10_000
SECRET = "a secret of the usual length, as people have them"


def build(url: str) -> tuple[App, dict[str, Any]]:
    """The app under test, with one job for each kind of drain and one event handler."""
    app = App(url)

    @app.job()
    async def plain(number: int) -> None:
        return

    @app.job(lane="lane-{lane}")
    async def lanes(number: int, lane: int) -> None:
        return

    @app.job(limits=[Slots("compare", SLOTS)])
    async def limit(number: int) -> None:
        return

    app.source(GitHub(SECRET, own="mybot[bot]"))

    @app.on("github.issues.*", lane="{repository.full_name}#{issue.number}", ignore="dependabot[bot]")
    async def triage(event: Event) -> None:
        return

    return app, {"plain": plain, "lanes": lanes, "limit": limit}


async def fill(url: str, kind: str, count: int) -> None:
    """Create the schema and enqueue this many jobs of a kind."""
    app, jobs = build(url)
    async with app:
        for first in range(0, count, CHUNK):
            numbers = range(first, min(first + CHUNK, count))
            if kind == "lanes":
                calls = [jobs[kind].call(number=number, lane=number % LANES) for number in numbers]
            else:
                calls = [jobs[kind].call(number=number) for number in numbers]
            await app.jobs.enqueue_many(calls)
    tell(filled=count)


async def drain(url: str, count: int) -> None:
    """Run every job when told to; the time ends when the last acknowledgement is on disk."""
    app, _ = build(url)
    async with app:
        freeze()
        tell(ready=True)
        await heard()
        began = time.monotonic()
        counts = await app.drain(wait=120)
        tell(began=began, ended=time.monotonic(), jobs=sum(counts.values()))


async def locks(url: str, count: int) -> None:
    """Acquire and release one lock, one after the other."""
    app, _ = build(url)
    async with app:
        for _ in range(50):
            async with app.locks.acquire("key"):
                pass
        freeze()
        began = time.monotonic()
        for _ in range(count):
            async with app.locks.acquire("key"):
                pass
        tell(began=began, ended=time.monotonic(), jobs=count)


async def serve(url: str, count: int) -> None:
    """Receive webhooks until told to stop."""
    app, _ = build(url)
    async with app:
        web: Any = app.web()
        server = uvicorn.Server(
            uvicorn.Config(web, port=0, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
        )
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        freeze()
        tell(port=server.servers[0].sockets[0].getsockname()[1])
        await heard()
        server.should_exit = True
        await serving


def freeze() -> None:
    """Leave what was imported out of garbage collection, as `interlock run` does."""
    gc.collect()
    gc.freeze()


def tell(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def heard() -> None:
    """Wait for a line from the process that compares."""
    await asyncio.to_thread(sys.stdin.readline)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("plain", "lanes", "limit", "drain", "locks", "serve"))
    parser.add_argument("url")
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    logging.getLogger("interlock").setLevel(logging.CRITICAL)
    if options.what in ("plain", "lanes", "limit"):
        uvloop.run(fill(options.url, options.what, options.count))
    else:
        uvloop.run({"drain": drain, "locks": locks, "serve": serve}[options.what](options.url, options.count))


if __name__ == "__main__":
    main()
