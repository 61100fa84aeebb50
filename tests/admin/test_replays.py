"""Replays: each dead letter once, also where a replay ends in the middle and is begun again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from framework import Message
from framework.admin import dead_letters, facts, replays
from framework.admin.browse import Scan
from framework.admin.cluster import Admin
from framework.admin.dead_letters import Letter, LetterChoice, Replayed
from framework.admin.facts import LetterFacts
from framework.cli import main
from framework.client.options import ClusterOptions
from framework.errors import BrokerUnreachable, ConnectionLost
from framework.model.queue import MessageQueue
from framework.net.real_clock import RealClock
from framework.reading import Reader, ReaderSettings
from framework.wire.requests.query import QueryMessageRequest
from tests.cli.dashboard.desks import look, visitor
from tests.reading.threads import ThreadBox, texts, thread_box

EVERY = LetterChoice()


def pace() -> None:
    """As fast as it goes."""


@pytest.fixture
def group(box: ThreadBox, topic: str) -> str:
    """One with a topic that its dead letters came from; nothing has died yet."""
    for broker in ("broker-a", "broker-b"):
        box.send(topic, texts(topic, 1), queue=0, broker=broker)
    return f"g-{topic}"


def die(box: ThreadBox, group: str, topic: str, count: int, *, start: int = 0, **words: str) -> None:
    queue = f"%DLQ%{group}"
    for broker in ("broker-a", "broker-b"):
        letters = [
            Message(
                queue, f"m{n}".encode(), keys=[f"k{n}"], tags="paid", message_id=f"{group}-{n}",
                properties={"mine": "1", "DEAD_LETTER_ORIGIN": f"{topic}@{broker}:{n % 4}:{n}", **words},
            )
            for n in range(start, start + count) if (n % 2 == 0) == (broker == "broker-a")
        ]  # fmt: skip
        if letters:
            box.send(queue, letters, queue=0, broker=broker)


def stored(box: ThreadBox, topic: str) -> list[Message]:
    """What was replayed into a topic."""
    with Reader(ReaderSettings((box.address,))) as reader:
        found = [each for queue in reader.queues(topic) for each in messages(reader, queue)]
    return [each for each in found if "DEAD_LETTER_REPLAY" in each.properties]


def messages(reader: Reader, queue: MessageQueue) -> Iterator[Message]:
    from framework.wire import stored

    at, end = reader.min_offset(queue), reader.max_offset(queue)
    while at < end:
        pulled = reader.pull(queue, at, end)
        yield from stored.decode(pulled.data, queue, offset_delta=pulled.offset_delta)
        at = pulled.next_offset


def replayed(admin: Admin, group: str, choice: LetterChoice = EVERY, **more: object) -> Counter[str]:
    planned = replays.plan(admin, group, choice, **more)  # type: ignore[arg-type]
    return Counter(outcome.what for outcome in replays.run(admin, planned, pace))


def waiting(admin: Admin, group: str) -> int:
    return len(list(dead_letters.letters(admin, dead_letters.queues(admin, group), Scan())))


def test_a_copy_is_as_its_sender_made_it(box: ThreadBox, admin: Admin, topic: str, group: str) -> None:
    die(box, group, topic, 5, DEAD_LETTER_REASON="no card", DEAD_LETTER_ERROR="KeyError")

    assert {topic: 5} == replays.plan(admin, group, EVERY).counts
    assert Counter(sent=5) == replayed(admin, group)

    found = {each.message_id: each for each in stored(box, topic)}
    assert {f"{group}-{n}" for n in range(5)} == set(found)
    one = found[f"{group}-3"]
    assert (b"m3", "paid", ["k3"], "1", 1) == (one.body, one.tags, one.keys, one.properties["mine"], one.attempt)
    assert ("broker-b", 3) == (one.queue.broker, one.queue.number), "the queue that it came from"
    assert not {"DEAD_LETTER_REASON", "DEAD_LETTER_ORIGIN", "RETRY_TOPIC"} & set(one.properties)
    assert 0 == waiting(admin, group)
    assert Counter() == replayed(admin, group)


@pytest.mark.parametrize("at", ["before the send", "after the send", "after the offset"])
def test_each_goes_once_where_replays_are_killed_in_the_middle(
    box: ThreadBox, admin: Admin, topic: str, group: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill does it: nothing is written behind the moment, neither then nor on the way out."""
    die(box, group, topic, 200)
    dead = {"is": False}

    class Killed(BaseException):
        pass

    def die_at(count: list[int]) -> None:
        count[0] -= 1
        if count[0] <= 0:
            dead["is"] = True
            raise Killed

    for runs in range(4):
        left, dead["is"] = [30 + 7 * runs], False
        with monkeypatch.context() as patch:
            send, commit = replays._Sender._try, replays._commit

            def trying(self: object, *words: object, send=send, left=left) -> None:  # type: ignore[no-untyped-def]
                if at == "before the send":
                    die_at(left)
                send(self, *words)
                if at == "after the send":
                    die_at(left)

            def committing(*words: object, commit=commit, left=left) -> None:  # type: ignore[no-untyped-def]
                if dead["is"]:
                    return
                commit(*words)
                if at == "after the offset" and left[0] > 0:
                    left[0] = 0
                    die_at(left)

            patch.setattr(replays._Sender, "_try", trying)
            patch.setattr(replays, "_commit", committing)
            with pytest.raises(Killed):
                replayed(admin, group)

    last = replayed(admin, group)

    assert 0 == last["failed"]
    ids = Counter(each.message_id for each in stored(box, topic))
    assert {f"{group}-{n}": 1 for n in range(200)} == ids
    assert 0 == waiting(admin, group)


