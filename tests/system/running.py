"""A bot under ``interlock run --listen``, as a real process that a test sends requests to."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECRET = "the secret of the forge"
BOT = """
from interlock import App, Event, GitHub

app = App({url!r})
app.source(GitHub(secret={secret!r}))

@app.on("github.**")
async def handle(event: Event) -> None: ...
"""


class Running(NamedTuple):
    port: int
    process: subprocess.Popen[str]
    said: str
    """What it wrote to standard error until it was ready."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def signature(body: bytes) -> str:
    return "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


@contextlib.contextmanager
def running(
    directory: Path, url: str, *, bot: str = BOT, env: Mapping[str, str] | None = None, options: tuple[str, ...] = ()
) -> Iterator[Running]:
    """Run the bot until the block ends; it has to end by itself then, with status 0."""
    (directory / "bot.py").write_text(bot.format(url=url, secret=SECRET))
    command = [sys.executable, "-c", "from interlock.cli import main; main()", "run", "bot:app", *options]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"],
        cwd=directory,
        env={**os.environ, **(env or {})},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while not (line := process.stderr.readline()).startswith("Runs up to"):
            assert line, f"it ended with {process.wait()}: {said}"
            said += line
        found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
        assert found is not None, said
        yield Running(int(found[1]), process, said)
        process.terminate()
        _, rest = process.communicate(timeout=30)
        assert process.returncode == 0, rest
    finally:
        process.kill()
        process.communicate()
