"""What a run showed, for people and for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    import pytest

__all__ = ["Outcome"]


@dataclass
class Outcome:
    """The figures of a run."""

    what: str
    store: str
    seed: int
    seconds: float
    counts: Counter[str]
    violations: Mapping[str, Sequence[str]]
    fired: Counter[str]

    @property
    def clean(self) -> bool:
        return not any(self.violations.values())

    @property
    def noticed(self) -> set[str]:
        """The kinds of violation that were found."""
        return {name for name, found in self.violations.items() if found}

    def table(self) -> str:
        """The figures for people."""
        lines = ["", f"{self.what} on {self.store}: {self.seconds:.0f} s, seed {self.seed}"]
        sections = {
            "what happened": dict(sorted(self.counts.items())),
            "faults that fired": dict(sorted(self.fired.items())),
            "violations": {name: len(found) for name, found in self.violations.items()},
        }
        for title, figures in sections.items():
            lines.append(f"  {title}")
            lines += [f"    {name:<34}{figure:>8}" for name, figure in figures.items()]
        for name, found in self.violations.items():
            lines += [f"  {name}: {one}" for one in found[:10]]
        return "\n".join(lines)

    def show_and_check(self, capsys: pytest.CaptureFixture[str], faults: set[str], **least: int) -> None:
        """Print the figures; all is well if nothing was violated, every fault fired and enough happened."""
        with capsys.disabled():
            print(self.table())
        assert self.clean, self.table()
        assert {kind for kind in faults if not self.fired[kind]} == set()
        for name, figure in least.items():
            assert self.counts[name.replace("_", " ")] >= figure, name
