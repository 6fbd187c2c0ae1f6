"""``interlock journal``: tail, seal, verify and export."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from interlock.cli.journal import follow
from interlock.ports.journal import JournalFilter
from tests.cli.job_floor import data, run
from tests.journal.ledger import open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def test_what_was_sealed_verifies(cli: Callable[..., Any], jobs_url: str) -> None:
    async with open_ledger(jobs_url) as ledger:
        await ledger.add(3)
        sealed = await run(cli, jobs_url, "journal", "seal")
        report = await data(cli, jobs_url, "journal", "verify")
        text = await run(cli, jobs_url, "journal", "verify", "--head", report["head"])
        status = await ledger.journal.status()

    assert "Sealed 3 entries." in sealed.stderr
    assert (report["ok"], report["batches"], report["entries"], report["head_batch"]) == (True, 1, 3, 1)
    assert f"Head: {report['head']} (batch 1)" in text.stdout
    assert "The journal is intact." in text.stderr
    assert status.verification is not None
    assert status.verification.head.hex() == report["head"]


async def test_a_changed_entry_ends_the_verification_with_an_error(cli: Callable[..., Any], jobs_url: str) -> None:
    async with open_ledger(jobs_url) as ledger:
        ids = await ledger.sealed(3, 2)
        await ledger.tamper(f"update interlock.journal set actor = 'eve' where id = {ids[2]}")
        result = await run(cli, jobs_url, "journal", "verify", code=1)
        report = await data(cli, jobs_url, "journal", "verify", code=1)
        status = await ledger.journal.status()

    assert f"Entry {ids[2]} of batch 2 was changed after it was sealed." in result.stdout
    assert [(problem["kind"], problem["batch"], problem["entry"]) for problem in report["problems"]] == [
        ("entry_changed", 2, ids[2])
    ]
    assert status.verification is not None
    assert status.verification.problems == 1


async def test_a_head_that_is_gone_or_invalid_is_an_error(cli: Callable[..., Any], file_url: str) -> None:
    missing = await run(cli, file_url, "journal", "verify", "--head", "ab" * 32, code=1)
    invalid = await run(cli, file_url, "journal", "verify", "--head", "abc", code=2)

    assert "No seal has the hash abab" in missing.stdout
    assert "Invalid hash 'abc' of a seal" in invalid.stderr


async def test_an_export_has_every_entry_and_verifies_by_itself(
    cli: Callable[..., Any], jobs_url: str, tmp_path: Path
) -> None:
    async with open_ledger(jobs_url) as ledger:
        ids = await ledger.sealed(5, 2)
        ids += await ledger.add(2)
        exported = (await run(cli, jobs_url, "journal", "export")).stdout

    lines = [json.loads(line) for line in exported.splitlines()]
    assert [line["id"] for line in lines if line["type"] == "entry"] == ids
    assert [line["batch"] for line in lines if line["type"] == "seal"] == [1, 2, 3]
    assert lines[-1]["entries"] == 7
    whole = tmp_path / "journal.ndjson"
    whole.write_text(exported)
    assert cli("journal", "verify", "--file", str(whole), "--head", lines[-1]["head"]).exit_code == 0
    whole.write_text(exported.replace('"why"', '"which"', 1))
    result = cli("journal", "verify", "--file", str(whole))
    assert (result.exit_code, f"Entry {ids[0]} of batch 1 was changed" in result.stdout) == (1, True)
    whole.write_text("\n".join(exported.splitlines()[:-1]))
    assert "The export has no last line" in cli("journal", "verify", "--file", str(whole)).stderr


async def test_an_export_can_be_filtered(cli: Callable[..., Any], file_url: str, tmp_path: Path) -> None:
    async with open_ledger(file_url) as ledger:
        ids = await ledger.sealed(3, 2)
        args = ("journal", "export", "--kind", "lock", "--key", "k1", "--since", "2h")
        exported = (await run(cli, file_url, *args)).stdout

    lines = [json.loads(line) for line in exported.splitlines()]
    assert [line["id"] for line in lines if line["type"] == "entry"] == [ids[1]]
    assert [line["batch"] for line in lines if line["type"] == "seal"] == [1, 2]
    path = tmp_path / "some.ndjson"
    path.write_text(exported)
    assert "An export of some entries cannot be verified." in cli("journal", "verify", "--file", str(path)).stderr


async def test_entries_are_filtered_by_time_and_cause(cli: Callable[..., Any], jobs_url: str) -> None:
    async with open_ledger(jobs_url) as ledger:
        await ledger.add(2)
        found = [
            len(await data(cli, jobs_url, "journal", "list", *args))
            for args in (
                ("--since", "1h"),
                ("--until", "1h"),
                ("--since", "2001-01-01", "--until", "2002-01-01T10:00+02:00"),
                ("--job", "7"),
                ("--job", "8"),
                ("--event", "4", "--actor", "ann"),
            )
        ]
        wrong = await run(cli, jobs_url, "journal", "list", "--since", "yesterday", code=2)

    assert found == [2, 0, 0, 2, 0, 2]
    assert "Invalid time 'yesterday'" in wrong.stderr


async def test_tail_prints_the_newest_entries_last(cli: Callable[..., Any], file_url: str) -> None:
    async with open_ledger(file_url) as ledger:
        ids = await ledger.add(5)
        text = await run(cli, file_url, "journal", "tail", "-n", "2")
        lines = (await run(cli, file_url, "journal", "tail", "-n", "2", "--json")).stdout.splitlines()

    assert [line.split()[0] for line in text.stdout.splitlines()] == [str(number) for number in ids[-2:]]
    assert "ann lock.force_release k4: why" in text.stdout
    assert [json.loads(line)["id"] for line in lines] == ids[-2:]


async def test_following_yields_each_new_entry_once(file_url: str) -> None:
    async with open_ledger(file_url) as ledger:
        old = await ledger.add(3)
        entries = follow(ledger.journal, JournalFilter(), 1, poll=0.001)
        async with asyncio.timeout(20):
            assert (await anext(entries)).id == old[-1]
            new = await ledger.add(2)
            assert [(await anext(entries)).id for _ in range(2)] == new
            late = await ledger.add(1)
            await ledger.tamper(f"update interlock.journal set at = at - 60000000 where id = {late[0]}")
            newest = await ledger.add(1)
            assert {(await anext(entries)).id for _ in range(2)} == {*late, *newest}
            await entries.aclose()
