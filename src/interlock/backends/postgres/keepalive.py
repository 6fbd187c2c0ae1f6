"""Finding out that the other end of a connection has vanished without closing it.

A machine that loses power or its network says nothing. Keepalive probes notice it on an idle connection, the user
timeout on one with data under way. Each end has to look for itself: the server as settings of the session tell it,
which a pooler does not pass on; our end as options of the socket say.
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
"""What the server is asked to do."""

_OPTIONS = {
    "TCP_KEEPIDLE": _IDLE,
    "TCP_KEEPALIVE": _IDLE,  # its name on macOS
    "TCP_KEEPINTVL": _INTERVAL,
    "TCP_KEEPCNT": _COUNT,
    "TCP_USER_TIMEOUT": _USER_TIMEOUT * 1000,
}


def kept_alive(connection: Any) -> Any:
    """The driver's connection, with the same set at our end as far as this system can."""
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
