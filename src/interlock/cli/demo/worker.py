"""The processes of the demo that may be killed at any time: workers, and the web process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock.cli.demo.bot import Freezer, Locations, define
from interlock.cli.demo.recorder import Recorder
from interlock.cli.demo.records import Notebook
from interlock.cli.demo.target import Target
from interlock.errors import InterlockError
from interlock.testing.processes import receive_async, report

__all__ = ["serve", "work"]

_CONCURRENCY = 8


async def work(name: str, namespace: str, directory: str) -> None:
    """Run the bot's jobs until the stop message."""
    sys.argv[0] = name  # what its session calls it
    app, log = Locations.of_environment(namespace, directory).app(), Notebook(Path(directory), name)
    recorder = Recorder(app, log)
    freezer = define(app, log, Target(Path(directory), log), recorder.asked)
    async with app:
        worker = app.worker(concurrency=_CONCURRENCY)
        worker.open()
        report("ready")
        listening = asyncio.create_task(_freeze_when_told(freezer))
        await receive_async("stop")
        listening.cancel()
        await worker.finish()


async def _freeze_when_told(freezer: Freezer) -> None:
    while True:
        await receive_async("freeze")
        freezer.told = True


async def serve(name: str, namespace: str, directory: str, listen: str) -> None:
    """Serve the bot's webhooks and its dashboard until the stop message."""
    from interlock.cli.web_address import WebAddress

    sys.argv[0] = name
    app, log = Locations.of_environment(namespace, directory).app(), Notebook(Path(directory), name)
    Recorder(app, log)
    define(app)
    try:
        web = WebAddress.named(listen, None, file_option="")
    except InterlockError as error:
        report("refused", message=error.message, remedy=error.remedy)
        return
    assert web is not None
    async with app, web.serving(app, failed=lambda: report("failed")) as serving:
        report("ready", dashboard=serving.login_url)
        await receive_async("stop")
