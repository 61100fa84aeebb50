"""`by_config`: the table of the settings, and what is done where it names nobody, or several."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from framework.hooks.builtin.allocation.by_config import ByConfig, ByConfigOptions, QueueRange
from framework.model.queue import MessageQueue
from framework.testing.laws import check_allocation

QUEUES = [MessageQueue("orders", broker, number) for broker in ("broker-a", "broker-b") for number in range(4)]
RETRIES = [MessageQueue("%RETRY%billing", "broker-a", number) for number in range(2)]


def strategy(**members: list[str]) -> ByConfig:
    table = {name.replace("_", "-"): entries for name, entries in members.items()}
    return ByConfig(ByConfigOptions.model_validate({"members": table}).members)


def owned(made: ByConfig, members: list[str], queues: list[MessageQueue] = QUEUES) -> list[str]:
    """Each member's queues, as letters and numbers."""
    return [
        " ".join(f"{queue.broker[-1]}{queue.number}" for queue in made.allocate(member, members, queues))
        for member in members
    ]


def test_members_own_what_the_table_gives_them() -> None:
    made = strategy(
        web_1=["orders@broker-a:0-2", "orders@broker-b:3"], web_2=["orders@broker-a:3", "orders@broker-b:0-2"]
    )

    assert ["a0 a1 a2 b3", "a3 b0 b1 b2"] == owned(made, ["web-1@7", "web-2@8"])
    assert [] == made.remarks(["web-1@7", "web-2@8"], QUEUES)


def test_members_that_one_line_fits_share_its_queues() -> None:
    """Several processes on one host: nobody can know their ids beforehand."""
    assert ["a0 a1", "a2 a3", "b0 b1 b2 b3"] == owned(
        strategy(web_1=["orders@broker-a"], web_2=["orders@broker-b"]), ["web-1@7", "web-1@8", "web-2@9"]
    )


def test_the_longest_line_that_fits_counts() -> None:
    assert ["a0 a1 a2 a3", "b0 b1 b2 b3"] == owned(
        strategy(web=["orders@broker-a"], web_2=["orders@broker-b"]), ["web-1@7", "web-2@9"]
    )


def test_a_topic_that_is_not_mentioned_is_everybodys() -> None:
    """The retry topic above all: what failed would wait for nobody."""
    made = strategy(web_1=["orders@broker-a"], web_2=["orders@broker-b"])

    assert ["a0", "a1", ""] == owned(made, ["web-1@7", "web-2@8", "web-3@9"], RETRIES)


def test_what_nobody_names_has_no_owner_and_that_is_said() -> None:
    made = strategy(web_1=["orders@broker-a:0-1"], web_2=["orders@broker-a:2"])

    assert ["a0 a1"] == owned(made, ["web-1@7"])
    (remark,) = made.remarks(["web-1@7"], QUEUES)
    assert remark.startswith("6 of 8 queues are named by nobody who is here: orders@broker-a:2, orders@broker-a:3, ")
    assert remark.endswith("orders@broker-b:2 and 1 more")


def test_what_several_name_is_the_first_ones_and_that_is_said() -> None:
    """Java's members would both take it, and handle every message twice."""
    made = strategy(web_1=["orders@broker-a:0-2"], web_2=["orders@broker-a:2-3", "orders@broker-b"])
    members = ["web-1@7", "web-2@8"]

    assert ["a0 a1 a2", "a3 b0 b1 b2 b3"] == owned(made, members)
    assert ["1 of 8 queues are named by more than one, and the first one's: orders@broker-a:2"] == made.remarks(
        members, QUEUES
    )
    assert ["a2 a3 b0 b1 b2 b3"] == owned(made, members[1:])


def test_it_keeps_the_laws() -> None:
    members = ["web-1@7", "web-1@8", "web-2@9", "stray@1"]
    check_allocation(
        strategy(web_1=["orders@broker-a"], web_2=["orders@broker-a:2", "orders@broker-b"]),
        covers=False, members=members, queues=[*QUEUES, *RETRIES],
    )  # fmt: skip
    check_allocation(strategy(web=["orders@broker-a", "orders@broker-b"]), members=members, queues=QUEUES)
    check_allocation(ByConfig(), within=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders@broker-a", QueueRange("orders", "broker-a")),
        ("orders@broker-a:0", QueueRange("orders", "broker-a", 0, 0)),
        ("orders@broker-a:7", QueueRange("orders", "broker-a", 7, 7)),
        ("orders@broker-a:2-7", QueueRange("orders", "broker-a", 2, 7)),
        ("orders@room1@broker-a:2-2", QueueRange("orders", "room1@broker-a", 2, 2)),
        ("%RETRY%billing@broker-a", QueueRange("%RETRY%billing", "broker-a")),
    ],
)
def test_an_entry_names_a_topic_a_broker_and_numbers(text: str, expected: QueueRange) -> None:
    assert {"web": (expected,)} == ByConfigOptions.model_validate({"members": {"web": [text]}}).members
    assert {"web": (expected,)} == ByConfigOptions.model_validate({"members": {"web": [expected]}}).members


@pytest.mark.parametrize(
    "entry",
    ["", "orders", "@broker-a", "orders@", "orders@:3", "or ders@broker-a", "orders@b:", "orders@b:x", "orders@b:1-",
    "orders@b:-1",
     "orders@b:3-1", "orders@b:1-2-3", "orders@b:٣", "orders@b:" + "9" * 5_000, 5, None],
)  # fmt: skip
def test_other_entries_are_refused(entry: object) -> None:
    with pytest.raises(ValidationError):
        ByConfigOptions.model_validate({"members": {"web": [entry]}})


@pytest.mark.parametrize("members", [{}, {"": ["orders@b"]}, None])
def test_a_table_names_somebody(members: object) -> None:
    with pytest.raises(ValidationError):
        ByConfigOptions.model_validate({"members": members})
