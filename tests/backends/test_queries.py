"""Named queries: parsing of the files, the checks at import, and that every declared query is used."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import interlock.backends
from interlock.backends.queries import Queries, parse_queries

BACKENDS = Path(interlock.backends.__file__).parent
TWO = """-- What this file is about.

-- name: first
-- Select one.
select 1

-- name: second
-- Select two,
-- or three.
select 2
-- why not
union select 3;
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "store_of_test" / "queries").mkdir(parents=True)
    (tmp_path / "store_of_test" / "__init__.py").write_text("")
    (tmp_path / "store_of_test" / "queries" / "two.sql").write_text(TWO)
    (tmp_path / "store_of_test" / "queries" / "again.sql").write_text("-- name: first\n-- Select.\nselect 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "store_of_test"


def test_a_query_is_the_text_after_its_name_and_comment() -> None:
    assert parse_queries(TWO, "two.sql") == {
        "first": "select 1\n",
        "second": "select 2\n-- why not\nunion select 3;\n",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select 1\n-- name: one\n-- One.\nselect 1\n", "statement before the first"),
        ("-- name: one\n-- One.\nselect 1\n-- name: one\n-- One.\nselect 1\n", "defines one twice"),
        ("-- name: One\n-- One.\nselect 1\n", "Invalid query name 'One'"),
        ("-- name: one\nselect 1\n", "one in f.sql has no comment"),
        ("-- name: one\n-- One.\n", "one in f.sql has no statement"),
    ],
)
def test_a_malformed_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_queries(text, "f.sql")


def test_a_declared_query_is_an_attribute(package: str) -> None:
    class Declared(Queries, package=package, files=("two",)):
        first: str
        second: str

    assert Declared().first == "select 1\n"
    assert Declared.names == {"first", "second"}


def test_a_missing_query_is_an_error_where_it_is_declared(package: str) -> None:
    with pytest.raises(AttributeError, match="does not define: third"):

        class Declared(Queries, package=package, files=("two",)):
            first: str
            second: str
            third: str


def test_an_undeclared_query_is_an_error_where_the_others_are_declared(package: str) -> None:
    with pytest.raises(AttributeError, match="does not declare: second"):

        class Declared(Queries, package=package, files=("two",)):
            first: str


def test_a_query_that_two_files_define_is_an_error(package: str) -> None:
    with pytest.raises(ValueError, match=r"more than one file of .*: first"):

        class Declared(Queries, package=package, files=("two", "again")):
            first: str
            second: str


def _declarations() -> list[type[Queries]]:
    for module in pkgutil.walk_packages([str(BACKENDS)], "interlock.backends."):
        importlib.import_module(module.name)
    return [declared for declared in Queries.__subclasses__() if declared.__module__.startswith("interlock.")]


def test_no_query_is_unused() -> None:
    for declared in _declarations():
        stores = [declared.package.rpartition(".")[2], "memory"]  # the memory store runs SQLite's queries for jobs
        code = "".join(file.read_text("utf-8") for store in stores for file in (BACKENDS / store).rglob("*.py"))
        used = set(re.findall(r"\b\w*(?:sql|queries)\.(\w+)", code, re.IGNORECASE))
        assert sorted(declared.names - used) == [], declared


def test_every_query_file_is_loaded() -> None:
    loaded = {(declared.package, file) for declared in _declarations() for file in declared.files}
    for path in BACKENDS.glob("*/queries/*.sql"):
        assert (f"interlock.backends.{path.parent.parent.name}", path.stem) in loaded
