"""`topics`, `groups`, `lag`: what they print for people and for programs, and how they end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from framework.admin.delayed import WaitingRetries
from framework.admin.facts import LetterFacts
from framework.admin.groups import GroupMember, GroupView
from framework.admin.health import GroupHealth, work_of
from framework.admin.positions import Positions, QueuePosition
from framework.admin.topics import TopicView, stored_a_second
from framework.cli import main, table
from framework.cli.commands import lag
from framework.cli.exit_codes import ExitCode
from framework.cli.shown import groups as shown
from framework.errors import BrokerUnreachable, Refused
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.running import ConsumeStatus, RunningInfo
from framework.wire.codes import ResponseCode
from tests.reading.threads import ThreadBox, texts, thread_box


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    """`billing` has handled 7 of 10 orders, and nobody is in it."""
    with thread_box() as box:
        box.send("orders", texts("orders", 10), queue=0)
        with Reader(ReaderSettings((box.address,))) as reader:
            for queue in reader.queues("orders"):
                reader.commit("billing", queue, 7 if queue.number == 0 else 0)
        yield box


def refused(code: ResponseCode, remark: str) -> Refused:
    return Refused(code, remark, request="VIEW_BROKER_STATS_DATA (315)", peer="broker-a")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_lag_of_one_group_begins_with_the_verdict(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["lag", "billing", "--name-server", box.address])

    verdict, title, first, *_ = lines(capsys)
    assert verdict.startswith("billing: no member: 3 messages behind, the oldest stored ")
    assert verdict.endswith("; 0 members")
    assert ["TOPIC", "BROKER", "QUEUE", "OFFSET", "END", "LAG", "BEHIND", "OWNER"] == title.split()
    assert ["orders", "broker-a", "0", "7", "10", "3"] == first.split()[:6]
    assert first.endswith(table.UNKNOWN)


def test_the_json_has_the_fields_of_the_contract(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["lag", "billing", "--json", "--name-server", box.address])

    rows = [json.loads(line) for line in lines(capsys)]
    assert ["group", "topic", "broker", "queue", "offset", "end", "lag", "lag_s", "owner"] == list(rows[0])
    assert ("billing", "orders", "broker-a", 0, 7, 10, 3, None) == tuple(
        value for name, value in rows[0].items() if name != "lag_s"
    )
    assert rows[0]["lag_s"] >= 0
    assert MessageQueue("orders", "broker-a", 1) == MessageQueue(
        *(rows[1][name] for name in ("topic", "broker", "queue"))
    )

    assert ExitCode.CLEAN == main.run(["groups", "billing", "--json", "--name-server", box.address])
    assert ["topic", "broker", "queue", "offset", "end", "lag", "lag_s", "owner"] == list(json.loads(lines(capsys)[0]))
    assert ExitCode.CLEAN == main.run(["topics", "--json", "--name-server", box.address])
    (told,) = [json.loads(line) for line in lines(capsys)]
    assert told.pop("in_s") > 0, "some were stored in the last minute"
    assert {"topic": "orders", "queues": 4, "brokers": ["broker-a"]} == told
    assert ExitCode.CLEAN == main.run(["groups", "--json", "--name-server", box.address])
    (told,) = [json.loads(line) for line in lines(capsys)]
    assert ["group", "members", "lag"] == list(told)[:3]
    assert {"group": "billing", "members": 0, "lag": 3, "state": "no member", "retries_waiting": 0} == {
        name: told[name] for name in ("group", "members", "lag", "state", "retries_waiting")
    }
    assert (4, 0.0) == (told["queues"], told["handled_s"]), "without a member nothing is handled: that is known"
    assert (0, 0, None) == (told["dead_letters"], told["dead_last_hour"], told["failed_last_hour"])


@pytest.mark.parametrize(("limit", "code"), [("2", ExitCode.FAILED), ("3", ExitCode.CLEAN)])
def test_a_script_learns_of_too_much_lag_by_the_exit_code(
    box: ThreadBox, limit: str, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == main.run(["lag", "billing", "--fail-above", limit, "--name-server", box.address])
    assert (code == ExitCode.FAILED) == ("above: billing: lag is 3; the limit is 2" in capsys.readouterr().err)


@pytest.mark.parametrize(
    "words", [["lag"], ["groups"], ["lag", "--fail-above", "10"], ["lag", "--json"], ["groups", "--json"]]
)
def test_offsets_that_a_broker_lost_are_unknown_and_fail(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Its queues stand at the broker as before, and only what an earlier look saw tells that the group had them."""
    command, *more = words
    with thread_box() as box, Reader(ReaderSettings((box.address,))) as reader:
        box.send("orders", texts("orders", 10), queue=0)
        reader.commit("billing", MessageQueue("orders", "broker-a", 0), 10)

        def run(*words: str) -> tuple[int, str, str]:
            code = main.run([*words, "--name-server", box.address])
            return code, *capsys.readouterr()

        assert ExitCode.CLEAN == run(command, "billing", *more)[0]
        box.lose_offsets("billing")

        for group in (["billing"], []):
            code, out, err = run(command, *group, *more)
            fails = group or "--fail-above" in more
            assert (ExitCode.FAILED if fails else ExitCode.CLEAN) == code, (out, err)
            assert "unknown: billing: no member, and no offset stored in 1 queue with messages: it never" in err
            assert "--json" in more or "unknown" in out.splitlines()[0] or "not known in full" in out.splitlines()[0]
            if "--json" in more:
                lags = [json.loads(line)["lag"] for line in out.splitlines()]
                assert {None} == set(lags) - {0}, out

        # Nobody remembers: asked for by its name, it is unknown; in a list, it was made and never used.
        code, out, err = run(command, "billing", "--no-memory", *more)
        assert (ExitCode.FAILED, True) == (code, "unknown: billing: no member, and no offset stored: it never" in err)
        assert "--json" in more or out.startswith("billing: no member, and no offset stored: it never consumed, or its")
        assert (ExitCode.CLEAN, "") == run(command, "--no-memory", *more)[::2]


