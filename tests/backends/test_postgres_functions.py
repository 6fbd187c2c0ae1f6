"""The files of PostgreSQL functions: one function each, named for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import interlock.backends.postgres

FOLDER = Path(interlock.backends.postgres.__file__).parent
FILES = sorted((FOLDER / "functions").rglob("*.sql"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_holds_one_function_of_its_name(file: Path) -> None:
    statements = re.findall(r"^create .*", file.read_text("utf-8"), re.MULTILINE)

    assert len(statements) == 1
    assert re.match(rf"create or replace function interlock\.{file.stem}\(", statements[0])


def test_schema_files_create_no_functions() -> None:
    files = sorted((FOLDER / "schema").glob("*.sql"))

    assert files
    assert not [file.name for file in files if "create function" in file.read_text("utf-8")]
