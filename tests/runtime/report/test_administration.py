"""What administrators see of an application and do to it, against the broker in the box."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework import App, Message, Producer, RetryLater, consumer
from framework.broker.intercept import Interceptor
from framework.core.queue_flow import QueueState
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.runtime import inbound
from framework.runtime.inbound import AppAdministration
from framework.runtime.report.observe import shown
from framework.runtime.report.stacks import stacks
from framework.settings.consumers import ConsumerSettings
from framework.settings.schema import AppSettings
from framework.wire.bodies.running import SUCCESS, THREW, RunningInfo
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.patience import until
from tests.runtime.test_app import box, run, running, send

CANARY = "canary-a3f9"
NO_LOCKS = RemotingCommand(0, body=b'{"lockOKMQSet": []}')
NO_WORD = RemotingCommand(1, remark="not now")


def asked(app: App) -> AppAdministration:
    return AppAdministration(lambda: app._groups, app.snapshot, app.world)


def info_of(app: App, group: str, *, with_stacks: bool = False) -> RunningInfo:
    """As it reaches an administrator: through bytes."""
    return RunningInfo.decode(asked(app).running_info(group, with_stacks=with_stacks).encode())


def test_running_info_shows_the_live_application() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing", tags="paid || sent")
        async def bill(message: Message) -> RetryLater | None:
            return RetryLater("1h") if message.body == b"3" and message.attempt == 1 else None

        began_ms = real_world().clock.now_ms()
        async with box() as broker:
            async with Producer(name_servers=[broker.address]) as producer:
                for number in range(8):
                    await producer.send("orders", str(number), tags="paid")
            async with running(broker, bill, concurrency=7) as app:
                await until(lambda: app.counts.handled == 8 and app.counts.retried == 1)  # which comes again soon
                await until(lambda: "%RETRY%billing" in {pull.topic for pull in app._groups[0].owned})
                info = info_of(app, "billing")
            properties = info.properties

        assert (f"{broker.address};", "7", "false", "CONSUME_PASSIVELY", "V5_3_2") == tuple(
            properties[f"PROP_{name}"]
            for name in (
                "NAMESERVER_ADDR", "THREADPOOL_CORE_SIZE", "CONSUMEORDERLY", "CONSUME_TYPE", "CLIENT_VERSION",
            )
        )  # fmt: skip
        now_ms = app.world.clock.now_ms()
        assert began_ms <= int(properties["PROP_CONSUMER_START_TIMESTAMP"]) <= now_ms
        assert {"%RETRY%billing": ("*", ()), "orders": ("paid || sent", ("paid", "sent"))} == {
            each.topic: (each.expression, each.tags) for each in info.subscriptions
        }
        assert {"orders", "%RETRY%billing"} == {queue.topic for queue in info.queues}
        assert 8 == sum(each.commit_offset for queue, each in info.queues.items() if queue.topic == "orders")
        for each in info.queues.values():
            assert not each.is_dropped
            assert began_ms <= each.last_pull_timestamp <= now_ms
            assert began_ms <= each.last_consume_timestamp <= now_ms
        status = info.statuses["orders"]
        assert (1, True, True, True) == (
            status.consume_failed_count, status.pull_tps > 0, status.consume_ok_tps > status.consume_failed_tps > 0,
            status.pull_rt > 0,
        )  # fmt: skip
        assert info.stack is None

    run(scenario)


def test_messages_that_are_held_show_with_their_offsets_and_what_they_are_doing() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        @consumer(topic="orders", group="billing")
        async def wait_for_the_gate(_: Message) -> None:
            await gate.wait()

        async with box() as broker:
            await send(broker, "orders", *map(str, range(20)))
            async with running(broker, wait_for_the_gate, concurrency=1) as app:
                await until(
                    lambda: (
                        [20, 1]  # all are here, and the one handler has been started
                        == [
                            sum(getattr(each, name) for group in app.snapshot().groups for each in group.queues)
                            for name in ("messages", "running")
                        ]
                    )
                )
                info = info_of(app, "billing", with_stacks=True)
                gate.set()
        held = [each for each in info.queues.values() if each.cached_count]
        assert 20 == sum(each.cached_offset_max - each.cached_offset_min + 1 for each in held)
        assert all(each.commit_offset == each.cached_offset_min for each in held)
        stack = info.stack or ""
        assert "wait_for_the_gate" in stack, "the handler that everybody waits for is what one looks for"
        assert "PullLoop.run(queue/pull.py:" in stack

    run(scenario)


def test_a_reset_moves_a_live_queue_both_ways_and_is_committed() -> None:
    async def scenario() -> None:
        seen: list[int] = []

        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None:
            seen.append(message.queue_offset)

        async with box() as broker:
            queue = MessageQueue("orders", "", 0)
            async with Producer(name_servers=[broker.address]) as producer:
                first = await producer.send("orders", b"0")
                queue = first.queue
                for number in range(1, 10):
                    await producer.send("orders", str(number), queue=queue)
                async with running(broker, bill) as app:
                    await until(lambda: len(seen) == 10)
                    group = asked(app).group("billing")
                    assert group is not None
                    assert {queue: 0} == group.reset("orders", {queue: 0, MessageQueue("orders", "elsewhere", 0): 5})
                    await until(lambda: len(seen) == 20)
                    assert sorted([*range(10)] * 2) == sorted(seen)
                    assert {queue: 7} == group.reset("orders", {queue: 7})
                    await until(lambda: len(seen) == 23)
                    assert {} == group.reset("stock", {queue: 0}), "a queue of another topic is not moved"
                    assert {} == group.reset("orders", {queue: -1})
                    assert {queue: 9} == group.reset("orders", {queue: 9})
                    await until(lambda: len(seen) == 24)
                    assert 10 == group.progress("orders")[queue]
                seen.clear()
                async with running(broker, bill) as app:
                    await producer.send("orders", b"after", queue=queue)
                    await until(lambda: seen)
            assert [10] == seen

    run(scenario)


def test_a_reset_of_an_orderly_queue_that_waits_for_its_lock_is_stored() -> None:
    """Whoever asks is told that it was done: so it must be, though nothing of the queue is here yet."""

    async def scenario() -> None:
        seen: list[int] = []

        @consumer(topic="orders", group="billing", orderly=True)
        async def bill(message: Message) -> None:
            seen.append(message.queue_offset)

        async with box() as broker:
            async with Producer(name_servers=[broker.address]) as producer:
                queue = (await producer.send("orders", b"0")).queue
                for number in range(1, 10):
                    await producer.send("orders", str(number), queue=queue)
                held = broker.intercept(Interceptor(code=RequestCode.LOCK_BATCH_MQ, answer=NO_LOCKS, times=None))
                async with running(broker, bill) as app:
                    await until(lambda: app._groups and queue in app._groups[0].owned)
                    asked_group = asked(app).group("billing")
                    assert asked_group is not None
                    assert {queue: 7} == asked_group.reset("orders", {queue: 7})
                    held()
                    await until(lambda: len(seen) >= 3 and app.idle_ms() > 100)
            assert [7, 8, 9] == seen

    run(scenario)


@pytest.mark.parametrize("is_reset", [False, True])
def test_who_lost_its_lock_goes_on_where_it_was_unless_it_was_sent_back_meanwhile(*, is_reset: bool) -> None:
    """Its broker may have crashed, and have an offset of some seconds ago; an administrator meant what he said."""

    async def scenario() -> None:
        seen: list[int] = []

        @consumer(topic="orders", group="billing", orderly=True)
        async def bill(message: Message) -> None:
            seen.append(message.queue_offset)

        async with box() as broker:
            async with Producer(name_servers=[broker.address]) as producer:
                queue = (await producer.send("orders", b"0")).queue
                for number in range(1, 10):
                    await producer.send("orders", str(number), queue=queue)
                async with running(broker, bill) as app:
                    await until(lambda: len(seen) == 10)
                    offsets = broker.nodes[0].offsets
                    await until(lambda: offsets.get("billing", "orders", queue.number) == 10)
                    mute = Interceptor(code=RequestCode.LOCK_BATCH_MQ, answer=NO_WORD, times=None)
                    speaks = broker.intercept(mute)
                    leases = app._groups[0].kind.pool.leases
                    assert leases is not None
                    leases.connection_lost(broker.address)
                    await until(lambda: app._groups[0].owned[queue].flow.state is QueueState.CLAIMED)
                    offsets.put("billing", "orders", queue.number, 4)
                    group = asked(app).group("billing")
                    assert group is not None
                    if is_reset:
                        assert {queue: 7} == group.reset("orders", {queue: 7})
                        await until(lambda: offsets.get("billing", "orders", queue.number) == 7)
                    speaks()
                    await producer.send("orders", b"10", queue=queue)
                    await until(lambda: 10 in seen)
            assert [*range(10), *([7, 8, 9] if is_reset else []), 10] == seen

    run(scenario)


def test_what_a_running_handler_ends_with_after_a_reset_changes_nothing() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        seen: list[int] = []

        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None:
            seen.append(message.queue_offset)
            await gate.wait()

        async with box() as broker:
            async with Producer(name_servers=[broker.address]) as producer:
                queue = (await producer.send("orders", b"0")).queue
                for number in range(1, 6):
                    await producer.send("orders", str(number), queue=queue)
            async with running(broker, bill, concurrency=2) as app:
                await until(lambda: len(seen) == 2)
                group = asked(app).group("billing")
                assert group is not None
                group.reset("orders", {queue: 4})
                gate.set()
                await until(lambda: len(seen) == 4)
                await until(lambda: app.counts.handled == 2)
                assert 2 == app.counts.late
            assert [0, 1, 4, 5] == seen, "2 and 3 were pulled, and dropped before they began"

    run(scenario)


def test_a_message_is_consumed_directly_without_moving_anything() -> None:
    async def scenario() -> None:
        seen: list[str] = []

        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None:
            seen.append(message.body.decode())
            if len(seen) > 1:
                raise ValueError("twice")

        @consumer(topic="stock", group="billing")
        def move(message: Message) -> None:
            seen.append(f"stock {message.body.decode()}")

        async with box() as broker, running(broker, bill, move) as app:
            await until(lambda: app.is_ready)
            group = asked(app).group("billing")
            assert group is not None
            first = await group.consume_directly(Message("orders", b"by hand"))
            second = await group.consume_directly(Message("orders", b"again"))
            third = await group.consume_directly(Message("stock", b"in a thread"))

            assert not group.can_handle(Message("unknown", b"x"))
            assert (SUCCESS, THREW, SUCCESS) == (first.result, second.result, third.result)
            assert "twice" in (second.remark or "")
            assert ["by hand", "again", "stock in a thread"] == seen
            assert (0, 0) == (app.counts.handled, app.counts.retried)

    run(scenario)


def canaries() -> AppSettings:
    """Every place of the settings where a secret may stand."""
    cluster: dict[str, Any] = {
        "credentials": {"access_key": "me", "secret_key": CANARY, "security_token": CANARY},
        "tls": {"key_password": CANARY},
    }
    allocation = {"by_config": {"password": CANARY}}
    return AppSettings.model_validate({
        "cluster": cluster,
        "consumers": {"billing": {"allocation": allocation}},
        "plugins": {"settings": {"audit": {"token": CANARY}}},
    })  # fmt: skip


def test_no_secret_is_in_running_info() -> None:
    """Neither of the settings, nor of what the program has in its hands just now."""

    async def scenario() -> None:
        app = App(canaries(), [], plugins=PluginHost())
        held: dict[str, str] = {"password": CANARY}

        async def hold(password: str) -> None:
            await asyncio.Event().wait()
            assert password

        task = asyncio.get_running_loop().create_task(hold(held["password"]), name="hold")
        await asyncio.sleep(0)

        text = stacks()
        task.cancel()
        assert "hold(" in text
        assert CANARY not in text
        assert CANARY not in repr(app.snapshot())
        assert "by_config" == shown(app.settings.consumer("billing"))["allocation"]
        assert CANARY not in str(shown(app.settings.consumer("billing")))

    run(scenario)


def test_settings_show_as_they_were_read() -> None:
    assert {
        "concurrency": "20",
        "start": "age 1800000 ms",
        "allocation": "circle",
    }.items() <= shown(ConsumerSettings.model_validate({"start": "30m", "allocation": "circle"})).items()


def test_a_group_that_is_not_there_is_nobodys() -> None:
    app = App(AppSettings(), [], plugins=PluginHost())

    member = asked(app)
    assert member.group("billing") is None
    member.members_changed("billing")


def test_many_tasks_are_cut() -> None:
    async def scenario() -> None:
        tasks = [asyncio.get_running_loop().create_task(asyncio.sleep(60), name=f"sleeper {n}") for n in range(400)]
        await asyncio.sleep(0)
        text = stacks()
        for task in tasks:
            task.cancel()
        assert "more tasks" in text
        assert len(text) < 600_000

    run(scenario)


def test_stacks_are_taken_once_a_while_however_often_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbound, "STACKS_SECONDS", 3_600.0)

    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(_: Message) -> None:
            return

        async with box() as broker, running(broker, bill) as app:
            await until(lambda: bool(app._groups))
            member = asked(app)
            first = [member.running_info("billing", with_stacks=True).stack for _ in range(50)]
            monkeypatch.setattr(inbound, "STACKS_SECONDS", 0.0)
            later = member.running_info("billing", with_stacks=True).stack
        assert 1 == len({id(each) for each in first})
        assert first[0] is not later

    run(scenario)
