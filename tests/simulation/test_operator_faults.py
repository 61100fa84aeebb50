"""Groups that are paused, and offsets that cannot be asked for: what must notice where it goes wrong."""

from __future__ import annotations

from functools import partial
from itertools import count, islice

import pytest

from framework.broker.intercept import Interceptor
from framework.runtime.app import App
from framework.testing.errors import Violation
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.simulation.checkers import begins_where_it_was
from tests.simulation.cluster import Cluster
from tests.simulation.faults.kinds import kind_named
from tests.simulation.faults.nemesis import Nemesis
from tests.simulation.faults.operators import as_process
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play
from tests.simulation.story import Story, all_handled, tell

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
SECONDS, MOST = 30.0, 8


def test_a_group_that_goes_on_while_it_is_paused_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "pause", lambda app, group: None)
    found: set[str] = set()
    for seed in islice(count(), MOST):
        verdict, _ = play(draw(seed, seconds=SECONDS, kinds=[kind_named("pause")]))
        found |= {violation.truth for violation in verdict.violations}
        if found:
            break
    assert {"no more than asked"} == found


async def tell_one_that_is_stopped(story: Story) -> list[int]:
    (machine,) = await story.start_apps(1)
    nemesis, heard = Nemesis(story.cluster, ()), list[int]()
    story.stop(machine, "5s")
    for number in range(6):
        assert machine.node is not None
        as_process(nemesis, machine.node, machine, partial(_hear, heard, number))
        await story.sleep("500ms")
    assert not heard
    await story.sleep("10s")
    return heard


def _hear(heard: list[int], number: int, _: App) -> None:
    heard.append(number)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_stopped_process_is_told_comes_in_order(seed: int) -> None:
    """Who was told to leave a topic and to come back while it was stopped did not come back."""
    heard = tell(tell_one_that_is_stopped, Cluster(seed, apps=0))
    assert list(range(6)) == heard


async def refuse_to_name_offsets_of_one_that_crashed(story: Story) -> None:
    a, _ = await story.start_apps(2)
    await story.send("orders", 40)
    await story.within("1m").until(all_handled)
    await story.sleep("30s")  # what was stored long ago is no excuse any more
    story.stop(a, "60s")
    await story.send("orders", 40)
    broker = story.cluster.broker.broker
    assert broker is not None
    refusal = RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="not now")
    broker.intercept(Interceptor(code=RequestCode.QUERY_CONSUMER_OFFSET, answer=refusal, times=20))
    story.crash(a)
    await story.sleep("30s")
    assert a not in story.owners("orders")
    story.check(begins_where_it_was)


def test_a_question_that_failed_moves_nobody() -> None:
    tell(refuse_to_name_offsets_of_one_that_crashed, Cluster(1, apps=0))


def test_a_question_that_failed_and_moved_somebody_is_noticed() -> None:
    with pytest.raises(Violation, match="begins where it was"):
        tell(
            refuse_to_name_offsets_of_one_that_crashed,
            Cluster(1, apps=0, mutants=("a failed query is no reset",)),
        )
