"""Behind nginx on the same machine, with nothing but ``proxy_pass``: every client seems to be this machine."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.system.running import Running, running, signature

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.system

CONFIG = """
daemon off;
pid {directory}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://127.0.0.1:{behind}; }}
    }}
}}
"""


@contextlib.contextmanager
def nginx(directory: Path, behind: int) -> Iterator[str]:
    """A plain proxy; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = directory / "nginx.conf"
    config.write_text(CONFIG.format(directory=directory, port=port, behind=behind))
    with subprocess.Popen(["/usr/sbin/nginx", "-c", str(config), "-p", str(directory)]) as process:
        try:
            give_up = time.monotonic() + 20
            while True:
                with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert process.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.01)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("bot")
    with running(directory, f"sqlite:///{directory / 'bot.db'}") as served:
        yield served


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, bot: Running) -> Iterator[str]:
    with nginx(tmp_path_factory.mktemp("nginx"), bot.port) as address:
        yield address


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def ask(url: str, data: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
    opener = urllib.request.build_opener(_Stay)
    request = urllib.request.Request(url, data, {name.replace("_", "-"): text for name, text in headers.items()})
    try:
        with opener.open(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read(1)  # a stream has no end
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@pytest.mark.parametrize("path", ["/", "/jobs", "/api/overview", "/api/jobs", "/stream", "/metrics", "/static/app.css"])
def test_a_stranger_behind_a_plain_proxy_sees_nothing(proxy: str, path: str) -> None:
    status, _, body = ask(proxy + path)
    assert status == 401
    assert b"interlock_" not in body


def test_nor_can_they_act(proxy: str) -> None:
    status, _, _ = ask(f"{proxy}/api/lanes/a", b'{"act": "hold", "reason": "x"}', content_type="application/json")
    assert status == 401
    status, _, _ = ask(f"{proxy}/api/lanes/a", b"act=hold&reason=x", Origin=proxy, Sec_Fetch_Site="same-origin")
    assert status == 401


def test_health_and_webhooks_are_open_to_them(proxy: str) -> None:
    assert ask(f"{proxy}/health")[0] == 200
    body = json.dumps({"action": "opened"}).encode()
    headers = {"X_GitHub_Event": "issues", "X_GitHub_Delivery": "1", "Content_Type": "application/json"}
    assert ask(f"{proxy}/webhooks/github", body, X_Hub_Signature_256=signature(body), **headers)[0] == 202
    assert ask(f"{proxy}/webhooks/github", body, X_Hub_Signature_256=signature(b"other"), **headers)[0] == 401


def test_who_has_the_printed_address_comes_in(bot: Running) -> None:
    found = re.search(r"^Dashboard: (\S+)$", bot.said, re.MULTILINE)
    assert found is not None, bot.said
    status, headers, _ = ask(found[1])
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"].partition(";")[0]
    assert ask(f"{bot.url}/", Cookie=cookie)[0] == 200
    token = found[1].partition("token=")[2]
    assert ask(f"{bot.url}/metrics", Authorization=f"Bearer {token}")[0] == 200
    assert ask(f"{bot.url}/metrics")[0] == 401
