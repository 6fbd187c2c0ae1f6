"""Two operations on jobs that meet at a chosen step: nothing is lost, done twice or out of order.

A sample; in `make chaos` it is every two of them at every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interleaving.explorer import Case, at_commit, attempt, steps
from tests.interleaving.gate import COMMIT
from tests.interleaving.lab import open_lab
from tests.interleaving.planted import BUGS
from tests.interleaving.scenes import SCENES

if TYPE_CHECKING:
    from tests.interleaving.lab import Lab

PAIRS = 83  # one of so many; prime, so that all operations get their turn
STEPS = 23


async def sample(lab: Lab) -> list[Case]:
    """Some pairs at the commit, and in between some at a step of the first one's."""
    pairs = [case for scene in SCENES for case in await at_commit(lab, scene)]
    return [
        case._replace(step=number % STEPS if number % 3 == 0 else COMMIT) for number, case in enumerate(pairs[::PAIRS])
    ]


@pytest.mark.full
async def test_two_that_meet_do_no_harm(interlock_postgres_url: str) -> None:
    async with open_lab(interlock_postgres_url) as lab:
        cases = await sample(lab)
        wrong = {str(case): found for case in cases if (found := await attempt(lab, case))}
    assert not wrong
    assert len(cases) >= 150


@pytest.mark.full
@pytest.mark.parametrize("name", BUGS)
async def test_a_planted_bug_is_found(interlock_postgres_url: str, name: str) -> None:
    bug = BUGS[name]
    pair = Case(bug.scene, bug.first, bug.second)
    async with open_lab(interlock_postgres_url, bug) as lab:
        assert pair in await at_commit(lab, bug.scene)
        for step in range(await steps(lab, bug.scene, bug.first) + 1):
            if await attempt(lab, pair._replace(step=step)):
                return
    pytest.fail("it was not noticed")
