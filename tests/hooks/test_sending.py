"""What plugins hear of the messages that an application sends, and what they may add to them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from framework import Message, Producer, Publisher, SendResult, consumer, publishes
from framework.client.producing.attempts import Attempts
from framework.client.producing.told import SendHooks, send_hooks
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.testing import Harness
from framework.wire import properties
from framework.wire.codes import RequestCode
from tests.client.script import A, B
from tests.client.test_producer import Sending, refuse
from tests.net.memory import virtually
from tests.wire import batches

ON_A = MessageQueue("orders", "a", 0)


class Watch:
    """Notes what it hears, under its name, in a list that several may share; and answers what it was made with."""

    def __init__(self, heard: list[str], name: str = "watch", answer: Any = None) -> None:
        self.heard, self.name, self.answer = heard, name, answer

    @hookimpl
    def before_send(self, message: Message) -> Mapping[str, str] | None:
        self.heard.append(f"{self.name} before {message.topic} {message.body.decode()}")
        answer: Mapping[str, str] | None = self.answer
        return answer

    @hookimpl
    def after_send(
        self, message: Message, result: SendResult | None, error: BaseException | None, elapsed_ms: float
    ) -> None:
        assert elapsed_ms >= 0
        outcome = type(error).__name__ if error is not None else f"at {result.queue}" if result else "written"
        added = "".join(f" {name}={message.properties[name]}" for name in message.properties if name.startswith("my"))
        self.heard.append(f"{self.name} after {message.topic} {message.body.decode()} {outcome}{added}")


def hosted(**objects: object) -> PluginHost:
    return PluginHost(objects=objects, discover=list)


def sending(host: PluginHost, **options: Any) -> Sending:
    """A producer over an application's cluster."""
    made = Sending()
    made.cluster.client.send_hooks = send_hooks(host.calls)
    made.producer = Producer(cluster=made.cluster.client, **options)
    return made


def written(made: Sending) -> list[dict[str, str]]:
    return [properties.decode(request.fields["i"]) for request in made.sends(A)]


def test_where_nobody_implements_a_hook_a_producer_has_none() -> None:
    """Its attempts are called as they are: a send costs no call more."""

    async def story() -> None:
        made = sending(hosted())
        assert type(made.producer._attempts) is Attempts
        assert made.producer._hooks is None
        await made.close()

    virtually(story)


@pytest.mark.parametrize("linger", [0, "5ms"])
def test_before_send_may_add_and_after_send_hears_of_the_outcome(linger: str | int) -> None:
    heard: list[str] = []

    async def story() -> list[dict[str, str]]:
        made = sending(hosted(watch=Watch(heard, answer={"mytrace": "00-1"})), linger=linger)
        await made.producer.send("orders", "paid", tags="T", queue=None if linger else ON_A)
        told = written(made)
        if linger:
            (request,) = (each for at in (A, B) for each in made.cluster.asked(at, RequestCode.SEND_BATCH_MESSAGE))
            told = [dict(each.properties) for each in batches.decode(request.body)]
        await made.close()
        return told

    (told,) = virtually(story)

    assert ("00-1", "T") == (told["mytrace"], told["TAGS"])
    assert "watch before orders paid" == heard[0]
    assert 2 == len(heard), "once each"
    assert heard[1].startswith("watch after orders paid at orders@")
    assert heard[1].endswith(" mytrace=00-1")


def test_before_send_is_called_in_order_and_after_send_in_the_reverse() -> None:
    """Each sees what those before it added; nobody changes what another one, or the sender, gave."""
    heard: list[str] = []
    host = hosted(one=Watch(heard, "one", {"my": "1", "given": "1"}), two=Watch(heard, "two", {"my": "2", "mine": "2"}))

    async def story() -> dict[str, str]:
        made = sending(host)
        await made.producer.send("orders", "x", properties={"given": "0"}, queue=ON_A)
        await made.close()
        return written(made)[0]

    told = virtually(story)

    first, second = host.order["before_send"]
    assert (second, first) == host.order["after_send"]
    assert [first, second, second, first] == [each.split()[0] for each in heard]
    assert {"my": {"one": "1", "two": "2"}[first], "mine": "2", "given": "0"} == {
        name: told[name] for name in ("my", "mine", "given")
    }


