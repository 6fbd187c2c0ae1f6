"""D5: the checklist has its eight points and three mistakes, each with tests that exist; and tests of two of these."""

from __future__ import annotations

import ast
import gc
import re
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sentinel.cooldowns import _cleanup_stale_cooldowns
from sentinel.target_service import _claim_target_for_processing
from tests.examples.sentinel.checks import check_one_of_many_claims
from tests.examples.sentinel.flawed import claim_and_verify_afterwards

if TYPE_CHECKING:
    from sentinel.console import Console

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "concurrency-checklist.md").read_text("utf-8")
SECTIONS = re.findall(r"^### (.+?)$(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)


def test_the_checklist_has_eight_points_and_three_mistakes() -> None:
    titles = [title for title, _ in SECTIONS]

    assert [title.partition(".")[0] for title in titles[:8]] == [str(number) for number in range(1, 9)]
    assert len(titles) == 11


@pytest.mark.parametrize(("title", "text"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_every_point_and_mistake_has_tests_that_exist(title: str, text: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)

    assert named, title
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{path}::{name}"


def test_a_coroutine_that_is_not_awaited_fails_the_tests() -> None:
    """Common mistake 1, caught three times: by Python's warning, by its type checker, and for tasks by its linter."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _cleanup_stale_cooldowns()  # pyright: ignore[reportUnusedCoroutine]
        gc.collect()
    assert "coroutine '_cleanup_stale_cooldowns' was never awaited" in str(caught[0].message)

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    assert settings["pytest"]["ini_options"]["filterwarnings"] == ["error"]
    assert settings["basedpyright"]["typeCheckingMode"] == "strict"  # reports unused coroutines
    assert "examples" in settings["basedpyright"]["include"]
    assert "RUF" in settings["ruff"]["lint"]["select"]  # RUF006: a task without a reference


async def test_a_status_that_is_verified_after_the_claim_is_caught(console: Console) -> None:
    """Common mistake 3: everyone who asks afterwards gets yes."""
    with pytest.raises(AssertionError, match="5 of 5 claims won"):
        await check_one_of_many_claims(claim_and_verify_afterwards)
    await check_one_of_many_claims(_claim_target_for_processing)
