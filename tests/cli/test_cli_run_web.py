"""``interlock run --listen``: webhooks and dashboard next to the workers, and how all of it ends together."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "a secret of some length"
BOT = """
import asyncio, os, pathlib
from interlock import App, Event, GitHub

app = App("sqlite:///{here}/bot.db", recheck_interval=0.5)
app.source(GitHub("a secret of some length"))
web = app.web()
here = pathlib.Path("{here}")

@app.on("github.issues.*")
async def triage(event: Event) -> None:
    with open(here / "log", "a") as log:
        log.write(f"{{event.payload['number']}} {{os.getpid()}}\\n")
    while event.payload.get("waits") and not (here / "go").exists():
        await asyncio.sleep(0.005)
"""


class Server:
    """A process that serves the app of a directory."""

    def __init__(self, directory: Path, spawn: Callable[..., subprocess.Popen[str]]) -> None:
        self.directory = directory
        self._spawn = spawn
        self.processes: list[subprocess.Popen[str]] = []
        self.port = 0
        self.token = ""
        self.open = contextlib.ExitStack()
        (directory / "bot.py").write_text(BOT.format(here=directory))

    def run(self, *args: str, listen: str = "127.0.0.1:0", **more: Any) -> subprocess.Popen[str]:
        process = self.start(*args, listen=listen, **more)
        assert process.stderr is not None
        while (line := process.stderr.readline()) and not line.startswith("Runs up to"):
            if match := re.match(r"Listens on http://\S+:(\d+)\.", line):
                self.port = int(match[1])
            if match := re.match(r"Dashboard: http://\S+/\?token=(\S+)$", line):
                self.token = match[1]
        assert line, f"it ended with {process.wait()}"
        return process

    def start(self, *args: str, listen: str | None = None, **more: Any) -> subprocess.Popen[str]:
        options = [] if listen is None else ["--listen", listen]
        process = self._spawn("run", "bot:app", *options, *args, cwd=self.directory, **more)
        self.processes.append(process)
        return process

    @property
    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        with contextlib.closing(self.connection()) as connection:
            connection.request("GET", path, headers={**self._authorization, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def deliver(self, number: int, **payload: Any) -> tuple[int, Any]:
        body, headers = delivery(number, **payload)
        with contextlib.closing(self.connection()) as connection:
            connection.request("POST", "/webhooks/github", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def stream(self) -> http.client.HTTPResponse:
        """An open stream that has had its first event."""
        connection = self.connection()
        self.open.callback(connection.close)
        connection.request("GET", "/stream", headers=self._authorization)
        answer = connection.getresponse()
        assert answer.status == 200
        while not answer.readline().startswith(b"event: "):
            pass
        return answer

    def talk(self, *parts: bytes) -> bytes:
        """Say exactly this, and hear all of what is answered until the server hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as link:
            for part in parts:
                link.sendall(part)
            heard = b""
            while part := link.recv(65536):
                heard += part
            return heard

    @property
    def log(self) -> list[str]:
        path = self.directory / "log"
        return path.read_text().splitlines() if path.exists() else []

    def until(self, condition: Callable[[], Any]) -> None:
        give_up = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < give_up
            time.sleep(0.005)

    def go(self) -> None:
        (self.directory / "go").touch()


def delivery(number: int, **payload: Any) -> tuple[bytes, dict[str, str]]:
    body = json.dumps({"action": "opened", "number": number, **payload}).encode()
    return body, {
        "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": f"delivery-{number}",
        "Content-Type": "application/json",
    }


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=20)
    return process.returncode, err


