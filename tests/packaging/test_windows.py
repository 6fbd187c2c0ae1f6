"""The library and the command line load where POSIX modules and signals do not exist, as on Windows."""

from __future__ import annotations

import pytest

from tests.packaging.isolated import evaluate, run

POSIX_MODULES = ["fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"]
NO_SIGNALS = """
import asyncio, http.client, multiprocessing, os, select, signal, socket, subprocess, tempfile  # before they change
for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL", "SIGSTOP", "SIGCONT", "SIGQUIT", "SIGALRM", "SIGCHLD"):
    delattr(signal, name)
for module, names in {
    os: ("fork", "geteuid", "getuid", "mkfifo", "pread", "pwrite", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC"),
    socket: ("AF_UNIX", "MSG_DONTWAIT"),
    select: ("poll", "epoll"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""
EVERY_MODULE = (
    NO_SIGNALS
    + """
import importlib, pkgutil
import interlock
names = []
for found in pkgutil.walk_packages(interlock.__path__, "interlock."):
    if not found.name.startswith(("interlock.testing", "interlock.cli.demo.")):
        importlib.import_module(found.name)
        names.append(found.name)
"""
)


@pytest.mark.full
def test_every_module_loads_without_posix() -> None:
    names = evaluate(EVERY_MODULE, "names", without=POSIX_MODULES)

    assert {"interlock.cli.run", "interlock.cli.supervise", "interlock.web.protocol"} <= set(names)


def test_the_pytest_plugin_loads_without_posix() -> None:
    assert evaluate(f"{NO_SIGNALS}\nimport interlock.testing.plugin", "True", without=POSIX_MODULES)


@pytest.mark.full
@pytest.mark.parametrize("command", ["--help", "--version", "run --help", "locks --help", "demo --help"])
def test_commands_start_without_posix(command: str) -> None:
    code = f"{NO_SIGNALS}\nfrom interlock.__main__ import main; main()"
    done = run(code, without=POSIX_MODULES, arguments=command.split())

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["demo", "run bot:app --processes 2"])
def test_what_needs_posix_says_so(command: str) -> None:
    code = f"{NO_SIGNALS}\nimport interlock.cli.run\nos.name = 'nt'\nfrom interlock.__main__ import main; main()"
    done = run(code, without=POSIX_MODULES, arguments=command.split())

    assert done.returncode == 2
    assert "requires a POSIX system" in done.stderr
