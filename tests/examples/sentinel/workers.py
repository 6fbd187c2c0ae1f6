"""Code of the tests' worker processes."""

from __future__ import annotations

import asyncio

from interlock.testing.processes import report
from sentinel.factory import create_console

SESSION_SECONDS = 2.0


async def run_reports(url: str, moderation_url: str) -> None:
    """Run reports until the test kills this process."""
    console = create_console(url, moderation_url=moderation_url, session_ttl=SESSION_SECONDS)
    async with console, console.app.worker():
        report("ready")
        await asyncio.Event().wait()
