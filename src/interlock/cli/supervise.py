"""Several processes of ``interlock run``, each with a session of its own; those that die are started again.

A process hears by a socket of its own when this one is gone, and finishes then. It says by the same that it works.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from typing import TYPE_CHECKING

from interlock.cli.output import say
from interlock.cli.signals import stop_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Supervisor"]

_MISUSE = 2
_LEAST_PAUSE, _MAX_PAUSE = 0.5, 30.0
_STEADY_SECONDS = 30.0
_KILL_AFTER = 0.3


class Supervisor:
    """Keeps a number of processes running until it is asked to end them."""

    def __init__(
        self,
        arguments: Sequence[str],
        processes: int,
        *,
        first: Sequence[str] = (),
        sockets: Sequence[socket.socket] = (),
        end_within: float = 30.0,
    ) -> None:
        """``first`` are further arguments of the first process, which gets ``sockets`` too, each time it begins.

        Processes that have not ended ``end_within`` seconds after they were told to are killed.
        """
        self._command = [sys.executable, "-c", "from interlock.cli import main; main()", "run", *arguments]
        self._count = processes
        self._first = tuple(first)
        self._sockets = tuple(sockets)
        self._end_within = end_within
        self._children: dict[asyncio.subprocess.Process, socket.socket] = {}
        self._ending = asyncio.Event()
        self._given = 0
        self._number: int = signal.SIGTERM
        self._worked = False
        self._code = 0

    async def run(self) -> int:
        """Run until told to end; the exit code."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._told, number)
        loop.add_signal_handler(signal.SIGUSR1, self._pass_on, signal.SIGUSR1)
        first_works = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep(first_works, self._first, self._sockets))
                await first_works.wait()  # so that what is wrong with all of them is said once
                for _ in range(self._count - 1):
                    if not self._ending.is_set():
                        group.create_task(self._keep(asyncio.Event()))
        finally:
            for child in self._children:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
        return self._code

    async def _keep(
        self, works: asyncio.Event, more: Sequence[str] = (), sockets: Sequence[socket.socket] = ()
    ) -> None:
        """Keep one process running. ``works`` is set when it does for the first time, or when it never will."""
        pause = _LEAST_PAUSE
        loop = asyncio.get_running_loop()
        try:
            while not self._ending.is_set():
                begun = loop.time()
                code, worked = await self._live_once(works, more, sockets)
                if self._ending.is_set():
                    stopped = code == 128 + signal.SIGTERM
                    if worked or not stopped:  # else it had not even begun
                        self._code = self._code or (128 + self._number if stopped else code)
                    return
                self._worked = self._worked or worked
                if code == _MISUSE and not self._worked:  # else it is a deploy that went wrong, and may be mended
                    self._code = code
                    self._end(signal.SIGTERM)
                    return
                if loop.time() - begun >= _STEADY_SECONDS:
                    pause = _LEAST_PAUSE
                say(f"A process ended with status {code}; another one begins in {pause:g} s.")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._ending.wait()
                pause = min(pause * 2, _MAX_PAUSE)
        finally:
            works.set()

    async def _live_once(
        self, works: asyncio.Event, more: Sequence[str], sockets: Sequence[socket.socket]
    ) -> tuple[int, bool]:
        """Start a process and wait for its end: its status, 128 and more after a signal, and whether it ever worked."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            child = await asyncio.create_subprocess_exec(
                *self._command,
                *more,
                "--supervised",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno(), *(one.fileno() for one in sockets)],
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C reaches it through us, and once
            )
            theirs.close()
            self._children[child] = ours
            if self._ending.is_set():
                child.send_signal(signal.SIGTERM)
            hearing = asyncio.create_task(self._hear(ours, works))
            try:
                code = await child.wait()
                worked = await hearing
            finally:
                hearing.cancel()
                del self._children[child]
        return code if code >= 0 else 128 - code, worked

    async def _hear(self, link: socket.socket, works: asyncio.Event) -> bool:
        """Whether the process says that it works, before it ends."""
        try:
            worked = bool(await asyncio.get_running_loop().sock_recv(link, 16))
        except OSError:
            worked = False
        if worked:
            works.set()
        return worked

    def _told(self, number: int) -> None:
        """Pass on what we are told, as SIGTERM; the third time the processes are ended as they are."""
        self._given += 1
        self._number = number
        if self._given > 2:
            self._code = 128 + number
            self._pass_on(signal.SIGKILL)
        else:
            self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if not self._ending.is_set():
            # They see to it themselves, unless one of them cannot run any Python at all.
            asyncio.get_running_loop().call_later(self._end_within + _KILL_AFTER, self._pass_on, signal.SIGKILL)
        self._ending.set()
        for one in self._sockets:  # else who connects now would wait in vain
            one.close()
        self._pass_on(number)

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)
