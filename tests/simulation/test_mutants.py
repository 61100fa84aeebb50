"""Each safeguard, switched off, is noticed: by random seeds, or by a story written for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import framework
from framework.broker.intercept import Interceptor
from framework.testing.errors import Violation
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.simulation.checkers import commit_never_passes_a_gap, nothing_lost
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Copied, Said
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS, hunt
from tests.simulation.safeguards import SAFEGUARDS
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

HOME = Path(framework.__file__).parent
SEEDS_END, MOST = 2_000, 40
BEGIN = {
    "an open breaker holds its queues": 41, "offsets wait for the commit": 62, "an outdated epoch is refused": 30,
    "send-back makes one copy": 12, "attempts are counted": 1, "queues that stay are left alone": 1,
    "a lock that is refused is not had": 1, "what is held is renewed": 194, "a half message is sent once": 188,
    "a reply is for the request that it names": 78, "a renewal moves when a message comes back": 30,
    "a half message is none for consumers": 18, "a question about an open lot is left open": 18,
    "a lot is decided once": 117, "a lot is over when all of it is committed": 23, "commits stop at the first gap": 3,
    "an answer leaves after the commit": 11, "a commit reaches the disk": 11, "the last offset is confirmed": 4,
}  # fmt: skip
"""A seed that soon shows it, as plans are drawn now; with another draw the search goes on from there."""
pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
DEEP = {
    "a broker that was restarted takes nobody off the list", "a parked message is sent again",
    "what is due sooner moves the timer", "running handlers are waited for",
    "the copy is durable before the source is settled", "the end of a transaction is kept with its message",
    "a late reply is counted", "a rollback is no commit",
}  # fmt: skip
"""Seconds of seeds until one of them is noticed."""
by_seeds = [
    pytest.param(mutant, id=mutant.safeguard, marks=[pytest.mark.slow] if mutant.safeguard in DEEP else [])
    for mutant in MUTANTS
    if mutant.caught_by
]


@pytest.mark.parametrize("mutant", by_seeds)
def test_random_seeds_catch_it(mutant: Mutant) -> None:
    seeds = range(BEGIN.get(mutant.safeguard, 0), SEEDS_END)
    assert hunt(mutant, seeds, most=MOST) is not None, f"{mutant.safeguard}: {mutant.without}, and nobody noticed"


def test_each_safeguard_has_what_notices() -> None:
    assert set(SAFEGUARDS) == {mutant.safeguard for mutant in MUTANTS}
    assert len(MUTANTS) >= 10


def test_those_that_seeds_miss_are_caught_where_it_is_said() -> None:
    for mutant in MUTANTS:
        assert bool(mutant.caught_by) != bool(mutant.test), mutant.safeguard
        if mutant.test:
            assert mutant.safeguard in (HOME.parent / mutant.test).read_text(encoding="utf-8")


def cluster_with(safeguard: str | None, workload: Workload | None = None) -> Cluster:
    return Cluster(1, apps=0, workload=workload, mutants=() if safeguard is None else (safeguard,))


async def cut_off_without_a_word(story: Story) -> None:
    """A broker that is silently gone is noticed within a request's time-out, not when the line is given up as idle."""
    (a,) = await story.start_apps(1)
    story.cut_off(a, "100s")
    await story.sleep("50s")
    assert any(fact.event == "heartbeat failed" for fact in story.history.of(Said))


@pytest.mark.parametrize("safeguard", [None, "requests time out"])
def test_silence_is_noticed(safeguard: str | None) -> None:
    told = cluster_with(safeguard)
    if safeguard is None:
        tell(cut_off_without_a_word, told)
    else:
        with pytest.raises(AssertionError):
            tell(cut_off_without_a_word, told)


def a_copy_is_made(story: Story) -> bool:
    return any(True for _ in story.history.of(Copied))


async def restart_while_a_retry_waits(story: Story) -> None:
    await story.start_apps(1)
    await story.send("orders", 1)
    await story.within("10s").until(a_copy_is_made)
    await story.restart_broker()
    await story.within("30s").until(all_handled)


@pytest.mark.parametrize("safeguard", [None, "a restart takes up the schedule"])
def test_a_restart_forgets_no_retry(safeguard: str | None) -> None:
    always = Workload(groups=(GroupLoad(poison_rate=1.0),))
    told = cluster_with(safeguard, always)
    if safeguard is None:
        tell(restart_while_a_retry_waits, told)
    else:
        with pytest.raises(Violation, match="all handled"):
            tell(restart_while_a_retry_waits, told)


async def refuse_to_name_offsets_once(story: Story) -> None:
    """A crashed member has handled half; the next one is refused the first time it asks how far that was."""
    a, b = await story.start_apps(2)
    await story.send("orders", 40)
    story.stop(a, "60s")
    await story.send("orders", 40)
    broker = story.cluster.broker.broker
    assert broker is not None
    refusal = RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="not now")
    broker.intercept(Interceptor(code=RequestCode.QUERY_CONSUMER_OFFSET, answer=refusal, times=20))
    story.crash(a)
    await story.within("2m").until(all_handled)
    assert {b} == story.owners("orders")
    story.check(nothing_lost, commit_never_passes_a_gap)


@pytest.mark.parametrize("safeguard", [None, "a failed query is no reset"])
def test_a_refused_question_moves_no_offset(safeguard: str | None) -> None:
    told = cluster_with(safeguard)
    if safeguard is None:
        tell(refuse_to_name_offsets_once, told)
    else:
        with pytest.raises(Violation):
            tell(refuse_to_name_offsets_once, told)
