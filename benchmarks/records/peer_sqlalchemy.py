"""SQLAlchemy's ``version_id_col`` over asyncpg: one session per task that keeps its object, so that nothing is read."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from sqlalchemy import JSON, BigInteger, Identity, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from benchmarks.records.raw import CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.records.rates import SetStatus

__all__ = ["sqlalchemy_statuses"]

_TABLES = (
    "drop table if exists mapped_record, mapped_journal",
    "create table mapped_record (like interlock.record including all)",
    "create table mapped_journal (like interlock.journal including all)",
)


class _Base(DeclarativeBase):
    type_annotation_map = {int: BigInteger}  # noqa: RUF012


class _Record(_Base):
    __tablename__ = "mapped_record"

    namespace: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    uid: Mapped[str]
    version: Mapped[int] = mapped_column()
    status: Mapped[str]
    body: Mapped[str]
    created_at: Mapped[int]
    updated_at: Mapped[int]
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class _Entry(_Base):
    __tablename__ = "mapped_journal"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    at: Mapped[int]
    namespace: Mapped[str]
    actor: Mapped[str]
    reason: Mapped[str]
    action: Mapped[str]
    subject_kind: Mapped[str]
    subject_key: Mapped[str]
    from_version: Mapped[int]
    to_version: Mapped[int]
    before: Mapped[dict[str, str]] = mapped_column(JSON)
    after: Mapped[dict[str, str]] = mapped_column(JSON)


@asynccontextmanager
async def sqlalchemy_statuses(url: str, bodies: dict[str, str]) -> AsyncIterator[SetStatus]:
    size = min(len(bodies), CONNECTIONS)
    engine = create_async_engine(
        url.replace("postgresql://", "postgresql+asyncpg://", 1), pool_size=size, max_overflow=0
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)
        async with engine.begin() as connection:
            for statement in _TABLES:
                await connection.execute(text(statement))
        sessions: dict[str, tuple[AsyncSession, _Record]] = {}
        for id_, body in bodies.items():
            session = await stack.enter_async_context(AsyncSession(engine, expire_on_commit=False))
            at = time.time_ns() // 1000
            record = _Record(
                namespace="default",
                kind="Ticket",
                id=id_,
                uid="",
                status="open",
                body=body,
                created_at=at,
                updated_at=at,
            )
            session.add(record)
            await session.commit()
            sessions[id_] = session, record

        async def set_status(id_: str, old: str, new: str) -> None:
            session, record = sessions[id_]
            record.status = new
            record.updated_at = at = time.time_ns() // 1000
            session.add(
                _Entry(
                    at=at,
                    namespace="default",
                    actor="bench",
                    reason="",
                    action="record.transition",
                    subject_kind="record",
                    subject_key=f"Ticket:{id_}",
                    from_version=record.version,
                    to_version=record.version + 1,
                    before={"status": old},
                    after={"status": new},
                )
            )
            await session.commit()
            session.expunge_all()
            session.add(record)

        yield set_status
