"""Ways of keeping an order against a real cluster: by key, in batches, with commits by hand."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from tests.interop.application import Application, Received
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.interop.test_orderly import QUEUES, Stock, stock  # noqa: F401 - a fixture
from tests.patience import wait_until

pytestmark = pytest.mark.interop

HANDLERS = Path(__file__).with_name("orderly_app.py")


def member(nursery: Nursery, folder: Path, stock: Stock, how: str) -> Application:  # noqa: F811 - the fixture's value
    folder.mkdir()
    return Application(
        nursery, folder, stock.name_server, topic=stock.topic, group=f"keepers-of-{stock.topic}",
        handlers=HANDLERS, environment={"ORDERLY_HOW": how},
    )  # fmt: skip


def numbers_of(received: Iterable[Received], queue: int) -> list[int]:
    return [int(each.body.split()[1]) for each in received if each.queue == queue]


def by_start(members: Iterable[Application], queue: int) -> tuple[list[int], list[int]]:
    """Of handlers of `clock`, in the order of their beginnings: how far the next offset is, and whose each is."""
    starts = sorted(
        (float(each.properties["at"]), number, each.offset)
        for number, application in enumerate(members)
        for each in application.so_far()
        if each.queue == queue
    )
    steps = [offset - before for (_, _, before), (_, _, offset) in pairwise(starts)]
    return steps, [number for _, number, _ in starts]


def test_a_failing_key_holds_its_lane_and_every_key_is_in_order(
    stock: Stock,  # noqa: F811 - the fixture
    nursery: Nursery,
    tmp_path: Path,
) -> None:
    """Message 4 of each queue fails twice: its key waits two seconds, and the others are through by then."""
    stock.send(30)
    application = member(nursery, tmp_path / "only", stock, "keys")
    received = application.received(QUEUES * (30 + 2))
    ended = application.stop()

    for queue in range(QUEUES):
        handled = numbers_of(received, queue)
        lanes = {key: [number for number in handled if number % 3 == key] for key in range(3)}
        assert [1, 4, 4, 4, *range(7, 30, 3)] == lanes.pop(1)
        assert {key: list(range(key, 30, 3)) for key in (0, 2)} == lanes
        assert handled.index(29) < len(handled) - 1 - handled[::-1].index(4), "the others did not wait"
    assert QUEUES * 30 == ended.events[-1]["handled"]


@pytest.mark.parametrize("how", ["batches", "failing batches"])
def test_of_ten_in_a_batch_whose_fifth_fails_the_fifth_to_the_tenth_come_again(
    how: str,
    stock: Stock,  # noqa: F811 - the fixture
    nursery: Nursery,
    tmp_path: Path,
) -> None:
    """By a success with an index and by a failure with one alike."""
    stock.send(10)
    application = member(nursery, tmp_path / "only", stock, how)
    received = application.received(QUEUES * (10 + 6))
    ended = application.stop()

    for queue in range(QUEUES):
        mine = [each for each in received if each.queue == queue]
        assert [(number, 1) for number in range(10)] == [(each.offset, each.attempt) for each in mine[:10]]
        assert [(number, 2) for number in range(4, 10)] == [(each.offset, each.attempt) for each in mine[10:]]
        assert [("0", "10")] * 10 + [("4", "6")] * 6 == [
            (each.properties["batch"], each.properties["of"]) for each in mine
        ]
    assert QUEUES * 10 == ended.events[-1]["handled"]


def by_hand(stock: Stock, admin: Admin, nursery: Nursery, folder: Path) -> Application:  # noqa: F811 - its value
    """A member whose commits at 4 and 9 are at the broker; it rolled back at 7, and handled 10 to 12 since."""
    stock.send(13)
    application = member(nursery, folder, stock, "commits")
    handled = application.received(QUEUES * (13 + 3))
    for queue in range(QUEUES):
        assert [*range(8), 5, 6, 7, *range(8, 13)] == numbers_of(handled, queue)
    wait_until(lambda: {10} == stored(admin, stock), "the commits at the broker", pause_s=0.5)
    return application


def is_repeated(stock: Stock, admin: Admin, nursery: Nursery, folder: Path) -> None:  # noqa: F811 - its value
    second = member(nursery, folder, stock, "commits")
    again = second.received(QUEUES * 3, timeout_s=90)
    second.stop()
    for queue in range(QUEUES):
        assert [10, 11, 12] == numbers_of(again, queue)
    assert {10} == stored(admin, stock)


def test_the_offset_moves_with_a_commit_and_what_is_open_comes_again_in_order(
    stock: Stock,  # noqa: F811 - the fixture
    admin: Admin,
    nursery: Nursery,
    tmp_path: Path,
) -> None:
    first = by_hand(stock, admin, nursery, tmp_path / "first")
    assert 0 == first.stop().code
    is_repeated(stock, admin, nursery, tmp_path / "second")


@pytest.mark.slow
def test_a_kill_before_the_commit_repeats_in_order(
    stock: Stock,  # noqa: F811 - the fixture
    admin: Admin,
    nursery: Nursery,
    tmp_path: Path,
) -> None:
    """The broker keeps the locks of the dead for a minute."""
    by_hand(stock, admin, nursery, tmp_path / "first").kill()
    is_repeated(stock, admin, nursery, tmp_path / "second")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_member_that_hung_beyond_its_lease_starts_nothing_under_another_s(
    stock: Stock,  # noqa: F811 - the fixture
    nursery: Nursery,
    tmp_path: Path,
) -> None:
    """The broker drops the silent connection after two minutes; then the other one has all queues, until they share."""
    first = member(nursery, tmp_path / "first", stock, "clock")
    second = member(nursery, tmp_path / "second", stock, "clock")
    time.sleep(5)
    stock.send(250)
    first.received(20)
    first.freeze()
    mine = {each.queue for each in first.so_far()}
    wait_until(lambda: bool(mine & {each.queue for each in second.so_far()}), "the other one", 240, pause_s=0.5)
    time.sleep(5)
    first.thaw()
    thawed = time.monotonic()

    def is_all_there() -> bool:
        both = [*first.so_far(), *second.so_far()]
        return all(max(numbers_of(both, queue), default=0) == 249 for queue in range(QUEUES))

    wait_until(is_all_there, "all messages", 120, pause_s=0.5)
    first.stop()
    second.stop()
    assert any(float(each.properties["at"]) > thawed for each in first.so_far()), "it had its share again"
    for queue in range(QUEUES):
        steps, owners = by_start((first, second), queue)
        assert max(steps) == 1, "whoever takes a queue skips nothing"
        assert sum(step != 1 for step in steps) <= 2, "it goes back to what is stored with a new lease, and else not"
        turns = [number for number, _ in groupby(owners)]
        assert turns in ([0], [1], [0, 1], [1, 0], [0, 1, 0]), "whoever lost a queue starts nothing there"


def stored(admin: Admin, stock: Stock) -> set[int]:  # noqa: F811 - the fixture's value
    """The offsets that the broker has of the topic's queues."""
    lines = admin.run("consumerProgress", "-g", f"keepers-of-{stock.topic}").splitlines()
    return {int(line.split()[4]) for line in lines if line.startswith(f"{stock.topic} ")}
