"""Version checks and journal entries for the tables of programs that use SQLAlchemy.

Everything happens in the caller's own transaction, on any session or connection, asynchronous or not: the functions
return a result for a ``Session`` or ``Connection`` and an awaitable for an ``AsyncSession`` or ``AsyncConnection``.
Nothing here commits or rolls back. The journal is Interlock's own, so its schema has to be in the same database
(``interlock migrate up``): PostgreSQL by asyncpg, psycopg or psycopg2, or SQLite by sqlite3 or aiosqlite.

After a deadlock, run the whole transaction again with :func:`retry_on_deadlock`. A version conflict raises
:class:`~interlock.errors.ConcurrencyConflictError`: read the row again and decide again.
"""

from __future__ import annotations

import functools
import json
import time
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from interlock.arguments import checked_key
from interlock.backends.queries import parse_queries
from interlock.deadlocks import is_deadlock_error, retry_on_deadlock, sqlstate_of
from interlock.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    InvalidArgumentError,
    MisuseError,
    SchemaMismatchError,
    StoreError,
)
from interlock.journal.entries import attribution_of, json_of, program_entry
from interlock.ports.journal import NewEntry
from interlock.settings import Settings

try:
    from sqlalchemy import BigInteger, Connection, String, Table, bindparam, select, text, update
    from sqlalchemy import inspect as inspect_mapped
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Mapped, Session, declared_attr, mapped_column, scoped_session
    from sqlalchemy.orm.exc import StaleDataError
except ModuleNotFoundError as error:
    raise MisuseError(
        f"interlock.contrib.sqlalchemy requires the package {error.name}, which is not installed.",
        remedy="Run: pip install 'interlock[sqlalchemy]'.",
    ) from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator, Mapping

    from sqlalchemy import TextClause
    from sqlalchemy.orm import InstanceState, Mapper

    from interlock.ports.journal import Attribution

__all__ = [
    "Versioned",
    "add_journal_entry",
    "compare_and_set",
    "is_deadlock_error",
    "journal_change",
    "retry_on_deadlock",
    "version_check",
]

T = TypeVar("T")
SyncTransaction = Session | Connection | scoped_session[Any]
AsyncTransaction = AsyncSession | AsyncConnection | async_scoped_session[Any]
_DRIVERS = {
    "postgresql": ("asyncpg", "psycopg", "psycopg_async", "psycopg2"),
    "sqlite": ("pysqlite", "aiosqlite"),
}
_NO_SCHEMA = ("3F000", "42P01", "42703", "42883")  # no such schema, table, column, function
_NO_PRIVILEGE = "42501"
_SQLITE_ERROR = 1  # such as a table or column that does not exist


# -- versions ----------------------------------------------------------------------------------------------------------


class Versioned:
    """A mixin for mapped classes: every update checks and increments the column ``version``, which starts at 0.

    A flush whose row was changed or deleted since it was read writes nothing and raises SQLAlchemy's
    ``StaleDataError``, or ``ConcurrencyConflictError`` inside :func:`version_check`. An existing table gets the column
    with ``alter table … add column version bigint not null default 0``. Programs that update rows without it, such as
    raw SQL and bulk updates, have to increment it themselves.
    """

    version: Mapped[int] = mapped_column(BigInteger, nullable=False, default=0, server_default=text("0"))

    @declared_attr.directive
    def __mapper_args__(cls) -> dict[str, Any]:  # noqa: N805
        return {"version_id_col": cls.version, "version_id_generator": _next_version}


def _next_version(version: int | None) -> int:
    return 0 if version is None else version + 1


@contextmanager
def version_check() -> Generator[None]:
    """Turn the ``StaleDataError`` of a flush or commit inside the block into ``ConcurrencyConflictError``.

    Also for asynchronous code. Put the transaction inside: ``with version_check(): with session.begin(): …``.
    """
    try:
        yield
    except StaleDataError as error:
        raise ConcurrencyConflictError(
            f"The row was changed or deleted since it was read: {str(error).rstrip('.')}. Nothing was written."
        ) from error


