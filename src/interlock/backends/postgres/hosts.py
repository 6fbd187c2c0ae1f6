"""The hosts that a URL names, in libpq's form: ``postgresql://a,b:5433/database``, or ``?host=a,b&port=5432,5433``.

Each host becomes a URL of its own, because the driver would let the first one that does not answer use up all the time
there is. ``target_session_attrs`` says what a host must be able to do. Interlock writes, so that is ``read-write``
unless the URL says ``primary`` or ``any``.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from interlock.errors import InvalidArgumentError

__all__ = ["Host", "Hosts"]

_URL = re.compile(
    r"(?P<scheme>postgres(?:ql)?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?", re.DOTALL
)
_HOST = re.compile(r"(?P<name>\[[^\[\]]+\]|[^\[\]:]*)(?::(?P<port>\d*))?")
_ATTRIBUTES = ("read-write", "primary", "any")
_OWN = ("host", "port", "target_session_attrs")
_HIGHEST_PORT = 65535


class Host(NamedTuple):
    """One host, and a URL for this host only."""

    name: str
    url: str


class Hosts(NamedTuple):
    """The hosts of a URL, and the required session attributes."""

    hosts: tuple[Host, ...]
    attributes: str

    @classmethod
    def of(cls, url: str) -> Hosts:
        """Parse a URL."""
        found = _URL.fullmatch(url)
        if found is None:
            raise _unreadable()
        given = (found["query"] or "").split("&")
        named = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
        attributes = named.get("target_session_attrs", "read-write")
        if attributes not in _ATTRIBUTES:
            raise InvalidArgumentError(
                f"target_session_attrs={attributes} asks for a server that Interlock cannot work with.",
                remedy=f"Use {', '.join(_ATTRIBUTES)}; the default is read-write.",
            )
        user, at, listed = found["authority"].rpartition("@")
        listed = listed or named.get("host", "")
        places = [_place(place) for place in (listed.split(",") if listed else [""])]
        ports = _ports(named.get("port", ""), len(places))
        query = "&".join(part for part in given if part and unquote(part.partition("=")[0]) not in _OWN)
        if len(places) == 1 and not any(name in named for name in _OWN):
            return cls((Host(listed or "localhost", url),), attributes)
        begin, database = f"{found['scheme']}://{user}{at}", found["path"]
        hosts = [
            _host(begin, name, port or default, database, query)
            for (name, port), default in zip(places, ports, strict=True)
        ]
        return cls(tuple(hosts), attributes)


def _host(begin: str, name: str, port: str, path: str, query: str) -> Host:
    if name.startswith("/"):  # the directory of a socket cannot be in the authority part
        query = "&".join(part for part in (f"host={name}", f"port={port}" if port else "", query) if part)
        return Host(name, f"{begin}{path}?{query}")
    place = f"{name}:{port}" if port else name
    return Host(place or "localhost", f"{begin}{place}{path}{'?' if query else ''}{query}")


def _place(text: str) -> tuple[str, str]:
    text = unquote(text)
    if text.startswith("/"):
        return text, ""
    found = _HOST.fullmatch(text)
    if found is None:
        raise _unreadable()
    return found["name"], _port(found["port"] or "")


def _ports(text: str, count: int) -> list[str]:
    ports = [_port(port) for port in text.split(",")]
    if len(ports) not in (1, count):
        raise InvalidArgumentError(
            f"The PostgreSQL URL names {count} hosts and {len(ports)} ports.",
            remedy="Name one port, or one port per host.",
        )
    return ports if len(ports) == count else ports * count


def _port(text: str) -> str:
    if text and not (text.isascii() and text.isdigit() and 0 < int(text) <= _HIGHEST_PORT):
        raise _unreadable()
    return text


def _unreadable() -> InvalidArgumentError:
    return InvalidArgumentError(
        "The PostgreSQL URL cannot be read.",
        remedy="Use postgresql://user:password@server:port/database, or several servers separated by commas.",
    )
