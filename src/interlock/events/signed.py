"""Webhooks of any sender that signs with HMAC-SHA256."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import InvalidArgumentError
from interlock.events.payloads import header, inside, is_form, payload_of_form, plain_text, read_object
from interlock.events.source import Incoming, Secrets, checked_actors, checked_source_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.events.source import Secret

__all__ = ["Hmac"]


class Hmac:
    """A sender that signs the body with HMAC-SHA256, in hex: ``app.source(Hmac("shop", secret, type="body:event"))``.

    ``signature`` is the header with the signature, after ``prefix``. ``delivery``, ``type`` and ``actor`` specify where
    these values are: ``"header:X-Event"``, just the header's name, or ``"body:event.kind"`` for a path in the body.
    Leave ``actor`` empty if the sender does not provide it.
    """

    def __init__(
        self,
        name: str,
        secret: Secret | None = None,
        *,
        secrets: Sequence[Secret] | None = None,
        signature: str = "X-Signature-256",
        prefix: str = "sha256=",
        delivery: str = "X-Delivery-Id",
        type: str = "X-Event",  # noqa: A002 - as everywhere else
        actor: str = "",
        own: str | Sequence[str] = (),
    ) -> None:
        self.name = checked_source_name(name)
        """The name of the source."""
        self.own = checked_actors("own", own)
        """The accounts of this app, in lower case."""
        self._secrets = Secrets(self.name, secret, secrets)
        self._signature = _Place.of("signature", signature)
        if self._signature.path:
            raise InvalidArgumentError("The signature cannot be in the body that it signs.", remedy="Name its header.")
        if not prefix.isascii():
            raise InvalidArgumentError(f"Invalid prefix {prefix!r}.", remedy="Use ASCII, or an empty string.")
        self._prefix = prefix
        self._delivery = _Place.of("delivery", delivery)
        self._type = _Place.of("type", type)
        self._actor = _Place.of("actor", actor) if actor else None
        if self.own and self._actor is None:
            raise InvalidArgumentError(
                f"own of the source {self.name!r} would never match: its events have no actor.",
                remedy="Specify where the actor is: actor=….",
            )

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ``SignatureError`` unless the body is signed with a known secret."""
        self._secrets.check(header(headers, self._signature.header), self._prefix, body)

    def read(self, headers: Mapping[str, str], body: bytes) -> Incoming:
        """Read a delivery: JSON, or a form with the field ``payload``."""
        text, payload = read_object(payload_of_form(body) if is_form(headers) else body)
        delivery = plain_text(self._delivery.text, self._delivery.find(headers, payload))
        kind = plain_text(self._type.text, self._type.find(headers, payload))
        actor = None if self._actor is None else self._actor.find(headers, payload)
        actor = "" if self._actor is None or actor in (None, "") else plain_text(self._actor.text, actor)
        return Incoming(delivery, kind, actor, payload, text)

    def __repr__(self) -> str:
        return f"<Hmac {self.name!r}, {self._secrets!r}>"


class _Place(NamedTuple):
    """The location of a value in a delivery."""

    text: str
    header: str
    path: tuple[str, ...]

    @classmethod
    def of(cls, what: str, text: Any) -> _Place:
        kind, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        if not colon:
            kind, rest = "header", kind
        path = tuple(rest.split("."))
        if kind not in ("header", "body") or not all(path) or not rest.isascii() or not rest.isprintable():
            raise InvalidArgumentError(
                f"Invalid {what} {text!r}.",
                remedy='Use "header:X-Name", just the header\'s name, or "body:path.to.it".',
            )
        return cls(text, "", path) if kind == "body" else cls(text, rest.strip().lower(), ())

    def find(self, headers: Mapping[str, str], payload: Mapping[str, Any]) -> Any:
        return inside(payload, self.path) if self.path else header(headers, self.header)
