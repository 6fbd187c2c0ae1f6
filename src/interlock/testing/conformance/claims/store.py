"""The claims port: step by step on a virtual clock, and under concurrency."""

from interlock.testing.conformance.claims.claiming import ClaimingConformance
from interlock.testing.conformance.claims.races import ClaimRaceConformance
from interlock.testing.conformance.claims.settling import SettlingConformance

__all__ = ["ClaimStoreConformance"]


class ClaimStoreConformance(ClaimingConformance, SettlingConformance, ClaimRaceConformance):
    """The promises of the claims port."""
