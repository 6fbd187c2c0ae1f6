from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock.cli.output import shown, without_password

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "s3cr%2Ft-w0rd"  # in a URL; what it means is s3cr/t-w0rd
URLS_WITH_PASSWORDS = [
    f"postgresql://me:{SECRET}@127.0.0.1:1/db",
    f"postgresql://me@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://me:{SECRET}@127.0.0.1:port/db",
    f"postgresql://me:{SECRET}@127.0.0.1:1/db?sslmode=nonsense",
    f"sqlite://me:{SECRET}@host/file.db",
    f"memory://me:{SECRET}@host/path",
    f"redis://me:{SECRET}@127.0.0.1:1/0",
    f"redis://:{SECRET}@127.0.0.1:1/no-number",
    f"rediss://me:{SECRET}@127.0.0.1:1/0?ssl_cert_reqs=none",
    f"//me:{SECRET}@host/db",
    f"mysql://me:{SECRET}@host/db",
]


def test_a_store_has_to_be_named(cli: Callable[..., Any]) -> None:
    result = cli("locks", "list")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error (misuse): No store was given. Use --url, or set INTERLOCK_URL.\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--url", "mysql://host/db"), "Unknown store URL: mysql://"),
        (("--url", "sqlite:///x.db", "--namespace", "No Good"), "Invalid namespace 'No Good'"),
    ],
)
def test_a_call_that_must_be_mended_ends_with_2(cli: Callable[..., Any], args: tuple[str, ...], says: str) -> None:
    result = cli("locks", "list", *args)

    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_key_that_is_not_acceptable_ends_with_2(cli: Callable[..., Any], tmp_path: Path) -> None:
    result = cli("explain", "lock", "k" * 600, "--url", f"sqlite:///{tmp_path / 'x.db'}")

    assert result.exit_code == 2
    assert "A key has 1 to 512 bytes" in result.stderr


def test_a_server_that_is_away_ends_with_1_in_one_line(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    process = spawn("locks", "list", "--url", "postgresql://me:hidden@127.0.0.1:1/db")
    output, errors = process.communicate(timeout=30)

    assert (process.returncode, output) == (1, "")
    assert errors.startswith("Error (store-unavailable): PostgreSQL is not available")
    assert len(errors.splitlines()) == 1


def test_a_store_without_a_schema_is_told_apart_and_left_alone(cli: Callable[..., Any], store_url: str) -> None:
    if store_url.startswith("sqlite"):
        Path(store_url.removeprefix("sqlite:///")).touch()
    commands = [[group, command] for group in ("locks", "claims", "cursors", "limits") for command in ("list", "show")]
    commands += [["explain", what] for what in ("lock", "claim", "limit")] + [["limits"]]
    for command in commands:
        if command[-1] not in ("list", "limits"):
            command.append("k")
        result = cli(*command, "--url", store_url)

        assert (result.exit_code, result.stdout) == (1, "")
        assert "The store lacks migrations 1 sessions_and_locks" in result.stderr
        assert result.stderr.endswith("Run: interlock migrate up.\n")
    assert "pending" in cli("migrate", "status", "--url", store_url).stdout


@pytest.mark.parametrize("command", [("jobs", "list"), ("explain", "job", "7"), ("explain", "event", "7")])
def test_a_file_that_is_not_there_is_said_to_be_missing(
    cli: Callable[..., Any], tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = tmp_path / "a typo.db"
    result = cli("--url", f"sqlite:///{str(path).replace(' ', '%20')}", *command)

    assert (result.exit_code, result.stdout) == (1, "")
    assert f"The file {path} does not exist. Check --url; `interlock migrate up` creates it." in result.stderr
    assert not path.exists()


def test_memory_cannot_be_looked_into_from_outside(cli: Callable[..., Any]) -> None:
    result = cli("locks", "list", "--url", "memory://name")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "only be seen by the process that made it" in result.stderr


def test_the_store_may_be_named_in_three_ways(cli: Callable[..., Any], tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path / name}.db" for name in "abc"]
    for url in urls[:2]:
        cli("migrate", "up", "--url", url)

    assert cli("locks", "list", env={"INTERLOCK_URL": urls[0]}).exit_code == 0
    assert cli("--url", urls[0], "locks", "list", env={"INTERLOCK_URL": urls[2]}).exit_code == 0
    assert cli("--url", urls[2], "locks", "list", "--url", urls[1], env={"INTERLOCK_URL": urls[2]}).exit_code == 0


@pytest.mark.parametrize("url", URLS_WITH_PASSWORDS)
@pytest.mark.parametrize(
    "command", [("migrate", "status"), ("locks", "list"), ("claims", "list"), ("limits",), ("explain", "lock", "k")]
)
def test_a_password_is_never_printed(cli: Callable[..., Any], url: str, command: tuple[str, ...]) -> None:
    for result in (cli(*command, "--url", url), cli("--url", url, *command), cli(*command, env={"INTERLOCK_URL": url})):
        assert result.exit_code in (1, 2)
        assert SECRET not in result.output
        assert "s3cr/t-w0rd" not in result.output


def test_a_password_is_cut_out_wherever_it_stands() -> None:
    assert without_password("'p@ss' and x://u:p@ss@h", "x://u:p@ss@h") == "'***' and x://u:***@h"
    assert without_password("compass", "x://u:pass@h") == "compass"
    assert without_password("fine", None) == "fine"


def test_what_cannot_be_printed_is_written_out() -> None:
    assert shown("plain ü") == "plain ü"
    assert shown("a\tb\x1b\u202e") == "a\\tb\\x1b\\u202e"


def test_help_imports_neither_drivers_nor_tables() -> None:
    code = "import sys, interlock.cli; print([m for m in ('asyncpg', 'rich.table', 'pytest') if m in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert printed.stdout == "[]\n"


def test_the_version_is_printed(cli: Callable[..., Any]) -> None:
    from interlock import __version__

    assert cli("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize(
    "args",
    [
        ("locks", "release", "key", "--yes", "--reason", "not \udcff text"),
        ("claims", "forget", "key", "--yes", "--reason", "why", "--by", "\udcff"),
        ("claims", "list", "--prefix", "\udcff"),
    ],
)
def test_text_that_no_store_can_keep_is_refused_in_one_line(
    cli: Callable[..., Any], tmp_path: Path, args: tuple[str, ...]
) -> None:
    """What a shell passes on that is not valid UTF-8 arrives as lone surrogates."""
    result = cli(*args, "--url", f"sqlite:///{tmp_path / 'x.db'}")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "plain text" in result.stderr
    assert len(result.stderr.splitlines()) == 1
