"""``interlock migrate``: apply a store's schema, show its state, verify it, or print the SQL that would apply it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.output import Json, console, print_json, say
from interlock.cli.store_url import StoreUrl, with_store

if TYPE_CHECKING:
    from interlock.ports.migrations import FunctionSet, Migration, Migrations, SchemaStatus

__all__ = ["app"]

app = typer.Typer(help="The version of the store's schema.", no_args_is_help=True)


@app.command()
@with_store
def up(
    store_url: StoreUrl,
    restore: Annotated[
        bool, typer.Option("--restore", help="Also replace functions that were altered with this program's.")
    ] = False,
    json: Json = False,
) -> None:
    """Apply pending migrations and functions. Any number of processes may do so at once."""
    migrations = _migrations(store_url)
    applied = asyncio.run(_up(migrations, restore=restore))
    if json:
        print_json(_as_data(applied))
        return
    for migration in applied.migrations:
        typer.echo(f"{migration.version:04} {migration.name}")
    if applied.functions is not None:
        typer.echo(f"functions {applied.functions.version}")
    count = len(applied.migrations) + (applied.functions is not None)
    say(f"Applied {count}. The schema is complete." if count else "Nothing to apply. The schema is complete.")


@app.command()
@with_store
def status(store_url: StoreUrl, json: Json = False) -> None:
    """Show every migration with the time it was applied, and the version of the functions."""
    migrations = _migrations(store_url)
    found = asyncio.run(_status(migrations))
    if json:
        print_json(_as_data(found))
        return
    from rich import box
    from rich.table import Table

    table = Table("version", "name", "applied", box=box.SIMPLE_HEAD)
    for migration in found.migrations:
        table.add_row(f"{migration.version:04}", migration.name, _time(migration.applied_at) or "pending")
    if found.functions is not None:
        table.add_row(str(found.functions.version), "functions", _functions_text(found.functions))
    console().print(table)
    if found.pending is not None:
        say("Some are pending. Run: interlock migrate up.")
    elif found.functions is not None and found.functions.state == "altered":
        say("The functions were altered. Run: interlock migrate verify.")
    else:
        say("All applied.")


@app.command()
@with_store
def verify(store_url: StoreUrl, json: Json = False) -> None:
    """Compare the store's schema with this program's. Exits with 1 if they differ."""
    migrations = _migrations(store_url)
    differences = list(asyncio.run(_verify(migrations)))
    if json:
        print_json(differences)
    else:
        for difference in differences:
            typer.echo(difference)
        count = len(differences)
        say(f"{count} difference{'s' if count > 1 else ''}." if differences else "No differences.")
    if differences:
        raise typer.Exit(1)


@app.command()
@with_store
def sql(
    store_url: StoreUrl,
    pending: Annotated[bool, typer.Option("--pending", help="Only what the store lacks; connects to it.")] = False,
) -> None:
    """Print the SQL of the whole schema, to apply it with other tools. The URL only selects the kind of store."""
    migrations = _migrations(store_url)
    steps = None
    if pending:
        steps = asyncio.run(_status(migrations)).pending
        if steps is None:
            say("Nothing is pending.")
            return
    typer.echo(migrations.script(steps), nl=False)


@app.command()
@with_store
def grants(
    store_url: StoreUrl,
    worker: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="May do everything that apps and workers do.")
    ] = None,
    reader: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="May read, and change nothing.")] = None,
    enqueuer: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="May call interlock.enqueue only.")] = None,
) -> None:
    """Print the SQL that grants PostgreSQL roles what they need. Run it as the owner after every migrate up."""
    from interlock.errors import MisuseError

    if not (worker or reader or enqueuer):
        raise MisuseError("No role was named.", remedy="Use --worker ROLE, --reader ROLE or --enqueuer ROLE.")
    migrations = _migrations(store_url)
    script = migrations.grants(workers=worker or (), readers=reader or (), enqueuers=enqueuer or ())
    typer.echo(script, nl=False)


def _migrations(store_url: StoreUrl) -> Migrations:
    from interlock.errors import CapabilityError

    store = store_url.store()
    if store.migrations is None:
        raise CapabilityError(f"A store of kind {store.name} has no schema.", remedy="There is nothing to migrate.")
    return store.migrations


async def _up(migrations: Migrations, *, restore: bool) -> SchemaStatus:
    return await migrations.up(restore=restore)


async def _status(migrations: Migrations) -> SchemaStatus:
    return await migrations.status()


async def _verify(migrations: Migrations) -> Any:
    return await migrations.verify()


def _as_data(status: SchemaStatus) -> dict[str, Any]:
    functions = status.functions
    return {
        "migrations": [_migration_data(migration) for migration in status.migrations],
        "functions": None
        if functions is None
        else {
            "version": functions.version,
            "state": functions.state,
            "applied_version": functions.applied_version,
            "applied_at": _time(functions.applied_at),
        },
    }


def _migration_data(migration: Migration) -> dict[str, Any]:
    return {"version": migration.version, "name": migration.name, "applied_at": _time(migration.applied_at)}


def _functions_text(functions: FunctionSet) -> str:
    when = _time(functions.applied_at)
    if functions.state == "newer":
        return f"{when} (version {functions.applied_version}, which is newer)"
    if functions.state == "altered":
        return f"{when} (altered)"
    if functions.state == "pending":
        old = functions.applied_version
        return "pending" if old is None else f"pending (version {old} was applied {when})"
    return str(when)


def _time(moment: float | None) -> str | None:
    from interlock.clock import as_text

    return None if moment is None else as_text(moment)
