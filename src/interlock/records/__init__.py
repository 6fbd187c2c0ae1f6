"""Records: versioned state with a journal. ``app.records(Model)`` returns the records of one model."""

from interlock.records.corrections import AppliedCorrection, CorrectionResult, History
from interlock.records.machine import Machine
from interlock.records.records import Records
from interlock.records.strategies import Strategy

__all__ = ["AppliedCorrection", "CorrectionResult", "History", "Machine", "Records", "Strategy"]
