"""How pages say things: times, counts, JSON, sentences, and where charts draw."""

from __future__ import annotations

import json

import pytest
from markupsafe import Markup

from interlock.explanation import Explanation, Subject
from interlock.insight.views import Activity, Bucket
from interlock.ports.jobs import JobState
from interlock.reasons import Reason
from interlock.web.pages.charts import activity_chart, parts_of, squares
from interlock.web.pages.formatting import STATES, count, long_span, plural, short_span, visible
from interlock.web.pages.icons import icon
from interlock.web.pages.markup import json_html, sentence
from interlock.web.pages.related import related


@pytest.mark.parametrize(
    ("seconds", "short", "long"),
    [
        (-5, "0s", "0 ms"),
        (0.25, "0s", "250 ms"),
        (59.9, "59s", "59.9 s"),
        (61, "1m", "1m 1s"),
        (3600, "1h", "1h 0m"),
        (100_000, "27h", "27h 46m"),
        (200_000, "2d", "2d 7h"),
    ],
)
def test_spans(seconds: float, short: str, long: str) -> None:
    assert (short_span(seconds), long_span(seconds)) == (short, long)


def test_counts_end_where_they_are_bounded() -> None:
    assert [count(0), count(9_999), count(10_000)] == ["0", "9,999", "10,000+"]
    assert [plural(1, "crash", "crashes"), plural(2, "job")] == ["1 crash", "2 jobs"]


def test_every_state_has_a_colour_and_a_sign() -> None:
    for state in JobState:
        assert icon(STATES[state][1])


def test_what_cannot_be_seen_is_written_out() -> None:
    assert visible("a\u202eb\x00c\x1b[31m\u200bd") == "a\\u202eb\\u0000c\\u001b[31m\\u200bd"
    assert (
        visible("line\nline\ttab \U0001f468\u200d\U0001f469 שלום") == "line\nline\ttab \U0001f468\u200d\U0001f469 שלום"
    )


def test_json_is_spread_coloured_and_harmless() -> None:
    text = json_html('{"a<b": ["</script>", 1.5e3, true, null, "\\"q\\""]}')
    assert isinstance(text, Markup)
    assert '<span class="k">&#34;a&lt;b&#34;</span>' in text
    assert '<span class="s">&#34;&lt;/script&gt;&#34;</span>' in text
    assert '<span class="n">1500.0</span>' in text
    assert "</script>" not in text
    assert json_html("no <json>") == "no &lt;json&gt;"
    assert "[[[" in json_html("[" * 50_000)
    long = json_html(json.dumps("x" * 100_000))
    assert "not shown: everything after the first 30,000 characters" in long
    assert len(long) < 70_000
    assert "unfinished" in json_html('"unfinished \\')


def test_sentences_have_links_times_and_commands() -> None:
    said = sentence(
        "job 7 waits since 2026-11-15T14:40:11.123+00:00; see: interlock explain job 8 <b>",
        lambda job: f"/jobs/{job}",
        0.0,
    )
    assert '<a class="link" href="/jobs/7">Job 7</a> waits since <time datetime="2026-11-15T14:40:11.123+00:00"' in said
    assert "<code>interlock explain job 8</code> &lt;b&gt;" in said
    assert sentence("vm:12 holds it", lambda job: "", 0.0) == "vm:12 holds it", "names keep their case"
    assert sentence("job 7 runs", lambda job: "", 0.0) == "Job 7 runs", "no link to itself"


def test_an_activity_chart_fits_its_space() -> None:
    buckets = tuple(Bucket(1000.0 + 10 * i, accepted=i, done=i, failed=1) for i in range(60))
    chart = activity_chart(Activity(10.0, buckets, 1600.0))
    assert chart.ticks == (100, 50, 0)
    assert len(chart.accepted.split()) == 59, "what is not over yet is not part of the line"
    assert all(0 <= column.failed.y <= column.done.y <= 100 for column in chart.columns)
    assert chart.columns[-1].x + chart.columns[-1].width <= 600
    assert chart.totals == {"accepted": 1770, "done": 1770, "failed": 60}
    assert (chart.begins, chart.middle) == ("10 min ago", "5 min ago")
    assert "accepted 59" in chart.columns[-1].tip


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 7, 19, 99, 100, 101, 12345])
def test_the_axis_is_never_lower_than_the_bars(limit: int) -> None:
    chart = activity_chart(Activity(10.0, (Bucket(0.0, limit, limit, 0), Bucket(10.0, 0, 0, 0)), 20.0))
    assert limit <= chart.ticks[0] <= max(2, limit * 2.5)


def test_an_empty_chart_is_no_error() -> None:
    assert activity_chart(Activity(10.0, (), 0.0)).columns == ()
    assert all(part.width == 0 for part in parts_of({}))


def test_shares_add_up_and_can_all_be_seen() -> None:
    parts = parts_of({JobState.RUNNING: 1, JobState.BEHIND: 10_000, JobState.DONE: 5})
    assert sum(part.width for part in parts) == pytest.approx(100)
    assert min(part.width for part in parts if part.jobs) > 0.5


@pytest.mark.parametrize(("taken", "limit"), [(0, 5), (5, 5), (7, 5), (0, 100), (64, 100), (120, 100)])
def test_slots_are_drawn_inside_their_width(taken: int, limit: int) -> None:
    drawn = squares(taken, limit)
    assert all(x + width <= drawn.width + 0.01 for x, width in (*drawn.used, *drawn.free))


def test_an_explanation_leads_to_what_it_speaks_of() -> None:
    told = Explanation.of(
        Subject("job", "3"),
        Reason.LIMIT,
        "",
        [""],
        "",
        {
            "waits_for": "slots:c",
            "holders": [1, 2],
            "lane": "a/b",
            "lane_head": 3,
            "worker": {"session": "s", "program": "p", "pid": 1},
        },
    )
    assert [(link.kind, link.ref) for link in related(told)] == [
        ("limits", "slots:c"),
        ("jobs", "1"),
        ("jobs", "2"),
        ("lanes", "a/b"),
        ("workers", "s"),
    ]
