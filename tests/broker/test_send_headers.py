"""A send's header read by hand is what reading it with all checks gives, or is left to that."""

from __future__ import annotations

import pytest

from framework.broker.handlers.send import plain
from framework.broker.sending import sent_of
from framework.errors import ProtocolError
from framework.wire.fields import from_fields
from framework.wire.requests.send import SendRequestV2
from tests.broker.broker_lab import BrokerLab, send_command

USUAL = {
    "a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1600000000000", "h": "0", "i": "A\x01b\x02",
    "j": "0", "k": "false", "l": "16", "m": "false", "n": "broker-a",
}  # fmt: skip
ODD = [
    "",
    "-1",
    "+1",
    " 1",
    "1_0",
    "٣",
    "1.0",
    "x",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9" * 25,
    "true",
    "false",
]


@pytest.mark.parametrize("left_out", ["", *USUAL])
def test_what_is_usual_is_read_alike(left_out: str) -> None:
    fields = {name: value for name, value in USUAL.items() if name != left_out}
    found = plain(fields)
    if left_out in set("abcdefgh") and left_out:
        assert found is None
        with pytest.raises(ProtocolError):
            from_fields(SendRequestV2, fields)
    else:
        assert sent_of(from_fields(SendRequestV2, fields)) == found


@pytest.mark.parametrize("name", sorted(USUAL))
@pytest.mark.parametrize("value", ODD)
def test_what_is_odd_is_read_alike_or_left_to_all_checks(name: str, value: str) -> None:
    fields = {**USUAL, name: value}
    found = plain(fields)

    if found is not None:
        header = from_fields(SendRequestV2, fields)
        assert not header.batch
        assert sent_of(header) == found


def test_a_mistake_is_still_named() -> None:
    command = send_command()
    command.fields["e"] = "many"
    answer = BrokerLab().answer(command)

    assert (1, True) == (answer.code, "field e=" in (answer.remark or ""))
