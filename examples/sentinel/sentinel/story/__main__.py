"""Run the story: ``python -m sentinel.story [--seconds 60]``. Exits with 1 if the audit finds a violation."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from sentinel.story.director import Director


def main() -> int:
    """Parse the arguments, run the story and print its audit."""
    parser = argparse.ArgumentParser(prog="python -m sentinel.story", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long operators click (60)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (3)")
    parser.add_argument("--kill-every", type=float, default=4, help="seconds between two kills of a worker (4)")
    parser.add_argument("--url", help="an empty database of your own; default: SQLite in a temporary directory")
    parser.add_argument("--port", type=int, help="of the console and the dashboard; default: a free one")
    options = parser.parse_args()
    for name in ("interlock", "sentinel"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="sentinel-story-") as directory:
        director = Director(
            options.url or f"sqlite:///{directory}/sentinel.db",
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
    ends = ", ".join(f"{count} {state}" for state, count in sorted(found.reports.items()))
    print(f"Audit: {found.targets} targets; reports: {ends}; {found.runs} runs; {found.edits} edits of schedules,")
    print(f"which fired {found.firings} times. The closest two starts of an account left {_gap(found.shortest_gap)}.")
    for violation in found.violations[:20]:
        print(f"  VIOLATION: {violation}")
    count = len(found.violations)
    print(f"{count} violations." if count else "Nothing was lost, doubled, stuck or too early.")
    return 1 if found.violations else 0


def _gap(seconds: float | None) -> str:
    return "nothing to compare" if seconds is None else f"{seconds * 1000:.1f} ms more than the cooldown"


if __name__ == "__main__":
    sys.exit(main())
