"""Commands in remedies: a shell that is given one runs it alone, and passes each word on as it is."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

import pytest

from interlock.claims.explain import explain as explain_claim
from interlock.explanation import command
from interlock.jobs.explain import explain_job, explain_lane
from interlock.limits.explain import explain as explain_limit
from interlock.locks.explain import explain as explain_lock
from interlock.ports.claims import ClaimState, ClaimView
from interlock.ports.job_views import LaneView
from interlock.ports.jobs import JobState
from interlock.ports.limits import LimitUser, LimitView
from interlock.ports.locks import Holder, LockView, Waiter
from interlock.web.pages.markup import sentence
from tests.jobs.test_explain import NOW, OUTLOOK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

WHO = ("s1", "host1", 42, "bot.py")
KEYS = (
    "acme/api#7",
    "acme/api:x'$(touch PWNED)",
    'acme/api:x"`touch PWNED`"',
    "x;touch PWNED",
    "x && touch PWNED | (touch PWNED), more",
    "';touch PWNED;'",
    "$'x';touch PWNED",
    "-dash",
    "--help",
    "--",
    "-x'$(touch PWNED)",
    "back\\slash\\",
    "two  spaces ",
    "=ls",
    "~",
    "*",
    "ends with: a dot.",
    "x,",
    "<b>job 7</b>",
    "größe 🚀",
)
UNPRINTABLE = (
    "tab\tin",
    "x\n';touch PWNED;'",
    "\x1b'$(touch PWNED)",
    "turned\u202e\\'$(touch PWNED)",
    "-\r`touch PWNED`",
)


def remedies(key: str) -> Iterable[tuple[str, list[str]]]:
    """Every text with a command about the key, and the words that the command is to be called with."""
    holder = Holder("o", "vm:1", *WHO, 3, NOW - 9, NOW + 9)
    lock = LockView(key, holder, (Waiter("p", "vm:2", *WHO, NOW - 5, None, True),), None, NOW)
    claim = ClaimView(key, ClaimState.DONE, 1, 3, "o", *WHO, NOW - 9, None, NOW - 5, None, "", None, NOW + 99, NOW)
    user = LimitUser("o", "vm:1", *WHO, 1, 0.0, NOW - 5, None, False, key)
    lane = LaneView(key, JobState.HELD, None, "", 0, NOW - 5, None, "ann", "audit", NOW - 5, None, "", NOW)
    job = OUTLOOK.job._replace(lane=key, state=JobState.BEHIND)
    runs = OUTLOOK._replace(job=job._replace(state=JobState.RUNNING))
    yield explain_lane(key, lane).remedy, ["lanes", "release", key]
    yield explain_job(OUTLOOK._replace(job=job)).remedy, ["explain", "lane", key]
    yield explain_job(runs, waits=[lock]).remedy, ["explain", "lock", key]
    yield explain_lock(key, lock).remedy, ["locks", "release", key, "--reason", "…"]
    yield explain_claim(key, claim).remedy, ["claims", "forget", key, "--reason", "…"]
    waits = LimitView("another", (user._replace(started=True, at=NOW - 5),), (user,), None, NOW)
    yield explain_limit("another", waits).lines[-1], ["explain", "limit", key]


def on_the_page(text: str) -> str:
    """The command that the dashboard shows in a sentence."""
    (shown,) = re.findall("<code>(.*?)</code>", sentence(text, lambda job: "", NOW))
    return html.unescape(shown)


class Shell(Protocol):
    """Runs a text; gives the words of each call of ``interlock``, after looking that nothing else was run."""

    def __call__(self, text: str, name: str = "sh") -> list[list[str]]: ...


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    stub = tmp_path / "bin" / "interlock"
    stub.parent.mkdir()
    stub.write_text(f"#!{sys.executable} -SE\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    stub.chmod(0o755)

    def run(text: str, name: str = "sh") -> list[list[str]]:
        env = {"PATH": f"{stub.parent}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        done = subprocess.run([name, "-c", text], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert [path.name for path in tmp_path.iterdir()] == ["bin"]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def as_meant(words: list[str]) -> list[str]:
    """The words as a command line understands them: those before ``--``, options last, then those after it."""
    if "--" not in words:
        return words
    at = words.index("--")
    assert words[at + 1].startswith("-")
    return [*words[:2], *words[at + 1 :], *words[2:at]]


@pytest.mark.parametrize("key", KEYS)
def test_a_remedy_is_one_command_with_the_key_as_one_word(key: str, shell: Shell) -> None:
    told = list(remedies(key))
    called = shell("\n".join(on_the_page(text) for text, _ in told))
    assert [as_meant(words) for words in called] == [words for _, words in told]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("key", UNPRINTABLE)
def test_what_cannot_be_printed_is_written_out(key: str, shell: Shell) -> None:
    told = list(remedies(key))
    texts = [on_the_page(text) for text, _ in told]
    assert all(text.isprintable() for text in texts)
    assert [as_meant(words) for words in shell("\n".join(texts), "bash")] == [words for _, words in told]
    assert len(shell("\n".join(texts))) == len(told), "a plain sh gets another key, and runs nothing else either"


def test_a_command_says_no_more_than_is_needed() -> None:
    assert command("lanes", "release", "acme/api:main") == "interlock lanes release acme/api:main"
    assert command("lanes", "release", "acme/api#7") == "interlock lanes release 'acme/api#7'"
    assert command("locks", "release", "k", options="--reason …") == "interlock locks release k --reason …"
    assert command("locks", "release", "-k", options="--reason …") == "interlock locks release --reason … -- -k"
    assert command("explain", "lane", "a\t'b") == r"interlock explain lane $'a\x09\x27b'"
