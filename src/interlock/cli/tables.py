"""Tables declared as data: each command lists its columns, and one renderer prints them.

A terminal gets a table that fits its width. A pipe gets every row on one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from interlock.cli.output import console, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.text import Text

__all__ = ["Column", "Table", "moment", "state_cell", "tail"]

T = TypeVar("T")
_COLORS = {
    "running": "green",
    "fetched": "blue",
    "done": "green",
    "failed": "red",
    "quarantined": "red",
    "parked": "yellow",
    "held": "yellow",
    "scheduled": "cyan",
    "blocked": "cyan",
    "waiting": "cyan",
    "behind": "dim",
    "superseded": "dim",
    "expired": "dim",
}


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column: its header, and how a row's cell is computed.

    A cell is text, which is shown with control characters made visible; a number, which is right-aligned; None, which
    is empty; or a ``rich.text.Text``. Text of a column that is not ``fixed`` is folded over several lines.
    """

    header: str
    cell: Callable[[T], str | int | Text | None]
    number: bool = False
    fixed: bool = False
    min_width: int | None = None


class Table(Generic[T]):
    """Columns in their order."""

    def __init__(self, *columns: Column[T]) -> None:
        self._columns = columns

    def print(self, rows: Iterable[T]) -> None:
        """Print the header and one line for each row."""
        from rich import box
        from rich.table import Table as RichTable

        table = RichTable(box=box.SIMPLE_HEAD, collapse_padding=True)
        for column in self._columns:
            table.add_column(
                column.header,
                justify="right" if column.number else "left",
                no_wrap=column.number or column.fixed,
                overflow="fold",
                min_width=column.min_width,
            )
        for row in rows:
            table.add_row(*(_text(column.cell(row)) for column in self._columns))
        console().print(table)

    @property
    def headers(self) -> Sequence[str]:
        """The headers in order."""
        return tuple(column.header for column in self._columns)


def moment(at: float | None) -> str:
    """Format a time in UTC; empty for None."""
    from interlock.clock import as_datetime

    return "" if at is None else f"{as_datetime(at):%Y-%m-%d %H:%M:%S}"


def state_cell(state: str) -> Text:
    """Color a state."""
    from rich.text import Text

    return Text(str(state), _COLORS.get(str(state), ""))


def tail(text: str) -> Text:
    """The last column of a table: cut where a terminal ends, complete in a pipe."""
    from rich.text import Text

    return Text(shown(text), no_wrap=True, overflow="ellipsis")


def _text(cell: str | int | Text | None) -> str | Text:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return shown(cell) if isinstance(cell, str) else cell
