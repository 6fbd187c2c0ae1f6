"""Managed identities of Azure: tokens from Entra ID instead of passwords."""

from __future__ import annotations

from typing import Any

import requests
from msal import ManagedIdentityClient, SystemAssignedManagedIdentity, UserAssignedManagedIdentity
from redis.credentials import CredentialProvider
from redis_entraid.identity_provider import ManagedIdentityProvider

__all__ = ["EntraCredentials"]

_RESOURCE = "https://redis.azure.com/"


class EntraCredentials(CredentialProvider):
    """The identity with a client id, or else the machine's own.

    redis-entraid's own provider renews from a thread that never ends, stops renewing after one failure, and asks with
    no time limit; so only the part that asks is used.
    """

    def __init__(self, client_id: str, wait: float) -> None:
        identity = UserAssignedManagedIdentity(client_id=client_id) if client_id else SystemAssignedManagedIdentity()
        session = _Session(wait)
        self._identity = ManagedIdentityProvider(ManagedIdentityClient(identity, http_client=session), _RESOURCE)

    def get_credentials(self) -> tuple[str, str]:
        """The identity's object id and a token; one that has some minutes left is used again."""
        token = self._identity.request_token()
        return str(token.try_get("oid")), token.get_value()


class _Session(requests.Session):
    """Every request ends in bounded time."""

    def __init__(self, wait: float) -> None:
        super().__init__()
        self.trust_env = False  # the endpoint is on this machine or its link: no proxy may see the token
        self._wait = wait

    def request(self, *args: Any, **options: Any) -> requests.Response:
        """Send a request."""
        options["timeout"] = self._wait
        return super().request(*args, **options)
