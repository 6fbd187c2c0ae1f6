"""GitHub webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import MalformedEventError
from interlock.events.payloads import header, inside, is_form, payload_of_form, plain_text, read_object
from interlock.events.source import Incoming, Secrets, checked_actors, checked_source_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.events.source import Secret

__all__ = ["GitHub"]

_SENDER = ("sender", "login")


class GitHub:
    """GitHub, for repositories, organizations and GitHub Apps: ``app.source(GitHub(secret=…))``.

    The type of an event is ``X-GitHub-Event`` and the action, if any: ``issues.opened``, ``push``. The actor is the
    sender's login. ``own`` lists the accounts of this app, such as ``("mybot[bot]",)``.
    """

    def __init__(
        self,
        secret: Secret | None = None,
        *,
        secrets: Sequence[Secret] | None = None,
        name: str = "github",
        own: str | Sequence[str] = (),
    ) -> None:
        self.name = checked_source_name(name)
        """The name of the source."""
        self.own = checked_actors("own", own)
        """The accounts of this app on GitHub, in lower case."""
        self._secrets = Secrets(self.name, secret, secrets)

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ``SignatureError`` unless ``X-Hub-Signature-256`` signs the body with a known secret."""
        self._secrets.check(header(headers, "x-hub-signature-256"), "sha256=", body)

    def read(self, headers: Mapping[str, str], body: bytes) -> Incoming:
        """Read a delivery: JSON, or a form with the field ``payload``."""
        delivery = plain_text("X-GitHub-Delivery", header(headers, "x-github-delivery"))
        kind = plain_text("X-GitHub-Event", header(headers, "x-github-event"))
        text, payload = read_object(payload_of_form(body) if is_form(headers) else body)
        action = payload.get("action")
        if action is not None:
            if not isinstance(action, str):
                raise MalformedEventError(f"The action is of type {type(action).__name__}, not a string.")
            kind = plain_text("The type", f"{kind}.{action}") if action else kind
        actor = inside(payload, _SENDER)
        actor = plain_text("The sender's login", actor) if actor else ""
        ignored = "a ping needs no handler" if kind == "ping" else ""
        return Incoming(delivery, kind, actor, payload, text, ignored)

    def __repr__(self) -> str:
        return f"<GitHub {self.name!r}, {self._secrets!r}>"
