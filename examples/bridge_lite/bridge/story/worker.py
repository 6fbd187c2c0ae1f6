"""A worker process of the story: ``python -m bridge.story.worker URL NAMESPACE DELIVERIES``."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from bridge.story.parts import story_bridge


async def work(url: str, namespace: str, deliveries: str) -> None:
    """Run pipelines until the director closes our standard input, or dies."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), stop.set)  # readable at its end
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    bridge, _ = story_bridge(url, namespace, Path(deliveries))
    async with bridge, bridge.app.worker(concurrency=10, finish_within=10):
        print("ready", flush=True)
        await stop.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(*sys.argv[1:]))
