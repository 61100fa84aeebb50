"""`explain`: the page of an id, offline; and what errors say of it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from framework.catalogue.pages import pages
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.cli.shown import explained
from framework.errors import ConfigurationMistakes, Refused, StoreError
from framework.mistakes import UnknownKey, WrongValue

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("text", ["FA-S001", "fa-s001", "S001", "s001", "[FA-S001]"])
def test_the_page_of_an_id_is_printed_however_it_is_written(text: str, capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["explain", text])

    first, _, meant, *_ = capsys.readouterr().out.splitlines()
    assert "FA-S001  Unknown key" == first
    assert meant.startswith("A settings file, a variable or `--set` has a key")


def test_a_log_event_is_found_by_its_name(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["explain", "queue stalled"])

    out = capsys.readouterr().out
    assert "`queue stalled`" in out.splitlines()[0]
    assert "Shows: `error queue stalled group=... queue=..." in out


def test_an_event_of_two_rooms_has_both_on_its_page(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["explain", "handler failed"])

    out = capsys.readouterr().out
    assert "Logged by `framework/runtime`." in out
    assert "Logged by `plugins/spark`." in out


def test_without_an_id_all_are_listed(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["explain"])

    lines = capsys.readouterr().out.splitlines()
    assert list(pages()) == [line.partition(" ")[0] for line in lines]
    assert "FA-S001  Unknown key" in lines


def test_json_is_a_page_a_line(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["explain", "FA-S001", "FA-S002", "--json"])

    one, two = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ("FA-S001", "error", "Unknown key") == (one["id"], one["kind"], one["title"])
    assert {"id", "kind", "title", "text"} == set(two)
    assert pages()["FA-S001"].text == one["text"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("FA-S019", "; did you mean 'FA-S01"),
        ("queue staled", "; did you mean 'queue stalled'?"),
        ("~~~", "; `framework-app explain` lists all"),
    ],
)
def test_an_unknown_id_gets_the_nearest(text: str, hint: str, capsys: Capture) -> None:
    assert ExitCode.USAGE == main.run(["explain", text])
    assert f"error: there is no id {text!r}{hint}" in capsys.readouterr().err


def test_mistakes_have_their_ids_and_one_hint_names_them_all(capsys: Capture) -> None:
    mistakes = [UnknownKey("no", place="a:1"), WrongValue("so"), UnknownKey("nor")]

    assert ExitCode.CONFIGURATION == explained.say(ConfigurationMistakes(mistakes))
    assert [
        "error: a:1: no [FA-S001]",
        "error: so [FA-S002]",
        "error: nor [FA-S001]",
        "hint: framework-app explain FA-S001 FA-S002",
    ] == capsys.readouterr().err.splitlines()


def test_with_json_an_error_is_an_object_on_stderr(capsys: Capture) -> None:
    explained.say(ConfigurationMistakes([UnknownKey("no", place="a:1"), WrongValue("so")]), as_json=True)

    one, two = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {"error": "a:1: no", "id": "FA-S001", "place": "a:1"} == one
    assert {"error": "so", "id": "FA-S002", "place": None} == two


@pytest.mark.parametrize(
    ("error", "number", "code"),
    [
        (Refused(16, "No permission", request="SEND", peer="b"), "FA-C005", ExitCode.FAILED),
        (StoreError("full"), "FA-B001", ExitCode.TAKEN),
        (OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)), "FA-B002", ExitCode.TAKEN),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "FA-B003", ExitCode.TAKEN),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "FA-X001", ExitCode.FAILED),
        (KeyError("x"), "FA-X001", ExitCode.FAILED),
    ],
)
def test_what_others_raise_has_an_id_and_a_code_as_well(error: Exception, number: str, code: ExitCode) -> None:
    assert (number, code) == (explained.id_of(error), explained.exit_code(error))


def test_an_unexpected_error_says_what_it_is_and_how_to_see_more(capsys: Capture) -> None:
    explained.say(KeyError("x"))

    assert "error: KeyError: 'x'; --debug shows where [FA-X001]" == capsys.readouterr().err.splitlines()[0]


def test_wrong_usage_has_an_id(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert ExitCode.USAGE == main.run(["run", "--worker", "3"])
    assert capsys.readouterr().err.endswith("; see framework-app run --help [FA-U001]\n")


@pytest.mark.parametrize(
    "words", [["tail", "--json"], ["lag", "--nope", "--json"], ["dlq", "list", "x", "--limit", "q", "--json"]]
)
def test_wrong_usage_is_an_object_where_objects_were_asked_for(words: list[str], capsys: Capture) -> None:
    assert ExitCode.USAGE == main.run(words)
    said = capsys.readouterr()
    told = json.loads(said.err)
    assert ("", "FA-U001", None) == (said.out, told["id"], told["place"])
    assert told["error"].endswith(f"see framework-app {words[0]} --help")


@pytest.mark.parametrize(
    ("code", "remark", "asked", "said"),
    [
        (16, "username cannot be null.", "A (1)", "username cannot be null; check cluster.credentials"),
        (16, "User:ana is not found.", "A (1)", "User:ana is not found; check cluster.credentials"),
        (16, "the topic is read-only", "A (1)", "the topic is read-only"),
        (
            3,
            " request type 105 not supported",
            "GET_ROUTEINFO_BY_TOPIC (105)",
            "request type 105 not supported; name servers know it: is this the address of a broker or a proxy?",
        ),
        (3, " request type 361 not supported", "LITE_PULL_MESSAGE (361)", " request type 361 not supported"),
        (1, "", "A (1)", "no remark"),
    ],
)
def test_a_refusal_whose_cause_is_here_says_what_to_do(code: int, remark: str, asked: str, said: str) -> None:
    assert f"{asked} refused by b: code {code}, {said}" == str(Refused(code, remark, request=asked, peer="b"))
