"""An export of the journal can be verified without its store, and nothing else passes for one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from interlock.errors import InvalidArgumentError
from interlock.journal.export import verify_lines

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
async def exported() -> list[str]:
    """An export with two batches of two entries, and one entry that is not sealed."""
    async with App("memory://", seal_limit=2) as app:
        for lane in ("a", "b", "c", "d"):
            await app.lanes.hold(lane, by="ann", reason="looking")
        await app.journal.seal()
        await app.lanes.hold("e", by="ann", reason="looking")
        return [line async for line in app.journal.export()]


def test_an_export_verifies_with_its_own_head(exported: list[str]) -> None:
    head = json.loads(exported[-1])["head"]

    report = verify_lines(exported, head=head)

    assert (report.ok, report.batches, report.entries, report.unsealed) == (True, 2, 4, 1)
    assert report.head == head


def test_another_head_is_reported(exported: list[str]) -> None:
    assert [problem.kind for problem in verify_lines(exported, head="ab" * 32).problems] == ["head_missing"]


def changed(kind: str, **values: Any) -> Callable[[list[str]], list[str]]:
    """Change the first line of a kind."""

    def change(lines: list[str]) -> list[str]:
        at = next(number for number, line in enumerate(lines) if json.loads(line)["type"] == kind)
        return [*lines[:at], json.dumps(json.loads(lines[at]) | values), *lines[at + 1 :]]

    return change


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (changed("entry", actor="eve"), "entry_changed"),
        (lambda lines: [lines[0], *lines[2:]], "entry_missing"),
        (changed("seal", sealed_at=1), "seal_changed"),
    ],
    ids=["an entry", "a removed entry", "a seal"],
)
def test_a_change_of_the_file_is_found(
    exported: list[str], change: Callable[[list[str]], list[str]], kind: str
) -> None:
    report = verify_lines(change(exported))

    assert not report.ok
    assert kind in {str(problem.kind) for problem in report.problems}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda _: [], "not an export"),
        (lambda lines: lines[1:], "not an export"),
        (changed("journal", format="another"), "not an export"),
        (changed("journal", filtered=True), "some entries cannot be verified"),
        (lambda lines: lines[:-1], "no last line"),
        (lambda lines: [*lines[:3], '{"type": "other"}', *lines[3:]], "no last line"),
        (changed("entry", id="1"), "no last line"),
        (lambda lines: [lines[0], "{", *lines[1:]], "Line 2 is not a JSON object"),
        (lambda lines: [lines[0], "[]", *lines[1:]], "Line 2 is not a JSON object"),
        (changed("seal", hash="not hexadecimal"), "seal of batch 1 is not complete"),
        (changed("seal", root=7), "seal of batch 1 is not complete"),
    ],
)
def test_what_is_not_a_complete_export_is_refused(
    exported: list[str], change: Callable[[list[str]], list[str]], why: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        verify_lines(change(exported))
