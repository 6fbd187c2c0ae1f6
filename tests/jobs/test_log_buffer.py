"""Lines of a handler are cleaned and bounded before they leave the process."""

from __future__ import annotations

import logging
import math
import threading
from typing import Any

import pytest

from interlock import Settings
from interlock.clock import SystemClock
from interlock.jobs.log_buffer import LogBuffers, clean_lines, message_text
from interlock.ports.job_logs import MAX_LINE, MAX_MESSAGE, JobReport
from interlock.ports.jobs import FetchedJob
from interlock.telemetry.jobs import JobMetrics

JOB = FetchedJob(7, "work", "default", "", 3, 1, 0, None, 50, 0.0, 0.0, "{}", "", ())


def buffers(**settings: Any) -> LogBuffers:
    return LogBuffers(Settings(**settings), SystemClock(), JobMetrics("memory"), {})


def numbered(report: JobReport | None) -> list[tuple[int, str]]:
    """The lines of a report, numbered as a store would."""
    assert report is not None
    number, found = 0, []
    for chunk in report.chunks:
        number += chunk.skipped
        for line in chunk.lines:
            number += 1
            found.append((number, line.text))
    return found


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("plain", ["plain"]),
        ("", [""]),
        ("one\ntwo\r\nthree\rfour\n", ["one", "two", "three", "four"]),
        ("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain", ["red and plain"]),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("\x1b]unterminated", [""]),
        ("nul \x00 bell \x07 csi \x9b31m del \x7f tab \t", ["nul \\x00 bell \\x07 csi \\x9b31m del \\x7f tab \t"]),
        ("lone \ud800 surrogate", ["lone \\ud800 surrogate"]),
        ("<b>&\"'</b>", ["<b>&\"'</b>"]),
        ("a\u2028b\x0bc", ["a", "b", "c"]),
    ],
)
def test_nothing_that_controls_a_terminal_or_breaks_a_store_is_kept(given: str, lines: list[str]) -> None:
    assert clean_lines(given, 10_000) == lines
    for line in lines:
        line.encode()
        assert "\0" not in line


def test_a_huge_line_is_cut_and_says_so() -> None:
    (line,) = clean_lines("x" * (MAX_LINE + 1234), 1_000_000)
    assert line == "x" * MAX_LINE + "… (1,234 more characters)"


def test_of_a_huge_text_only_the_ends_are_read() -> None:
    lines = clean_lines("\n".join(map(str, range(1_000_000))), 1000)
    assert lines[0] == "0"
    assert lines[-1] == "999999"
    assert len(lines) < 2000
    assert any("characters were left out" in line for line in lines)


def test_the_first_lines_and_the_latest_are_kept_and_a_gap_shows_the_rest() -> None:
    logs = buffers(job_log_lines=100)
    buffer = logs.of(JOB)
    for number in range(1, 1001):
        buffer.write(logging.INFO, str(number))
    kept = numbered(buffer.take())
    assert kept == [(n, str(n)) for n in (*range(1, 11), *range(901, 1001))]
    assert logs.metrics.log_lines_dropped == 890
    assert logs.metrics.log_lines == 0
    buffer.confirm()
    assert logs.metrics.log_lines == 110


def test_a_buffer_is_bounded_in_bytes_too() -> None:
    logs = buffers(job_log_bytes=10_000)
    buffer = logs.of(JOB)
    for _ in range(1000):
        buffer.write(logging.INFO, "x" * 1000)
    report = buffer.take()
    assert sum(len(text) for _, text in numbered(report)) <= 100 * 1000 + 10_000, "the head, and the tail"
    assert report is not None
    assert max(sum(len(line.text) for line in chunk.lines) for chunk in report.chunks) <= 2000