def test_each_message_of_a_batch_and_each_kind_of_send_is_heard_of() -> None:
    heard: list[str] = []

    async def story() -> None:
        made = sending(hosted(watch=Watch(heard)))
        await made.producer.send_batch([Message("orders", "1"), Message("orders", "2")], queue=ON_A)
        await made.producer.send_one_way("orders", "3", queue=ON_A)
        made.cluster.scripts[A] = refuse(13)
        with pytest.raises(Exception, match="code 13"):
            await made.producer.send("orders", "4", queue=ON_A)
        await made.close()

    virtually(story)

    assert [
        "watch before orders 1",
        "watch before orders 2",
        "watch after orders 1 at orders@a:0",
        "watch after orders 2 at orders@a:0",
        "watch before orders 3",
        "watch after orders 3 written",
        "watch before orders 4",
        "watch after orders 4 Refused",
    ] == heard


def test_after_send_hears_of_all_attempts_as_one_and_of_what_gave_up() -> None:
    heard: list[str] = []

    async def story() -> None:
        made = sending(hosted(watch=Watch(heard)))
        made.cluster.scripts[A] = refuse(14)  # worth another broker
        for _ in range(2):
            await made.producer.send("orders", "x")
        made.cluster.both(lambda *_: None)  # no answer
        task = asyncio.ensure_future(made.producer.send("orders", "y"))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.close()

    virtually(story)

    assert 6 == len(heard)
    assert "watch after orders y CancelledError" == heard[-1]
    assert all("at orders@b" in each for each in heard[1:4:2])


@pytest.mark.parametrize(
    "answer",
    [
        "trace",
        {"TAGS": "x"},
        {"DELAY": "3"},
        {"TRAN_MSG": "true"},
        {"my": ""},
        {"my": 7},
        {"my": "a\x01b"},
        {"my": "\ud800"},
        {"my": "x" * 32_000},
        {f"my{number}": "x" for number in range(1_100)},
    ],
    ids=lambda answer: str(answer)[:20],
)
def test_what_before_send_may_not_add_is_left_out_and_counted(answer: object) -> None:
    """The message goes as if the plugin were not there."""
    host = hosted(watch=Watch([], answer=answer))
    message = Message("orders", "x")

    assert message is SendHooks(host.calls).begun(message)
    assert {"watch": 1} == host.calls.failures


class Scribbler:
    """Writes into what it is shown."""

    @hookimpl
    def before_send(self, message: Message) -> None:
        scribble(message)

    @hookimpl
    def after_send(self, message: Message) -> None:
        scribble(message)


def scribble(message: Message) -> None:
    properties: Any = message.properties
    properties["TRAN_MSG"] = "true"
    properties["my"] = "own"


def test_what_a_hook_writes_into_a_message_changes_nothing() -> None:
    """It refused the send, moved a key to another queue, or stayed in the sender's message."""
    heard: list[str] = []

    async def story() -> tuple[list[dict[str, str]], Message]:
        made = sending(hosted(scribbler=Scribbler(), watch=Watch(heard)))
        message = Message("orders", "x", properties={"by": "card"})
        await made.producer.send(message, queue=ON_A)
        await made.close()
        return written(made), message

    (sent,), message = virtually(story)

    assert {"by": "card", "WAIT": "true"} == {name: sent[name] for name in sent if name != "UNIQ_KEY"}
    assert {"by": "card"} == message.properties
    assert ["watch before orders x", "watch after orders x at orders@a:0"] == heard


def test_a_producer_of_its_own_and_one_without_hooks_tell_nobody() -> None:
    heard: list[str] = []

    async def story() -> None:
        made = sending(hosted(watch=Watch(heard)), hooks=False)
        await made.producer.send("orders", "x")
        alone = Producer(name_servers="127.0.0.1:1")
        assert alone._hooks is None
        await made.close()

    virtually(story)

    assert [] == heard


@consumer("orders", "billing")
@publishes("invoices")
async def bill(order: Message, publisher: Publisher) -> str:
    await publisher.send("notes", "noted")
    return "billed"


def test_after_send_hears_what_handlers_send_and_return_and_not_the_framework_s_own() -> None:
    heard: list[str] = []
    settings = {"consumers": {"billing": {"trace": True, "trace_topic": "traces"}}}

    with Harness(bill, settings=settings, plugins=hosted(watch=Watch(heard))) as desk:
        desk.send("orders", "1")
        desk.settle()
        desk.sleep("10s")
        assert desk.published("traces"), "or this would show nothing"

    assert ["watch before notes noted", "watch before invoices billed"] == heard[::2]
    assert ["notes", "invoices"] == [each.split()[2] for each in heard[1::2]]
