"""Two operations on records that meet at every step: nothing is lost, made in part, or changed under an edit."""

from __future__ import annotations

import itertools

import pytest

from tests.interleaving.gate import COMMIT
from tests.interleaving.lab import open_lab
from tests.interleaving.records import CONCEPTS, RECORD_ACTS, RECORD_BUGS, count_record_steps, meet_at

_LEASED = ("edit", "transition")  # they are granted the lease while the update is not committed


async def test_every_change_meets_an_edit_a_seal_and_a_prune_before_their_commit(interlock_postgres_url: str) -> None:
    async with open_lab(interlock_postgres_url, concept=CONCEPTS) as lab:
        changes = ("edit", "update", "correct", "transition", "update many", "delete")
        cases = [*itertools.product(("edit", "seal", "prune"), changes), *itertools.product(("update",), _LEASED)]
        wrong = {case: found for case in cases if (found := await meet_at(lab, COMMIT, *case))}
    assert not wrong


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_two_that_meet_at_any_step_do_no_harm(
    interlock_postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_lab(interlock_postgres_url, concept=CONCEPTS) as lab:
        wrong, count = {}, 0
        for first, second in itertools.product(RECORD_ACTS, repeat=2):
            for step in (COMMIT, *range(1, await count_record_steps(lab, first) + 1)):
                count += 1
                if found := await meet_at(lab, step, first, second):
                    wrong[first, second, step] = found
    with capsys.disabled():
        print(f"\nrecords: {count} interleavings")
    assert not wrong
    assert count > 1000


@pytest.mark.full
@pytest.mark.parametrize("name", RECORD_BUGS)
async def test_a_planted_bug_is_found(interlock_postgres_url: str, name: str) -> None:
    bug, first, second = RECORD_BUGS[name]
    async with open_lab(interlock_postgres_url, bug, concept=CONCEPTS) as lab:
        for step in (COMMIT, *range(1, await count_record_steps(lab, first) + 1)):
            if await meet_at(lab, step, first, second):
                return
    pytest.fail("it was not noticed")
