"""Claims: of all processes that claim the same key, one works on it; the others get its state."""

from interlock.claims.claim import Claim
from interlock.claims.claims import Claiming, Claims
from interlock.claims.views import ClaimView
from interlock.ports.claims import ClaimState
from interlock.reasons import Reason

__all__ = ["Claim", "ClaimState", "ClaimView", "Claiming", "Claims", "Reason"]
