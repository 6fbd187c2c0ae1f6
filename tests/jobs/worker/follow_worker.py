"""A worker whose jobs have hooks and follow-ups, as a process that is killed: ``python -m … URL``."""

from __future__ import annotations

import asyncio
import sys

from interlock import App, JobEnd, Settings, current_job

__all__ = ["SETTINGS", "Build", "define"]

SETTINGS = Settings(session_ttl=3.0, recheck_interval=1.0, stuck_work="report")


class Build:
    """The jobs that all processes know."""

    def __init__(self, app: App) -> None:
        @app.job()
        async def after(number: int) -> None: ...

        @app.job(lane="{lane}")
        async def build(number: int, lane: str) -> None:
            current_job().follow_up(after.call(number))
            await asyncio.sleep(0.02)
            if number % 10 == 0:
                print(number, flush=True)

        @build.on_end()
        async def ended(end: JobEnd) -> None: ...

        self.after, self.build, self.ended = after, build, ended


def define(app: App) -> Build:
    """Define the jobs."""
    return Build(app)


async def _work(url: str) -> None:
    app = App(url, settings=SETTINGS)
    define(app)
    async with app, app.worker(concurrency=8):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1]))
