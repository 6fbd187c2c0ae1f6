"""Parses Redis URLs.

TLS always verifies the certificate and the host name; a URL cannot turn that off. No error message contains a password.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from interlock.errors import InvalidArgumentError

__all__ = ["Address"]

_USAGE = "Use redis://user:password@server:port/database, rediss:// for TLS, or redis+unix:///path/to/socket."
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
# Accepted only with the values that apply anyway.
_TLS_CHECKS = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server. ``options`` are the arguments of redis-py's connections."""

    tls: bool
    socket: bool
    options: dict[str, Any] = field(repr=False)
    entra: bool = False
    client_id: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse a URL; raises ``InvalidArgumentError`` for anything unknown."""
        try:
            parts = urlsplit(url)
            port = parts.port
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise InvalidArgumentError("Invalid Redis URL.", remedy=_USAGE) from None
        if parts.scheme not in ("redis", "rediss", "redis+unix") or parts.fragment:
            raise InvalidArgumentError("Invalid Redis URL.", remedy=_USAGE)
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
            raise InvalidArgumentError("Invalid database in the Redis URL.", remedy="Use a number.")
        options["db"] = int(database or 0)
        options["username"] = unquote(parts.username) if parts.username else None
        options["password"] = unquote(parts.password) if parts.password else None
        entra, client_id = given.pop("auth", ""), given.pop("client_id", "")
        if tls:
            options |= _tls_options(given)
        if given:
            raise InvalidArgumentError(
                f"Unknown options in the Redis URL: {', '.join(sorted(given))}.",
                remedy=f"Valid options: auth, client_id, db (for a socket), and for rediss:// {', '.join(_TLS_FILES)}.",
            )
        if entra not in ("", "entra") or (client_id and not entra):
            raise InvalidArgumentError("Unknown auth in the Redis URL.", remedy="Use auth=entra, or omit it.")
        if entra and (options["username"] or options["password"]):
            raise InvalidArgumentError("The Redis URL has both auth=entra and a password.", remedy="Use one of them.")
        address = cls(tls, socket, options, bool(entra), client_id)
        if entra:
            address.require_encryption()
        return address

    def require_encryption(self) -> None:
        """Raise unless the connection is encrypted or local: a token works like a password for anyone who reads it."""
        if not (self.tls or self.socket or self.options["host"] in _LOOPBACK):
            raise InvalidArgumentError("A token must not be sent unencrypted.", remedy="Use rediss://.")

    def __str__(self) -> str:
        return self.options["path"] if self.socket else f"{self.options['host']}:{self.options['port']}"


def _tls_options(given: dict[str, str]) -> dict[str, Any]:
    for name, needed in _TLS_CHECKS.items():
        if given.pop(name, needed).lower() != needed:
            raise InvalidArgumentError(
                f"{name} would turn off the verification of the server's certificate.",
                remedy="Omit it. For a private certificate authority use ssl_ca_certs.",
            )
    files = {name: given.pop(name) for name in _TLS_FILES if name in given}
    for name, path in files.items():
        if not Path(path).exists():
            raise InvalidArgumentError(f"{name}: {path} does not exist.", remedy="Fix the URL.")
    checks = {"ssl_cert_reqs": "required", "ssl_check_hostname": True, "ssl_min_version": ssl.TLSVersion.TLSv1_2}
    return {**files, **checks}
