"""Where ``interlock run`` serves the web app, and to whom. What cannot work is refused before anything opens."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from interlock.app import App
    from interlock.web.credentials import Credentials
    from interlock.web.serve import Serving

__all__ = ["WebAddress"]

_OPTION = "--credentials-file"
_TOKEN = "_INTERLOCK_WEB_TOKEN"  # noqa: S105 - where it is


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Sockets that listen already, and the credentials that are asked for there."""

    sockets: Sequence[socket.socket]
    credentials: Credentials | None
    token: str | None = None
    """The token that is accepted without credentials, shared by the processes that follow one another."""

    @classmethod
    def named(cls, listen: str | None, credentials_file: Path | None, file_option: str = _OPTION) -> Self | None:
        """Return the address that was given, or None. Raises ``MisuseError`` if others could see it unasked.

        ``file_option`` is empty for a command that has none for a file with credentials.
        """
        from interlock.errors import MisuseError

        if not listen:
            if credentials_file is not None:
                raise MisuseError(f"{_OPTION} is for --listen.", remedy="Add --listen HOST:PORT.")
            return None
        try:
            from interlock.web.serve import Address, check_exposure, listening
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("interlock"):
                raise
            raise MisuseError(
                f"--listen needs the package {error.name}, which is not installed.",
                remedy="Run: pip install 'interlock[web]'.",
            ) from error
        credentials = _credentials(credentials_file)
        address = Address.parse(listen)
        check_exposure(address, credentials, file_option=file_option)
        return cls(listening(address), credentials)

    @classmethod
    def handed_down(cls, listening: str | None, credentials_file: Path | None) -> Self | None:
        """Sockets that the parent process holds open; None if this process does not serve the web app."""
        token = os.environ.pop(_TOKEN, None)  # for us, and for no process that a handler starts
        if listening is None:
            return None
        sockets = [socket.socket(fileno=int(number)) for number in listening.split(",")]
        return cls(sockets, _credentials(credentials_file), token)

    def serving(self, app: App, failed: Callable[[], None]) -> Serving:
        """The web app of an app, served there. ``failed`` is called if it ends by itself."""
        from interlock.web import Web
        from interlock.web.serve import Serving

        web = Web(app, credentials=self.credentials, token=self.token)
        return Serving(web, self.sockets, on_failure=failed)

    def hand_down_token(self) -> None:
        """Make a token for the processes that serve here one after another, so that browsers stay signed in."""
        if self.credentials is None:
            os.environ[_TOKEN] = secrets.token_urlsafe(32)


def _credentials(file: Path | None) -> Credentials | None:
    from interlock.web.credentials import Credentials

    return Credentials.from_environment() if file is None else Credentials.from_file(file)
