"""The journal: who changed what, when, why and because of what, sealed so that tampering shows."""

from __future__ import annotations

from interlock.journal.verifier import JournalProblem, ProblemKind, VerificationReport
from interlock.ports.journal import JournalEntry, JournalFilter

__all__ = ["JournalEntry", "JournalFilter", "JournalProblem", "ProblemKind", "VerificationReport"]