@overload
def compare_and_set(
    transaction: SyncTransaction, target: type[Any] | Table, key: object, values: Mapping[str, Any], *, version: int
) -> bool: ...
@overload
def compare_and_set(
    transaction: AsyncTransaction, target: type[Any] | Table, key: object, values: Mapping[str, Any], *, version: int
) -> Awaitable[bool]: ...
def compare_and_set(
    transaction: SyncTransaction | AsyncTransaction,
    target: type[Any] | Table,
    key: object,
    values: Mapping[str, Any],
    *,
    version: int,
) -> bool | Awaitable[bool]:
    """Update one row if it still has ``version``, increment the version, and return whether that happened.

    ``target`` is a mapped class or a table with a version column: the one of :class:`Versioned`, or another that is
    called ``version``. ``key`` is the primary key, a tuple if it has several columns.
    """
    primary, column = _key_and_version(target)
    keys: tuple[object, ...] = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    if len(keys) != len(primary):
        raise InvalidArgumentError(
            f"The key {key!r} has {len(keys)} parts, but the primary key has {len(primary)} columns.",
            remedy="Pass a tuple with one value for each column.",
        )
    if column.key in values:
        raise InvalidArgumentError("The values contain the version.", remedy="Pass the expected one as version=….")
    statement = (
        update(target)
        .where(*(one == value for one, value in zip(primary, keys, strict=True)), column == version)
        .values({**values, column.key: version + 1})
    )

    def run(session: Session | Connection) -> bool:
        return bool(cast("Any", session.execute(statement)).rowcount)

    return _run(transaction, run)


def _key_and_version(target: type[Any] | Table) -> tuple[list[Any], Any]:
    """The columns of the primary key and of the version, as attributes if the target is a mapped class."""
    columns: list[Any]
    version: Any
    if isinstance(target, Table):
        columns, version = list(target.primary_key), target.columns.get("version")
    else:
        mapper = _mapper(target)
        found = _version_column(mapper)
        columns = [mapper.attrs[mapper.get_property_by_column(one).key].class_attribute for one in mapper.primary_key]
        version = None if found is None else mapper.get_property_by_column(found).class_attribute
    if version is None:
        raise InvalidArgumentError(f"{target!r} has no version column.", remedy="Add the mixin Versioned.")
    return columns, version


def _version_column(mapper: Mapper[Any]) -> Any:
    return mapper.version_id_col if mapper.version_id_col is not None else mapper.columns.get("version")


def _mapper(target: type[Any]) -> Mapper[Any]:
    found = cast("Mapper[Any] | None", inspect_mapped(target, raiseerr=False))
    if found is None or not found.is_mapper:
        raise InvalidArgumentError(f"{target!r} is not a mapped class or a table.", remedy="Pass one of them.")
    return found


# -- the journal -------------------------------------------------------------------------------------------------------


@overload
def add_journal_entry(
    transaction: SyncTransaction,
    action: str,
    key: object,
    *,
    by: str,
    reason: str = "",
    before: object = None,
    after: object = None,
    from_version: int | None = None,
    to_version: int | None = None,
    namespace: str = "default",
) -> int: ...
@overload
def add_journal_entry(
    transaction: AsyncTransaction,
    action: str,
    key: object,
    *,
    by: str,
    reason: str = "",
    before: object = None,
    after: object = None,
    from_version: int | None = None,
    to_version: int | None = None,
    namespace: str = "default",
) -> Awaitable[int]: ...
def add_journal_entry(
    transaction: SyncTransaction | AsyncTransaction,
    action: str,
    key: object,
    *,
    by: str,
    reason: str = "",
    before: object = None,
    after: object = None,
    from_version: int | None = None,
    to_version: int | None = None,
    namespace: str = "default",
) -> int | Awaitable[int]:
    """Add a journal entry in the caller's transaction, and return its ID. It exists if the transaction commits.

    ``action`` is the kind of subject and a verb: ``order.ship``. ``key`` identifies the subject. ``before`` and
    ``after`` are data: what JSON knows, and dates, UUIDs, decimals, enums, dataclasses and pydantic models. In a job's
    handler the entry also names the job and its event. Raises ``SchemaMismatchError`` if the database does not have
    Interlock's schema; the transaction is then to be rolled back.
    """
    entry = program_entry(
        action,
        key,
        by=by,
        reason=reason,
        before=before,
        after=after,
        from_version=from_version,
        to_version=to_version,
    )
    return _run(transaction, lambda session: _add(session, _checked_namespace(namespace), entry))


