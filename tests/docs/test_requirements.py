"""The map of requirements is complete and true: every need and flaw has a row, and every test in it exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "requirements.md").read_text("utf-8")
COUNTS = {"A": (12, 10), "B": (12, 13), "C": (10, 6), "D": (5, 7), "E": (8, 8)}
"""How many needs and flaws each system has. A system has a section once its example exists."""
SECTIONS = dict(re.findall(r"^## ([A-E])\. (.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("system", SECTIONS)
def test_every_need_and_flaw_has_a_row(system: str) -> None:
    needs, flaws = COUNTS[system]
    expected = [f"{system}{number}" for number in range(1, needs + 1)]
    expected += [f"F-{system}{number}" for number in range(1, flaws + 1)]

    assert [name for name, _ in _rows(system)] == expected


@pytest.mark.parametrize("system", SECTIONS)
def test_every_row_names_tests_that_exist(system: str) -> None:
    for name, tests in _rows(system):
        assert tests, name
        for test in tests:
            path, _, function = test.partition("::")
            assert (ROOT / path).is_file(), test
            found = _tests(ROOT / path)
            assert function in found if function else found, test


@pytest.mark.parametrize("system", SECTIONS)
def test_every_flaw_has_a_test_with_its_number(system: str) -> None:
    for name, tests in _rows(system):
        if name.startswith("F-"):
            marker = f"::test_{name.lower().replace('-', '_')}_"
            assert any(marker in test for test in tests), name


@pytest.mark.parametrize("system", SECTIONS)
def test_every_test_of_a_flaw_is_in_the_map(system: str) -> None:
    named = {test.partition("::")[2] for _, tests in _rows(system) for test in tests}
    pattern = re.compile(rf"test_f_{system.lower()}\d+_")
    written = {test for path in (ROOT / "tests").rglob("test_*.py") for test in _tests(path) if pattern.match(test)}

    assert written <= named


def _rows(system: str) -> list[tuple[str, list[str]]]:
    """The name of each row, and its tests."""
    rows = re.findall(r"^\| ((?:F-)?[A-E]\d+) \| .* \| (.+) \|$", SECTIONS[system], re.MULTILINE)
    return [(name, re.findall(r"`(tests/[^`]+)`", cell)) for name, cell in rows]


@functools.cache
def _tests(path: Path) -> frozenset[str]:
    text = path.read_text("utf-8")
    tree = ast.parse(text if "test_f_" in text or path.name in PAGE else "")
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))
