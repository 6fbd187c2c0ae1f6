"""The command line: ``interlock``. Data goes to standard output, messages go to standard error.

A command imports what it needs when it runs, so that help and completion are quick. An error is one line and an exit
code: 2 for invalid usage, 1 for everything else.
"""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli import (
    claims,
    cursors,
    demo,
    events,
    explain,
    jobs,
    journal,
    lanes,
    limits,
    locks,
    migrate,
    pipelines,
    queues,
    records,
    run,
    schedules,
)
from interlock.cli.output import Commands
from interlock.cli.store_url import Namespace, StoreUrl

__all__ = ["app", "main"]

app = typer.Typer(
    name="interlock",
    cls=Commands,
    help="Inspect and operate an Interlock store.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(locks.app, name="locks")
app.add_typer(claims.app, name="claims")
app.add_typer(cursors.app, name="cursors")
app.add_typer(limits.app, name="limits")
app.add_typer(jobs.app, name="jobs")
app.add_typer(queues.app, name="queues")
app.add_typer(lanes.app, name="lanes")
app.add_typer(events.app, name="events")
app.add_typer(schedules.app, name="schedules")
app.add_typer(records.app, name="records")
app.add_typer(pipelines.app, name="pipelines")
app.add_typer(journal.app, name="journal")
app.add_typer(explain.app, name="explain")
app.add_typer(migrate.app, name="migrate")
app.command("run")(run.run)
app.command("demo")(demo.demo)


def main() -> None:
    """Run the command line."""
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        from interlock import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="INTERLOCK_URL",
            show_envvar=True,
            help="The store: sqlite:///file.db, postgresql://… or redis://… In the environment it stays hidden.",
        ),
    ] = None,
    namespace: Namespace = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    context.obj = StoreUrl(url, namespace)