@pytest.fixture
def server(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    monkeypatch.delenv("INTERLOCK_WEB_CREDENTIALS", raising=False)
    monkeypatch.delenv("INTERLOCK_LISTEN", raising=False)
    server = Server(tmp_path, spawn)
    with server.open:
        yield server
    for process in server.processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


# -- at work -----------------------------------------------------------------------------------------------------------


def test_a_webhook_becomes_a_job_in_the_same_process(server: Server) -> None:
    process = server.run()
    status, receipt = server.deliver(1)
    assert (status, receipt["status"], len(receipt["jobs"])) == (202, "accepted", 1)
    again, duplicate = server.deliver(1)
    assert (again, duplicate["status"], duplicate["event"]) == (200, "duplicate", receipt["event"])
    server.until(lambda: server.log)
    assert server.log == [f"1 {process.pid}"]
    assert json.loads(server.get("/health")[1])["status"] == "ok"
    assert server.get("/")[0] == 200
    assert 'interlock_events_received_total{source="github",status="accepted"} 1.0' in server.get("/metrics")[1]
    assert server.get("/", {"Host": "evil.example"})[0] == 403
    _check_raw_requests(server)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0


def _check_raw_requests(server: Server) -> None:
    """What only a real server can get."""
    body, named = delivery(2)
    head = b"POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    headers = "".join(f"{name}: {value}\r\n" for name, value in named.items()).encode()
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
    assert b" 202 " in server.talk(head + headers + b"Transfer-Encoding: chunked\r\n\r\n" + chunked)
    assert b" 413 " in server.talk(head + headers + b"Content-Length: 5000001\r\n\r\n{")
    assert b" 400 " in server.talk(head + headers + b"Content-Length: nonsense\r\n\r\n{}")
    assert b" 400 " in server.talk(head + headers + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n")
    assert b" 404 " in server.talk(b"POST /webhooks/%00%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    expects = head + headers + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    answered = server.talk(expects, body)
    assert answered.startswith(b"HTTP/1.1 100 Continue")
    assert b" 200 " in answered  # known from above
    assert b" 401 " in server.talk(head + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body[::-1])
    # One byte too many: who is sent more than it reads before it hangs up may reset the connection.
    large = [b"%x\r\n%b\r\n" % (1_000_000, b"x" * 1_000_000)] * 5 + [b"1\r\nx"]
    assert b" 413 " in server.talk(head + headers + b"Transfer-Encoding: chunked\r\n\r\n", *large)


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_it_ends_within_a_second_with_streams_open(server: Server) -> None:
    def end() -> float:
        process = server.run()
        streams = [server.stream() for _ in range(3)]
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        for stream in streams:
            stream.read()  # to its end, and not cut off
        assert process.wait(20) == 0
        return time.monotonic() - told

    assert _within_a_second(end)


def _within_a_second(end: Callable[[], float]) -> bool:
    """A machine that is busy with other tests gets another chance; what waits for streams would take 10 s each time."""
    return any(end() < 1 for _ in range(3))


def test_at_the_first_signal_nobody_is_let_in_and_what_is_under_way_finishes(server: Server) -> None:
    process = server.run()
    assert server.deliver(1, waits=True)[0] == 202
    server.until(lambda: server.log)
    body, headers = delivery(2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        link.sendall(head.encode() + body[:5])
        server.get("/health")  # by now it has been read
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert "Finishes what runs (1)" in process.stderr.readline()
        server.until(lambda: not _accepts(server.port))
        link.sendall(body[5:])
        assert link.recv(65536).startswith(b"HTTP/1.1 202 ")
    assert process.poll() is None  # its job still runs
    server.go()
    assert ended(process)[0] == 0


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_uvicorn_alone_ends_within_a_second_with_streams_open(server: Server) -> None:
    def end() -> float:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            server.port = free.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "bot:web", "--port", str(server.port)]
        process = subprocess.Popen(command, cwd=server.directory, stderr=subprocess.PIPE, text=True)
        server.processes.append(process)
        assert process.stderr is not None
        while "Uvicorn running" not in (line := process.stderr.readline()):
            assert line
            if match := re.search(r"add \?token=(\S+) to its URL", line):
                server.token = match[1]
        assert server.deliver(1)[0] in (200, 202)
        streams = [server.stream() for _ in range(3)]
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        for stream in streams:
            stream.read()
        process.wait(20)
        took = time.monotonic() - told
        _, err = process.communicate()
        assert "Application shutdown complete" in err
        assert "Exception" not in err
        return took

    assert _within_a_second(end)


# -- several processes -------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_of_several_processes_one_serves_and_its_successor_loses_no_connection(server: Server) -> None:
    process = server.run("--processes", "2", "--concurrency", "1")
    assert server.deliver(1)[0] == 202
    (serving,) = _serving(process.pid)
    os.kill(serving, signal.SIGKILL)
    server.until(lambda: serving not in _serving(process.pid))
    assert server.deliver(2)[0] == 202  # waited until the next one was there
    assert server.get("/")[0] == 200  # with the token that the first one printed
    assert _serving(process.pid) != [serving]
    server.until(lambda: "2" in {line.split()[0] for line in server.log})
    process.send_signal(signal.SIGTERM)
    server.until(lambda: not _accepts(server.port))
    assert ended(process)[0] == 0


def _serving(parent: int) -> list[int]:
    """Processes of this one that have a socket to listen on."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    found = []
    for child in children:
        with contextlib.suppress(OSError):
            if b"--listening" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", ["1", "2"])
def test_others_see_it_only_with_credentials(server: Server, processes: str) -> None:
    code, err = ended(server.start("--processes", processes, listen="0.0.0.0:0"))
    assert code == 2
    assert "INTERLOCK_WEB_CREDENTIALS" in err
    assert "--credentials-file" in err
    assert err.count("Error") == 1


def test_with_credentials_it_listens_anywhere(server: Server) -> None:
    (server.directory / "users").write_text("ann:x\n")
    process = server.run("--credentials-file", "users", listen="0.0.0.0:0")
    assert server.get("/metrics")[0] == 401
    assert server.get("/metrics", {"Authorization": "Basic YW5uOng="})[0] == 200
    assert server.get("/health", {"Host": "example.com"})[0] == 200
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0


@pytest.mark.parametrize(
    ("args", "env", "says"),
    [
        (["--listen", "nonsense"], {}, "Invalid address 'nonsense'"),
        (["--listen", "127.0.0.1:99999"], {}, "Invalid address"),
        (["--listen", "127.0.0.1:0", "--credentials-file", "nothing"], {}, "cannot be read"),
        (["--listen", "0.0.0.0:0"], {"INTERLOCK_WEB_CREDENTIALS": "secret"}, "has no colon"),
        (["--credentials-file", "nothing"], {}, "is for --listen"),
        ([], {"INTERLOCK_LISTEN": "10.255.255.255:80"}, "without credentials"),
    ],
)
def test_what_cannot_work_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Callable[..., Any],
    args: list[str],
    env: dict[str, str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bot_w.py").write_text("from interlock import App\napp = App('memory://')\n@app.job()\ndef a(): ...\n")
    monkeypatch.setitem(sys.modules, "bot_w", None)
    monkeypatch.delitem(sys.modules, "bot_w")
    result = cli("run", "bot_w:app", *args, env=env)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "secret" not in result.stderr


def test_an_address_that_is_taken_is_said_to_be(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, err = ended(server.start(listen=f"127.0.0.1:{taken.getsockname()[1]}"))
    assert code == 2
    assert "Address already in use" in err
