"""A worker process for tests in which PostgreSQL has too few connections: runs jobs that use every concept."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from interlock import App
from interlock.testing.processes import receive_async, report


def crowd_app(url: str, **settings: Any) -> tuple[App, Any]:
    """An app, and its job, which takes a lock, a claim and a cursor of its own on its way."""
    app = App(url, **settings)

    @app.job(lane="{lane}")
    async def work(lane: str, number: int) -> None:
        async with app.locks.acquire(f"{lane}/{number}", wait=60), app.claims.claim(f"{lane}/{number}"):
            await asyncio.sleep(0.001)

    return app, work


async def work(url: str, settings: dict[str, Any]) -> int:
    """Work until told to stop."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    app, _ = crowd_app(url, **settings)
    async with app:
        worker = app.worker(concurrency=20)
        async with worker:
            report("working")
            await receive_async("stop")
        return sum(worker.counts.values())
