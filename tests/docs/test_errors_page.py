"""The errors page is generated from the error classes: python -m tests.docs.test_errors_page."""

from __future__ import annotations

from pathlib import Path

from interlock import errors

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
BEGIN, END = "<!-- generated from interlock.errors -->\n", "<!-- end -->\n"


def test_the_errors_page_is_up_to_date() -> None:
    page = PAGE.read_text("utf-8")

    assert page == _with_table(page), "regenerate it: python -m tests.docs.test_errors_page"


def _with_table(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    rows = [_row(getattr(errors, name)) for name in sorted(errors.__all__, key=_position)]
    head = "| error | code | meaning | remedy |\n|---|---|---|---|\n"
    return f"{before}{BEGIN}{_tree()}\n{head}{''.join(rows)}{END}{after}"


def _tree() -> str:
    lines = (errors.__doc__ or "").splitlines()
    return "```text\n" + "".join(f"{line[4:]}\n" for line in lines if line.startswith("    ")) + "```\n"


def _position(name: str) -> int:
    return (errors.__doc__ or "").index(name)


def _row(error: type[errors.InterlockError]) -> str:
    when = (error.__doc__ or "").partition("\n")[0]
    return f"| `{error.__name__}` | `{error.code}` | {when} | {error.remedy} |\n"


if __name__ == "__main__":
    PAGE.write_text(_with_table(PAGE.read_text("utf-8")), "utf-8")