def test_brokers_look_for_a_copy_no_further_back_than_its_letter(
    box: ThreadBox, admin: Admin, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each question takes the longer the more a broker keeps. Another broker's clock may be behind."""
    die(box, group, topic, 2)
    found = list(dead_letters.letters(admin, dead_letters.queues(admin, group), Scan()))
    asked: dict[tuple[str, str], int] = {}
    ask = Admin.ask_master

    def asking(self: Admin, queue: MessageQueue, exchange: Any) -> Any:
        if isinstance(header := exchange.header, QueryMessageRequest):
            asked[header.key, queue.broker] = header.begin_timestamp
        return ask(self, queue, exchange)

    monkeypatch.setattr(Admin, "ask_master", asking)
    copies = Replayed(admin, group)

    assert not any(copies.has(letter) for letter in found)
    for letter in found:
        message = letter.message
        for broker in ("broker-a", "broker-b"):
            leeway_ms = 60_000 if broker == message.queue.broker else 3_600_000
            assert message.stored_ms - leeway_ms == asked[message.message_id, broker]


def test_a_choice_leaves_the_others_and_sends_none_twice(box: ThreadBox, admin: Admin, topic: str, group: str) -> None:
    die(box, group, topic, 4, DEAD_LETTER_ERROR="KeyError")
    die(box, group, topic, 4, start=4, DEAD_LETTER_ERROR="TimeoutError")
    timeouts = LetterChoice(reason=dead_letters.reason_of("Timeout"))

    assert Counter(sent=4) == replayed(admin, group, timeouts)
    assert 4 == waiting(admin, group), "an offset passes no letter that was not meant, so each is looked for"
    assert {} == replays.plan(admin, group, timeouts).counts
    assert Counter() == replayed(admin, group, timeouts)
    assert {topic: 4} == replays.plan(admin, group, EVERY).counts
    assert Counter(sent=1) == replayed(admin, group, limit=1)
    assert 3 == waiting(admin, group)
    assert 3 == facts.letters(admin, group, 0).waiting
    assert Counter(sent=3) == replayed(admin, group)
    assert 8 == len(stored(box, topic))
    places = dead_letters.queues(admin, group)
    assert [(4, 0, 0)] * 2 == [(each.done, each.waiting, each.end - each.begin) for each in places if each.end]


def test_of_so_many_none_but_those_that_were_planned_is_tried(
    box: ThreadBox, admin: Admin, topic: str, group: str
) -> None:
    """Where each fails, since the group has no retry topic, a limit is one all the same."""
    die(box, group, topic, 5)
    assert Counter(failed=2) == replayed(admin, group, limit=2, to_retry=True)


def test_letters_that_came_behind_a_replay_are_not_looked_for(
    box: ThreadBox, admin: Admin, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    has = Replayed.has

    def noted(self: Replayed, letter: Letter) -> bool:
        asked.append(letter.place)
        return has(self, letter)

    monkeypatch.setattr(Replayed, "has", noted)
    die(box, group, topic, 3)
    replayed(admin, group, limit=2)
    die(box, group, topic, 50, start=3)
    asked.clear()

    assert 51 == waiting(admin, group)
    assert 1 == len(asked)
    replayed(admin, group)
    asked.clear()
    assert 0 == waiting(admin, group)
    assert [] == asked, "nothing was left behind"


def test_a_look_at_all_groups_asks_for_so_many_and_then_counts_them_as_waiting(
    box: ThreadBox, admin: Admin, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(box, group, topic, 4, DEAD_LETTER_ORIGIN="nothing")
    die(box, group, topic, 4, start=4)
    assert 4 == replayed(admin, group)["sent"]

    monkeypatch.setattr(facts, "LETTERS_ASKED", 7)
    assert LetterFacts(waiting=8, lately=8, unasked=8) == facts.letters(admin, group, 0)
    monkeypatch.setattr(facts, "LETTERS_ASKED", 8)
    assert LetterFacts(waiting=4, lately=4) == facts.letters(admin, group, 0)


def test_counts_of_letters_that_nobody_was_asked_for_are_said_to_be_the_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever they are shown: a table, a sentence, JSON, the doctor, the dashboard."""
    group, topic = "billing", "orders"
    with thread_box(brokers=2) as box, Admin(ClusterOptions(name_servers=(box.address,))) as admin:
        box.send(topic, texts(topic, 1), queue=0, broker="broker-a")
        die(box, group, topic, 4, DEAD_LETTER_ORIGIN="nothing")
        die(box, group, topic, 4, start=4)
        replayed(admin, group)
        with Reader(ReaderSettings((box.address,))) as reader:
            reader.commit(group, MessageQueue(topic, "broker-a", 0), 1)

        def shown() -> Iterator[str]:
            for words in (["groups"], ["groups", group], ["lag", group], ["groups", "--json"], ["doctor", group]):
                main.run([*words, "--name-server", box.address])
                yield "".join(capsys.readouterr())
            who = visitor(box.address, now_ms=RealClock().now_ms)
            who.open()
            look(who)
            yield who.get("/")

        for asked, most in [(1000, False), (7, True)]:
            monkeypatch.setattr(facts, "LETTERS_ASKED", asked)
            assert [most] * 6 == ["at most 8" in text for text in shown()]


def test_what_is_dropped_behind_a_replay_of_some_counts_the_others(
    box: ThreadBox, admin: Admin, topic: str, group: str
) -> None:
    die(box, group, topic, 2, DEAD_LETTER_ERROR="KeyError")
    die(box, group, topic, 2, start=2, DEAD_LETTER_ERROR="TimeoutError")
    die(box, group, topic, 2, start=4, DEAD_LETTER_ERROR="KeyError")
    replayed(admin, group, LetterChoice(reason=dead_letters.reason_of("Timeout")))

    two = replays.fronts(admin, dead_letters.queues(admin, group), 2)
    assert (2, [2, 2]) == (replays.passed_over(two), list(two.values())), "and those replayed behind them with it"
    everything = replays.fronts(admin, dead_letters.queues(admin, group), None)
    assert 4 == replays.passed_over(everything)
    replays.drop(admin, group, two)
    assert 2 == waiting(admin, group)


def test_to_the_retry_topic_it_names_its_topic(box: ThreadBox, admin: Admin, topic: str, group: str) -> None:
    box.call(lambda: [node.rules.retry_topic(group) for node in box.broker.nodes])
    die(box, group, topic, 2)

    assert Counter(sent=2) == replayed(admin, group, to_retry=True)

    found = stored(box, f"%RETRY%{group}")
    assert {topic} == {each.topic for each in found}
    assert {1} == {each.attempt for each in found}
    assert Counter() == replayed(admin, group)
    assert [] == stored(box, topic)


@pytest.mark.parametrize("some_to_retry", [True, False])
def test_a_replay_of_all_sends_none_that_went_the_other_way_before(
    box: ThreadBox, admin: Admin, topic: str, group: str, *, some_to_retry: bool
) -> None:
    """Some went to the group's retry topic and the others go to their topic, or the other way round: each goes once."""
    box.call(lambda: [node.rules.retry_topic(group) for node in box.broker.nodes])
    for start, error in ((0, "KeyError"), (2, "TimeoutError"), (4, "KeyError")):
        die(box, group, topic, 2, start=start, DEAD_LETTER_ERROR=error)
    some = LetterChoice(reason=dead_letters.reason_of("Timeout"))
    assert Counter(sent=2) == replayed(admin, group, some, to_retry=some_to_retry)
    assert Counter(sent=3) == replayed(admin, group, limit=3, to_retry=not some_to_retry)
    assert Counter(sent=1) == replayed(admin, group, to_retry=not some_to_retry)
    assert 0 == waiting(admin, group)
    found = Counter(each.message_id for where in (topic, f"%RETRY%{group}") for each in stored(box, where))
    assert {f"{group}-{number}": 1 for number in range(6)} == found


def test_the_first_ones_that_went_to_the_retry_topic_are_not_looked_at_again(
    box: ThreadBox, admin: Admin, topic: str, group: str
) -> None:
    box.call(lambda: [node.rules.retry_topic(group) for node in box.broker.nodes])
    die(box, group, topic, 6)
    assert Counter(sent=2) == replayed(admin, group, limit=2, to_retry=True)
    assert Counter(sent=4) == replayed(admin, group)
    assert Counter() == replayed(admin, group, to_retry=True)
    assert (4, 2) == (len(list(stored(box, topic))), len(list(stored(box, f"%RETRY%{group}"))))


def test_those_that_cannot_go_anywhere_can_be_dropped_from_among_others(
    box: ThreadBox, admin: Admin, topic: str, group: str
) -> None:
    """A mark is nobody's message: no topic of the group has it, and a letter has one, however often it is dropped."""
    die(box, group, topic, 4)
    die(box, group, topic, 2, start=4, DEAD_LETTER_ORIGIN="nowhere", DEAD_LETTER_REASON="of Java")
    choice = LetterChoice(reason=dead_letters.reason_of("of Java"))

    assert Counter({"sent": 2}) == replayed(admin, group, choice, is_drop=True)
    assert Counter() == replayed(admin, group, choice, is_drop=True)
    assert 4 == waiting(admin, group)
    assert [] == stored(box, topic)
    marks = stored(box, dead_letters.dropped_topic(admin, group))
    assert [f"{group}-4", f"{group}-5"] == sorted(each.message_id for each in marks)
    assert {b"dropped"} == {each.body for each in marks}

    assert Counter({"sent": 4}) == replayed(admin, group)
    assert 0 == waiting(admin, group)


def test_one_that_cannot_go_stays_and_says_why(box: ThreadBox, admin: Admin, topic: str, group: str) -> None:
    die(box, group, topic, 1, DEAD_LETTER_ORIGIN="nothing")
    die(box, group, "gone-topic", 1, start=2)
    die(box, group, topic, 1, start=4)

    planned = replays.plan(admin, group, EVERY)
    assert {None: 1, "gone-topic": 1, topic: 1} == planned.counts
    found = [(each.what, each.why) for each in replays.run(admin, planned, pace)]

    assert ("failed", "it does not say which topic it came from") == found[0]
    assert ("failed", "no broker takes messages for gone-topic") == found[1]
    assert ("sent", "") == found[2]
    assert 2 == waiting(admin, group)


def test_a_lost_connection_makes_no_second_copy(
    box: ThreadBox, admin: Admin, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(box, group, topic, 3)
    link, lost = admin.reach.link, [0]

    class Losing:
        """Stores the first send and loses its answer."""

        def __init__(self, real: object) -> None:
            self.real = real

        def request(self, command: object, **more: object) -> object:
            answer = self.real.request(command, **more)  # type: ignore[attr-defined]
            if getattr(command, "code", 0) == 310 and not lost[0]:
                lost[0] = 1
                raise ConnectionLost("lost")
            return answer

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    monkeypatch.setattr(replays, "INDEX_SECONDS", 0)
    monkeypatch.setattr(admin.reach, "link", lambda place: Losing(link(place)))

    assert Counter(sent=3) == replayed(admin, group)
    assert 1 == lost[0]
    assert 3 == len(stored(box, topic))


def test_a_broker_that_does_not_answer_ends_it(
    box: ThreadBox, admin: Admin, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(box, group, topic, 3)

    def silent(*_: object) -> None:
        raise BrokerUnreachable("silent")

    with monkeypatch.context() as patch:
        patch.setattr(replays._Sender, "_try", silent)
        with pytest.raises(BrokerUnreachable, match="silent"):
            replayed(admin, group)
    assert 3 == waiting(admin, group)


def test_what_is_dropped_is_passed_over(box: ThreadBox, admin: Admin, topic: str, group: str) -> None:
    die(box, group, topic, 6)
    some = replays.fronts(admin, dead_letters.queues(admin, group), 2)
    assert 2 == sum(offset - each.begin for each, offset in some.items())
    replays.drop(admin, group, some)
    assert 4 == waiting(admin, group)
    assert Counter(sent=4) == replayed(admin, group)

    die(box, group, topic, 2, start=6)
    replays.drop(admin, group, replays.fronts(admin, dead_letters.queues(admin, group), None))
    assert {} == replays.fronts(admin, dead_letters.queues(admin, group), None)
    assert Counter() == replayed(admin, group)
    assert 4 == len(stored(box, topic))
