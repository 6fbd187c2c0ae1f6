"""The files of PostgreSQL functions, their planner settings, and the version of the whole set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import interlock.backends.postgres
from interlock.backends.postgres.function_set import checksum_of, current_version, parse_function, read_functions

FOLDER = Path(interlock.backends.postgres.__file__).parent
FILES = sorted((FOLDER / "functions").rglob("*.sql"))
FUNCTION = """-- Do nothing.
{directive}create or replace function interlock.nothing(p_one text) returns void
language plpgsql volatile security definer
set lock_timeout = '2s'
as $$
begin
end
$$;
"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_holds_one_function_of_its_name_with_a_comment(file: Path) -> None:
    text = file.read_text("utf-8")

    assert parse_function(text, file.name).name == file.stem
    assert len(re.findall("^create ", text, re.MULTILINE)) == 1
    assert text.startswith("-- ")
    assert not text.startswith("-- planner:")


def test_schema_files_create_no_functions() -> None:
    files = sorted((FOLDER / "schema").glob("*.sql"))

    assert files
    assert not [file.name for file in files if "create function" in file.read_text("utf-8")]


def test_planner_settings_come_from_one_place() -> None:
    written = [
        file.name for file in FILES if re.search(r"^set (enable_|jit|plan_cache)", file.read_text(), re.MULTILINE)
    ]

    assert written == []


def test_a_directive_adds_its_planner_settings() -> None:
    function = parse_function(FUNCTION.format(directive="-- planner: lookups\n"), "nothing.sql")

    assert "enable_hashjoin=off" in function.settings
    assert "lock_timeout=2s" in function.settings
    assert "set plan_cache_mode = force_generic_plan\nas $$" in function.statement
    assert function.security_definer


def test_a_function_without_a_directive_has_its_own_settings_only() -> None:
    assert parse_function(FUNCTION.format(directive=""), "nothing.sql").settings == {"lock_timeout=2s"}


def test_an_unknown_directive_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"nothing\.sql names unknown planner settings 'speed': use lookups"):
        parse_function(FUNCTION.format(directive="-- planner: speed\n"), "nothing.sql")


def test_a_file_without_a_function_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"nothing\.sql does not hold one"):
        parse_function("select 1", "nothing.sql")


def test_the_recorded_checksum_is_that_of_the_files() -> None:
    version, recorded = current_version()

    assert recorded == checksum_of(read_functions()), (
        f"The functions changed. If version {version} was released, add a line to functions/versions.txt with the next"
        f" version; otherwise update its checksum. The line ends with: {checksum_of(read_functions())}"
    )
