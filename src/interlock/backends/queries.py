"""Named queries: SQL statements kept in files, read once and checked when they are declared.

A query file holds many statements. Each one starts with its name and a comment that says what it does::

    -- name: next_fence
    -- Increment the namespace's fence counter and return the new fence.
    update ...

A store declares the queries of a concept as a class, so that type checkers know their names::

    class LockQueries(Queries, package="interlock.backends.sqlite", files=("locks",)):
        next_fence: str

    sql = LockQueries()

The class and its files must name the same queries. A missing, undeclared or repeated one is an error at import.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import ClassVar

__all__ = ["Queries", "parse_queries"]

_HEADER = re.compile(r"^-- name: *(\S+) *$", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Queries:
    """The named queries of one concept; each declared attribute holds the text of one statement."""

    names: ClassVar[frozenset[str]] = frozenset()
    """All names that the class declares."""
    package: ClassVar[str] = ""
    files: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, package: str, files: tuple[str, ...]) -> None:
        super().__init_subclass__()
        where = f"{package}/queries/{{{','.join(files)}}}.sql"
        found: dict[str, str] = {}
        for file in files:
            text = resources.files(package).joinpath("queries", f"{file}.sql").read_text("utf-8")
            queries = parse_queries(text, f"{package}/queries/{file}.sql")
            if twice := found.keys() & queries.keys():
                raise ValueError(f"Queries defined in more than one file of {where}: {_listed(twice)}")
            found |= queries
        declared = set(cls.__annotations__)
        if missing := declared - found.keys():
            raise AttributeError(f"{cls.__name__} declares queries that {where} does not define: {_listed(missing)}")
        if undeclared := found.keys() - declared:
            raise AttributeError(f"{where} defines queries that {cls.__name__} does not declare: {_listed(undeclared)}")
        for name, statement in found.items():
            setattr(cls, name, statement)
        cls.names, cls.package, cls.files = frozenset(found), package, files


def parse_queries(text: str, where: str) -> dict[str, str]:
    """Parse the text of a query file into statements by name, without the comments before each statement.

    Raises ValueError for a name that is repeated or malformed or has no comment or no statement, and for a statement
    before the first name. Comments inside a statement stay part of it.
    """
    before, *parts = _HEADER.split(text)
    if any(line and not line.startswith("--") for line in before.splitlines()):
        raise ValueError(f"{where} has a statement before the first '-- name:' line")
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if not _NAME.fullmatch(name):
            raise ValueError(f"Invalid query name {name!r} in {where}: use lowercase letters, digits and '_'")
        if name in found:
            raise ValueError(f"{where} defines {name} twice")
        lines = body.strip().splitlines()
        comments = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
        if comments == 0:
            raise ValueError(f"{name} in {where} has no comment that says what it does")
        if comments == len(lines):
            raise ValueError(f"{name} in {where} has no statement")
        found[name] = "\n".join(lines[comments:]).strip() + "\n"
    return found


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
