"""``interlock explain job 7``: the same commands as ``interlock jobs explain 7``, in one place."""

from __future__ import annotations

import typer

from interlock.cli import claims, events, jobs, journal, lanes, limits, locks, pipelines, queues, records, schedules

__all__ = ["app"]

app = typer.Typer(help="Explain why something waits, and what to do about it.", no_args_is_help=True)
for _name, _explain in {
    "lock": locks.explain,
    "claim": claims.explain,
    "limit": limits.explain,
    "job": jobs.explain,
    "lane": lanes.explain,
    "queue": queues.explain,
    "event": events.explain,
    "schedule": schedules.explain,
    "record": records.explain,
    "run": pipelines.explain,
    "journal": journal.explain,
}.items():
    app.command(_name)(_explain)
