"""``interlock pipelines``: list and show runs of pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, with_store
from interlock.cli.tables import Column, Table, moment, tail
from interlock.ports.pipelines import RunState  # noqa: TC001 - typer reads the annotations

if TYPE_CHECKING:
    from interlock.insight import Insight, RunRow, StageRow

__all__ = ["app"]

app = typer.Typer(help="List and show runs of pipelines.", no_args_is_help=True)
RunId = Annotated[int, typer.Argument(metavar="RUN", help="The run, which has the number of its job.")]

_RUNS: Table[RunRow] = Table(
    Column("run", lambda row: str(row.id), number=True),
    Column("pipeline", lambda row: row.pipeline),
    Column("record", lambda row: f"{row.kind}/{row.record}"),
    Column("state", lambda row: row.state, fixed=True),
    Column("stage", lambda row: _stage_of(row)),
    Column("started (UTC)", lambda row: "" if row.started_at is None else moment(row.started_at), fixed=True),
    Column("took", lambda row: _seconds(row.seconds), number=True),
    Column("why", lambda row: tail(row.why), min_width=20),
)
_STAGES: Table[StageRow] = Table(
    Column("stage", lambda row: row.name),
    Column("state", lambda row: row.state, fixed=True),
    Column("attempts", lambda row: row.attempt, number=True),
    Column("started (UTC)", lambda row: "" if row.started_at is None else moment(row.started_at), fixed=True),
    Column("took", lambda row: _seconds(row.seconds), number=True),
    Column("error", lambda row: tail(row.error), min_width=20),
)


@app.command("list")
@with_store
def list_runs(
    store_url: StoreUrl,
    pipeline: Annotated[str, typer.Option(help="Only runs of this pipeline.")] = "",
    record: Annotated[str, typer.Option(metavar="KIND/ID", help="Only runs of this record.")] = "",
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")] = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List the runs that have started, the last one first."""
    from interlock.insight import data
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> list[RunRow]:
        return await whole_list(
            limit,
            lambda limit, before: insight.runs(
                pipeline=pipeline, record=record, state=str(state or ""), limit=limit, before=before
            ),
        )

    rows = ask(store_url, Capability.RECORDS, look)
    if json:
        print_json([data(row) for row in rows])
    elif rows:
        _RUNS.print(rows)
    else:
        say("No runs match." if pipeline or record or state else "No pipeline has run.")
    say_if_cut(len(rows), limit)


@app.command()
@with_store
def show(store_url: StoreUrl, run: RunId, json: Json = False) -> None:
    """Show one run: its stages with their durations, and what it waits for."""
    from interlock.insight import data
    from interlock.ports.store import Capability

    page = ask(store_url, Capability.RECORDS, lambda insight: insight.run(run))
    if json:
        print_json(data(page))
        return
    if page.run.stages:
        _STAGES.print(page.run.stages)
    out = console()
    for line in page.explanation.lines:
        out.print(shown(line), soft_wrap=True)


@app.command()
@with_store
def explain(store_url: StoreUrl, run: RunId, json: Json = False) -> None:
    """Explain a run: the stage that it is at, what that waits for, and what to do."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.RUN, str(run), json)


def _stage_of(row: RunRow) -> str:
    done = sum(stage.state == "completed" for stage in row.stages)
    place = f"{done}/{len(row.stages)}" if row.stages else ""
    return place if row.stage is None else f"{place} {row.stage.name}".strip()


def _seconds(seconds: float | None) -> str:
    from interlock.explanation import span

    return "" if seconds is None else span(seconds)