@overload
def journal_change(
    transaction: Session | scoped_session[Any],
    instance: object,
    action: str,
    *,
    by: str,
    reason: str = "",
    redact: Collection[str] = (),
    namespace: str = "default",
) -> int | None: ...
@overload
def journal_change(
    transaction: AsyncSession | async_scoped_session[Any],
    instance: object,
    action: str,
    *,
    by: str,
    reason: str = "",
    redact: Collection[str] = (),
    namespace: str = "default",
) -> Awaitable[int | None]: ...
def journal_change(
    transaction: Session | scoped_session[Any] | AsyncSession | async_scoped_session[Any],
    instance: object,
    action: str,
    *,
    by: str,
    reason: str = "",
    redact: Collection[str] = (),
    namespace: str = "default",
) -> int | Awaitable[int | None] | None:
    """Flush the session, and add the entry of an instance that was changed, added or deleted since the last flush.

    The entry has the columns that changed, before and after, and the versions if the instance has any. The values of
    columns in ``redact`` are left out. Returns the entry's ID, or None if nothing changed. Raises
    ``ConcurrencyConflictError`` if the row was changed or deleted since it was read.
    """
    attribution = attribution_of(action, by, reason)
    checked = _checked_namespace(namespace)

    def run(session: Session | Connection) -> int | None:
        if not isinstance(session, Session):
            raise MisuseError("journal_change needs a session.", remedy="Use add_journal_entry with a connection.")
        change = _Change(session, instance, redact)
        with version_check():
            session.flush()
        entry = change.entry(attribution, action)
        return None if entry is None else _add(session.connection({"mapper": change.mapper}), checked, entry)

    return _run(transaction, run)


class _Change:
    """The change of one row that the next flush writes."""

    def __init__(self, session: Session, instance: object, redact: Collection[str]) -> None:
        state: InstanceState[Any] | None = inspect_mapped(instance, raiseerr=False)
        if state is None or instance not in session:
            raise InvalidArgumentError(
                f"{type(instance).__name__} object is not in this session.", remedy="Pass a mapped object of it."
            )
        self._instance = instance
        self._redact = redact
        self.mapper: Mapper[Any] = state.mapper
        self._added = state.pending
        self._deleted = instance in session.deleted
        column = _version_column(self.mapper)
        self._version = None if column is None else self.mapper.get_property_by_column(column).key
        self._before: dict[str, Any] = {}
        self._touched: set[str] = set()
        with session.no_autoflush:  # reading a column that is not loaded would flush the change
            self._from_version = None if self._added or self._version is None else getattr(instance, self._version)
            for attribute in self.mapper.column_attrs:
                history = state.attrs[attribute.key].history
                if history.has_changes():
                    self._touched.add(attribute.key)
                if known := history.deleted or (() if history.added else history.unchanged):
                    self._before[attribute.key] = known[0]
            unknown = [] if self._added else sorted(self._touched - self._before.keys())
            if unknown:  # set without having been loaded, or changed in place
                attributes: list[Any] = [self.mapper.attrs[name].class_attribute for name in unknown]
                keys: list[Any] = list(self.mapper.primary_key)
                matches = [key == value for key, value in zip(keys, state.identity or (), strict=True)]
                row = session.execute(select(*attributes).where(*matches)).one_or_none()
                self._before |= {} if row is None else dict(zip(unknown, row, strict=True))

    def entry(self, attribution: Attribution, action: str) -> NewEntry | None:
        """The entry, after the flush. It has set defaults, keys of related rows and the version."""
        names = [attribute.key for attribute in self.mapper.column_attrs if attribute.key != self._version]
        before: dict[str, Any] | None
        after: dict[str, Any] | None
        to_version = None
        if self._deleted:
            before, after = {name: self._before[name] for name in names if name in self._before}, None
        else:
            after = {name: getattr(self._instance, name) for name in names if self._is_changed(name)}
            before = None if self._added else {name: self._before[name] for name in after if name in self._before}
            to_version = None if self._version is None else getattr(self._instance, self._version)
            if not after:
                return None
        return NewEntry(
            attribution,
            action,
            action.partition(".")[0],
            checked_key(",".join(map(str, self.mapper.primary_key_from_instance(self._instance)))),
            json_of("before", self._redacted(before)),
            json_of("after", self._redacted(after)),
            self._from_version,
            to_version,
        )

    def _is_changed(self, name: str) -> bool:
        if self._added or name in self._touched:
            return True
        return name in self._before and bool(self._before[name] != getattr(self._instance, name))

    def _redacted(self, values: dict[str, Any] | None) -> dict[str, Any] | None:
        return values and {name: "[redacted]" if name in self._redact else value for name, value in values.items()}


