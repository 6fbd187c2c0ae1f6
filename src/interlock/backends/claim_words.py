"""What every store says and keeps of a claim in the same words."""

from __future__ import annotations

from interlock.ports.claims import ClaimState

__all__ = ["kept_error", "why_not"]

_MOST = 2000


def why_not(owner: str, now_with: str | None, state: str | None, forgotten: str | None) -> str:
    """Why a claim is not the owner's to renew or settle.

    ``now_with`` is the owner of the claim that is kept under the key, if one is, and ``state`` how that one stands;
    ``forgotten`` is why the owner's own was forgotten, if it was.
    """
    if forgotten is not None:
        return forgotten
    if now_with is None:
        return "it is not kept any more"
    if now_with != owner:
        return "it was claimed anew since"
    if state != ClaimState.IN_PROGRESS:
        return f"it was settled as {state} already"
    return "it had expired"


def kept_error(text: str) -> str:
    """As much of an error's text as is kept, in characters that every store can keep."""
    return text[:_MOST].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
