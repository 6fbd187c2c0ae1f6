"""A real PgBouncer in transaction mode in front of a PostgreSQL, started and ended like the other test servers."""

from __future__ import annotations

import csv
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.testing.servers.installation import ordinary_account
from interlock.testing.servers.local import LocalServer

if TYPE_CHECKING:
    from interlock.testing.servers import PostgresServer

__all__ = ["DEBIAN_POSTGRES", "PgBouncer"]

DEBIAN_POSTGRES = Path("/usr/lib/postgresql/15/bin")
_PROGRAM = "/usr/sbin/pgbouncer"


class PgBouncer(LocalServer):
    """Lends `pool_size` server connections per database to any number of clients, one transaction at a time.

    Everything but addresses and sizes is as PgBouncer comes: whoever connects must do without startup parameters,
    prepared statements and session state.
    """

    name = "pgbouncer"
    shutdown_signal = signal.SIGTERM

    def __init__(self, server: PostgresServer, *, pool_size: int = 3) -> None:
        super().__init__()
        self.pool_size = pool_size
        self._server = server
        self._account = ordinary_account()

    def url(self, database: str) -> str:
        """The URL of one of the server's databases, through the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def show(self, what: str) -> list[dict[str, str]]:
        """What the administrative console shows, such as `clients` or `pools`."""
        command = [str(DEBIAN_POSTGRES / "psql"), "-X", "--csv", "-c", f"show {what}", self.url("pgbouncer")]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
        return list(csv.DictReader(answer.stdout.splitlines()))

    def _command(self) -> list[str]:
        # Written anew for each attempt: the port may have changed.
        self._write(
            "pgbouncer.ini",
            f"""
            [databases]
            * = host=127.0.0.1 port={self._server.port}
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = trust
            auth_file = {self.directory / "users.txt"}
            admin_users = postgres
            pool_mode = transaction
            default_pool_size = {self.pool_size}
            max_client_conn = 500
            """,
        )
        return [_PROGRAM, str(self.directory / "pgbouncer.ini")]

    def _prepare(self) -> None:
        if self._account is not None:
            self.directory.chmod(0o755)
        self._write("users.txt", '"postgres" ""')

    def _ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.write_text("\n".join(line.strip() for line in text.strip().splitlines()) + "\n")
        path.chmod(0o644)
