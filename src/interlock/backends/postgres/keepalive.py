"""TCP keepalive, which detects that the other end of a connection vanished without closing it.

A machine that loses power or its network sends nothing. Keepalive probes detect that on an idle connection, the user
timeout on one with unacknowledged data. Each end needs its own: the server's are settings of the session, which a
pooler does not pass on; this end's are socket options.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

__all__ = ["SERVER_KEEPALIVE", "kept_alive"]

_IDLE, _INTERVAL, _COUNT = 10, 5, 3
_USER_TIMEOUT = 30

SERVER_KEEPALIVE = {
    "tcp_keepalives_idle": str(_IDLE),
    "tcp_keepalives_interval": str(_INTERVAL),
    "tcp_keepalives_count": str(_COUNT),
    "tcp_user_timeout": f"{_USER_TIMEOUT}s",
}
"""The settings for the server's end."""

_OPTIONS = {
    "TCP_KEEPIDLE": _IDLE,
    "TCP_KEEPALIVE": _IDLE,  # its name on macOS
    "TCP_KEEPINTVL": _INTERVAL,
    "TCP_KEEPCNT": _COUNT,
    "TCP_USER_TIMEOUT": _USER_TIMEOUT * 1000,
}


def kept_alive(connection: Any) -> Any:
    """Set the same on this end of a connection as far as the operating system allows, and return the connection."""
    sock = connection._transport.get_extra_info("socket")  # noqa: SLF001 - the driver has no option for it
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return connection
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS.items():
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection
