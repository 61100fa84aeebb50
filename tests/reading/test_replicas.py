"""What a replica says is no proof of a loss, whatever it suggests: the master is asked. No socket, no wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from framework.errors import BrokerUnreachable, Refused
from framework.model.queue import MessageQueue
from framework.reading.pulls import EVERYTHING, OffsetsGone, Pulled, Pulls
from framework.reading.reach import Counts, Reach
from framework.reading.settings import ReaderSettings
from framework.wire.bodies.route import MASTER
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand

QUEUE = MessageQueue("orders", "broker-a", 0)
REPLICA = 1
SETTINGS = ReaderSettings(("127.0.0.1:9876",), retries=4)
FOUND, NOT_FOUND, AGAIN, MOVED, BUSY = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.SYSTEM_BUSY,
)


def says(code: int, following: int, *, suggests: int | None = None, end: int = 100, low: int = 0) -> RemotingCommand:
    fields = {"nextBeginOffset": str(following), "minOffset": str(low), "maxOffset": str(end)}
    if suggests is not None:
        fields["suggestWhichBrokerId"] = str(suggests)
    return RemotingCommand(code, fields, b"records" if code == FOUND else b"")


class Replicas:
    """A reach whose master and replica answer from lists: `m` and `r` say who was asked, in `asked`."""

    def __init__(self, master: list[RemotingCommand], replica: list[RemotingCommand]) -> None:
        self.answers = {MASTER: master, REPLICA: replica}
        self.asked: list[tuple[str, int]] = []
        self.counts = Counts()
        self.is_open = True
        self._replica, self._offset = MASTER, 0

    def attempts(self) -> Iterator[int]:
        return iter(range(SETTINGS.retries + 1))

    def address(self, topic: str, broker: str, replica: int = MASTER, *, fresh: bool = False) -> str:
        if replica not in self.answers:
            raise BrokerUnreachable(f"no replica {replica}")
        self._replica = replica
        return str(replica)

    def other_replica(self, topic: str, broker: str, tried: int) -> int:
        return MASTER

    def lacks(self, topic: str, broker: str) -> bool:
        return False

    # As the link to it

    def link(self, address: str) -> Replicas:
        return self

    def ask(self, command: RemotingCommand, *, timeout_ms: int) -> tuple[int, int]:
        self.asked.append(("m" if self._replica == MASTER else "r", int(command.fields["queueOffset"])))
        return self._replica, 0

    def answer(self, asked: tuple[int, int], *, timeout_ms: int) -> RemotingCommand:
        return self.answers[asked[0]].pop(0)

    def close(self) -> None: ...
    def forget(self, asked: tuple[int, int]) -> None: ...


def pulls(*, master: list[RemotingCommand], replica: list[RemotingCommand]) -> tuple[Replicas, Pulls]:
    reach = Replicas(master, replica)
    return reach, Pulls(cast("Reach", reach), SETTINGS, QUEUE, EVERYTHING)


LEAD = says(FOUND, 10, suggests=REPLICA)
"""What the master answers at first: the replica is to be asked next."""


@pytest.mark.parametrize("suggests", [None, MASTER, REPLICA, 7])
@pytest.mark.parametrize(
    "behind",
    [
        (NOT_FOUND, 10, 10), (AGAIN, 10, 10), (MOVED, 10, 10), (MOVED, 0, 5), (NOT_FOUND, 10, 5), (NOT_FOUND, 50, 50),
    ],
)  # fmt: skip
def test_a_replica_that_is_behind_proves_no_loss_whoever_it_suggests(
    behind: tuple[int, int, int], suggests: int | None
) -> None:
    """It says that there is nothing, or that the offset is beyond its end, and sends us to the master for more."""
    code, following, end = behind
    reach, asking = pulls(master=[LEAD, says(FOUND, 20)], replica=[says(code, following, suggests=suggests, end=end)])
    asking.pull(0, 100)
    found = asking.pull(10, 100)
    assert (None, 20, b"records") == (found.gone, found.next_offset, found.data)
    assert [("m", 0), ("r", 10), ("m", 10)] == reach.asked


def test_a_replica_that_is_at_the_end_of_what_is_there_is_asked_no_more_than_the_master_is() -> None:
    """The master says that the range is past its end: only then it is gone."""
    reach, asking = pulls(
        master=[LEAD, says(NOT_FOUND, 10, end=10)], replica=[says(NOT_FOUND, 10, suggests=MASTER, end=10)]
    )
    asking.pull(0, 100)
    assert (10, 100) == asking.pull(10, 100).gone
    assert [("m", 0), ("r", 10), ("m", 10)] == reach.asked


def test_what_the_master_says_is_a_proof_also_where_it_suggests_a_replica() -> None:
    """Whose word it is was decided when it was asked, and not by whom it names for the next pull."""
    reach, asking = pulls(master=[says(MOVED, 40, suggests=REPLICA, low=40)], replica=[])
    found = asking.pull(10, 100)
    assert ((10, 40), 40) == (found.gone, found.next_offset)
    assert [("m", 10)] == reach.asked


def test_a_replica_that_is_refused_or_away_leads_back_to_the_master() -> None:
    for refusal in (BUSY, ResponseCode.NO_PERMISSION):
        reach, asking = pulls(master=[LEAD, says(FOUND, 20)], replica=[RemotingCommand(refusal, remark="no")])
        asking.pull(0, 100)
        assert 20 == asking.pull(10, 100).next_offset
        assert ["m", "r", "m"] == [who for who, _ in reach.asked]
    reach, asking = pulls(master=[says(FOUND, 10, suggests=5), says(FOUND, 20)], replica=[])
    asking.pull(0, 100)
    assert 20 == asking.pull(10, 100).next_offset
    assert ["m", "m"] == [who for who, _ in reach.asked]


def test_a_refusal_of_the_master_is_one() -> None:
    _, asking = pulls(master=[RemotingCommand(ResponseCode.NO_PERMISSION, remark="no")], replica=[])
    with pytest.raises(Refused):
        asking.pull(0, 100)
    _, asking = pulls(master=[RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, remark="no")], replica=[])
    with pytest.raises(OffsetsGone):
        asking.pull(0, 100)


@pytest.mark.parametrize("code", [NOT_FOUND, AGAIN])
def test_nothing_that_was_wanted_is_no_loss_and_goes_on_behind_it(code: int) -> None:
    reach, asking = pulls(master=[says(code, 40)], replica=[])
    assert Pulled(b"", 40, 0, 100) == asking.pull(10, 100)
    assert (1, 1) == (reach.counts.pulls, reach.counts.empty_pulls)


def test_an_offset_that_is_there_and_not_handed_out_is_asked_for_again_and_is_no_loss() -> None:
    """Also where the broker says that it moved: the group was reset, which is said once."""
    for code, following in ((NOT_FOUND, 10), (MOVED, 3)):
        _, asking = pulls(master=[says(code, following), says(FOUND, 20)], replica=[])
        assert 20 == asking.pull(10, 100).next_offset
    _, asking = pulls(master=[says(NOT_FOUND, 10)] * 5, replica=[])
    with pytest.raises(BrokerUnreachable, match="does not hand it out"):
        asking.pull(10, 100)


@pytest.mark.parametrize("suggests", [None, MASTER, 7])
@pytest.mark.parametrize("code", [NOT_FOUND, MOVED])
def test_the_answer_to_a_pull_in_advance_is_judged_by_who_gave_it_and_not_by_who_was_suggested_since(
    code: int, suggests: int | None
) -> None:
    """It went out behind the replica's answer, which named the master for the next pull. The replica has no more."""
    reach, asking = pulls(
        master=[LEAD, says(FOUND, 30)],
        replica=[says(FOUND, 20, suggests=MASTER), says(code, 20, suggests=suggests, end=20)],
    )
    asking.pull(0, 100)
    assert 20 == asking.pull(10, 100, ahead=True).next_offset
    found = asking.pull(20, 100)
    assert (None, 30) == (found.gone, found.next_offset)
    assert [("m", 0), ("r", 10), ("r", 20), ("m", 20)] == reach.asked


def test_a_pull_in_advance_that_the_replica_refuses_is_no_refusal_of_the_master() -> None:
    no = RemotingCommand(ResponseCode.NO_PERMISSION, remark="no")
    reach, asking = pulls(master=[LEAD, says(FOUND, 30)], replica=[says(FOUND, 20, suggests=MASTER), no])
    asking.pull(0, 100)
    asking.pull(10, 100, ahead=True)
    assert 30 == asking.pull(20, 100).next_offset
    assert ["m", "r", "r", "m"] == [who for who, _ in reach.asked]


def test_a_pull_in_advance_that_the_master_answered_is_a_proof_though_a_replica_was_suggested_meanwhile() -> None:
    reach, asking = pulls(master=[LEAD, says(NOT_FOUND, 10, end=10)], replica=[])
    asking.pull(0, 100, ahead=True)
    assert (10, 100) == asking.pull(10, 100).gone
    assert [("m", 0), ("m", 10)] == reach.asked
