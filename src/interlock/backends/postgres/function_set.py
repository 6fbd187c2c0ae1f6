"""The PostgreSQL functions of this program: their files, their version, and the planner settings they run with.

Each file below ``functions/`` holds one ``create or replace function``. ``functions/versions.txt`` names the version of
the whole set and its checksum. A directive such as ``-- planner: lookups`` in the comment of a function adds the
settings of that name; see docs/decisions/0043-planner-settings.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING

from interlock.backends.job_codes import (
    FetchDecision,
    IfFailedCode,
    OnFailureCode,
    OutcomeCode,
    ReadyClass,
    StateCode,
    outcome_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

__all__ = ["PLANNER_SETTINGS", "Function", "checksum_of", "current_version", "parse_function", "read_functions"]

_INDEX_ONLY = {"jit": "off", "enable_seqscan": "off", "enable_bitmapscan": "off"}
_GENERIC = {"plan_cache_mode": "force_generic_plan"}
_NESTED_LOOPS = {"enable_nestloop": "on", "enable_hashjoin": "off", "enable_mergejoin": "off"}
_ANY_JOINS = {"enable_nestloop": "on", "enable_hashjoin": "on", "enable_mergejoin": "on"}
_HASH_JOINS = {"enable_nestloop": "off", "enable_hashjoin": "on", "enable_mergejoin": "off"}

PLANNER_SETTINGS: dict[str, dict[str, str]] = {
    # Look up each element of an array or each row by an index.
    "lookups": {**_INDEX_ONLY, **_NESTED_LOOPS, **_GENERIC},
    # Look up single rows by their whole key: for functions that are too short to pay for more settings.
    "keys": {"enable_seqscan": "off"},
    # The same for history, whose partitions only a plan for the actual times can skip.
    "lookups_in_partitions": {**_INDEX_ONLY, **_NESTED_LOOPS},
    # Read a table by an index, and join the rows with arrays by any method.
    "index_reads": {**_INDEX_ONLY, **_ANY_JOINS, **_GENERIC},
    # Join arrays of up to thousands of elements with one another, which nested loops would do in quadratic time.
    "array_joins": {**_INDEX_ONLY, **_HASH_JOINS, **_GENERIC},
    # Keep the settings of the caller: for steps that only functions with settings call. Each setting costs time.
    "caller": {},
}
"""Settings by the name that a function's ``-- planner:`` directive gives."""

_CODES = {
    "state": StateCode,
    "outcome": OutcomeCode,
    "on_failure": OnFailureCode,
    "if_failed": IfFailedCode,
    "class": ReadyClass,
    "decision": FetchDecision,
}
_NAME = re.compile(r"^create or replace function interlock\.(\w+)\(", re.MULTILINE)
_ATTRIBUTES = re.compile(r"^language (\w+) (volatile|stable|immutable)( security definer)?", re.MULTILINE)
_SETTING = re.compile(r"^set (\w+) = (.+)$", re.MULTILINE)
_PLANNER = re.compile(r"^-- planner: *(\S+) *$", re.MULTILINE)
_BODY = re.compile(r"^as \$\$(.*)\$\$;", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Function:
    """One function: the statement that creates it, and what the server stores of it."""

    name: str
    statement: str
    """The statement with its planner settings and without the comment before it."""
    comment: str
    body: str
    language: str
    volatility: str
    security_definer: bool
    settings: frozenset[str]
    """Its settings, as ``pg_proc.proconfig`` has them: ``jit=off``."""


def parse_function(text: str, where: str) -> Function:
    """Parse a function file. Raises ValueError if it does not hold exactly one function, written as all are."""
    names, attributes, body = _NAME.findall(text), _ATTRIBUTES.search(text), _BODY.search(text)
    if len(names) != 1 or attributes is None or body is None:
        raise ValueError(f"{where} does not hold one 'create or replace function interlock.…'")
    start = text.index("create or replace function")
    comment, statement = text[:start], text[start:].rstrip() + "\n"
    planner = _PLANNER.findall(comment)
    if unknown := [name for name in planner if name not in PLANNER_SETTINGS]:
        raise ValueError(f"{where} names unknown planner settings {unknown[0]!r}: use {', '.join(PLANNER_SETTINGS)}")
    added = {name: value for directive in planner for name, value in PLANNER_SETTINGS[directive].items()}
    lines = "".join(f"set {name} = {value}\n" for name, value in added.items())
    statement = re.sub(r"^as \$\$", lambda match: lines + match[0], statement, count=1, flags=re.MULTILINE)
    header = statement[: statement.index("\nas $$") + 1]
    settings = frozenset("=".join((name, value.strip("'"))) for name, value in _SETTING.findall(header))
    language, volatility, definer = attributes.groups()
    return Function(names[0], statement, comment, body[1], language, volatility, bool(definer), settings)


@cache
def read_functions() -> tuple[Function, ...]:
    """Read the functions of this program, in the order of their names."""
    folder = resources.files("interlock.backends.postgres").joinpath("functions")
    found = [parse_function(text, where) for where, text in _sql_files(folder, "functions/")]
    found += [parse_function(text, "job_codes") for text in _code_functions()]
    return tuple(sorted(found, key=lambda function: function.name))


@cache
def current_version() -> tuple[int, str]:
    """Return the version of this program's function set and its checksum, as ``versions.txt`` records them."""
    file = resources.files("interlock.backends.postgres").joinpath("functions", "versions.txt")
    *_, last = (line for line in file.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    version, checksum = last.split()
    return int(version), checksum


def checksum_of(functions: tuple[Function, ...]) -> str:
    """Compute the checksum of a function set: of its statements, without the comments before them."""
    return sha256("\n".join(function.statement for function in functions).encode()).hexdigest()


def _code_functions() -> Iterator[str]:
    """Yield a function for each code, which the planner replaces by its number, and one for the names of outcomes."""
    for prefix, codes in _CODES.items():
        for code in codes:
            yield (
                f"create or replace function interlock.{prefix}_{code.name.lower()}() returns smallint\n"
                f"language sql immutable\nas $$ select {code.value}::smallint $$;\n"
            )
    names = ", ".join(f"'{outcome_name(code)}'" for code in OutcomeCode)
    yield (
        "create or replace function interlock.outcome_name(p_outcome smallint) returns text\n"
        f"language sql immutable\nas $$ select (array[{names}])[p_outcome + 1] $$;\n"
    )


def _sql_files(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _sql_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".sql"):
            found.append((prefix + entry.name, entry.read_text("utf-8")))
    return found
