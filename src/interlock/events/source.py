"""Where events come from: a source checks that a delivery is genuine, on its bytes, and then reads it."""

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
    """What the source calls it; the same when it is delivered again."""
    type: str
    """What happened, dotted: ``issues.opened``."""
    actor: str
    """Who did it; empty if that is not known."""
    payload: dict[str, Any]
    text: str = ""
    """The payload as it came, as JSON, which is then what is kept; empty to have it written anew."""
    ignored: str = ""
    """Why nobody needs to hear of it; empty for what is to be routed."""


@runtime_checkable
class Source(Protocol):
    """A sender of events. The names of the headers it is given may have any case.

    It may also have ``own``: the names of the actors that this app itself is there. What these do reaches only handlers
    that want to hear it.
    """

    @property
    def name(self) -> str:
        """What its events are called by, and where its webhook is: ``/webhooks/{name}``."""
        ...

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ``SignatureError`` unless the bytes are signed with a known secret."""
        ...

    def read(self, headers: Mapping[str, str], body: bytes) -> Incoming:
        """Read a delivery that was verified; ``MalformedEventError`` if that cannot be done."""
        ...


class Secrets:
    """Secrets that a sender may sign with; several while one takes the place of another. Shows none of them."""

    __slots__ = ("_keys",)

    def __init__(self, source: str, secret: Secret | None, secrets: Sequence[Secret] | None) -> None:
        if (secret is None) == (secrets is None):
            raise InvalidArgumentError(
                f"The source {source!r} needs one of secret= and secrets=.",
                remedy="Pass the webhook's secret; secrets= takes several, while one takes the place of another.",
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
            raise SignatureError("The signature is not a signature.") from None
        for key in self._keys:
            expected = f"{prefix}{hmac.digest(key, body, 'sha256').hex()}".encode()
            if hmac.compare_digest(expected, given):
                return
        raise SignatureError("The signature does not fit.")

    def __repr__(self) -> str:
        return f"<{len(self._keys)} secret{'s' if len(self._keys) > 1 else ''}>"


def checked_source_name(name: object) -> str:
    """What a source may be called: it is a part of addresses, and the first part of patterns."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"A source cannot be called {name!r}.",
            remedy="Use 1 to 63 characters of a-z, 0-9, dash and underscore, with a letter or digit first.",
        )
    return name


def checked_actors(what: str, actors: object) -> frozenset[str]:
    """Names of actors, in lower case: forges do not tell them apart by case."""
    if isinstance(actors, str):
        actors = (actors,)
    given: list[Any] = _items(actors) if isinstance(actors, (tuple, list, set, frozenset)) else [None]
    names = [actor.strip() if isinstance(actor, str) else "" for actor in given]
    if not all(name and name.isprintable() for name in names):
        raise InvalidArgumentError(f"{what} is {actors!r}.", remedy='Use names, such as ("mybot[bot]",).')
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
        remedy="Set the webhook's secret here: without one anybody could send events.",
    )
