"""The claims port, step by step on a clock that the test moves, and with many at it at once."""

from interlock.testing.conformance.claims.claiming import ClaimingConformance
from interlock.testing.conformance.claims.races import ClaimRaceConformance
from interlock.testing.conformance.claims.settling import SettlingConformance

__all__ = ["ClaimStoreConformance"]


class ClaimStoreConformance(ClaimingConformance, SettlingConformance, ClaimRaceConformance):
    """What the claims port promises."""
