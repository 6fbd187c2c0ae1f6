"""Faults between a process and its store: their probabilities, and how often they happened.

Every figure defaults to 0: a plan without figures is a perfect network. Probabilities are per operation or per message.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

__all__ = ["Dice", "Faults", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """A plan of faults: probabilities from 0 to 1, and times in virtual seconds."""

    latency: float = 0.0
    """Maximum latency of every request and every reply."""

    slow_request: float = 0.0
    """Probability that a request arrives late."""
    slow_reply: float = 0.0
    """Probability that the operation was executed but the reply is late."""
    slow_seconds: float = 1.0
    """Maximum additional delay."""

    refused: float = 0.0
    """Probability that an operation fails and was not executed."""
    failed_after: float = 0.0
    """Probability that an operation fails although it was executed."""
    reply_lost: float = 0.0
    """Probability that an operation is executed but its reply never arrives: the caller fails after a timeout."""
    late: float = 0.0
    """Probability that the caller fails after a timeout and the operation takes effect only after that."""
    timeout_seconds: float = 1.0
    """How long a caller waits for a reply that does not arrive."""
    late_seconds: float = 1.0
    """Maximum time after the caller's failure at which a late operation takes effect."""

    duplicated: float = 0.0
    """Probability that an operation is executed twice, before any later one of its key and, if it is a request for a
    key, before it is answered."""
    duplicate_seconds: float = 0.5
    """Maximum time after the first execution."""

    outage: float = 0.0
    """Probability that a partition between this process and the store begins."""
    outage_seconds: float = 5.0
    """For how long, at most."""

    paused: float = 0.0
    """Probability that the process is suspended from here on."""
    pause_seconds: float = 5.0
    """For how long, at most."""
    crashed_before: float = 0.0
    """Probability that the process is killed before the request is sent."""
    crashed_after: float = 0.0
    """Probability that the process is killed after the operation took effect and before the reply arrives."""

    message_lost: float = 0.0
    """Probability that a notification of the store (turn, forced release) does not arrive."""
    message_delayed: float = 0.0
    """Probability that it is late."""
    message_duplicated: float = 0.0
    """Probability that it arrives twice."""
    message_seconds: float = 1.0
    """Maximum delay."""

    @property
    def errors(self) -> float:
        """The probability that an operation fails."""
        return self.refused + self.failed_after + self.reply_lost + self.late + self.outage

    @property
    def operation_seconds(self) -> float:
        """Maximum duration of an operation under all faults, not counting the wait behind other operations."""
        usual = 2 * self.latency
        if self.slow_request or self.slow_reply:
            usual += 2 * self.slow_seconds
        if self.reply_lost or self.late:
            usual += self.timeout_seconds
        if self.duplicated:
            usual += self.duplicate_seconds
        return usual

    @property
    def message_delay(self) -> float:
        """Maximum delay of a message that arrives."""
        return self.latency + (self.message_seconds if self.message_delayed or self.message_duplicated else 0.0)

    def calmed(self) -> Faults:
        """The same network without faults."""
        return Faults(latency=self.latency)


@dataclass(slots=True)
class Plan:
    """What happens to one operation."""

    before: float = 0.0
    after: float = 0.0
    error: str = ""
    error_after: float = 0.0
    effect_after: float = 0.0
    again_after: float | None = None
    pause: float = 0.0
    crash: str = ""
    dropped_by_crash: bool = False


_ERRORS = ("refused", "failed_after", "reply_lost", "late")
_CRASHES = ("crashed_before", "crashed_after")


class Dice:
    """Draw the faults of each operation and message of one process, and count them."""

    def __init__(self, faults: Faults, seed: str, counts: Counter[str] | None = None) -> None:
        self.faults = faults
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._draw = Random(seed).random
        self._back_at = 0.0

    def plan(self, now: float) -> Plan:
        """The faults of one operation that begins now."""
        faults, draw = self.faults, self._draw
        plan = Plan(before=draw() * faults.latency, after=draw() * faults.latency, dropped_by_crash=draw() < 0.5)
        if self._happens("slow_request"):
            plan.before += draw() * faults.slow_seconds
        if self._happens("slow_reply"):
            plan.after += draw() * faults.slow_seconds
        plan.error = self._one_of(_ERRORS)
        if plan.error in ("reply_lost", "late"):
            plan.error_after = faults.timeout_seconds
        if plan.error == "late":
            plan.effect_after = draw() * faults.late_seconds
        elif self._happens("duplicated"):
            plan.again_after = draw() * faults.duplicate_seconds
        if self._happens("paused"):
            plan.pause = draw() * faults.pause_seconds
        plan.crash = self._one_of(_CRASHES)
        if self._happens("outage"):
            self._back_at = now + draw() * faults.outage_seconds
        if self._out(now):
            plan.error, plan.again_after = "refused", None
        return plan

    def deliveries(self, now: float) -> list[float]:
        """The delays after which a message sent now arrives: none if it is lost, several if it is duplicated."""
        faults, draw = self.faults, self._draw
        if self._happens("message_lost") or self._out(now):
            return []
        delays = [draw() * faults.latency]
        if self._happens("message_delayed"):
            delays[0] += draw() * faults.message_seconds
        if self._happens("message_duplicated"):
            delays.append(draw() * faults.message_seconds)
        return delays

    def _out(self, now: float) -> bool:
        return now < self._back_at and self.faults.outage > 0

    def _happens(self, name: str) -> bool:
        chance: float = getattr(self.faults, name)
        if chance and self._draw() < chance:
            self.counts[name] += 1
            return True
        return False

    def _one_of(self, names: tuple[str, ...]) -> str:
        lot = None
        for name in names:
            chance: float = getattr(self.faults, name)
            if chance:
                lot = self._draw() if lot is None else lot
                if lot < chance:
                    self.counts[name] += 1
                    return name
                lot -= chance
        return ""
