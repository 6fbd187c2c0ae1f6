"""The coverage that the core concepts must keep, in each of their parts.

`make coverage` runs the tests and passes coverage.py's JSON report to this module. A concept has one part for its
package and one for its files in each backend. Every part has to reach the minimum, so that a well-tested part cannot
make up for an untested one.
"""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["BACKENDS", "CONCEPTS", "MINIMUM", "PACKAGE", "Part", "main", "measure", "table"]

MINIMUM = 90.0
"""Percent of statements and branches, together."""
PACKAGE = "package"
BACKENDS = ("memory", "sqlite", "postgres", "redis")
CONCEPTS = {
    "locks": ("locks/*", "deadlocks.py", "backends/*/locks.py"),
    "claims": ("claims/*", "backends/*/claims.py"),
    "limits": ("limits/*", "backends/*/limit*.py"),
    "jobs": ("jobs/*", "backends/*/job*.py", "backends/*/queue_order.py", "backends/*/ready_notifications.py"),
    "records": ("records/*", "backends/*/records.py"),
    "journal": ("journal/*", "backends/*/journal.py"),
    "leases": ("leases/*", "sessions.py", "store_client.py", "backends/*/sessions.py"),
}
"""Patterns of the files of each concept, relative to the library. A star also matches subfolders."""
_ROOT = "src/interlock/"


class Part(NamedTuple):
    """The files of a concept in its package or in one backend."""

    concept: str
    place: str
    files: dict[str, dict[str, Any]]
    """The report of coverage.py about each file."""

    @property
    def percent(self) -> float:
        """The covered share of all statements and branches."""
        summaries = [file["summary"] for file in self.files.values()]
        total = sum(summary["num_statements"] + summary["num_branches"] for summary in summaries)
        covered = sum(summary["covered_lines"] + summary["covered_branches"] for summary in summaries)
        return 100.0 * covered / total if total else 0.0

    @property
    def missed(self) -> bool:
        """Whether the part is below the minimum."""
        return self.percent < MINIMUM

    def lines(self) -> list[str]:
        """Return one line for each file that is not covered completely, the worst first."""
        missing = [
            (len(file["missing_lines"]) + len(file["missing_branches"]), name, file["missing_lines"])
            for name, file in self.files.items()
        ]
        return [
            f"  {name}: {count} missing, lines {', '.join(map(str, lines)) or 'none (branches only)'}"
            for count, name, lines in sorted(missing, reverse=True)
            if count
        ]


def measure(report: dict[str, Any]) -> list[Part]:
    """Sort the files of a report into parts. A file belongs to the first concept that has a pattern for it."""
    parts: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for path, file in report["files"].items():
        name = path.replace("\\", "/").rpartition(_ROOT)[2]
        concept = next((concept for concept in CONCEPTS if _belongs(name, CONCEPTS[concept])), None)
        if concept is not None:
            folder, _, rest = name.partition("/")
            place = rest.partition("/")[0] if folder == "backends" else PACKAGE
            parts.setdefault((concept, place), {})[name] = file
    return [
        Part(concept, place, parts[concept, place])
        for concept in CONCEPTS
        for place in (PACKAGE, *BACKENDS)
        if (concept, place) in parts
    ]


def table(parts: list[Part]) -> str:
    """Draw one row for each concept and one column for its package and for each backend."""
    found = {(part.concept, part.place): f"{part.percent:.1f}{'!' if part.missed else ' '}" for part in parts}
    rows = [("", *(f"{place} " for place in (PACKAGE, *BACKENDS)))]
    rows += [(concept, *(found.get((concept, place), "- ") for place in (PACKAGE, *BACKENDS))) for concept in CONCEPTS]
    return "\n".join(f"{name:8}" + "".join(f"{cell:>10}" for cell in cells) for name, *cells in rows)


def main(path: str) -> int:
    """Print the table and what is missing. Return 1 if a part is below the minimum or a concept has no package."""
    parts = measure(json.loads(Path(path).read_text()))
    print(f"Coverage in percent of statements and branches; at least {MINIMUM:g} each.\n\n{table(parts)}\n")
    absent = CONCEPTS.keys() - {part.concept for part in parts if part.place == PACKAGE}
    for concept in sorted(absent):
        print(f"{concept}: the report has no such package. Was it renamed? See CONCEPTS in tests/coverage_gate.py.")
    missed = [part for part in parts if part.missed]
    for part in missed:
        print(f"{part.concept} ({part.place}) has {part.percent:.1f}:", *part.lines(), sep="\n")
    return 1 if missed or absent else 0


def _belongs(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
