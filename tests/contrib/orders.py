"""The tables of a program that uses SQLAlchemy, and what its processes do."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, MetaData, Table, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from interlock.contrib.sqlalchemy import Versioned, journal_change
from interlock.errors import ConcurrencyConflictError


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Order(Versioned, Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(default="open")
    count: Mapped[int] = mapped_column(default=0)
    card: Mapped[str | None]
    customer_id: Mapped[int | None] = mapped_column(ForeignKey("customers.id"))
    customer: Mapped[Customer | None] = relationship()


LINES = Table(
    "lines",
    MetaData(),
    Column("order_id", BigInteger, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
)


def increment(url: str, times: int) -> int:
    """Increment one order's count, each time in a transaction with its entry; return the number of conflicts."""
    engine = create_engine(url)
    conflicts = done = 0
    while done < times:
        try:
            with Session(engine) as session, session.begin():
                order = session.get_one(Order, 1)
                order.count += 1
                journal_change(session, order, "order.increment", by="process")
            done += 1
        except ConcurrencyConflictError:
            conflicts += 1
        except Exception as error:
            if not _sqlite_is_busy(error):
                raise
            conflicts += 1
    engine.dispose()
    return conflicts


def _sqlite_is_busy(error: Exception) -> bool:
    # A transaction that reads first and then writes is refused at once if another one wrote in between.
    raw: Any = getattr(error, "orig", None)
    return (getattr(raw, "sqlite_errorcode", 0) & 0xFF) == 5
