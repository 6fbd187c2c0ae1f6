"""The locks and sessions ports, step by step on a virtual clock: exact, and independent of timing."""

from interlock.testing.conformance.locks.endings import EndingConformance
from interlock.testing.conformance.locks.fencing import FencingConformance
from interlock.testing.conformance.locks.granting import GrantingConformance
from interlock.testing.conformance.locks.graph import GraphConformance

__all__ = ["LockStoreConformance"]


class LockStoreConformance(GrantingConformance, EndingConformance, GraphConformance, FencingConformance):
    """The promises of the locks and sessions ports."""
