"""A worker process of the story: ``python -m sentinel.story.worker URL NAMESPACE MODERATION_URL TRACE``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

from sentinel.story.parts import Trace, story_console


async def work(url: str, namespace: str, moderation_url: str, trace: str) -> None:
    """Run reports and schedules until the director closes our standard input, or dies."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), stop.set)  # readable at its end
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    console = story_console(url, namespace, moderation_url, Trace(Path(trace)))
    async with console, console.app.worker(concurrency=10, finish_within=10):
        print("ready", flush=True)
        await stop.wait()


if __name__ == "__main__":
    for logger in ("interlock", "sentinel"):  # failures are part of the story, and in its audit
        logging.getLogger(logger).addHandler(logging.NullHandler())
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(*sys.argv[1:]))
