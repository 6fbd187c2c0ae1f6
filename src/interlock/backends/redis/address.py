"""What a Redis URL says: where the server is, as whom, and how sure to be of both.

TLS always checks the certificate and the host name; a URL cannot turn that off. Passwords are in no error.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from interlock.errors import InvalidArgumentError

__all__ = ["Address"]

_FORM = "Use redis://user:password@server:port/database, rediss:// for TLS, or redis+unix:///path/to/socket."
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
# Accepted as long as they say what holds anyway.
_TLS_CHECKS = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect. ``options`` is what redis-py's connections take."""

    tls: bool
    socket: bool
    options: dict[str, Any] = field(repr=False)
    entra: bool = False
    client_id: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """Read a URL; whatever it says that means nothing is refused."""
        try:
            parts = urlsplit(url)
            port = parts.port
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise InvalidArgumentError("The Redis URL cannot be read.", remedy=_FORM) from None
        if parts.scheme not in ("redis", "rediss", "redis+unix") or parts.fragment:
            raise InvalidArgumentError("The Redis URL cannot be read.", remedy=_FORM)
        tls, socket = parts.scheme == "rediss", parts.scheme == "redis+unix"
        given = dict(query)
        options: dict[str, Any] = {}
        if socket:
            options["path"] = unquote(parts.path)
            database = given.pop("db", "")
        else:
            options["host"] = unquote(parts.hostname or "localhost")
            options["port"] = port or 6379
            database = parts.path.strip("/")
        if database and not (database.isascii() and database.isdigit()):
            raise InvalidArgumentError("The Redis URL names no database that could exist.", remedy="Use a number.")
        options["db"] = int(database or 0)
        options["username"] = unquote(parts.username) if parts.username else None
        options["password"] = unquote(parts.password) if parts.password else None
        entra, client_id = given.pop("auth", ""), given.pop("client_id", "")
        if tls:
            options |= _tls_options(given)
        if given:
            raise InvalidArgumentError(
                f"The Redis URL has options that are not known here: {', '.join(sorted(given))}.",
                remedy=f"Known are auth and client_id, db for a socket, and for rediss:// {', '.join(_TLS_FILES)}.",
            )
        if entra not in ("", "entra") or (client_id and not entra):
            raise InvalidArgumentError("The Redis URL's auth is not known.", remedy="Use auth=entra, or leave it out.")
        if entra and (options["username"] or options["password"]):
            raise InvalidArgumentError("The Redis URL has auth=entra and a password.", remedy="Use one of them.")
        address = cls(tls, socket, options, bool(entra), client_id)
        if entra:
            address.refuse_tokens_in_clear()
        return address

    def refuse_tokens_in_clear(self) -> None:
        """A token is worth as much as a password that anybody may use: it travels encrypted or not at all."""
        if not (self.tls or self.socket or self.options["host"] in _LOOPBACK):
            raise InvalidArgumentError("A token must not travel in the clear.", remedy="Use rediss://.")

    def __str__(self) -> str:
        return self.options["path"] if self.socket else f"{self.options['host']}:{self.options['port']}"


def _tls_options(given: dict[str, str]) -> dict[str, Any]:
    for name, needed in _TLS_CHECKS.items():
        if given.pop(name, needed).lower() != needed:
            raise InvalidArgumentError(
                f"{name} would turn off the check of the server's certificate.",
                remedy="Leave it out, and name your own authority with ssl_ca_certs if need be.",
            )
    files = {name: given.pop(name) for name in _TLS_FILES if name in given}
    for name, path in files.items():
        if not Path(path).exists():
            raise InvalidArgumentError(f"{name} names {path}, which does not exist.", remedy="Mend the URL.")
    checks = {"ssl_cert_reqs": "required", "ssl_check_hostname": True, "ssl_min_version": ssl.TLSVersion.TLSv1_2}
    return {**files, **checks}
