"""`doctor`: what it prints, for people and for programs, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from framework.admin.doctor import Diagnosis
from framework.admin.findings import Finding, Unlooked
from framework.broker.handlers.groups import put_group
from framework.broker.rules import SUB, TOPIC, Rule, User
from framework.cli import main
from framework.cli.commands import doctor
from framework.cli.exit_codes import ExitCode
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.config import GroupConfig
from tests.reading.threads import ThreadBox, texts, thread_box


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    """`billing` keeps no retries, `shipping` is well, and the broker filters no SQL92."""
    with thread_box() as box:
        (node,) = box.broker.nodes
        box.send("orders", texts("orders", 3))
        box.call(lambda: put_group(node.rules, GroupConfig(name="billing", retry_queues=0)))
        box.call(lambda: put_group(node.rules, GroupConfig(name="shipping")))
        box.call(lambda: node.switches.put("enablePropertyFilter", "false"))
        with Reader(ReaderSettings((box.address,))) as reader:
            for queue in reader.queues("orders"):
                for group in ("billing", "shipping"):
                    reader.commit(group, queue, reader.max_offset(queue))
        yield box


def test_the_verdict_is_first_then_each_finding_with_its_remedy(
    box: ThreadBox, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ExitCode.FAILED == main.run(["doctor", "billing", "--name-server", box.address])

    verdict, empty, *lines = capsys.readouterr().out.splitlines()
    where = f"-n {box.address} -b {box.address}"
    assert "billing: 2 findings, 1 severe; 28 checks" == verdict
    assert "" == empty
    assert lines[0].startswith("severe   retryQueueNums=0: ")
    assert ["  where  broker-a", f"  remedy mqadmin updateSubGroup {where} -g billing -m true -d true -q 1"] == lines[
        1:3
    ]
    assert lines[4].startswith("notice   enablePropertyFilter=false: ")


def test_the_json_has_the_fields_of_the_contract(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.FAILED == main.run(["doctor", "--json", "--name-server", box.address])

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [["finding", "where", "remedy", "severity"]] * 2 == [list(row) for row in rows]
    assert ["severe", "notice"] == [row["severity"] for row in rows]


def test_without_anything_severe_it_ends_with_0(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["doctor", "shipping", "--name-server", box.address])

    assert "shipping: 1 finding, none severe; 28 checks" == capsys.readouterr().out.splitlines()[0]


def test_what_could_not_be_looked_at_stands_in_the_verdict_and_in_the_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (Rule(TOPIC, "orders", frozenset({SUB})),)
    with thread_box(auth=[User("root", "sesame", is_super=True), User("app", "sesame", rules=rules)]) as box:
        words = ["doctor", "--name-server", box.address]
        for name, text in (("access_key", "app"), ("secret_key", "sesame")):
            monkeypatch.setenv(f"FRAMEWORK_APP__CLUSTER__CREDENTIALS__{name.upper()}", text)
        assert ExitCode.CLEAN == main.run(words)
        lines = capsys.readouterr().out.splitlines()
        assert ExitCode.CLEAN == main.run([*words, "--json"])
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert lines[0].startswith(f"{box.address}: nothing found; ")
    assert lines[0].endswith(" could not be made in full")
    assert any(line.startswith(f"unknown  name server {box.address}: which brokers it knows: ") for line in lines)
    assert {("unknown", None)} == {(row["severity"], row["remedy"]) for row in rows}
    assert any("User:app has no permission" in row["finding"] for row in rows)


def test_a_cluster_that_is_away_ends_with_69(capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.UNREACHABLE == main.run(["doctor", "--name-server", "127.0.0.1:1"])
    assert "error: no name server answers: 127.0.0.1:1: " in capsys.readouterr().err


def test_places_that_keep_silent_for_one_reason_are_one_line() -> None:
    found = Diagnosis(
        findings=[Finding("f", "w", "r", "warning")],
        unlooked=[
            Unlooked("its clock", "a", "no"),
            Unlooked("its groups", "a", "no"),
            Unlooked("its clock", "b", "away"),
        ],
        checks=3,
        in_part=2,
    )

    assert "1 finding, none severe; 3 checks, 2 could not be made in full" == doctor.verdict(found)
    assert ["a: its clock; its groups: no", "b: its clock: away"] == doctor.unknown_lines(found)
    assert not found.is_severe
