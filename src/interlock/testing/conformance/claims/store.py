"""The claims port: step by step on a virtual clock, and under concurrency."""

from interlock.testing.conformance.claims.claiming import ClaimingConformance
from interlock.testing.conformance.claims.finishing import SettlingConformance
from interlock.testing.conformance.claims.races import ClaimRaceConformance

__all__ = ["ClaimStoreConformance"]


class ClaimStoreConformance(ClaimingConformance, SettlingConformance, ClaimRaceConformance):
    """The promises of the claims port."""