@functools.cache
def _checked_namespace(namespace: str) -> str:
    return Settings(namespace=namespace).namespace


# -- transactions ------------------------------------------------------------------------------------------------------


def _run(
    transaction: SyncTransaction | AsyncTransaction, work: Callable[[Session | Connection], T]
) -> T | Awaitable[T]:
    """Do the work in the caller's transaction, at once or when awaited."""
    current: object = transaction
    if isinstance(current, scoped_session | async_scoped_session):
        current = current()
    if isinstance(current, Session | Connection):
        return work(current)
    if isinstance(current, AsyncSession):
        return current.run_sync(work)
    if isinstance(current, AsyncConnection):
        return current.run_sync(work)
    raise MisuseError(
        f"A {type(current).__name__} is not a transaction of SQLAlchemy.",
        remedy="Pass a Session, Connection, AsyncSession or AsyncConnection.",
    )


def _add(session: Session | Connection, namespace: str, entry: NewEntry) -> int:
    connection = session.connection() if isinstance(session, Session) else session
    dialect = connection.dialect
    if dialect.driver not in _DRIVERS.get(dialect.name, ()):
        known = ", ".join(f"{name}+{driver}" for name, drivers in _DRIVERS.items() for driver in drivers)
        raise CapabilityError(
            f"The journal does not support {dialect.name}+{dialect.driver}.", remedy=f"Supported: {known}."
        )
    if _commits_each_statement(connection):
        raise MisuseError(
            "The connection commits each statement, so the entry would not belong to the change.",
            remedy="Use a transaction, not isolation_level='AUTOCOMMIT'.",
        )
    values: dict[str, Any] = {**entry._asdict(), "namespace": namespace}
    attribution: Attribution = values.pop("attribution")
    if dialect.name == "sqlite":
        values |= {**attribution._asdict(), "at": round(time.time() * 1_000_000)}
    else:
        values["attribution"] = json.dumps(attribution)
        del values["subject_kind"]
    try:
        return int(connection.execute(_add_statement(dialect.name), values).scalar_one())
    except DBAPIError as error:
        raise _translated(error) from error


def _commits_each_statement(connection: Connection) -> bool:
    raw: Any = connection.connection
    if connection.dialect.name == "postgresql":
        return bool(getattr(raw.dbapi_connection, "autocommit", False))
    # sqlite3 begins a transaction before the first write, or leaves that to SQLAlchemy's events, which then did.
    return raw.dbapi_connection.isolation_level is None and not raw.driver_connection.in_transaction


def _translated(error: DBAPIError) -> Exception:
    """Interlock's error for a schema that is missing, old or closed; others stay as they are."""
    code = sqlstate_of(error)
    if code in _NO_SCHEMA or getattr(error.orig, "sqlite_errorcode", None) == _SQLITE_ERROR:
        return SchemaMismatchError(
            f"This database does not have this version of Interlock's schema: {error.orig}.",
            remedy="Run: interlock migrate up, with the URL of this database.",
        )
    if code == _NO_PRIVILEGE:
        return StoreError(
            f"PostgreSQL refused the journal entry: {error.orig}.",
            remedy="Grant usage on the schema interlock, and insert on interlock.journal.",
        )
    return error


@functools.cache
def _add_statement(dialect: str) -> TextClause:
    """The statement that the library itself uses: PostgreSQL's function, or the query of the SQLite store."""
    if dialect == "postgresql":
        return text(
            "select interlock.journal_add(:namespace, interlock.micros(interlock.now_or(null)),"
            " cast(:attribution as jsonb), :action, :subject_key, cast(:before as json), cast(:after as json),"
            " :from_version, :to_version)"
        ).bindparams(
            *(bindparam(name, type_=String) for name in ("namespace", "action", "subject_key")),
            *(bindparam(name, type_=String) for name in ("attribution", "before", "after")),
            *(bindparam(name, type_=BigInteger) for name in ("from_version", "to_version")),
        )
    path = resources.files("interlock.backends.sqlite").joinpath("queries", "journal.sql")
    return text(parse_queries(path.read_text("utf-8"), "journal.sql")["add"])
