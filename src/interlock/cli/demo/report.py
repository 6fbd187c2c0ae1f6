"""Print the findings of the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from interlock.cli.output import console, say

if TYPE_CHECKING:
    from interlock.cli.demo.findings import Findings, Takeovers

__all__ = ["print_audit"]


def print_audit(findings: Findings) -> None:
    """Print a table: what happened, then violations."""
    out = console()
    table = Table(
        title="Audit of the records of the forge, the handlers and the target",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("")
    for what, count, note in _happened(findings):
        table.add_row(what, str(count), Text(note, "dim"))
    table.add_section()
    for what, count in findings.forbidden.items():
        verdict = Text("must be 0", "dim") if count == 0 else Text("must be 0!", "bold red")
        table.add_row(what, Text(str(count), "bold green" if count == 0 else "bold red"), verdict)
    out.print(table)
    for example in findings.examples:
        say(example)
    if findings.clean:
        out.print(Text("Every promise was kept.", "bold green"))
    else:
        out.print(Text("A promise was broken.", "bold red"))


def _happened(findings: Findings) -> list[tuple[str, int, str]]:
    """Rows of what happened: a name, a count and a note."""
    seen = findings.seen
    rows = [
        ("workers killed", seen["killed"], f"{seen['frozen']} frozen" if seen["frozen"] else ""),
        ("webhooks accepted", seen["accepted"], f"{seen['posts']} posts of {seen['webhooks']} webhooks"),
        ("webhooks handled", seen["handled"], f"{seen['runs']} runs of their jobs, {seen['failures']} of them failed"),
        ("duplicates rejected", seen["duplicate"], ""),
        ("forged webhooks refused", seen["refused"], f"{seen['ignored']} of the bot's own ignored"),
        ("jobs taken over", findings.jobs_taken_over.count, _after(findings.jobs_taken_over)),
        ("jobs failed permanently", seen["failed permanently"], "as intended" if seen["failed permanently"] else ""),
        ("late acknowledgements", seen["late acknowledgements"], "refused" if seen["late acknowledgements"] else ""),
        ("locks granted", seen["grants"], f"{seen['writes']} writes accepted"),
        ("locks taken over", findings.locks_taken_over.count, _after(findings.locks_taken_over)),
        ("stale writes refused", seen["stale writes refused"], ""),
        ("containers run", seen["containers"], f"at most {findings.max_containers} at once"),
        ("people greeted", seen["greeted"], f"{seen['greeted before']} were greeted before"),
    ]
    rare = {"manually": "jobs retried manually", "cancelled": "jobs cancelled manually", "quarantined": "quarantined"}
    return rows + [(told, seen[what], "") for what, told in rare.items() if seen[what]]


def _after(took: Takeovers) -> str:
    if not took.count:
        return ""
    least, limit = f"{took.least:.1f}", f"{took.limit:.1f}"
    return f"{least if least == limit else f'{least} to {limit}'} s after a kill or a freeze"
