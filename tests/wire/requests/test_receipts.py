"""Receipts of popped messages, in the words of RocketMQ's ExtraInfoUtil."""

from __future__ import annotations

import pytest

from framework.errors import ProtocolError
from framework.wire.requests.receipts import PoppedShare, Receipt, offset_info, read_receipt, read_starts, start_info

TEXT = "7 1600000000000 60000 3 1 broker-a 2 9"
RECEIPT = Receipt(7, 1_600_000_000_000, 60_000, 3, "1", "broker-a", 2, 9)


def test_a_receipt_is_read_and_written() -> None:
    assert read_receipt(TEXT) == RECEIPT
    assert TEXT == RECEIPT.text


def test_one_of_seven_words_counts_for_the_offset_that_is_named_with_it() -> None:
    assert read_receipt(TEXT.rpartition(" ")[0], 9) == RECEIPT


def test_a_renewed_receipt_is_of_one_message() -> None:
    assert RECEIPT.renewed(5, 6, 4).text == "9 5 6 4 1 broker-a 2 9"


@pytest.mark.parametrize("text", ["", "1 2 3", TEXT + " 1", TEXT.replace("7", "x", 1), TEXT[:-1] + "q"])
def test_what_is_no_receipt_is_an_error(text: str) -> None:
    with pytest.raises(ProtocolError, match="receipt"):
        read_receipt(text)


def test_an_answer_says_each_queue_once() -> None:
    shares = [PoppedShare("0", 1, 10, [10, 12]), PoppedShare("1", 0, 4, [4])]

    assert start_info(shares) == "0 1 10;1 0 4"
    assert offset_info(shares) == "0 1 10,12;1 0 4"
    assert read_starts(start_info(shares)) == {("0", 1): 10, ("1", 0): 4}
    assert read_starts("") == {}
    with pytest.raises(ProtocolError, match="three words"):
        read_starts("0 1")
