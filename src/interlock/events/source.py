"""Sources of events: a source verifies the bytes of a delivery, and then reads it."""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from interlock.errors import InvalidArgumentError, SignatureError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Incoming", "Secret", "Secrets", "Source", "checked_actors", "checked_source_name"]

Secret = str | bytes
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Incoming(NamedTuple):
    """A delivery that was read."""

    delivery: str
    """The delivery ID; the same when it is delivered again."""
    type: str
    """What happened, dotted: ``issues.opened``."""
    actor: str
    """Who caused it; empty if unknown."""
    payload: dict[str, Any]
    text: str = ""
    """The payload as it was received, as JSON, which is then stored; empty to serialize it again."""
    ignored: str = ""
    """Why it is not routed; empty to route it."""


@runtime_checkable
class Source(Protocol):
    """A sender of events. Header names may have any case.

    It may also have ``own``: the accounts of this app. Events that they cause reach only handlers with ``include_own``.
    """

    @property
    def name(self) -> str:
        """The name of the source, which is also the path of its webhook: ``/webhooks/{name}``."""
        ...

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ``SignatureError`` unless the bytes are signed with a known secret."""
        ...

    def read(self, headers: Mapping[str, str], body: bytes) -> Incoming:
        """Read a verified delivery; raises ``MalformedEventError`` if that is not possible."""
        ...


class Secrets:
    """The secrets of a sender; several during a rotation. Never shown."""

    __slots__ = ("_keys",)

    def __init__(self, source: str, secret: Secret | None, secrets: Sequence[Secret] | None) -> None:
        if (secret is None) == (secrets is None):
            raise InvalidArgumentError(
                f"The source {source!r} needs one of secret= and secrets=.",
                remedy="Pass the webhook's secret; secrets= takes several, for a rotation.",
            )
        given: list[Any] = [secret] if secrets is None else _listed(secrets)
        self._keys = tuple(_key(source, one) for one in given)
        if not self._keys:
            raise _empty(source)

    def check(self, signature: str | None, prefix: str, body: bytes) -> None:
        """Refuse unless ``signature`` is the prefix and the HMAC-SHA256 of the body in hex, by one of the secrets."""
        if not signature:
            raise SignatureError("The delivery is not signed.")
        try:
            given = signature.encode("ascii")
        except UnicodeEncodeError:
            raise SignatureError("Malformed signature.") from None
        for key in self._keys:
            expected = f"{prefix}{hmac.digest(key, body, 'sha256').hex()}".encode()
            if hmac.compare_digest(expected, given):
                return
        raise SignatureError("Signature mismatch.")

    def __repr__(self) -> str:
        return f"<{len(self._keys)} secret{'s' if len(self._keys) > 1 else ''}>"


def checked_source_name(name: object) -> str:
    """Check the name of a source, which is part of URLs and the first part of patterns."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"Invalid source name {name!r}.",
            remedy="Use 1 to 63 characters of a-z, 0-9, dash and underscore, with a letter or digit first.",
        )
    return name


def checked_actors(what: str, actors: object) -> frozenset[str]:
    """Actor names in lower case: forges compare them case-insensitively."""
    if isinstance(actors, str):
        actors = (actors,)
    given: list[Any] = _items(actors) if isinstance(actors, (tuple, list, set, frozenset)) else [None]
    names = [actor.strip() if isinstance(actor, str) else "" for actor in given]
    if not all(name and name.isprintable() for name in names):
        raise InvalidArgumentError(f"Invalid {what} {actors!r}.", remedy='Use names, such as ("mybot[bot]",).')
    return frozenset(map(str.casefold, names))


def _items(several: Any) -> list[Any]:
    return list(several)


def _listed(secrets: Any) -> list[Any]:
    if isinstance(secrets, (str, bytes)) or not hasattr(secrets, "__iter__"):
        raise InvalidArgumentError("secrets= takes several secrets.", remedy="Pass a list, or secret= for one.")
    return list(secrets)


def _key(source: str, secret: object) -> bytes:
    if isinstance(secret, str):
        secret = secret.encode("utf-8", "surrogateescape")
    if not isinstance(secret, bytes) or not secret.strip():
        raise _empty(source)
    return secret


def _empty(source: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The secret of the source {source!r} is empty or missing.",
        remedy="Set the webhook's secret here: without one, anyone could send events.",
    )
