"""A worker as a real process whose job logs and never ends by itself: ``python -m … URL``."""

from __future__ import annotations

import asyncio
import sys

from interlock import App, Settings, current_job

__all__ = ["SETTINGS", "define"]

SETTINGS = Settings(session_ttl=1.5, recheck_interval=0.2, store_wait=10, stuck_work="report")


def define(app: App, *, endless: bool) -> None:
    """The job that both processes know."""

    @app.job()
    async def chat() -> str:
        job = current_job()
        number = 0
        while endless or number < 3:
            number += 1
            job.log("line %d of fetch %d", number, job.fence)
            job.progress(0.5, f"line {number}")
            await asyncio.sleep(0.02)
        return "ended"


async def _work(url: str) -> None:
    app = App(url, settings=SETTINGS)
    define(app, endless=True)
    async with app, app.worker(concurrency=2):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1]))
