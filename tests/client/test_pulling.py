"""Puller: every answer is a value; what it asks for, whom, and what it refuses to believe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from framework.client.pulling import Puller
from framework.errors import BodyUndecodable
from framework.model.message import Message
from framework.model.pulled import Damaged, Failed, Found, NothingNew, OffsetIllegal, PullResult
from framework.model.queue import MessageQueue
from framework.model.subscription import Subscription
from framework.net.credentials import Credentials
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.compression import Compression, compress
from framework.wire.stored import Record, encode_record
from tests.client.script import NS, A, B, ScriptedCluster, record, route_of
from tests.net.memory import virtually
from tests.wire import batches

QUEUE = MessageQueue("orders", "a", 0)
EVERYTHING = Subscription("orders", "*", 1_700_000_000_000)


def answer(
    code: int = 0, *, following: int = 0, low: int = 0, high: int = 100, body: bytes = b"", **more: Any
) -> RemotingCommand:
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(following),
        "minOffset": str(low),
        "maxOffset": str(high),
        **{name: str(value) for name, value in more.items()},
    }
    return RemotingCommand(code, fields, body)


def pulled(
    reply: RemotingCommand | None,
    *,
    offset: int = 5,
    commit: int = 0,
    subscription: Subscription = EVERYTHING,
    **options: Any,
) -> tuple[PullResult, RemotingCommand]:
    """One pull against a broker that answers so, and the request that it saw."""

    async def story() -> tuple[PullResult, RemotingCommand]:
        cluster = ScriptedCluster(**options)
        cluster.scripts[A] = lambda _: reply
        cluster.client.first_commits.note("billing", QUEUE)
        puller = cluster.client.puller("billing", subscription, QUEUE)
        result = await puller.pull(offset, lambda: commit)
        await cluster.client.close()
        return result, cluster.asked(A, RequestCode.PULL_MESSAGE)[0]

    return virtually(story)


def test_messages_are_found_with_their_offsets() -> None:
    body = record(5) + record(6) + record(8)
    result, request = pulled(answer(following=9, low=2, high=20, body=body))

    assert isinstance(result, Found)
    assert [5, 6, 8] == [message.queue_offset for message in result.messages]
    assert [QUEUE] * 3 == [message.queue for message in result.messages]
    assert (len(body), 9, 2, 20) == (result.size, result.next_offset, result.min_offset, result.max_offset)
    expected = {
        "consumerGroup": "billing", "topic": "orders", "queueId": "0", "queueOffset": "5", "maxMsgNums": "32",
        "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000", "subscription": "*",
        "subVersion": "1700000000000", "expressionType": "TAG", "maxMsgBytes": "262144", "bname": "a",
    }  # fmt: skip
    assert expected == request.fields


def test_an_offset_above_zero_rides_on_the_pull() -> None:
    _, request = pulled(answer(19, following=5), commit=4)

    assert ("7", "4") == (request.fields["sysFlag"], request.fields["commitOffset"])


@pytest.mark.parametrize("commit", [0, -1])
def test_without_a_commit_offset_the_broker_stores_none(commit: int) -> None:
    _, request = pulled(answer(19, following=5), commit=commit)

    assert ("6", "0") == (request.fields["sysFlag"], request.fields["commitOffset"])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(19, following=5), NothingNew(5, 0, 100)),
        (answer(20, following=37), NothingNew(37, 0, 100)),
        (answer(21, following=100), OffsetIllegal(100, 0, 100)),
        (answer(21, following=0, low=0, high=0), OffsetIllegal(0, 0, 0)),
        (RemotingCommand(24, remark="no such group"), Failed("code 24, no such group", 24)),
        (RemotingCommand(215, remark="flow control"), Failed("code 215, flow control", 215)),
        (RemotingCommand(99), Failed("code 99, no remark", 99)),
        (answer(0, following=-1), Failed("orders@a:0 at offset 5: a: the broker returned next offset -1")),
        (answer(19, following=2), Failed("orders@a:0 at offset 5: a: the broker returned lower offset 2")),
        (answer(21, following=-1), Failed("orders@a:0 at offset 5: a: the broker returned next offset -1")),
        (
            answer(21, following=2**63 - 1),
            Failed("orders@a:0 at offset 5: a: the broker returned next offset 9223372036854775807"),
        ),
        (RemotingCommand(0), Failed("orders@a:0 at offset 5: PullAnswer: field suggestWhichBrokerId is missing")),
    ],
)  # fmt: skip
def test_each_answer_has_its_value(reply: RemotingCommand, expected: PullResult) -> None:
    assert expected == pulled(reply)[0]


def test_a_damaged_record_fails_the_pull_whole_and_names_the_offset() -> None:
    """Skipping it silently would lose it."""
    result, _ = pulled(answer(following=7, body=record(5) + record(6)[:-3]))

    assert isinstance(result, Damaged)
    assert result.reason.startswith(f"orders@a:0: record at byte {len(record(5))}, queue offset 6: ")
    assert (7, 6, 100) == (result.following, result.until, result.max_offset)


def reader(subscription: Subscription = EVERYTHING) -> Puller:
    async def made() -> Puller:
        return ScriptedCluster().client.puller("billing", subscription, QUEUE)  # a cluster is made inside a loop

    return virtually(made)


BODY = b"".join(
    encode_record(
        Record(topic="orders", body=body, queue_offset=offset, sys_flag=flag, properties={"UNIQ_KEY": f"u{offset}"})
    )
    for offset, body, flag in (
        (5, b"plain", 0), (6, compress(b"small " * 9, Compression.ZLIB), Compression.ZLIB.sys_flag), (7, b"last", 0),
    )
)  # fmt: skip
SEEN = [(5, b"plain", "u5"), (6, b"small " * 9, "u6"), (7, b"last", "u7")]


def seen(messages: list[Message]) -> list[tuple[int, object, str]]:
    """What a handler is given, read as late as a handler reads it."""
    found = []
    for message in messages:
        try:
            body: object = message.body
        except BodyUndecodable:
            body = "undecodable"
        found.append((message.queue_offset, body, message.message_id))
    return found


def unchecked(at: int) -> bool:
    """Where no length, checksum or neighbour tells: flags, times, hosts, properties, and what sysFlag says of a body.

    `at` is a place within a record of one plain message.
    """
    return 12 <= at < 20 or 28 <= at < 84


def test_whichever_byte_is_wrong_messages_are_the_same_or_the_damage_is_named() -> None:
    """Damage that came up when a handler reads would be taken for the handler's failure, or for the producer's."""
    puller, damaged = reader(), 0
    begins = [0]
    while begins[-1] < len(BODY):
        begins.append(begins[-1] + int.from_bytes(BODY[begins[-1] : begins[-1] + 4]))
    for at in range(len(BODY)):
        begin = max(each for each in begins if each <= at)
        size = int.from_bytes(BODY[begin : begin + 4])
        texts_at = begin + size - len("UNIQ_KEY-u5-")
        for change in (0x01, 0x10, 0x80, 0xFF):
            body = bytearray(BODY)
            body[at] ^= change
            result = puller._read(answer(following=8, body=bytes(body)), 5, 32)
            if isinstance(result, Damaged):
                damaged += 1
                assert "orders@a:0" in result.reason
                continue
            assert isinstance(result, Found)
            assert at >= texts_at or unchecked(at - begin), f"byte {at - begin} of the record at {begin}, {change:#x}"
            assert [5, 6, 7] == [offset for offset, _, _ in seen(result.messages)]
    assert damaged > len(BODY)
    result = puller._read(answer(following=8, body=BODY), 5, 32)
    assert isinstance(result, Found)
    assert SEEN == seen(result.messages)


@given(st.binary(max_size=400), st.integers(0, len(BODY)))
def test_whatever_comes_is_a_value(noise: bytes, at: int) -> None:
    result = reader()._read(answer(following=8, body=BODY[:at] + noise), 5, 32)

    assert isinstance(result, Found | Damaged)


@pytest.mark.parametrize(
    ("subscription", "body", "until"),
    [
        (EVERYTHING, record(5)[:-3], 6),
        (Subscription("orders", "a", 1), record(7, tags="a")[:-3], 9),
        (EVERYTHING, encode_record(Record(topic="orders", queue_offset=5, body=b"x", sys_flag=0xC0))[:-1], 9),
        (EVERYTHING, b"", 9),
    ],
)
def test_leaving_a_damaged_record_behind_leaves_nothing_else_behind(
    subscription: Subscription, body: bytes, until: int
) -> None:
    """It is one offset, but where the broker passes over others, or stores a batch as one record."""
    result = reader(subscription)._read(answer(following=9, body=body), 5, 1)

    assert until == (result.until if isinstance(result, Damaged) else result.next_offset)  # type: ignore[union-attr]


def test_what_the_box_calls_damaged_is_damage() -> None:
    """It serves no bytes that its own checksum denies."""
    remark = "message 6 of orders@a:0 is damaged: missing, moved, or not what its checksum says"
    result, _ = pulled(RemotingCommand(1, remark=remark))

    assert Damaged("orders@a:0: message 6 of orders@a:0 is damaged", 7, 6, 6) == result


def test_a_record_for_itself_is_asked_for_alone() -> None:
    async def story() -> list[str]:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: answer(19, following=5)
        puller = cluster.client.puller("billing", EVERYTHING, QUEUE)
        for alone in (False, True, False):
            await puller.pull(5, lambda: 0, alone=alone)
        await cluster.client.close()
        return [request.fields["maxMsgNums"] for request in cluster.asked(A, RequestCode.PULL_MESSAGE)]

    assert ["32", "1", "32"] == virtually(story)


def test_what_comes_beyond_the_request_is_left_out_and_named_once() -> None:
    """100,000 records in one answer would hold up every other group, and bytes that no limit counts on."""
    body = b"".join(map(record, range(5, 505)))
    puller = reader()

    with capture_logs() as lines:
        for _ in range(3):
            result = puller._read(answer(following=505, body=body), 5, 32)

    assert isinstance(result, Found)
    assert ([*range(5, 37)], 37) == ([message.queue_offset for message in result.messages], result.next_offset)
    assert len(body) / 15 > result.size
    assert len(result.messages[0]._source.buffer) == result.size  # type: ignore[attr-defined]
    (line,) = lines
    assert ("pull result cut", 37) == (line["event"], line["to"])


def test_inner_batches_count_as_the_records_that_they_are() -> None:
    """A broker counts them so, and a pull may bring many messages in few of them."""
    parts = batches.encode([batches.BatchedMessage(b"x")] * 100)
    body = b"".join(
        encode_record(Record(topic="orders", body=parts, queue_offset=offset, sys_flag=0xC0))
        for offset in range(0, 3200, 100)
    )

    result = reader()._read(answer(following=3200, body=body), 0, 32)

    assert isinstance(result, Found)
    assert (3200, 3200) == (len(result.messages), result.next_offset)


def test_tags_are_checked_by_text_for_the_broker_compares_hashes() -> None:
    """`Aa` and `BB` have one hash. What the check drops still moves the offset on."""
    body = record(5, tags="Aa") + record(6, tags="BB") + record(7)
    result, request = pulled(answer(following=8, body=body), subscription=Subscription("orders", "Aa || Cc"))

    assert isinstance(result, Found)
    assert [5] == [message.queue_offset for message in result.messages]
    assert 8 == result.next_offset
    assert "Aa || Cc" == request.fields["subscription"]


def test_a_static_topic_s_offsets_are_shifted() -> None:
    result, _ = pulled(answer(following=1006, body=record(5), offsetDelta=1000), offset=1005)

    assert isinstance(result, Found)
    assert [1005] == [message.queue_offset for message in result.messages]


def test_pulls_are_signed_where_there_are_credentials() -> None:
    _, request = pulled(answer(19, following=5), credentials=Credentials("RocketMQ", "12345678"), commit=3)

    assert "RocketMQ" == request.fields["AccessKey"]
    assert ("7", "3", "5") == tuple(request.fields[name] for name in ("sysFlag", "commitOffset", "queueOffset"))


def test_a_pull_that_nobody_answers_fails_after_thirty_seconds() -> None:
    async def story() -> tuple[PullResult, float]:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: None
        result = await cluster.client.puller("billing", EVERYTHING, QUEUE).pull(5, lambda: 0)
        await cluster.client.close()
        return result, asyncio.get_running_loop().time()

    result, elapsed = virtually(story)

    assert Failed("PULL_MESSAGE (11): no answer from 10.0.0.1:10911 within 30000 ms") == result
    assert 30 <= elapsed < 30.5


def test_an_unreachable_broker_and_name_server_are_values_too() -> None:
    async def story() -> list[PullResult]:
        cluster = ScriptedCluster()
        del cluster.network.scripts[A]
        results = [await cluster.client.puller("billing", EVERYTHING, QUEUE).pull(5, lambda: 0)]
        elsewhere = MessageQueue("orders", "z", 0)
        results.append(await cluster.client.puller("billing", EVERYTHING, elsewhere).pull(5, lambda: 0))
        nowhere = ScriptedCluster()
        del nowhere.network.scripts[NS]
        results.append(await nowhere.client.puller("billing", EVERYTHING, QUEUE).pull(5, lambda: 0))
        await cluster.client.close()
        await nowhere.client.close()
        return results

    for result, reason in zip(
        virtually(story), ("refused", "broker z: no master", "no name server answers"), strict=True
    ):
        assert isinstance(result, Failed)
        assert reason in result.reason
        assert result.code is None


def test_an_address_that_is_not_allowed_is_a_value_too() -> None:
    async def story() -> PullResult:
        cluster = ScriptedCluster(allow=("10.9.0.0/16",))
        result = await cluster.client.puller("billing", EVERYTHING, QUEUE).pull(5, lambda: 0)
        await cluster.client.close()
        return result

    result = virtually(story)

    assert isinstance(result, Failed)
    assert "10.0.0.1 is not in cluster.allow (10.9.0.0/16)" in result.reason


def test_the_suggested_replica_is_asked_next_and_never_told_an_offset() -> None:
    async def story() -> tuple[list[str], list[str], str]:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route_of({"a": {0: A, 1: B}})
        cluster.both(lambda _: answer(19, following=5, suggestWhichBrokerId=1))
        cluster.client.first_commits.note("billing", QUEUE)
        puller = cluster.client.puller("billing", EVERYTHING, QUEUE)
        await puller.pull(5, lambda: 3)
        await puller.pull(5, lambda: 3)
        picture = repr(puller)
        # A replica that cannot be reached, or that no route names, leads back to the master.
        del cluster.network.scripts[B]
        cluster.network.peers[-1][1].pipe.cut()
        await asyncio.sleep(0.01)
        assert isinstance(await puller.pull(5, lambda: 3), Failed)
        cluster.scripts[A] = lambda _: answer(19, following=5, suggestWhichBrokerId=7)
        await puller.pull(5, lambda: 3)
        await puller.pull(5, lambda: 3)
        await cluster.client.close()
        flags = [[request.fields["sysFlag"] for request in cluster.network.requests(place)] for place in (A, B)]
        return flags[0], flags[1], picture

    assert (["7", "7", "7"], ["6"], "<Puller orders@a:0 by replica 1>") == virtually(story)


def test_a_replica_is_read_from_where_no_route_has_a_master_and_is_never_told_an_offset() -> None:
    """A name server forgets a dead master at once. The name server is not asked again at each pull."""

    async def story() -> tuple[list[PullResult], list[str], int]:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route_of({"a": {2: B, 1: A}})
        cluster.scripts[A] = lambda _: answer(19, following=5)
        puller = cluster.client.puller("billing", EVERYTHING, QUEUE)
        results = [await puller.pull(5, lambda: 3), await puller.pull(5, lambda: 3)]
        cluster.scripts[A] = lambda _: answer(20, following=5)
        results.append(await puller.pull(5, lambda: 3))
        await cluster.client.close()
        flags = [request.fields["sysFlag"] for request in cluster.network.requests(A)]
        return results, flags, len(cluster.network.requests(NS))

    # A replica that is behind says 20 and the same offset: asked again at once it would say so as fast as it can.
    behind = Failed("replica 1 of a has not come so far")
    assert ([NothingNew(5, 0, 100)] * 2 + [behind], ["6"] * 3, 1) == virtually(story)


def test_go_away_sends_the_pull_once_more_on_a_fresh_connection() -> None:
    async def story() -> tuple[PullResult, int]:
        cluster = ScriptedCluster()
        seen: list[RemotingCommand] = []

        def script(request: RemotingCommand) -> RemotingCommand:
            seen.append(request)
            return RemotingCommand(1500) if len(seen) == 1 else answer(19, following=5)

        cluster.scripts[A] = script
        result = await cluster.client.puller("billing", EVERYTHING, QUEUE).pull(5, lambda: 0)
        await cluster.client.close()
        return result, cluster.network.dialled.count(A)

    assert (NothingNew(5, 0, 100), 2) == virtually(story)


def test_pausing_holds_pulls_back_and_lets_commits_through() -> None:
    async def story() -> tuple[bool, PullResult]:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda request: answer(19, following=5) if request.code == 11 else RemotingCommand(0)
        client = cluster.client
        puller: Puller = client.puller("billing", EVERYTHING, QUEUE)
        await puller.pull(5, lambda: 0)
        client.pause_pulls(paused=True)
        task = asyncio.get_running_loop().create_task(puller.pull(5, lambda: 0))
        await client.brokers.commit("billing", QUEUE, 5)
        await asyncio.sleep(100)
        was_done = task.done()
        client.pause_pulls(paused=False)
        result = await task
        await client.close()
        return was_done, result

    assert (False, NothingNew(5, 0, 100)) == virtually(story)


def test_a_batch_is_as_large_as_asked_for() -> None:
    async def story() -> str:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: answer(19, following=5)
        await cluster.client.puller("billing", EVERYTHING, QUEUE, batch=512).pull(5, lambda: 0)
        await cluster.client.close()
        return cluster.network.requests(A)[0].fields["maxMsgNums"]

    assert "512" == virtually(story)
