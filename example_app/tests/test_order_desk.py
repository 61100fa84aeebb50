"""The order desk, tested as you test your own application: copy what you need.

`Harness` runs the real runtime against a real broker in memory, in virtual time: a retry after ten minutes costs no
second. Handlers are functions, too: what needs no broker is tested by calling them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from example_app import audit_trail, payments
from example_app.payments import LIMITED_CARD, STOLEN_CARD, Order, take_payment
from example_app.stock import SHELF, move
from example_app.traffic import orders
from framework import Ack, Delivery, Message
from framework.testing import Harness


@pytest.fixture(autouse=True)
def _empty_shelf() -> Iterator[None]:
    SHELF.clear()
    yield
    SHELF.clear()


def order(**changed: object) -> str:
    return json.dumps({"number": "1", "article": "teapot-iron", "pieces": 1, "cents": 5_450, **changed})


def step(article: str, pieces: int) -> Message:
    return Message("stock", json.dumps({"article": article, "pieces": pieces}), keys=[article, "1"])


def test_an_order_is_paid() -> None:
    with Harness(take_payment) as desk:
        desk.send("orders", order(), tags="created")
        events = desk.settle()

    assert ["handled"] == [event["event"] for event in events]


def test_a_declined_card_is_tried_again_after_ten_seconds() -> None:
    with Harness(take_payment) as desk:
        desk.send("orders", order(card=LIMITED_CARD), tags="created")
        sent = desk.now
        events = desk.settle()

        assert ["retry", "handled"] == [event["event"] for event in events]
        assert desk.now - sent >= 10


def test_a_stolen_card_is_a_dead_letter_at_once_and_says_why() -> None:
    with Harness(take_payment) as desk:
        desk.send("orders", order(number="7", card=STOLEN_CARD), tags="created")
        events = desk.settle()
        (dead,) = desk.dead_letters("payments")

    assert ["dead_lettered"] == [event["event"] for event in events]
    assert "7" == json.loads(dead.body)["number"]


def test_a_provider_that_is_down_costs_five_tries_and_loses_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(order: Order, *, attempt: int) -> None:
        raise ConnectionError("the provider does not answer")

    monkeypatch.setattr(payments, "charge", down)
    with Harness(take_payment) as desk:
        desk.send("orders", order(), tags="created")
        events = desk.settle()

        assert [*["retry"] * 4, "dead_lettered"] == [event["event"] for event in events]
        assert 1 == len(desk.dead_letters("payments"))


@pytest.mark.parametrize("body", ["no order", order(cents=-5), '{"number": "1"}'])
def test_what_is_no_order_is_a_dead_letter_without_a_try(body: str) -> None:
    with Harness(take_payment) as desk:
        desk.send("orders", body, tags="created")
        events = desk.settle()

    assert ["dead_lettered"] == [event["event"] for event in events]


def test_other_tags_are_nothing_to_pay() -> None:
    with Harness(take_payment) as desk:
        desk.send("orders", order(), tags="cancelled")
        assert [] == desk.settle()


def test_a_step_that_finds_an_empty_shelf_waits_and_no_other_article_waits_for_it() -> None:
    with Harness(move) as desk:
        desk.send(step("cup-stoneware", -2))
        desk.send(step("strainer", 5))
        events = desk.settle()

    assert ["cup-stoneware 1", "strainer 1"] == sorted({event["key"] for event in events})
    assert ["retry", "handled"] == [event["event"] for event in events if "cup" in event["key"]]
    assert {"strainer": 5, "cup-stoneware": 0} == SHELF


def test_a_handler_is_a_function() -> None:
    with pytest.raises(payments.Stolen, match="order 3"):
        asyncio.run(take_payment(Order(number="3", article="tea", pieces=1, cents=5, card=STOLEN_CARD), Message("t")))

    assert move.spec.orderly


def test_the_audit_trail_has_a_line_for_each_end(tmp_path: Path) -> None:
    trail = tmp_path / "trail" / "lines.jsonl"
    settings = {"plugins": {"local": ["example_app.audit_trail"], "settings": {"audit_trail": {"file": str(trail)}}}}
    with Harness([take_payment, move], settings=settings) as desk:
        desk.send("orders", order(card=LIMITED_CARD), tags="created", keys="1")
        desk.send(step("strainer", 5))
        desk.settle()

    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert [(1, "RetryLater"), (2, "Ack")] == [
        (line["attempt"], line["outcome"]) for line in lines if line["group"] == "payments"
    ]
    assert ["strainer 1"] == [line["key"] for line in lines if line["group"] == "stock"]


def test_the_audit_trail_goes_on_when_its_file_can_be_written_again_and_keeps_a_bounded_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "KEPT", 30)
    folder = tmp_path / "trail"
    folder.write_text("in the way")
    trail = audit_trail.AuditTrail(audit_trail.AuditTrailSettings(file=folder / "lines.jsonl"))

    def end(number: int) -> None:
        trail.after_consume(Delivery("payments", Message("orders", b"", keys=[str(number)]), 0.0), Ack(), 1.0)

    for number in range(100):
        with suppress(OSError):
            end(number)
    folder.unlink()
    end(100)
    written = [json.loads(line)["key"] for line in (folder / "lines.jsonl").read_text().splitlines()]

    assert [str(number) for number in range(70, 101)] == written


def test_the_traffic_is_made_of_orders() -> None:
    """Hundreds of them are good ones, a few have cards that are declined."""
    made = [Order.model_validate_json(message.body) for message, _ in zip(orders("t"), range(400), strict=False)]

    assert len({each.number for each in made}) == len(made)
    assert 20 < sum(each.card == LIMITED_CARD for each in made) < 40
    assert 0 < sum(each.card == STOLEN_CARD for each in made) < 10
