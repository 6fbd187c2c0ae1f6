"""The table of reasons in docs/explain.md is generated. To write it again: python -m tests.docs.test_reasons_page"""

from __future__ import annotations

from pathlib import Path

from interlock.reasons import REASONS, Reason

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"
BEGIN, END = "<!-- generated from interlock.reasons -->\n", "<!-- end -->\n"


def test_the_table_of_reasons_is_up_to_date() -> None:
    page = PAGE.read_text("utf-8")

    assert page == _with_table(page), "write it again: python -m tests.docs.test_reasons_page"


def test_every_reason_has_a_sentence() -> None:
    assert set(REASONS) == set(Reason)
    assert all(info.subjects and info.sentence.endswith(".") for info in REASONS.values())


def _with_table(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    rows = [
        f"| `{reason}` | {', '.join(info.subjects)} | {info.sentence} | {info.remedy} |\n"
        for reason, info in REASONS.items()
    ]
    head = "| reason | subjects | meaning | what to do |\n|---|---|---|---|\n"
    return f"{before}{BEGIN}{head}{''.join(rows)}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(_with_table(PAGE.read_text("utf-8")), "utf-8")
