"""Who may see the dashboard: users and their passwords, compared in constant time and never shown."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from interlock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ENVIRONMENT", "Credentials"]

ENVIRONMENT = "INTERLOCK_WEB_CREDENTIALS"
"""Where they come from if nobody says otherwise."""
_LONGEST = 1024
"""Bytes of a name, and of a password."""


class Credentials:
    """Users with their passwords: ``Credentials({"ann": "…"})``."""

    def __init__(self, users: Mapping[str, str]) -> None:
        if not users:
            raise InvalidArgumentError("There are no credentials.", remedy="Use user:password.")
        for user, password in users.items():
            _check(user, password)
        self._users = tuple((user, _digest(f"{user}:{password}".encode())) for user, password in users.items())

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``user:password``, one a line. Empty lines and those that begin with ``#`` do not count.

        Blanks at the end of a line belong to the password.
        """
        users: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            user, colon, password = line.lstrip().partition(":")
            if not colon:  # and what it is instead may be a password
                raise InvalidArgumentError(
                    f"Line {number} of the credentials has no colon.", remedy="Use user:password."
                )
            if user in users:
                raise InvalidArgumentError(f"The credentials name {user!r} twice.", remedy="Name each user once.")
            users[user] = password
        return cls(users)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """From a file with ``user:password``, one a line."""
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InvalidArgumentError(
                f"The credentials in {str(path)!r} cannot be read: {why}.", remedy="Name a file with user:password."
            ) from None
        return cls.parse(text)

    @classmethod
    def from_environment(cls) -> Self | None:
        """From ``INTERLOCK_WEB_CREDENTIALS``; None if that is not set. Set and empty is a mistake, and refused."""
        text = os.environ.get(ENVIRONMENT)
        if text is None:
            return None
        try:
            return cls.parse(text)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{ENVIRONMENT} is not acceptable: {error.message}", remedy="Set it to user:password, or unset it."
            ) from None

    def user(self, authorization: bytes) -> str | None:
        """Whom an ``Authorization`` header names, if the password is right. Takes as long for each wrong one."""
        scheme, _, encoded = authorization.partition(b" ")
        if scheme.lower() != b"basic" or len(encoded) > _LONGEST * 3:
            return None
        try:
            given = _digest(base64.b64decode(encoded.strip(), validate=True))
        except (binascii.Error, ValueError):
            return None
        found = None
        for user, digest in self._users:
            if hmac.compare_digest(given, digest):
                found = user
        return found

    @cached_property
    def key(self) -> bytes:
        """A secret that all processes with the same credentials share. To guess a password by it is slow."""
        together = b"".join(sorted(digest for _, digest in self._users))
        return hashlib.scrypt(together, salt=b"interlock web", n=2**14, r=8, p=1, dklen=32)

    def __repr__(self) -> str:
        return f"Credentials({', '.join(user for user, _ in self._users)})"


def _check(user: str, password: str) -> None:
    if not user or ":" in user or not user.isprintable() or len(user.encode()) > _LONGEST:
        raise InvalidArgumentError(
            f"A user cannot be called {user[:50]!r}.", remedy="Use printable characters without a colon."
        )
    if not password or not password.isprintable() or len(password.encode()) > _LONGEST:
        raise InvalidArgumentError(
            f"The password of {user!r} is not acceptable.",
            remedy=f"Use printable characters, at most {_LONGEST} bytes in UTF-8, better 20 random ones.",
        )


def _digest(text: bytes) -> bytes:
    """Of one length whatever the text's, so that comparing tells nothing about that either."""
    return hashlib.sha256(text).digest()
