"""Plugins' handlers of the box: codes that it has not, codes that it has, and handlers that fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from example_app.busy_broker import EACH, BusyBroker
from framework import Message, consumer
from framework.errors import ConfigurationMistakes
from framework.hooks import BoxAnswer, BoxRequest, hookimpl
from framework.hooks.host import PluginHost
from framework.testing import Harness
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import SUBSCRIPTION, SUSPEND
from tests.broker.broker_lab import BrokerLab, pull_command, send_command

OURS = 77_001  # a company's own request, which its brokers answer and RocketMQ's do not
Answers = Callable[[BoxRequest], BoxAnswer | None]


class Plugin:
    def __init__(self, handlers: Mapping[Any, Any]) -> None:
        self._handlers = handlers

    @hookimpl
    def register_broker_handlers(self) -> Mapping[int, Answers]:
        return self._handlers


def hosted(handlers: Mapping[Any, Any], **others: object) -> PluginHost:
    return PluginHost(objects={"acme": Plugin(handlers), **others}, discover=list)


def lab_with(host: PluginHost) -> BrokerLab:
    return BrokerLab(handlers=host.broker_handlers)


def test_register_broker_handlers_adds_a_request_that_the_box_has_not() -> None:
    seen: list[BoxRequest] = []

    def whoami(request: BoxRequest) -> BoxAnswer:
        seen.append(request)
        return BoxAnswer(fields={"who": request.fields["name"]}, body=json.dumps(request.broker).encode(), remark="hi")

    answer = lab_with(hosted({OURS: whoami})).answer(RemotingCommand(OURS, {"name": "desk"}, b"body"))

    assert (0, {"who": "desk"}, b'"broker-a"', "hi") == (answer.code, answer.fields, answer.body, answer.remark)
    ((request),) = seen
    assert (OURS, b"body", "broker-a") == (request.code, request.body, request.broker)
    assert request.peer


def test_register_broker_handlers_stands_before_what_the_box_has_or_leaves_it_to_the_box() -> None:
    def full(request: BoxRequest) -> BoxAnswer | None:
        return BoxAnswer(2, remark="busy") if request.body == b"unlucky" else None

    lab = lab_with(hosted({int(RequestCode.SEND_MESSAGE_V2): full}))

    assert (2, "busy") == ((answer := lab.answer(send_command(body=b"unlucky"))).code, answer.remark)
    assert 0 == lab.answer(send_command(body=b"lucky")).code
    assert [b"lucky"] == [record.body for record in lab.records("t")]


def test_a_request_that_the_box_holds_is_put_to_the_plugin_once() -> None:
    asked: list[int] = []

    def listens(request: BoxRequest) -> None:
        asked.append(request.code)

    lab = lab_with(hosted({int(RequestCode.PULL_MESSAGE): listens}))
    lab.answer(send_command())
    lab.ask(pull_command(1, sys_flag=SUSPEND | SUBSCRIPTION, suspend_timeout_millis=10_000))
    assert 1 == len(asked)
    lab.ask(send_command())
    assert 3 == len(lab.client.answers), "two sends, and the pull at last"

    assert 1 == len(asked), "the second look, when a message has come, is the box's own"


@pytest.mark.parametrize(
    ("answers", "error"),
    [(RuntimeError("a password"), "RuntimeError"), ({"code": 0}, "TypeError"), (7, "TypeError")],
)
def test_one_that_fails_is_counted_and_named_and_the_box_answers(answers: object, error: str) -> None:
    def fails(request: BoxRequest) -> Any:
        if isinstance(answers, Exception):
            raise answers
        return answers

    host = hosted({int(RequestCode.SEND_MESSAGE_V2): fails, OURS: fails})
    lab = lab_with(host)

    assert 0 == lab.answer(send_command()).code, "as if the plugin were not there"
    unknown = lab.answer(RemotingCommand(OURS))
    assert (1, f"plugin 'acme' failed at request {OURS}: {error}") == (unknown.code, unknown.remark)
    assert {"acme": 2} == host.calls.failures
    assert "acme" in host.order["register_broker_handlers"]


@pytest.mark.parametrize(
    ("answer", "wish"),
    [
        (BoxAnswer("0"), "its code is a number from 0 to 2147483647, and not '0'"),  # type: ignore[arg-type]  # the mistake
        (BoxAnswer(code=True), "its code is a number from 0 to"),
        (BoxAnswer(-1), "its code is a number from 0 to"),
        (BoxAnswer(2**31), "its code is a number from 0 to"),
        (BoxAnswer(body="text"), "its body is bytes, and not 'text'"),  # type: ignore[arg-type]  # likewise
        (BoxAnswer(body=None), "its body is bytes, and not None"),  # type: ignore[arg-type]  # likewise
        (BoxAnswer(body=bytes(16 << 20)), "its body is at most 15728640 bytes, and not 16777216"),
        (BoxAnswer(remark=b"busy"), "its remark is a text, or None, and not b'busy'"),  # type: ignore[arg-type]  # likewise
        (BoxAnswer(remark="\ud800"), "its remark is a text"),
        (BoxAnswer(fields=None), "its fields are a mapping, and not None"),  # type: ignore[arg-type]  # likewise
        (BoxAnswer(fields={"a": 1}), "its fields are texts, and not 'a': 1"),  # type: ignore[dict-item]  # likewise
        (BoxAnswer(fields={1: "a"}), "its fields are texts, and not 1: 'a'"),  # type: ignore[dict-item]  # likewise
    ],
)
def test_an_answer_that_can_be_no_frame_is_named_and_the_connection_goes_on(answer: BoxAnswer, wish: str) -> None:
    host = hosted({int(RequestCode.SEND_MESSAGE_V2): lambda _: answer, OURS: lambda _: answer})
    lab = lab_with(host)

    with capture_logs() as logs:
        assert 0 == lab.answer(send_command()).code, "the box answers itself"
        assert 1 == lab.answer(RemotingCommand(OURS)).code
    assert {"acme": 2} == host.calls.failures
    (said,) = [line for line in logs if line["event"] == "hook failed"]
    assert ("acme", "register_broker_handlers") == (said["plugin"], said["hook"])
    assert wish in str(said["exc_info"])


def test_a_slow_one_is_counted() -> None:
    clock = iter([0.0, 0.25])
    host = hosted({OURS: lambda request: BoxAnswer()})
    host.calls.now = lambda: next(clock)

    assert 0 == lab_with(host).answer(RemotingCommand(OURS)).code
    assert {"acme": 1} == host.calls.slow


def test_nobody_s_handlers_are_the_box_s_own_table() -> None:
    from framework.broker.handlers import HANDLERS, table_with

    assert table_with(PluginHost(discover=list).broker_handlers) is HANDLERS


@pytest.mark.parametrize(
    ("handlers", "reason"),
    [
        ({"77": print}, "plugin 'acme': register_broker_handlers: write {request code: function}, and not {'77':"),
        ({OURS: "print"}, f"write {{request code: function}}, and not {{{OURS}: 'print'}}"),
        ({0: print}, "and not {0:"),
    ],
)
def test_what_is_no_handler_is_refused(handlers: Mapping[Any, Any], reason: str) -> None:
    with pytest.raises(ConfigurationMistakes) as raised:
        hosted(handlers)
    assert reason in str(raised.value)


def test_two_plugins_for_one_request_are_refused() -> None:
    with pytest.raises(ConfigurationMistakes, match=r"both offer the handler of the built-in broker's request 77001"):
        hosted({OURS: print}, other=Plugin({OURS: print}))


@consumer("orders", "billing")
async def bill(order: Message) -> None: ...


def test_the_harness_s_box_has_them_too() -> None:
    """The example's broker refuses each third send; the producer tries those again, and none is lost."""
    with Harness(bill, plugins=PluginHost(objects={"busy": BusyBroker()}, discover=list)) as desk:
        sent = [desk.send("orders", str(number)) for number in range(3 * EACH)]
        events = desk.settle()

    assert 3 * EACH == len({result.message_id for result in sent})
    assert 3 * EACH == len(events)
