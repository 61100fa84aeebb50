"""Inbound: what brokers ask of us, and what they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.channel import Channel
from framework.net.task_tree import TaskTree
from framework.runtime.inbound import COUNT_OF_ALL, COUNT_OF_ONE, DIRECT_MAX, Inbound
from framework.wire.bodies.progress import ClientOffsets, ResetOffsets
from framework.wire.bodies.running import SUCCESS, DirectResult, RunningInfo
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.stored import Record, encode_record
from tests.services.parts import Line, play, play_logged

BROKER = "127.0.0.1:10911"
Q0, Q1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
CPP_RESET = b'{"offsetTable":[{"topic":"orders","brokerName":"broker-a","queueId":1,"offset":7}]}'


class Answers:
    """A channel that keeps what it is to answer."""

    peer = BROKER

    def __init__(self) -> None:
        self.given: list[RemotingCommand] = []

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        self.given.append(answer)


class Group:
    def __init__(self) -> None:
        self.resets: list[tuple[str, dict[MessageQueue, int]]] = []
        self.consumed: list[Message] = []
        self.gate: asyncio.Event | None = None

    def progress(self, topic: str) -> Mapping[MessageQueue, int]:
        return {Q0: 5, Q1: 9} if topic == "orders" else {}

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        self.resets.append((topic, dict(offsets)))
        return {queue: offset for queue, offset in offsets.items() if queue == Q1}

    def can_handle(self, message: Message) -> bool:
        return message.topic == "orders"

    async def consume_directly(self, message: Message) -> DirectResult:
        self.consumed.append(message)
        if self.gate is not None:
            await self.gate.wait()
        return DirectResult(result=SUCCESS, spent_ms=3)


class Member:
    """An application with the group `billing`."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.billing = Group()
        self.stacks: list[bool] = []

    def members_changed(self, group: str) -> None:
        self.told.append(group)

    def group(self, name: str) -> Group | None:
        return self.billing if name == "billing" else None

    def running_info(self, group: str, *, with_stacks: bool) -> RunningInfo:
        self.stacks.append(with_stacks)
        return RunningInfo(properties={"of": group})


def ask(
    *commands: RemotingCommand, member: Member | None = None, **settings: bool
) -> tuple[Member, list[RemotingCommand], list[Line]]:
    """The answers to some requests that came one after the other."""
    asked = member or Member()

    async def story() -> list[RemotingCommand]:
        channel, tree = Answers(), TaskTree()
        inbound = Inbound(cast("Any", asked), tree, **settings)
        for command in commands:
            inbound(cast("Channel", channel), command)
        await asyncio.sleep(1)
        await tree.close()
        return channel.given

    given, lines = play_logged(story)
    return asked, given, lines


def record(topic: str = "orders") -> bytes:
    return encode_record(Record(topic=topic, body=b"paid", queue_id=1, queue_offset=42, properties={"UNIQ_KEY": "M1"}))


def direct(group: str = "billing", body: bytes | None = None) -> RemotingCommand:
    fields = {"consumerGroup": group, "brokerName": "broker-a", "msgId": "M1"}
    return RemotingCommand(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, record() if body is None else body)


def reset(group: str = "billing", body: bytes = CPP_RESET) -> RemotingCommand:
    fields = {"topic": "orders", "group": group, "timestamp": "-1", "isForce": "true"}
    return RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)


def running_info(group: str = "billing", **fields: str) -> RemotingCommand:
    return RemotingCommand(
        RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": group, "clientId": "me@1", **fields}
    )


def status(group: str = "billing") -> RemotingCommand:
    return RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "orders", "group": group})


def test_a_changed_member_list_is_told_with_its_group() -> None:
    member, given, _ = ask(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "billing"}))

    assert (["billing"], []) == (member.told, given)


def test_a_notice_without_a_group_is_told_as_nobodys() -> None:
    """Whoever is told looks the group up; a broker's bytes must not raise here."""
    member, given, _ = ask(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {}))

    assert ([""], []) == (member.told, given)


@pytest.mark.parametrize(
    ("code", "named"), [(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, "PUSH_REPLY_MESSAGE_TO_CLIENT"), (31_337, "31337")]
)
def test_anything_else_is_answered_as_not_supported_by_its_name(code: int, named: str) -> None:
    _, (answer,), _ = ask(RemotingCommand(code, {}))

    assert ResponseCode.REQUEST_CODE_NOT_SUPPORTED == answer.code
    assert named in (answer.remark or "")


@pytest.mark.parametrize("command", [direct("sales"), reset("sales"), running_info("sales"), status("sales")], ids=str)
def test_a_group_that_is_not_ours_is_answered_as_java_answers_it(command: RemotingCommand) -> None:
    _, (answer,), _ = ask(command)

    assert ResponseCode.SYSTEM_ERROR == answer.code
    assert "The Consumer Group <sales> not exist in this consumer" == answer.remark


