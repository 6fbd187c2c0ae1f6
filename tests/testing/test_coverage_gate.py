"""The gate of `make coverage` fails for each part that is below the minimum, however good the average is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.coverage_gate import CONCEPTS, PACKAGE, main, measure

if TYPE_CHECKING:
    from pathlib import Path


def file(covered: int, missing: int = 0) -> dict[str, Any]:
    """What coverage.py reports about a file with one branch."""
    return {
        "summary": {
            "num_statements": covered + missing,
            "covered_lines": covered,
            "num_branches": 2,
            "covered_branches": 2,
        },
        "missing_lines": list(range(1, missing + 1)),
        "missing_branches": [],
    }


def report(**others: dict[str, Any]) -> dict[str, Any]:
    """A report in which every package is covered, apart from what is passed."""
    files = {f"src/interlock/{concept}/engine.py": file(98) for concept in CONCEPTS}
    return {"files": files | others}


def gate(tmp_path: Path, **others: dict[str, Any]) -> int:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report(**others)))
    return main(str(path))


def test_what_is_covered_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(tmp_path) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["locks", "100.0", "-", "-", "-", "-"] in rows


def test_one_backend_below_the_minimum_fails_and_names_the_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(tmp_path, **{"src/interlock/backends/redis/locks.py": file(6, 3)}) == 1
    told = capsys.readouterr().out
    assert "locks (redis) has 72.7" in told
    assert "backends/redis/locks.py: 3 missing, lines 1, 2, 3" in told


@pytest.mark.parametrize(("missing", "status"), [(10, 0), (11, 1)])
def test_the_minimum_counts_statements_and_branches(tmp_path: Path, missing: int, status: int) -> None:
    others = {"src/interlock/jobs/engine.py": file(98 - missing, missing)}
    assert gate(tmp_path, **others) == status


def test_a_package_that_is_gone_from_the_report_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps({"files": {"src/interlock/locks/engine.py": file(10)}}))
    assert main(str(path)) == 1
    assert "records: the report has no such package" in capsys.readouterr().out


def test_files_belong_to_the_concept_of_their_folder_or_name() -> None:
    found = measure(
        report(
            **{
                "src/interlock/jobs/worker/fetcher.py": file(1),
                "src/interlock/backends/sqlite/job_fetch.py": file(1),
                "src/interlock/backends/sqlite/limit_rows.py": file(1),
                "src/interlock/web/serve.py": file(1),
            }
        )
    )
    files = {(part.concept, part.place): list(part.files) for part in found}
    assert files["jobs", PACKAGE] == ["jobs/engine.py", "jobs/worker/fetcher.py"]
    assert files["jobs", "sqlite"] == ["backends/sqlite/job_fetch.py"]
    assert files["limits", "sqlite"] == ["backends/sqlite/limit_rows.py"]
    assert not any("web" in name for names in files.values() for name in names)
