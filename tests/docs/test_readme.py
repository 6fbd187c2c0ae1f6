"""The README works as shown: its example runs as a process, its pictures exist, its example is short."""

from __future__ import annotations

import hmac
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SECRET = "a newcomer's secret"


def test_the_pictures_exist() -> None:
    named = re.findall(r'(?:src|srcset)="([^"]+)"', README)

    assert len(named) == 2
    assert all((ROOT / name).is_file() for name in named)


def test_the_example_has_at_most_twenty_lines() -> None:
    assert len(_example().splitlines()) <= 20


def test_the_example_receives_webhooks_and_runs_its_jobs(bot: str) -> None:
    repository = {"full_name": "acme/api"}
    issue = {"action": "opened", "issue": {"number": 7, "title": "It stops"}, "repository": repository}
    push = {"after": "a1b2c3", "repository": repository}

    answers = [
        _post(bot, "issues", "guid-1", issue),
        _post(bot, "issues", "guid-1", issue),
        _post(bot, "push", "guid-2", push),
        _post(bot, "push", "guid-3", push, actor="mybot[bot]"),
    ]

    assert [answer["status"] for answer in answers] == ["accepted", "duplicate", "accepted", "ignored"]
    assert _result(bot, answers[0]["jobs"][0]) == "ann opened It stops"
    assert _result(bot, answers[2]["jobs"][0]).startswith("acme/api at a1b2c3, written with fence ")


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[str]:
    """Run the example as the README shows, and yield the URL that it prints."""
    (tmp_path / "bot.py").write_text(_example())
    command = [sys.executable, "-c", "from interlock.cli import main; main()", "run", "bot:app"]
    environment = {**os.environ, "WEBHOOK_SECRET": SECRET}
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        output = ""
        while (found := re.search(r"^Dashboard: (\S+)$", output, re.MULTILINE)) is None:
            line = process.stderr.readline()
            assert line, output
            output += line
        yield found[1]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0


def _example() -> str:
    found = re.search(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def _post(url: str, kind: str, guid: str, payload: dict[str, Any], actor: str = "ann") -> Any:
    body = json.dumps({**payload, "sender": {"login": actor}}).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": kind,
        "X-GitHub-Delivery": guid,
        "X-Hub-Signature-256": f"sha256={hmac.new(SECRET.encode(), body, 'sha256').hexdigest()}",
    }
    request = urllib.request.Request(f"{url.partition('/?')[0]}/webhooks/github", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def _result(url: str, job: int) -> str:
    give_up = time.monotonic() + 20
    base, _, token = url.partition("/?token=")
    while True:
        request = urllib.request.Request(f"{base}/api/jobs/{job}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            page = json.load(answer)["job"]
        if page["state"] == "done":
            return str(page["result"])
        assert time.monotonic() < give_up, page
        time.sleep(0.02)
