"""Maps Redis errors to Interlock's: those that may pass by themselves, and those that need a fix."""

from __future__ import annotations

import re
import ssl

from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError, RedisError, ResponseError

from interlock.errors import StoreError, StoreUnavailableError

__all__ = ["NOT_PRIMARY", "connect_failure", "failure_of"]

# Errors of a server that starts, stops, fails over or is too busy. A script's error quotes them in the middle.
_TRANSIENT = re.compile(
    r"(?:^|[\s-])(?:LOADING|READONLY|MASTERDOWN|OOM|BUSY|MISCONF|NOREPLICAS|TRYAGAIN|UNBLOCKED)\b|max number of clients"
)
_NOT_ALLOWED = re.compile(
    r"(?:^|[\s-])NOPERM\b|ACL failure in script|has no permissions|user executing the script can't|No permissions"
)
NOT_PRIMARY = re.compile(r"(?:^|[\s-])(?:READONLY|MASTERDOWN|LOADING)\b")
"""Errors of a server that is not, or not yet, the primary. The address may lead to another server by now."""


def failure_of(reply: str) -> StoreError:
    """Return the error for an error reply."""
    reply = reply.rstrip(".")
    if _TRANSIENT.search(reply):
        return StoreUnavailableError(f"Redis is not available: {reply}.")
    if reply.startswith(("NOAUTH", "WRONGPASS")):
        return StoreError(f"Redis refused: {reply}.", remedy="Check the user and password in the URL.")
    if _NOT_ALLOWED.search(reply):
        return StoreError(
            f"Redis refused: {reply}.",
            remedy="Allow this user to run scripts (+@scripting) and their commands on the keys and channels"
            " 'interlock:*'.",
        )
    return StoreError(f"Redis refused: {reply}.", remedy="Check the server's version and settings.")


def connect_failure(error: Exception) -> StoreError:
    """Return the error for a failed connection attempt."""
    text = str(error).rstrip(".") or type(error).__name__
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return StoreError(f"Redis refused: {text}.", remedy="Check the user and password in the URL.")
    tls = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return StoreError(
            f"The certificate of the Redis server is invalid: {tls.verify_message.rstrip('.')}.",
            remedy="Check ssl_ca_certs and the host name in the URL.",
        )
    if isinstance(error, ResponseError) and not _TRANSIENT.search(text):
        return failure_of(text)
    if isinstance(error, (RedisError, OSError, TimeoutError)):
        return StoreUnavailableError(f"Redis is not available: {text}.")
    return StoreError(f"Could not connect to Redis: {text}.", remedy="Fix the URL.")


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
