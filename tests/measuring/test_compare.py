"""What a comparison of two commits says about its pairs."""

from __future__ import annotations

import pytest
from benchmarks.compare import median_interval


@pytest.mark.parametrize(
    ("count", "ranks"),
    [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (15, (4, 12)), (20, (6, 15)), (30, (10, 21))],
)
def test_the_interval_of_a_median_has_the_ranks_of_the_sign_test(count: int, ranks: tuple[int, int]) -> None:
    assert median_interval([float(value) for value in range(1, count + 1)]) == ranks
