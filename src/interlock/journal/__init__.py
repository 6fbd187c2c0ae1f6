"""The journal: who changed what, when, why and because of what, sealed so that tampering shows."""

from __future__ import annotations

from interlock.journal.journal import EntryView, Journal
from interlock.journal.verifier import JournalProblem, ProblemKind, VerificationReport
from interlock.ports.journal import JournalFilter, JournalStatus

__all__ = [
    "EntryView",
    "Journal",
    "JournalFilter",
    "JournalProblem",
    "JournalStatus",
    "ProblemKind",
    "VerificationReport",
]
