"""What Redis refuses, as Interlock's errors: what may pass by itself, and what somebody has to mend."""

from __future__ import annotations

import re
import ssl

from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError, RedisError, ResponseError

from interlock.errors import StoreError, StoreUnavailableError

__all__ = ["NOT_PRIMARY", "connect_failure", "failure_of"]

# What a server says while it starts, stops, fails over or is too busy; a script's own error quotes it in the middle.
_PASSING = re.compile(
    r"(?:^|[\s-])(?:LOADING|READONLY|MASTERDOWN|OOM|BUSY|MISCONF|NOREPLICAS|TRYAGAIN|UNBLOCKED)\b|max number of clients"
)
_NOT_ALLOWED = re.compile(
    r"(?:^|[\s-])NOPERM\b|ACL failure in script|has no permissions|user executing the script can't|No permissions"
)
NOT_PRIMARY = re.compile(r"(?:^|[\s-])(?:READONLY|MASTERDOWN|LOADING)\b")
"""Said by a server that is not, or not yet, the one to write to: its address may lead elsewhere by now."""


def failure_of(reply: str) -> StoreError:
    """The error for a refusal."""
    reply = reply.rstrip(".")
    if _PASSING.search(reply):
        return StoreUnavailableError(f"Redis is not available: {reply}.")
    if reply.startswith(("NOAUTH", "WRONGPASS")):
        return StoreError(f"Redis refused: {reply}.", remedy="Check user and password in the URL.")
    if _NOT_ALLOWED.search(reply):
        return StoreError(
            f"Redis refused: {reply}.",
            remedy="Let this user run scripts (+@scripting) and the commands in them on the keys and channels"
            " 'interlock:*'.",
        )
    return StoreError(f"Redis refused: {reply}.", remedy="Check the server's version and settings.")


def connect_failure(error: Exception) -> StoreError:
    """The error for a connection that could not be made."""
    text = str(error).rstrip(".") or type(error).__name__
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return StoreError(f"Redis refused: {text}.", remedy="Check user and password in the URL.")
    tls = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return StoreError(
            f"Redis's certificate was refused: {tls.verify_message.rstrip('.')}.",
            remedy="Check ssl_ca_certs and the host name in the URL.",
        )
    if isinstance(error, ResponseError) and not _PASSING.search(text):
        return failure_of(text)
    if isinstance(error, (RedisError, OSError, TimeoutError)):
        return StoreUnavailableError(f"Redis is not available: {text}.")
    return StoreError(f"Redis cannot be used: {text}.", remedy="Mend the URL.")


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
