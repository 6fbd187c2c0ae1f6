"""The log of a job grows on its open page, and does not move while a person reads further up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.pages.bot import CHATS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.web.browser.house import House
    from tests.web.browser.visitor import Visitor
    from tests.web.pages.bot import Bot

pytestmark = pytest.mark.system

EVIL = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\x1b[31m\u202e</li></ol>"
AT_END = "log => log.scrollHeight - log.scrollTop - log.clientHeight < 24"


def _chat(house: House, *lines: str, **how: Any) -> int:
    async def chat(bot: Bot) -> int:
        job = await bot.enqueue("chat", lines=list(lines), how="stay", **how)
        await bot.until(job, "running")
        return job

    return house.run(chat)


def _say(house: House, job: int, *lines: str, fraction: float | None = None) -> None:
    async def say(bot: Bot) -> None:
        for line in lines:
            CHATS[job].log(line)
        if fraction is not None:
            CHATS[job].progress(fraction)

    house.run(say)


def test_lines_appear_while_the_job_runs_and_the_log_stays_at_its_end(visitor: Visitor, house: House) -> None:
    job = _chat(house, "first", "warning|careful", EVIL)
    visitor.go(f"/jobs/{job}")
    visitor.sees("[data-log] li.level-warning >> text=careful")
    visitor.sees("section[aria-label=Progress] >> text=40%")
    visitor.page.evaluate("window.mark = 1")
    _say(house, job, *(f"line {number}" for number in range(100)), fraction=0.8)
    visitor.sees("[data-log] >> text=line 99")
    visitor.sees("section[aria-label=Progress] >> text=80%")
    assert visitor.find("[data-log]").evaluate(AT_END)
    house.run(lambda bot: bot.app.jobs.cancel(job, reason="enough", by="test"))
    visitor.sees("h1 >> text=cancelled")
    assert visitor.find("[data-log-pause]").count() == 0
    assert visitor.page.evaluate("window.mark === 1"), "it was never loaded again"


def test_whoever_reads_further_up_is_left_alone_until_the_end_is_wanted_again(visitor: Visitor, house: House) -> None:
    job = _chat(house, *(f"old {number}" for number in range(150)))
    visitor.go(f"/jobs/{job}")
    visitor.sees("[data-log] >> text=old 149")
    log, pause = visitor.find("[data-log]"), visitor.find("[data-log-pause]")
    assert pause.inner_text() == "Pause"
    log.evaluate("log => { log.scrollTop = 100; }")
    visitor.sees("[data-log-pause] >> text=Follow")
    _say(house, job, *(f"new {number}" for number in range(150)), fraction=0.9)
    visitor.sees("section[aria-label=Progress] >> text=90%")
    assert log.evaluate("log => log.scrollTop") == 100
    assert visitor.find("[data-log] >> text=new 149").count() == 0
    pause.click()
    visitor.sees("[data-log] >> text=new 149")
    assert log.evaluate(AT_END)

    pause.click()
    visitor.sees("[data-log-pause] >> text=Follow")
    _say(house, job, "later", fraction=0.95)
    visitor.sees("section[aria-label=Progress] >> text=95%")
    assert visitor.find("[data-log] >> text=later").count() == 0, "the button pauses too"
    pause.click()
    visitor.sees("[data-log] >> text=later")


def test_a_log_that_begins_on_the_open_page_is_followed_from_its_first_line(visitor: Visitor, house: House) -> None:
    job = _chat(house)
    visitor.go(f"/jobs/{job}")
    visitor.sees("h1 >> text=running")
    for first in range(0, 300, 150):
        _say(house, job, *(f"line {number}" for number in range(first, first + 150)))
        visitor.sees(f"[data-log] >> text=line {first + 149}")
        assert visitor.find("[data-log]").evaluate(AT_END)


def test_a_long_log_stays_small_on_the_page(visitor: Visitor, house: House) -> None:
    job = _chat(house, "x" * 5000, *(f"line {number}" for number in range(1500)))
    visitor.go(f"/jobs/{job}")
    visitor.sees("[data-log] >> text=line 1499")
    assert visitor.find("[data-log] li").count() <= 202
    _say(house, job, *(f"more {number}" for number in range(500)))
    visitor.sees("[data-log] >> text=more 499")
    assert visitor.find("[data-log] li").count() <= 202
    assert visitor.wider_than_its_window() <= 0


def test_lists_show_the_progress_of_running_jobs(visitor: Visitor, house: House) -> None:
    job = _chat(house, "first", message="copying")
    visitor.go("/jobs?state=running")
    visitor.sees(f"tr[data-key=job-{job}] .progress >> text=40%")
    _say(house, job, fraction=0.5)
    visitor.sees(f"tr[data-key=job-{job}] .progress >> text=50%")


def test_a_phone_and_a_page_without_javascript_show_the_log(visit: Callable[..., Visitor], house: House) -> None:
    job = _chat(house, "first " * 100, EVIL)
    for how in ({"phone": True}, {"javascript": False}):
        visitor = visit(**how)
        visitor.go(f"/jobs/{job}")
        visitor.sees("[data-log] >> text=first")
        assert visitor.wider_than_its_window() <= 0
        if how == {"javascript": False}:
            assert not visitor.find("[data-log-pause]").is_visible()