@pytest.mark.parametrize(
    "command",
    [
        RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, {}),
        RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "orders"}),
        RemotingCommand(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET, {"topic": "orders", "group": "billing", "timestamp": "soon"}
        ),
        reset(body=b"{"),
        reset(body=b'{"offsetTable":{"no queue":5}}'),
        direct(body=b""),
        direct(body=record() + record()),
        direct(body=record()[:-1]),
    ],
    ids=str,
)
def test_nonsense_is_answered_with_what_is_wrong_and_does_nothing(command: RemotingCommand) -> None:
    member, (answer,), _ = ask(command)

    assert ResponseCode.SYSTEM_ERROR == answer.code
    assert answer.remark
    assert ([], []) == (member.billing.resets, member.billing.consumed)


def test_our_own_mistake_ends_neither_the_connection_nor_the_answer() -> None:
    class Broken(Member):
        def running_info(self, group: str, *, with_stacks: bool) -> RunningInfo:
            raise ZeroDivisionError

    _, (answer,), lines = ask(running_info(), member=Broken())

    assert (1, "ZeroDivisionError in GET_CONSUMER_RUNNING_INFO (307)") == (answer.code, answer.remark)
    assert ["request failed"] == [line["event"] for line in lines]


def test_running_info_comes_with_stacks_where_they_are_asked_for() -> None:
    member, given, _ = ask(running_info(), running_info(jstackEnable="true"))

    assert [False, True] == member.stacks
    assert [{"of": "billing"}] * 2 == [RunningInfo.decode(answer.body).properties for answer in given]


def test_progress_is_shown_queue_by_queue() -> None:
    _, (answer,), _ = ask(status())

    assert {Q0: 5, Q1: 9} == ClientOffsets.decode(answer.body).offsets


def test_a_reset_is_passed_on_in_both_shapes() -> None:
    member, given, lines = ask(reset(), reset(body=ResetOffsets(offsets={Q0: 3, Q1: 0}).encode()))

    assert [("orders", {Q1: 7}), ("orders", {Q0: 3, Q1: 0})] == member.billing.resets
    assert [0, 0] == [answer.code for answer in given], "it is one-way; where somebody waits he is answered"
    assert [({"orders@broker-a:1": 7}, 0), ({"orders@broker-a:1": 0}, 1)] == [
        (line["queues"], line["not_ours"]) for line in lines
    ]


def test_a_message_is_consumed_directly_as_it_stands_in_the_log() -> None:
    member, (answer,), _ = ask(direct())

    (message,) = member.billing.consumed
    assert ("orders", b"paid", "M1", Q1, 42) == (
        message.topic, message.body, message.message_id, message.queue, message.queue_offset,
    )  # fmt: skip
    assert DirectResult(result=SUCCESS, spent_ms=3) == DirectResult.decode(answer.body)


def test_a_topic_without_a_handler_is_named() -> None:
    member, (answer,), _ = ask(direct(body=record("stock")))

    assert (1, "group billing has no handler for topic stock here") == (answer.code, answer.remark)
    assert [] == member.billing.consumed


def test_only_a_few_are_consumed_directly_at_once() -> None:
    member = Member()
    member.billing.gate = asyncio.Event()

    _, given, _ = ask(*[direct()] * (DIRECT_MAX + 2), member=member)
    assert [ResponseCode.SYSTEM_BUSY] * 2 == [answer.code for answer in given]
    assert DIRECT_MAX == len(member.billing.consumed)


def test_places_become_free_again() -> None:
    async def story() -> int:
        channel, tree, member = Answers(), TaskTree(), Member()
        inbound = Inbound(cast("Any", member), tree)
        for _ in range(3 * DIRECT_MAX):
            inbound(cast("Channel", channel), direct())
            await asyncio.sleep(1)
        return sum(answer.code == ResponseCode.SUCCESS for answer in channel.given)

    assert 3 * DIRECT_MAX == play(story)


@pytest.mark.parametrize(
    ("command", "settings", "switch"),
    [(reset(), {"may_reset": False}, "admin.reset"), (direct(), {"may_consume": False}, "admin.direct")],
)
def test_what_the_settings_forbid_is_refused_with_the_switch_that_does(
    command: RemotingCommand, settings: Any, switch: str
) -> None:
    member, (answer,), lines = ask(command, **settings)

    assert ResponseCode.NO_PERMISSION == answer.code
    assert switch in (answer.remark or "")
    assert ([], []) == (member.billing.resets, member.billing.consumed)
    assert [("request refused", BROKER)] == [(line["event"], line["peer"]) for line in lines]


