"""Run the story: ``python -m bridge.story [--seconds 60]``. Exits with 1 if the audit finds a violation."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from bridge.story.director import Director


def main() -> int:
    """Parse the arguments, run the story and print its audit."""
    parser = argparse.ArgumentParser(prog="python -m bridge.story", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long intents are fed (60)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (3)")
    parser.add_argument("--kill-every", type=float, default=4, help="seconds between two kills of a worker (4)")
    parser.add_argument("--url", help="a store of your own; default: SQLite in a temporary directory")
    parser.add_argument("--port", type=int, help="of the API and the dashboard; default: a free one")
    options = parser.parse_args()
    logging.getLogger("interlock").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="bridge-story-") as directory:
        url = options.url or f"sqlite:///{directory}/bridge.db"
        director = Director(
            url,
            Path(directory),
            seconds=options.seconds,
            workers=options.workers,
            kill_every=options.kill_every,
            port=options.port,
        )
        try:
            found = asyncio.run(director.run())
        except (KeyboardInterrupt, asyncio.CancelledError):
            return 130
    seconds = sorted(found.seconds) or [0.0]
    print(
        f"Contention in all processes: {found.queued} writes lost against another one, and queued."
        f" An intent took {seconds[len(seconds) // 2]:.2f} s (median), P95 {seconds[int(len(seconds) * 0.95)]:.2f} s."
    )
    print(
        f"Audit: {found.intents} intents, {found.corrections} corrections and {found.entries} journal entries;"
        f" {found.repeated_deliveries} deliveries were repeated after a crash."
    )
    for violation in found.violations[:20]:
        print(f"  VIOLATION: {violation}")
    count = len(found.violations)
    print(f"{count} violations." if count else "Nothing was lost, doubled or out of order.")
    return 1 if found.violations else 0


if __name__ == "__main__":
    sys.exit(main())
