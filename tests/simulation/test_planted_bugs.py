"""The simulator is worth its time: it finds every bug that is planted, and says which promise it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation import seeds
from tests.simulation.planted import BUGS
from tests.simulation.workload import simulate

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    record_property("seeds", seeds.find_planted(BUGS, bug, monkeypatch, simulate))