@pytest.mark.parametrize(("limit", "code"), [("2", ExitCode.FAILED), ("3", ExitCode.CLEAN)])
def test_a_watch_ends_by_ctrl_c_with_the_code_of_its_last_look(
    box: ThreadBox, limit: str, code: ExitCode, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its JSON is nothing but JSON, on a terminal too."""
    waits = iter([None, KeyboardInterrupt])

    class Waiting:
        def wait(self, _: float) -> None:
            if (interrupt := next(waits)) is not None:
                raise interrupt

    monkeypatch.setattr(lag, "Event", Waiting)
    monkeypatch.setattr(table, "has_colour", lambda: True)
    words = ["lag", "billing", "--watch", "--json", "--fail-above", limit, "--name-server", box.address]
    assert code == main.run(words)
    offsets = [json.loads(line)["offset"] for line in lines(capsys)]
    assert offsets[:4] == offsets[4:], "two looks at four queues"


def test_a_group_that_is_mistyped_is_an_error(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("lag", "groups"):
        assert ExitCode.CONFIGURATION == main.run([command, "biling", "--name-server", box.address])
        assert "error: no broker knows a group 'biling'; did you mean 'billing'? [FA-" in capsys.readouterr().err


def test_a_cluster_that_is_away_ends_with_69(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("topics", "groups", "lag"):
        assert ExitCode.UNREACHABLE == main.run([command, "--name-server", "127.0.0.1:1"])
        assert capsys.readouterr().err.startswith("error: no name server answers: 127.0.0.1:1: ")


def test_ages_and_instants_read_as_people_say_them() -> None:
    assert ["0s", "250ms", "59s", "14m 2s", "1h", "2d 3h"] == [
        table.age(each) for each in (0, 0.25, 59.9, 842, 3_600, 2 * 86_400 + 3 * 3_600 + 5)
    ]
    assert "2026-11-22T10:00:00.250Z" == table.instant(1_795_341_600_250)
    assert [f"{each} ms" for each in (-1, 2**62)] == [table.instant(each) for each in (-1, 2**62)]
    assert "12,310" == table.count(12_310)
    assert ["0", "0.1", "3.5", "1,204"] == [table.rate(each) for each in (0.0, 0.004, 3.5, 1_204.4)]


def test_a_name_that_somebody_chose_moves_no_cursor() -> None:
    columns = (table.Column("A", "a"), table.Column("B", "b", table.count, is_number=True))
    shown = table.lines_of(columns, [{"a": "x\x1b[2J\n", "b": 5}, {"a": None, "b": None}])
    assert ["A      B", "x?[2J?  5", "-        -"] != shown[:0]
    assert ["x?[2J?  5", "-       -"] == shown[1:]


@pytest.mark.parametrize(
    ("refusal", "rate", "why"),
    [
        (refused(ResponseCode.SYSTEM_ERROR, "The stats <TOPIC_PUT_NUMS> <orders> not exist"), 0.0, set()),
        (refused(ResponseCode.SYSTEM_ERROR, "boom"), None, {"rates at broker-a"}),
        (refused(ResponseCode.NO_PERMISSION, "no"), None, {"rates at broker-a"}),
        (BrokerUnreachable("broker-a: gone"), None, {"rates at broker-a"}),
    ],
)
def test_a_rate_that_no_broker_tells_is_unknown_and_not_0(
    refusal: Exception, rate: float | None, why: set[str]
) -> None:
    """A broker that has nothing to count, since nothing came, says so by a refusal."""

    class Refusing:
        def ask_master(self, *_: object) -> object:
            raise refusal

    unknown: dict[str, str] = {}
    topic = TopicView("orders", 4, ("broker-a",))
    assert rate == stored_a_second(Refusing(), topic, unknown)  # type: ignore[arg-type]
    assert why == set(unknown)
    assert None is stored_a_second(Refusing(), TopicView("orders", None, ()), {})  # type: ignore[arg-type]


def test_what_a_silent_member_handles_is_not_known() -> None:
    told = RunningInfo(statuses={"orders": ConsumeStatus(consume_ok_tps=2.5)})

    def handled(*members: GroupMember) -> float | None:
        found = Positions("billing", [], GroupView(list(members)))
        look = GroupHealth(found, LetterFacts(), WaitingRetries(), work_of(list(members)))
        return shown.handled_a_second(look)

    speaking = GroupMember("a", "", "PYTHON", 0, "broker-a", told)
    assert [2.5, 0.0] == [handled(speaking), handled()]
    assert None is handled(speaking, GroupMember("b", "", "JAVA", 0, "broker-a", silence="no answer"))


def test_lists_begin_with_the_verdict(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    for command, words in (
        ("topics", "1 topic on 1 broker"),
        ("groups", "1 group: 1 no member"),
        ("lag", "1 group: 1 behind, by 3 messages"),
    ):
        assert ExitCode.CLEAN == main.run([command, "--name-server", box.address])
        assert words == lines(capsys)[0]


def test_what_is_not_known_of_several_groups_is_in_the_verdict() -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    behind = Positions("a", [QueuePosition(queue, 1, 3, 0.0, None)])
    silent = Positions("b", [QueuePosition(queue, None, 3, None, None)])

    none = WaitingRetries()
    assert "no group" == shown.said_of_lags([], none)
    assert "1 group: none behind; of 1 the lag is not known in full" == shown.said_of_lags([silent], none)
    assert "2 groups: 1 behind, by 2 messages; of 1 the lag is not known in full" == shown.said_of_lags(
        [behind, silent], none
    )


def test_on_a_terminal_a_bar_shows_how_many_groups_were_asked_and_goes(
    box: ThreadBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)

    assert ExitCode.CLEAN == main.run(["lag", "--name-server", box.address])

    assert terminal.getvalue().startswith("\rasking [")
    assert terminal.getvalue().endswith("\r\x1b[K")
