"""Output that never blocks and never fails, whatever its reader does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from typing import TYPE_CHECKING

import pytest

from interlock.cli import streams
from interlock.cli.streams import MAX_UNREAD, _End, _Output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Ends:
    """A reader, and the output that it reads."""

    def __init__(self, kind: str) -> None:
        if kind == "socket":
            ours, theirs = socket.socketpair()
            self.reader, self.writer = ours.detach(), theirs.detach()
        else:
            self.reader, self.writer = os.pipe()
        self.output = _Output(self.writer)
        self._open = [self.reader, self.writer]

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = os.read(self.reader, size - len(found))
            assert part
            found += part
        return found

    def close_reader(self) -> None:
        self._open.remove(self.reader)
        os.close(self.reader)

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        if self.output._thread is not None:
            self.output.write(b"so that it sees that the reader is gone")
            self.output._thread.join()
        self.output.close()


@pytest.fixture(params=["pipe", "socket", "blocking pipe"])
def ends(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    if request.param == "blocking pipe":  # as on systems without /proc
        monkeypatch.setattr("interlock.cli.streams._end_for", lambda descriptor: _End(os.dup(descriptor)))
    made = Ends(request.param)
    with contextlib.closing(made):
        yield made


def test_what_is_written_can_be_read(ends: Ends) -> None:
    assert ends.output.write(b"one\n") == 4
    assert ends.output.write(b"two\n") == 4
    assert ends.read(8) == b"one\ntwo\n"


def test_what_nobody_reads_for_a_while_is_kept_in_order(ends: Ends) -> None:
    blocks = [b"%07d\n" % number for number in range(100_000)]
    for block in blocks:
        ends.output.write(block)
    assert ends.read(800_000) == b"".join(blocks)
    ends.output.wait_until_written(5)
    ends.output.write(b"more")
    assert ends.read(4) == b"more"


def test_what_exceeds_the_bound_is_dropped_and_counted(ends: Ends) -> None:
    block = b"x" * 100_000
    for _ in range(100):
        ends.output.write(block)
    assert len(ends.output._unread) <= MAX_UNREAD
    read = b""
    while b"output were dropped" not in read:
        read += os.read(ends.reader, 65536)
    kept = read.count(b"x")
    dropped = int(read.partition(b"[")[2].split()[0].replace(b",", b""))
    assert kept + dropped == 10_000_000
    assert kept > MAX_UNREAD / 2


def test_a_reader_that_goes_away_fails_nothing(ends: Ends) -> None:
    ends.output.write(b"x" * 1_000_000)
    ends.close_reader()
    for _ in range(3):
        assert ends.output.write(b"more") == 4
    ends.output.wait_until_written(5)
    assert ends.output._unread == b""


def test_a_wait_for_a_reader_ends(ends: Ends) -> None:
    ends.output.write(b"x" * 1_000_000)
    ends.output.wait_until_written(0.01)
    assert ends.output._unread


def test_the_flags_that_other_processes_share_stay() -> None:
    with contextlib.closing(Ends("pipe")) as ends:
        ends.output.write(b"x" * 1_000_000)
        assert not fcntl.fcntl(ends.writer, fcntl.F_GETFL) & os.O_NONBLOCK


def test_a_full_disk_fails_nothing() -> None:
    with open("/dev/full", "wb") as full:
        output = _Output(full.fileno())
        assert output.write(b"more") == 4
        output.wait_until_written(5)
        output.close()


def test_files_are_written_at_once(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        output = _Output(file.fileno())
        output.write(b"x" * 1_000_000)
        output.close()
        assert (tmp_path / "out").stat().st_size == 1_000_000


def test_streams_of_others_are_left_alone() -> None:
    streams.protect_output()  # pytest has replaced them
    assert not streams._protected
