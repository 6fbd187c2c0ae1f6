"""Webhooks sent by clients that people really use."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.system.running import running, signature

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.system

BODY = b'{"action": "opened", "text": "' + b"x" * 2_000_000 + b'"}'


@pytest.mark.parametrize("chunked", [False, True])
def test_curl_delivers_with_http2_offered(chunked: bool, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_bytes(BODY)
    command = ["curl", "--http2", "--silent", "--show-error", "--verbose", "--max-time", "20"]
    headers = ["X-GitHub-Event: issues", f"X-Hub-Signature-256: {signature(BODY)}", "Content-Type: application/json"]
    if chunked:
        headers.append("Transfer-Encoding: chunked")
    for header in headers:
        command += ["--header", header]
    with running(tmp_path, f"sqlite:///{tmp_path / 'bot.db'}") as bot:
        for number, status in ((1, "202"), (1, "200"), (2, "202")):
            told = subprocess.run(
                [
                    *(*command, "--header", f"X-GitHub-Delivery: {number}", "--data-binary", "@body.json"),
                    *("--output", "answer", "--write-out", "%{http_code}", f"{bot.url}/webhooks/github"),
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=True,
            )
            assert told.stdout == status, (tmp_path / "answer").read_text()
            assert "> Upgrade: h2c" in told.stderr
