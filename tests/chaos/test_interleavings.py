"""Every two operations on jobs in PostgreSQL, with the first one standing still at every step."""

from __future__ import annotations

import pytest

from tests.interleaving.explorer import at_commit, at_each_step, attempt
from tests.interleaving.lab import open_lab
from tests.interleaving.scenes import SCENES


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scene", SCENES)
async def test_two_that_meet_do_no_harm_wherever_it_is(
    interlock_postgres_url: str, scene: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_lab(interlock_postgres_url) as lab:
        cases = [*await at_commit(lab, scene), *await at_each_step(lab, scene)]
        wrong = {str(case): found for case in cases if (found := await attempt(lab, case))}
    with capsys.disabled():
        print(f"\n{scene}: {len(cases)} interleavings")
    assert not wrong