def test_a_report_is_the_same_until_it_is_confirmed() -> None:
    buffer = buffers().of(JOB)
    assert buffer.take() is None
    buffer.write(logging.INFO, "one")
    first = buffer.take()
    buffer.write(logging.INFO, "two")
    assert buffer.take() is first
    buffer.confirm()
    second = buffer.take()
    assert second is not None
    assert (second.number, numbered(second)) == (2, [(1, "two")])
    buffer.confirm()
    assert buffer.take() is None


def test_a_closed_buffer_accepts_nothing() -> None:
    logs = buffers()
    buffer = logs.of(JOB)
    buffer.write(logging.INFO, "one")
    logs.close([(JOB.id, JOB.fence), (8, 1)])
    buffer.write(logging.INFO, "two")
    assert buffer.take() is None
    assert logs.open == {}
    assert logs.metrics.log_lines_dropped == 1


def test_without_lines_to_keep_only_progress_is_reported() -> None:
    buffer = buffers(job_log_lines=0).of(JOB)
    buffer.write(logging.INFO, "one")
    assert buffer.take() is None
    buffer.set_progress(0.5, "half")
    report = buffer.take()
    assert report is not None
    assert report.chunks == []
    assert report.progress is not None


@pytest.mark.parametrize(
    ("fraction", "kept", "warns"),
    [
        (0, 0.0, False),
        (0.25, 0.25, False),
        (1, 1.0, False),
        (1.0000001, 1.0, True),
        (-1, 0.0, True),
        (math.inf, 1.0, True),
        (math.nan, None, True),
        ("0.5", None, True),
        (None, None, True),
        (True, None, True),
        (10**400, None, True),
    ],
)
def test_an_invalid_progress_warns_in_the_log_and_fails_nothing(fraction: Any, kept: float | None, warns: bool) -> None:
    buffer = buffers().of(JOB)
    buffer.set_progress(fraction, None)
    report = buffer.take()
    assert report is not None
    assert (None if report.progress is None else report.progress.fraction) == kept
    assert bool(numbered(report)) == warns
    if warns:
        assert report.chunks[0].lines[0].level == logging.WARNING
        assert report.chunks[0].lines[0].text.startswith("Invalid progress ")


def test_a_progress_without_a_message_keeps_the_last_one() -> None:
    buffer = buffers().of(JOB)
    texts = []
    for given in ((0.1, "copying\x1b[0m\nfiles"), (0.2, None), (0.3, ""), (0.4, "x" * 1000)):
        buffer.set_progress(*given)
        report = buffer.take()
        assert report is not None
        assert report.progress is not None
        texts.append(report.progress.message)
        buffer.confirm()
    assert texts == ["copying files", "copying files", "", "x" * MAX_MESSAGE + "…"]


def test_a_message_never_fails() -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError

        __repr__ = __str__

    assert message_text("a %s %d", ("b", 1)) == "a b 1"
    assert message_text("%(a)s", ({"a": 1},)) == "1"
    assert message_text("a %d", ("b",)) == "a %d ('b',)"
    assert message_text("100%", ()) == "100%"
    assert "cannot be shown" in message_text(Bad(), ())
    assert "cannot be shown" in message_text("%s", (Bad(),))
    error = ValueError("oh")
    assert message_text("m", (), exc_info=error) == "m\nValueError: oh"
    assert message_text("m", (), exc_info=(ValueError, error, None)) == "m\nValueError: oh"
    try:
        raise error
    except ValueError:
        assert message_text("m", (), exc_info=True).splitlines()[1] == "Traceback (most recent call last):"


def test_many_threads_write_at_once_and_nothing_is_lost_or_mixed() -> None:
    buffer = buffers(job_log_lines=100_000, job_log_bytes=10_000_000).of(JOB)
    seen: list[str] = []

    def write(name: str) -> None:
        for number in range(1000):
            buffer.write(logging.INFO, f"{name} {number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or buffer.take() is not None:
        report = buffer.take()
        if report is not None:
            seen += [text for _, text in numbered(report)]
            buffer.confirm()
    for name in "abcd":
        assert [text for text in seen if text.startswith(name)] == [f"{name} {number}" for number in range(1000)]
