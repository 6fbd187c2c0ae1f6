"""Claims: of all who see the same thing, one works on it; the others hear how that stands."""

from interlock.claims.claim import Claim
from interlock.claims.claims import Claiming, Claims
from interlock.claims.views import ClaimView
from interlock.ports.claims import ClaimState
from interlock.reasons import Reason

__all__ = ["Claim", "ClaimState", "ClaimView", "Claiming", "Claims", "Reason"]
