"""Which tests of the public suites are long forms."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONG = {"test_a_crashed_holders_key_is_granted_to_the_next_in_twenty_seconds_with_default_settings"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave long tests, and all random seeds but the first, to `make test-full`; the suites do not know our marker."""
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if getattr(item, "originalname", None) in LONG or parameters.get("seed", 0) != 0:
            item.add_marker(pytest.mark.full)
