"""Appending, sealing, pruning and verifying on PostgreSQL, with the first one standing still at every step."""

from __future__ import annotations

from itertools import product

import pytest

from tests.interleaving.gate import COMMIT
from tests.interleaving.journal import JOURNAL_ACTS, JOURNAL_BUGS, count_steps, meet
from tests.interleaving.lab import open_lab


@pytest.mark.full
async def test_every_two_meet_at_every_step_and_the_chain_holds(interlock_postgres_url: str) -> None:
    async with open_lab(interlock_postgres_url, concept="journal") as lab:
        steps = {act: await count_steps(lab, act) for act in JOURNAL_ACTS}
        cases = [
            (first, second, step)
            for first, second in product(JOURNAL_ACTS, repeat=2)
            for step in (COMMIT, *range(1, steps[first] + 1))
        ]
        wrong = {case: found for case in cases if (found := await meet(lab, *case))}
    assert not wrong
    assert len(cases) > 100


@pytest.mark.full
@pytest.mark.parametrize("name", JOURNAL_BUGS)
async def test_a_planted_bug_is_found(interlock_postgres_url: str, name: str) -> None:
    bug, first, second = JOURNAL_BUGS[name]
    async with open_lab(interlock_postgres_url, bug, concept="journal") as lab:
        for step in range(await count_steps(lab, first) + 1):
            if await meet(lab, first, second, step):
                return
    pytest.fail("it was not noticed")
