"""Members that come and go on a real cluster, with names and without: what moves, what comes twice, and how soon all is
shared again. Many members are one process here, each with its connections; a kill ends them without a word. The longer
runs are in `test_storms.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from framework.errors import ConfigurationError
from tests.interop.cluster import Addresses
from tests.interop.inside import seconds_until
from tests.interop.members import Member, are_shared, end
from tests.interop.test_sharing import traffic
from tests.patience import until

pytestmark = pytest.mark.interop


def test_a_second_process_of_one_name_stops_and_the_first_loses_nothing(
    cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=4)

    async def scenario() -> str:
        first = Member(cluster, topic, "twin")
        await until(are_shared([first], 4))
        second = Member(cluster, topic, "twin")
        with pytest.raises(ConfigurationError) as raised:
            await second.running
        assert len(first.owned) == 4
        await first.leave()
        return str(raised.value)

    said = asyncio.run(scenario())
    assert "'twin' is already the name of a process on" in said
    assert said.count("process") >= 3


def test_a_member_in_order_that_is_killed_and_started_again_by_its_name_has_its_locks_at_once(
    cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    """Nobody waits for the lock to expire: to the broker it is the same client."""
    topic = new_topic(queues=4)

    async def scenario() -> float:
        members = [Member(cluster, topic, name, orderly=True) for name in ("first", "second")]
        await until(are_shared(members, 4))
        async with traffic(cluster.name_server, topic, 4):
            await until(lambda: len(members[0].owners) == 2)
            await members[0].kill()
            lines.clear()
            members[0] = Member(cluster, topic, "first", orderly=True)
            again = await seconds_until(lambda: len(members[0].owners) == 2)
            assert not [line for line in lines if line["event"] == "queue not locked"]
        await end(members)
        return again

    with capture_logs() as lines:
        took = asyncio.run(scenario())
    print(f"orderly take-over by name after a kill: {took:.1f} s")
