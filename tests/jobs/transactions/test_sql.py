"""The SQL functions for other languages are as documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "transactions.md").read_text("utf-8")


@pytest.fixture
async def connection(complete_postgres_url: str) -> Any:
    connection = await asyncpg.connect(complete_postgres_url)
    yield connection
    await connection.close()


async def test_every_parameter_is_documented_with_its_default(connection: Any) -> None:
    arguments = await connection.fetchval(
        "select pg_get_function_arguments(oid) from pg_proc where proname = 'enqueue'"
        " and pronamespace = 'interlock'::regnamespace"
    )
    found = re.findall(r"(p_\w+) [a-z\[\] ]+(?:DEFAULT ('[^']*'|\w+))?", arguments)
    documented = re.findall(r"^\| `(p_\w+)` \|([^|]*)\|", PAGE, re.MULTILINE)

    same = {"''": "none", "'[]'": "none", "NULL": "none", "": ""}
    assert [(name, same.get(value, value.strip("'"))) for name, value in found] == [
        (name, value.strip("` ")) for name, value in documented
    ]


async def test_the_examples_enqueue_what_they_say(connection: Any) -> None:
    for block in re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        await connection.execute(block)

    jobs = await connection.fetch("select name, lane, arguments from interlock.job order by id")
    assert [tuple(job) for job in jobs] == [
        ("send_invoice", "default/10", '{"order": 10}'),
        ("send_invoice", None, '{"order": 12}'),
        ("send_invoice", None, "{}"),
    ]


@pytest.mark.parametrize(
    ("jobs", "what"),
    [
        ("null", "jobs"),
        ("{}", "jobs"),
        ("[7]", "job"),
        ('[{"name": null}]', "name"),
        ("[{}]", "name"),
        ('[{"name": "n", "queue": null}]', "queue"),
        ('[{"name": "n", "arguments": "7"}]', "arguments"),
        ('[{"name": "n", "arguments": null}]', "arguments"),
        ('[{"name": "n", "priority": "50"}]', "priority"),
        ('[{"name": "n", "priority": 50.5}]', "priority"),
        ('[{"name": "n", "delay": 1e300}]', "delay"),
        ('[{"name": "n", "at": 7}]', "at"),
        ('[{"name": "n", "coalesce": 1, "lane": "l"}]', "coalesce"),
        ('[{"name": "n", "keep_result": null}]', "keep_result"),
        ('[{"name": "n", "options": []}]', "options"),
        ('[{"name": "n", "limits": [["a", 1.5, 0]]}]', "limits"),
        ('[{"name": "n", "limits": [["a", 1, 0, 0]]}]', "limits"),
        ('[{"name": "n", "limits": [{}]}]', "limits"),
        ('[{"name": "n", "hooks": [["hook", "q", 1, "done"]]}]', "hooks"),
        ('[{"name": "n", "hooks": [["a hook", "q", 1, ["done"]]]}]', "hooks"),
        ('[{"name": "n", "prio": 1}]', "prio"),
    ],
)
async def test_what_cannot_be_a_job_is_refused_in_a_list(connection: Any, jobs: str, what: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"Invalid {what} of"):
        await connection.fetchval("select interlock.enqueue_many($1::text::json)", jobs)
    assert await connection.fetchval("select count(*) from interlock.job") == 0
