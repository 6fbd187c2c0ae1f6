"""Problems of the journal that the overview lists: a failed verification, and entries that nothing seals."""

from __future__ import annotations

from interlock.insight.journal import journal_problems
from interlock.insight.journal_entry import changes
from interlock.ports.journal import JournalEntry, JournalStatus, Verification

STATUS = JournalStatus("default", 0, None, None, 0, None)
ENTRY = JournalEntry(1, 0.0, "ann", "", "x.y", "x", "k", None, None, None, None, None, None, None, None)


def test_a_sealed_and_verified_journal_has_none() -> None:
    status = STATUS._replace(unsealed=1, unsealed_since=1000.0, verification=Verification(900.0, 1, 1, 0, "", b""))
    assert list(journal_problems(status, 1500.0)) == []


def test_entries_that_nothing_seals_are_a_problem() -> None:
    (problem,) = journal_problems(STATUS._replace(unsealed=2, unsealed_since=1000.0), 1700.0)
    assert problem.text.startswith("2 journal entries are not sealed, the first since 1970-01-01")
    assert "interlock journal seal" in problem.remedy


def test_a_failed_verification_is_a_problem() -> None:
    last = Verification(900.0, 1, 1, 3, "Entry 7 of batch 1 is missing.", b"")
    (problem,) = journal_problems(STATUS._replace(verification=last), 1000.0)
    assert problem.text.endswith("Entry 7 of batch 1 is missing and 2 more")


def test_a_difference_is_shown_value_by_value() -> None:
    entry = ENTRY._replace(before='{"a": 1, "b": {"c": 2, "d": 3}}', after='{"a": 1, "b": {"c": 4}, "e": []}')
    shown, cut = changes(entry)
    assert not cut
    assert [(*change, change.kind) for change in shown] == [
        ("a", "1", "1", "same"),
        ("b.c", "2", "4", "changed"),
        ("b.d", "3", None, "removed"),
        ("e", None, "[]", "added"),
    ]


def test_differences_are_bounded_and_bear_any_text() -> None:
    many = "{" + ",".join(f'"k{n}": {n}' for n in range(500)) + "}"
    shown, cut = changes(ENTRY._replace(before=many, after="no json"))
    assert (len(shown), cut) == (200, True)
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    assert changes(ENTRY._replace(before=deep))[0]
