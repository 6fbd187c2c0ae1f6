"""Azure managed identities: tokens from Entra ID instead of passwords."""

from __future__ import annotations

from typing import Any

import requests
from msal import ManagedIdentityClient, SystemAssignedManagedIdentity, UserAssignedManagedIdentity
from redis.credentials import CredentialProvider
from redis_entraid.identity_provider import ManagedIdentityProvider

__all__ = ["EntraCredentials"]

_RESOURCE = "https://redis.azure.com/"


class EntraCredentials(CredentialProvider):
    """Credentials of the managed identity with a client ID, or of the machine's own.

    redis-entraid's own provider renews in a thread that never ends, stops after one failure and has no timeout, so only
    the part that requests tokens is used.
    """

    def __init__(self, client_id: str, timeout: float) -> None:
        identity = UserAssignedManagedIdentity(client_id=client_id) if client_id else SystemAssignedManagedIdentity()
        session = _Session(timeout)
        self._identity = ManagedIdentityProvider(ManagedIdentityClient(identity, http_client=session), _RESOURCE)

    def get_credentials(self) -> tuple[str, str]:
        """Return the identity's object ID and a token. A token with some minutes left is reused."""
        token = self._identity.request_token()
        return str(token.try_get("oid")), token.get_value()


class _Session(requests.Session):
    """An HTTP session whose requests have a timeout."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self.trust_env = False  # the endpoint is on this machine or link-local: no proxy may see the token
        self._timeout = timeout

    def request(self, *args: Any, **options: Any) -> requests.Response:
        """Send a request."""
        options["timeout"] = self._timeout
        return super().request(*args, **options)
