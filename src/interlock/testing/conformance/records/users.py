"""Records as programs use them: the same behavior on every store."""

from interlock.testing.conformance.records.correcting import CorrectionConformance
from interlock.testing.conformance.records.editing import EditConformance
from interlock.testing.conformance.records.updating import UpdateConformance

__all__ = ["RecordsConformance"]


class RecordsConformance(UpdateConformance, EditConformance, CorrectionConformance):
    """The promises of ``app.records``."""
