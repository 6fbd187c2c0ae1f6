"""Upgrade a table ``intents`` without ``version``, in place, while an old program still writes to it.

The upgrade is additive: the table gets a column and triggers, and its rows become records of Interlock's. From then on
every write of either side appears on the other side in its own transaction. The table is complete at any time, so
:func:`downgrade_intents_table` can end the synchronization at any time, and the old program goes on alone. Once no
program writes to the table any more, the same call ends the transition.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from importlib import resources
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from bridge.core.corrections import KIND
from bridge.core.errors import BridgeError
from bridge.core.models.intent_model import IntentModel
from interlock import App, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["downgrade_intents_table", "upgrade_intents_table"]

_LOCK_WAIT = "5s"
_COLUMNS = "id, type, status, payload, correction_history, technical_actor, created_at"
_IMPORTED = "imported from the table intents"


async def upgrade_intents_table(url: str, namespace: str = "default") -> int:
    """Bring the rows of the table into Interlock's records, and keep both equal from then on.

    Returns how many rows were imported; a second call imports none. The old program's writes wait meanwhile, and reads
    do not. If a row is invalid, or the table is not free within 5 seconds, nothing is changed and this raises.
    """
    Settings(namespace=namespace)  # refuses what could not be part of a statement
    async with App(url, namespace=namespace):
        pass  # the database has Interlock's schema now
    if url.startswith("sqlite"):
        return await asyncio.to_thread(_upgrade_sqlite, url, namespace)
    return await _upgrade_postgres(url, namespace)


async def downgrade_intents_table(url: str) -> None:
    """End the synchronization. The table keeps everything that was written until now."""
    if url.startswith("sqlite"):
        with closing(_connect(url)) as connection:
            connection.executescript(f"begin immediate; {_script('downgrade_sqlite', '')} commit;")
        return
    connection = await _connect_postgres(url)
    try:
        async with connection.transaction():
            await connection.execute(_script("downgrade_postgres", ""))
    finally:
        await connection.close()


async def _upgrade_postgres(url: str, namespace: str) -> int:
    connection = await _connect_postgres(url)
    try:
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = '{_LOCK_WAIT}'")
            await connection.execute("lock table intents in share row exclusive mode")
            rows = await connection.fetch(
                f"select {_COLUMNS} from intents i where not exists ("  # noqa: S608 - constants
                " select from interlock.record r where r.namespace = $1 and r.kind = $2 and r.id = i.id::text)",
                namespace,
                KIND,
            )
            records = _records(rows)
            await connection.executemany(
                "insert into interlock.record"
                " (version, created_at, updated_at, namespace, kind, id, uid, status, body)"
                " values (0, $1, $1, $2, $3, $4, md5(random()::text || clock_timestamp()::text), $5, $6)",
                [(at, namespace, KIND, intent_id, status, body) for intent_id, status, body, at in records],
            )
            await connection.executemany(
                "select interlock.journal_add($1, interlock.micros(clock_timestamp()), $2::jsonb, 'record.create',"
                " $3, null, $4::json, null, 0)",
                [
                    (namespace, json.dumps(["upgrade", _IMPORTED]), f"{KIND}:{intent_id}", body)
                    for intent_id, _, body, _ in records
                ],
            )
            await connection.execute(_script("upgrade_postgres", namespace))
            return len(records)
    finally:
        await connection.close()


def _upgrade_sqlite(url: str, namespace: str) -> int:
    with closing(_connect(url)) as connection:
        connection.execute("begin immediate")
        try:
            columns = {row["name"] for row in connection.execute("pragma table_info(intents)")}
            if "version" not in columns:
                connection.execute("alter table intents add column version integer not null default 0")
            triggers = {row[0] for row in connection.execute("select name from sqlite_master where type = 'trigger'")}
            rows = connection.execute(
                f"select {_COLUMNS} from intents i where not exists ("  # noqa: S608 - constants
                " select 1 from interlock_record r where r.namespace = ? and r.kind = ? and r.id = i.id)",
                (namespace, KIND),
            ).fetchall()
            records = _records(rows)
            for intent_id, status, body, at in records:
                connection.execute(
                    "insert into interlock_record (namespace, kind, id, uid, version, status, body, created_at,"
                    " updated_at) values (?, ?, ?, lower(hex(randomblob(8))), 0, ?, ?, ?, ?)",
                    (namespace, KIND, intent_id, status, body, at, at),
                )
                connection.execute(
                    "insert into interlock_journal (at, namespace, actor, reason, action, subject_kind, subject_key,"
                    " to_version, after) values (cast((julianday('now') - 2440587.5) * 86400000000 as integer),"
                    " ?, 'upgrade', ?, 'record.create', 'record', ?, 0, ?)",
                    (namespace, _IMPORTED, f"{KIND}:{intent_id}", body),
                )
            if "bridge_to_record_insert" not in triggers:
                for statement in _statements(_script("upgrade_sqlite", namespace)):
                    connection.execute(statement)
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise
        return len(records)


def _records(rows: Iterable[Mapping[str, Any] | sqlite3.Row]) -> list[tuple[str, str, str, int]]:
    """Each row as ID, status, body and time of creation. Raises if a row is not an intent."""
    found: list[tuple[str, str, str, int]] = []
    for row in rows:
        values = {name: row[name] for name in _COLUMNS.split(", ")}
        for name, column in (("payload", "payload"), ("imported_corrections", "correction_history")):
            value = values.pop(column)
            values[name] = json.loads(value) if isinstance(value, str) else value
        try:
            intent = IntentModel.model_validate(values)
        except ValueError as error:
            raise BridgeError(f"The row {values['id']} is not a valid intent; nothing was changed: {error}") from error
        managed = {"id", "status", "version", "created_at", "updated_at"}
        created = 0 if intent.created_at is None else round(intent.created_at.timestamp() * 1_000_000)
        found.append((str(intent.id), intent.status.value, intent.model_dump_json(exclude=managed), created))
    return found


def _script(name: str, namespace: str) -> str:
    text = resources.files("bridge.data").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return text.replace("$NAMESPACE", f"'{namespace}'")


def _statements(script: str) -> list[str]:
    """The statements of a script, as SQLite tells where each ends."""
    found: list[str] = []
    current = ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found


async def _connect_postgres(url: str) -> Any:
    import asyncpg

    connect: Any = cast("Any", asyncpg).connect
    return await connect(url)


def _connect(url: str) -> sqlite3.Connection:
    connection = sqlite3.connect(unquote(urlsplit(url).path).removeprefix("/"))
    connection.row_factory = sqlite3.Row
    connection.isolation_level = None
    connection.execute("pragma busy_timeout = 10000")
    return connection
