"""`framework-app broker export` and `import`: what goes out comes in again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from framework.broker.store.database import FILE_NAME, open_folder
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.wire.stored import Record
from tests.broker.broker_lab import BrokerLab, texts

Kept = tuple[str, int, bytes, Mapping[str, str], int, int]


def filled(folder: Path, *, messages: int = 60) -> list[Kept]:
    lab = BrokerLab(database=open_folder(folder))
    for i in range(messages):
        topic = ("orders", "audit")[i % 2]
        lab.send(topic, b"%d" % i + b"x" * (6000 if i % 7 == 0 else 50), queue_id=i % 3, properties=texts(KEYS=f"k{i}"))
    lab.send("orders", b"later", properties=texts(DELAY="18"))
    found = kept(lab)
    lab.store.close()
    return found


def kept(lab: BrokerLab) -> list[Kept]:
    """What an export must keep of each message, queue by queue and in order."""
    found: list[Record] = []
    for topic in ("audit", "orders"):
        for number in range(3):
            found += lab.records(topic, number)
    return [(r.topic, r.queue_id, r.body, r.properties, r.born_ms, r.queue_offset) for r in found]


def opened(folder: Path) -> list[Kept]:
    lab = BrokerLab(database=open_folder(folder))
    found = kept(lab)
    lab.store.close()
    return found


def test_topics_go_out_and_come_in_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = filled(tmp_path / "a")
    file = str(tmp_path / "messages")

    assert ExitCode.CLEAN == main.run(["broker", "export", file, "--data", str(tmp_path / "a")])
    assert ExitCode.CLEAN == main.run(["broker", "import", file, "--data", str(tmp_path / "b")])

    said = capsys.readouterr()
    assert "exported: topics=2 messages=60 left_out=1" in said.out
    assert "imported: topics=2 messages=60" in said.out
    assert "[" not in said.err, "no bar where nobody watches"
    assert before == opened(tmp_path / "b")
    lab = BrokerLab(database=open_folder(tmp_path / "b"))
    assert 4 == lab.node.rules.topics.get("orders").write_queues  # type: ignore[union-attr]
    lab.store.close()


def test_one_topic_goes_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled(tmp_path / "a")
    file = str(tmp_path / "messages")

    assert ExitCode.CLEAN == main.run(["broker", "export", file, "--data", str(tmp_path / "a"), "--topic", "audit"])
    assert "topics=1 messages=30" in capsys.readouterr().out
    code = main.run(["broker", "export", file, "--data", str(tmp_path / "a"), "--topic", "nobody"])
    assert (ExitCode.USAGE, True) == (code, "there is no such topic" in capsys.readouterr().err)


def test_nothing_goes_out_of_a_topic_with_a_damaged_message_and_the_others_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(tmp_path / "a")
    path, file = tmp_path / "a" / FILE_NAME, tmp_path / "messages"
    content = bytearray(path.read_bytes())
    at = content.find(b"10" + b"x" * 50)
    content[at] ^= 1
    path.write_bytes(content)
    words = ["broker", "export", str(file), "--data", str(tmp_path / "a")]

    assert ExitCode.TAKEN == main.run(words)
    assert re.search(r"message \d+ of orders@broker-a:1 is damaged.*--topic", capsys.readouterr().err)
    assert not file.exists()
    assert ExitCode.CLEAN == main.run([*words, "--topic", "audit"])
    assert "topics=1 messages=30" in capsys.readouterr().out


@pytest.mark.parametrize("cut", [2, 100, 5000])
def test_nothing_is_taken_of_a_file_that_is_cut_short(
    cut: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(tmp_path / "a")
    file = tmp_path / "messages"
    main.run(["broker", "export", str(file), "--data", str(tmp_path / "a")])
    file.write_bytes(file.read_bytes()[:-cut])

    assert ExitCode.CONFIGURATION == main.run(["broker", "import", str(file), "--data", str(tmp_path / "b")])
    assert str(file) in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_a_flipped_bit_in_the_file_is_seen(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    file = tmp_path / "messages"
    main.run(["broker", "export", str(file), "--data", str(tmp_path / "a")])
    whole = file.read_bytes()
    for at in range(0, len(whole), 997):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        file.write_bytes(damaged)
        assert ExitCode.CONFIGURATION == main.run(["broker", "import", str(file), "--data", str(tmp_path / "b")]), at


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["export", "--data", "a"], ExitCode.USAGE, "needs a FILE"),
        (["export", "f", "--memory"], ExitCode.USAGE, "needs --data"),
        (["export", "f", "--data", "nowhere"], ExitCode.TAKEN, "there is none"),
        (["import", "f", "--data", "a", "--topic", "t"], ExitCode.USAGE, "whole file"),
        (["import", "nowhere", "--data", "a"], ExitCode.TAKEN, "No such file"),
        (["--data", "a", "--topic", "t"], ExitCode.USAGE, "broker export FILE"),
        (["serve", "f", "--memory"], ExitCode.USAGE, "'f'"),
        (["import", "f", "--data", "a", "--durability", "relaxed"], ExitCode.USAGE, "--durability"),
        (["export", "f", "--data", "a", "--port", "9876"], ExitCode.USAGE, "--port"),
    ],
)
def test_what_makes_no_sense_is_said(
    words: list[str], code: ExitCode, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)

    assert code == main.run(["broker", *words])
    assert reason in capsys.readouterr().err


def test_a_folder_that_a_broker_has_open_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = open_folder(tmp_path / "a")
    code = main.run(["broker", "export", str(tmp_path / "f"), "--data", str(tmp_path / "a")])
    assert (ExitCode.TAKEN, True) == (code, "in use by another broker" in capsys.readouterr().err)
    database.close()


@pytest.mark.parametrize("before", [None, 0o666])
def test_what_goes_out_is_for_its_owner_alone(before: int | None, tmp_path: Path) -> None:
    """All messages are in it. A file that was there, or one that a killed export left, lends it no mode of its own."""
    filled(tmp_path / "a")
    file, draft = tmp_path / "out", tmp_path / "out.new"
    for each in (file, draft) if before is not None else ():
        each.touch()
        each.chmod(before or 0)
    modes = []

    def advance(self: object, *_: object) -> None:
        modes.append(draft.stat().st_mode & 0o777)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framework.cli.progress.ProgressLine.advance", advance)
        assert ExitCode.CLEAN == main.run(["broker", "export", str(file), "--data", str(tmp_path / "a")])

    assert {0o600} == set(modes)
    assert 0o600 == file.stat().st_mode & 0o777
    assert not draft.exists()


def test_nothing_is_written_through_a_link_that_somebody_laid(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    (tmp_path / "out.new").symlink_to(theirs)

    assert ExitCode.CLEAN == main.run(["broker", "export", str(tmp_path / "out"), "--data", str(tmp_path / "a")])
    assert "precious" == theirs.read_text()
