"""The matrix of 38 cases is complete: each category has its file, with as many cases as the matrix says."""

from __future__ import annotations

import ast
from pathlib import Path

MATRIX = {
    "test_bridge_execution": 8,
    "test_enum_normalization": 3,
    "test_reeval_idempotency": 3,
    "test_reeval_conflict": 2,
    "test_bridge_set_modes": 3,
    "test_pipeline_order": 2,
    "test_status_transitions": 5,
    "test_concurrent_updates": 3,
    "test_deadlock_handling": 3,
    "test_audit_logger": 3,
    "test_concurrency_performance": 3,
}


def test_the_matrix_of_38_cases_is_complete() -> None:
    found = {}
    for name in MATRIX:
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text("utf-8"))
        tests = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        ]
        assert all("bridge" in {one.arg for one in test.args.args} for test in tests), "every case runs on both stores"
        found[name] = len(tests)

    assert found == MATRIX
    assert sum(found.values()) == 38
