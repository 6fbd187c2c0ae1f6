"""Which tests of the public suites are long forms."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONG = {"test_a_crashed_holders_key_is_granted_to_the_next_in_twenty_seconds_with_default_settings"}
LARGE = {"test_a_deadlock_across_processes_is_resolved_when_it_closes"}
"""Tests whose smallest `size` is enough for `make test`: each step of it is a process."""
SMALLEST = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave long tests, large sizes and all random seeds but the first to `make test-full`.

    The suites do not know our marker.
    """
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        name = getattr(item, "originalname", None)
        large = name in LARGE and parameters["size"] != SMALLEST
        if name in LONG or large or parameters.get("seed", 0) != 0:
            item.add_marker(pytest.mark.full)
