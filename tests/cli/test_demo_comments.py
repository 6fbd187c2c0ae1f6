"""The demo's audit sees in comments, which are jobs with lanes, what it is there to see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock.cli.demo.audit import audit
from interlock.cli.demo.comments import ORDERS
from interlock.cli.demo.records import Notebook
from interlock.cli.demo.worker import LOG

if TYPE_CHECKING:
    from pathlib import Path


def test_audit_of_comments_in_order_is_clean(tmp_path: Path) -> None:
    killed = {"at": 5.5, "who": "director", "what": "killed", "victim": "a", "sent": 5.4}
    _order(tmp_path, 1, 2, 3)
    _write(
        tmp_path,
        [
            *_comment("a", 1, 0, 1, end_as="failed"),
            *_comment("b", 1, 2, 3),
            _acknowledged("b", 1, 3.1),
            *_comment("c", 8, 2.5, 3.5, lane="other"),
            # Its worker died before it could write down that the store had accepted it; but the lane went on.
            *_comment("a", 2, 4, 4.5),
            *_comment("a", 3, 5, 9)[:1],
            killed,
            *_comment("b", 3, 8.5, 9),
            _acknowledged("b", 3, 9.1),
        ],
    )

    findings = audit(tmp_path)

    assert findings.clean
    comments = findings.comments
    assert (comments.enqueued, comments.done, comments.failures) == (3, 3, 1)
    assert comments.takeovers == [pytest.approx(3.1)]


def test_audit_sees_comments_that_were_lost(tmp_path: Path) -> None:
    _order(tmp_path, 1, 2, 3)
    _write(tmp_path, [*_comment("a", 1, 0, 1), _acknowledged("a", 1, 1.1), *_comment("a", 2, 2, 3)])

    findings = audit(tmp_path)

    # The second one ended well; but nobody heard so, its worker lives, and nothing came after it.
    assert (findings.comments.done, findings.comments.lost, findings.clean) == (1, 2, False)


def test_audit_excuses_the_last_comment_of_a_killed_worker_and_one_in_quarantine(tmp_path: Path) -> None:
    killed = {"at": 3.5, "who": "director", "what": "killed", "victim": "a", "sent": 3.4}
    quarantined = {"at": 9, "who": "b", "what": "comment quarantined", "job": 2}
    _order(tmp_path, 1, 2)
    _write(tmp_path, [*_comment("a", 1, 0, 1), killed, quarantined])

    findings = audit(tmp_path)

    assert (findings.comments.done, findings.comments.quarantined, findings.clean) == (1, 1, True)


def test_audit_sees_comments_out_of_order(tmp_path: Path) -> None:
    _order(tmp_path, 1, 2)
    records = [*_comment("a", 2, 0, 1), _acknowledged("a", 2, 1.1), *_comment("b", 1, 2, 3), _acknowledged("b", 1, 3.1)]
    _write(tmp_path, records)

    findings = audit(tmp_path)

    assert (findings.comments.inversions, findings.comments.overlaps, findings.clean) == (1, 0, False)


def test_audit_sees_two_comments_of_a_lane_at_once(tmp_path: Path) -> None:
    _order(tmp_path, 1, 2)
    records = [*_comment("a", 1, 0, 2), _acknowledged("a", 1, 2.1), *_comment("a", 8, 0.5, 1, lane="other")]
    both = [*records, *_comment("b", 2, 1, 3), _acknowledged("b", 2, 3.1)]
    _write(tmp_path, sorted(both, key=lambda record: record["at"]))

    findings = audit(tmp_path)

    assert (findings.comments.overlaps, findings.comments.inversions, findings.clean) == (1, 0, False)


def test_audit_sees_a_comment_that_was_acknowledged_twice(tmp_path: Path) -> None:
    _order(tmp_path, 1)
    late = {"at": 4, "who": "a", "what": "comment refused", "job": 1, "fence": 1}
    _write(tmp_path, [*_comment("a", 1, 0, 1), _acknowledged("a", 1, 1.1), late])
    assert audit(tmp_path).clean
    assert audit(tmp_path).comments.refused == 1

    _write(tmp_path, [*_comment("a", 1, 0, 1), _acknowledged("a", 1, 1.1), _acknowledged("b", 1, 5)])
    findings = audit(tmp_path)

    assert (findings.comments.twice, findings.clean) == (1, False)


def _comment(
    who: str, number: int, begin: float, end: float, *, lane: str = "l", end_as: str = "ended"
) -> list[dict[str, Any]]:
    common = {"who": who, "lane": lane, "job": number, "number": number}
    return [
        {**common, "at": begin, "what": "comment began", "attempt": 1, "fence": 1},
        {**common, "at": end, "what": f"comment {end_as}"},
    ]


def _acknowledged(who: str, job: int, at: float) -> dict[str, Any]:
    return {"at": at, "who": who, "what": "comment acknowledged", "job": job, "fence": 1}


def _order(directory: Path, *numbers: int) -> None:
    orders = Notebook(directory / ORDERS, "author")
    for number in numbers:
        orders.write("enqueued", job=number, lane="l", number=number)
    orders.close()


def _write(directory: Path, records: list[dict[str, Any]]) -> None:
    (directory / LOG).write_text("".join(f"{json.dumps(record)}\n" for record in records))
