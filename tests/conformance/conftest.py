"""Which tests of the public suites are long forms."""

from __future__ import annotations

import pytest

LONG = {"test_a_crashed_holders_key_is_granted_to_the_next_in_twenty_seconds_with_default_settings"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave those to `make test-full` that take long; the suites know nothing of our marker."""
    for item in items:
        if getattr(item, "originalname", None) in LONG:
            item.add_marker(pytest.mark.full)