ASKED = {"message consumed directly", "offsets reset", "running info shown", "offsets shown"}


@pytest.mark.parametrize("command", [direct(), reset(), running_info(), status()], ids=str)
def test_whatever_an_administrator_does_leaves_a_line_with_who_asked(command: RemotingCommand) -> None:
    _, _, lines = ask(command)

    found: list[Any] = [(line["peer"], line["group"], line["event"] in ASKED) for line in lines]
    assert [(BROKER, "billing", True)] == found


def test_who_looks_every_few_seconds_leaves_no_line_at_info() -> None:
    """An open dashboard asks each member every five seconds; what changes something stays at info or above."""
    levels = {line["event"]: line["log_level"] for each in (running_info(), status(), reset()) for line in ask(each)[2]}

    assert {"running info shown": "debug", "offsets shown": "info", "offsets reset": "warning"} == levels


# Who asks too much


def storm(count: int, *, each_s: float = 0.0, cost_s: float = 0.0, **fields: str) -> tuple[list[int], list[Line]]:
    """So many questions, one behind the other, each of which takes so long; the codes of the answers."""

    async def story() -> list[int]:
        member, channel, tree = Member(), Answers(), TaskTree()
        loop = asyncio.get_running_loop()
        inbound = Inbound(cast("Any", member), tree)
        spent = 0.0
        usual = loop.time

        def slow(group: str, *, with_stacks: bool) -> RunningInfo:
            nonlocal spent
            spent += cost_s
            return RunningInfo()

        member.running_info = slow  # type: ignore[method-assign]
        loop.time = lambda: usual() + spent  # type: ignore[method-assign]  # the loop is busy meanwhile
        for _ in range(count):
            inbound(cast("Channel", channel), running_info(**fields))
            if each_s:
                await asyncio.sleep(each_s)
        await tree.close()
        return [answer.code for answer in channel.given]

    return play_logged(story)


def test_a_storm_of_questions_is_answered_each_and_served_in_part() -> None:
    """Else 2,000 of them, which cost 1.4 ms each, stop all groups for three seconds."""
    codes, lines = storm(2_000)

    assert 2_000 == len(codes)
    assert COUNT_OF_ONE == codes.count(ResponseCode.SUCCESS)
    assert 2_000 - COUNT_OF_ONE == codes.count(ResponseCode.SYSTEM_BUSY)
    assert 1 == len([line for line in lines if line["event"] == "requests refused"])


def test_questions_that_cost_much_are_served_more_seldom() -> None:
    codes, _ = storm(200, cost_s=0.02)

    assert 3 == codes.count(ResponseCode.SUCCESS)


def test_one_slow_moment_has_no_question_refused() -> None:
    """A busy machine or a throttled container is not what was asked: mqadmin asks a member twice in a row."""
    codes, _ = storm(2, cost_s=0.4)

    assert [ResponseCode.SUCCESS] * 2 == codes


def test_who_asks_now_and_then_is_always_answered() -> None:
    codes, lines = storm(200, each_s=0.05)

    assert {ResponseCode.SUCCESS} == set(codes)
    assert not [line for line in lines if line["event"] == "requests refused"]


def test_several_connections_share_what_all_may_have() -> None:
    async def story() -> int:
        member, tree = Member(), TaskTree()
        inbound = Inbound(cast("Any", member), tree)
        channels = [Answers() for _ in range(10)]
        for number, channel in enumerate(channels):
            channel.peer = f"127.0.0.1:{number + 1}"
            for _ in range(COUNT_OF_ONE):
                inbound(cast("Channel", channel), status())
        await tree.close()
        return sum(answer.code == ResponseCode.SUCCESS for channel in channels for answer in channel.given)

    assert COUNT_OF_ALL == play(story)


def test_notices_of_a_storm_are_all_heard() -> None:
    member, given, _ = ask(
        *[RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "billing"})] * 500
    )

    assert (500, []) == (len(member.told), given)


def test_refusals_end_with_the_storm_and_that_is_said() -> None:
    async def story() -> list[int]:
        channel, tree = Answers(), TaskTree()
        inbound = Inbound(cast("Any", Member()), tree)
        for _ in range(100):
            inbound(cast("Channel", channel), reset())
        await asyncio.sleep(1)
        inbound(cast("Channel", channel), reset())
        await tree.close()
        return [answer.code for answer in channel.given]

    codes, lines = play_logged(story)
    assert (101, ResponseCode.SUCCESS) == (len(codes), codes[-1])
    (left,) = [line for line in lines if line["event"] == "requests accepted again"]
    assert 100 - COUNT_OF_ONE == left["refused"]
