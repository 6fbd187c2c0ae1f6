"""Why something is as it is: one answer for all concepts, in words for people and as data for programs."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

__all__ = ["COMMAND", "MAX_WHY", "Explanation", "Subject", "brief", "command", "counted", "ordinal", "span"]

MAX_WHY = 160
"""How long a text for a row of a table may be."""
_MAX_COUNTED = 10_000
_PLAIN = re.compile(r"[A-Za-z0-9@%+:,./_-](?:[A-Za-z0-9@%+=:,./_-]*[A-Za-z0-9@%+=/_-])?")
"""Text that needs no quotes in any shell and does not end like a sentence."""
_WORD = r"""(?:[A-Za-z0-9@%+=:,./_…-]|'[^']*'|"'"|\$'[^']*')+(?<![:,.])"""
_COMMANDS = "run|jobs|lanes|locks|claims|cursors|limits|events|schedules|records|pipelines|journal|explain|migrate"
COMMAND = rf"\binterlock (?:{_COMMANDS})\b(?: {_WORD})*"
"""A pattern for what :func:`command` made, from its begin to its end in a sentence."""
R = TypeVar("R", bound=StrEnum, default=StrEnum, covariant=True)
S = TypeVar("S", bound=StrEnum)


class Subject(NamedTuple):
    """What is explained."""

    kind: str
    """job, lane, queue, lock, limit, claim, event, schedule, record, run or journal."""
    ref: str
    """Its number or key."""


@dataclass(frozen=True, slots=True)
class Explanation(Generic[R]):
    """What is so, why, and what to do."""

    subject: Subject
    reason: R
    """One word for programs, out of the subject's own set."""
    why: str
    """The short of it, for a row of a table; without the subject's name. Empty where there is nothing to say."""
    lines: tuple[str, ...]
    """For people: the state, what it depends on, and what to do."""
    remedy: str
    """What to do; the last of the lines too. Empty where nothing is to be done."""
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    """For programs; the reason, why, the remedy and the lines (as ``explain``) are in it too."""

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @staticmethod
    def of(
        subject: Subject, reason: S, why: str, lines: list[str], remedy: str, data: dict[str, Any]
    ) -> Explanation[S]:
        """One whose remedy is its last line, and whose data says all of it too."""
        told = tuple(lines) if not remedy else (*lines, remedy)
        also = {"reason": str(reason), "why": why, "remedy": remedy, "explain": list(told)}
        return Explanation(subject, reason, why, told, remedy, {**data, **also})


# -- parts of sentences -----------------------------------------------------------------------------------------------


def brief(text: str, limit: int = MAX_WHY) -> str:
    """A text on one line, and not at any length."""
    line = " ".join(text.split()) if "\n" in text or "\t" in text else text
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def span(seconds: float) -> str:
    """How long, in the unit that people would use."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def command(*words: str, options: str = "") -> str:
    """Return a command for people to copy. A shell takes each word as one argument, whatever it contains.

    ``options`` go last, or before the first word that would be taken for one of them.
    """
    end = [options] if options else []
    first = next((at for at, word in enumerate(words) if word.startswith("-")), None)
    given = [_quoted(word) for word in words]
    parts = [*given, *end] if first is None else [*given[:first], *end, "--", *given[first:]]
    return " ".join(["interlock", *parts])


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    if word.isprintable():
        return f"'{word}'" if "'" not in word else shlex.quote(word)
    # For bash, zsh and others. A shell that does not know $'…' sees one word too: no quote stands in it.
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(char: str) -> str:
    if char.isprintable() and char not in "'\\":
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def counted(count: int, limit: int = _MAX_COUNTED) -> str:
    """A number that was counted up to a bound."""
    return f"{limit:,} or more" if count >= limit else f"{count:,}"


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    suffix = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"
