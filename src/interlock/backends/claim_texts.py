"""Texts about claims that all stores share."""

from __future__ import annotations

from interlock.ports.claims import ClaimState

__all__ = ["kept_error", "why_not"]

_MAX_CHARACTERS = 2000


def why_not(owner: str, now_with: str | None, state: str | None, forgotten: str | None) -> str:
    """Return why an owner may not renew or finish a claim.

    ``now_with`` is the owner of the claim that is kept under the key, if there is one, and ``state`` is its state;
    ``forgotten`` is why the owner's own claim was forgotten, if it was.
    """
    if forgotten is not None:
        return forgotten
    if now_with is None:
        return "it is no longer kept"
    if now_with != owner:
        return "it was claimed again since"
    if state != ClaimState.IN_PROGRESS:
        return f"it was already finished as {state}"
    return "it had expired"


def kept_error(text: str) -> str:
    """Return the part of an error's text that is kept, in characters that every store can store."""
    return text[:_MAX_CHARACTERS].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
