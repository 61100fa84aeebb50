"""Dispatch: unknown codes, signatures, interceptors, and what becomes of a handler's error."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from inspect import isfunction, signature
from pkgutil import iter_modules
from typing import Any

import pytest

from framework.broker import handlers
from framework.broker.answers import refuse
from framework.broker.handlers import HANDLERS, TABLE, Unloaded, load_rest
from framework.broker.intercept import Interceptor, Lost
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import SUBSCRIPTION, SUSPEND
from framework.wire.signing import sign, verify
from tests.broker.broker_lab import BrokerLab, pull_command, send_command


@pytest.mark.parametrize("code", [0, 3442, 99_999, 200_052])
def test_an_unknown_code_is_answered_3_with_its_number(code: int) -> None:
    answer = BrokerLab().answer(RemotingCommand(code))

    assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


def test_every_line_of_the_table_names_a_function_and_every_such_function_is_in_it() -> None:
    for _ in load_rest():
        pass
    found = {f"{family}.{name}" for family in families() for name in handlers_of(family)}

    assert found == set(TABLE.values())
    assert set(TABLE) == set(HANDLERS)
    assert [] == [code for code, handle in HANDLERS.items() if isinstance(handle, Unloaded)]


def families() -> list[str]:
    return [module.name for module in iter_modules(handlers.__path__)]


def handlers_of(family: str) -> dict[str, Any]:
    """Its public functions of a request that answer it."""
    module = import_module(f"{handlers.__name__}.{family}")
    mine = [each for each in vars(module).values() if isfunction(each) and each.__module__ == module.__name__]
    shape = ["Request"], "Answer"
    return {
        each.__name__: each
        for each in mine
        if each.__name__[0] != "_"
        and ([given.annotation for given in signature(each).parameters.values()], signature(each).return_annotation)
        == shape
    }


def test_a_handler_is_imported_by_its_first_request_and_then_in_the_table_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(HANDLERS, 310, Unloaded(RequestCode.SEND_MESSAGE_V2))
    lab = BrokerLab()

    assert 0 == lab.answer(send_command()).code
    assert not isinstance(HANDLERS[310], Unloaded)


def test_one_that_was_put_in_the_place_of_another_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    late, other = Unloaded(RequestCode.SEND_MESSAGE_V2), Unloaded(RequestCode.SEND_MESSAGE)
    monkeypatch.setitem(HANDLERS, 310, other)

    late.load()
    assert HANDLERS[310] is other


def test_what_answers_one_code_begins_with_its_name_and_number() -> None:
    answered = Counter(TABLE.values())
    for code, place in TABLE.items():
        family, _, name = place.partition(".")
        said = handlers_of(family)[name].__doc__
        assert said, place
        assert answered[place] > 1 or said.startswith(f"{code.name} ({int(code)}): "), place


def test_with_credentials_only_signed_requests_are_served() -> None:
    lab = BrokerLab(verify=lambda command, _: None if verify(command, "secret") else "no")
    assert lab.answer(send_command()).code == 16

    for secret, code in (("wrong", 16), ("secret", 0)):
        command = send_command()
        sign(command, "key", secret)
        assert lab.answer(command).code == code
    assert len(lab.records("t")) == 1


def test_an_interceptor_answers_in_the_handler_s_place_once() -> None:
    lab = BrokerLab()
    busy = Interceptor(code=RequestCode.SEND_MESSAGE_V2, answer=refuse(2, "busy"))
    lab.interceptors.add(busy)

    assert [lab.send().code, lab.send().code] == [2, 0]
    assert busy.hits == 1


def test_an_interceptor_may_stay_and_be_taken_out() -> None:
    lab = BrokerLab()
    always = lab.interceptors.add(
        Interceptor(
            code=RequestCode.SEND_MESSAGE_V2, answer=lambda request: refuse(14, request.client.peer), times=None
        )
    )
    assert [lab.send().code, lab.send().remark] == [14, "127.0.0.1:50000"]

    lab.interceptors.remove(always)
    assert lab.send().code == 0


def test_a_lost_request_does_nothing_and_a_lost_answer_has_done_it() -> None:
    lab = BrokerLab()
    lab.interceptors.add(Interceptor(code=RequestCode.SEND_MESSAGE_V2, lose=Lost.REQUEST))
    lab.interceptors.add(Interceptor(code=RequestCode.SEND_MESSAGE_V2, lose=Lost.ANSWER))
    lab.ask(send_command(body=b"never"))
    lab.ask(send_command(body=b"silently"))

    assert lab.client.answers == []
    assert [record.body for record in lab.records("t")] == [b"silently"]


def test_the_answer_of_a_held_pull_can_be_lost_too() -> None:
    lab = BrokerLab()
    lab.send()
    lab.interceptors.add(Interceptor(code=RequestCode.PULL_MESSAGE, lose=Lost.ANSWER))
    lab.ask(pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=1000))
    lab.timers.advance(2000)

    assert len(lab.client.answers) == 1


def test_a_handler_s_mistake_is_an_answer_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, 424_242, lambda _: 1 // 0)
    answer = BrokerLab().answer(RemotingCommand(424_242))

    assert (answer.code, answer.remark) == (1, "ZeroDivisionError in request 424242")


def test_a_delayed_request_is_looked_at_later() -> None:
    lab = BrokerLab()
    lab.interceptors.add(Interceptor(code=RequestCode.SEND_MESSAGE_V2, delay_ms=300))
    lab.ask(send_command())
    lab.timers.advance(299)
    assert lab.client.answers == []

    lab.timers.advance(1)
    assert lab.client.answers[0].code == 0


def test_an_interceptor_looks_only_at_what_it_was_told_to() -> None:
    lab = BrokerLab()
    lab.interceptors.add(
        Interceptor(
            code=RequestCode.SEND_MESSAGE_V2, answer=refuse(2, "no"), when=lambda request: request.command.body == b"b"
        )
    )

    assert [lab.send(body=b"a").code, lab.send(body=b"b").code] == [0, 2]
