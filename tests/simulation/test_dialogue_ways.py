"""The ways `transactions` (with lots) and `requests`: of each a promise is broken, and fresh seeds notice. More of them
are among the mutants."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice

import pytest

from framework.broker.handlers import transactions
from framework.client.dialogue import checks
from framework.client.dialogue.halves import HalfMessage
from framework.client.dialogue.lots import Lots
from framework.client.dialogue.replies import Replies
from framework.client.outgoing import Outgoing
from framework.declare.transactions import TransactionState
from framework.wire.requests.transaction import COMMIT
from tests.patience import until
from tests.simulation.cluster import Cluster
from tests.simulation.faults.brokers import without
from tests.simulation.noticing import is_calm, is_noticed, plans_with
from tests.simulation.plans.plan import Plan
from tests.simulation.simulation import PROGRESS_S, play
from tests.simulation.ways.facts import Answered, Decided, LotSettled, Replied
from tests.simulation.ways.loading import DEALS_A_LOT, PARTS, RECORDS, ROWS
from tests.simulation.workload import Workload

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long


def is_hard_on_desks(plan: Plan) -> bool:
    return plan.has("desk-crash", "broker-crash", "lose-reply", "cut")


def test_calm_runs_commit_roll_back_ask_and_reply() -> None:
    for plan in islice(plans_with("transactions", is_calm), 1):
        verdict, history = play(plan)
        assert verdict.is_ok
        assert {"commit", "rollback"} == {fact.state for fact in history.of(Decided)}
        assert sum(fact.state == "commit" for fact in history.of(Decided)) == len(history.deals)
    for plan in islice(plans_with("requests", is_calm), 1):
        verdict, history = play(plan)
        assert verdict.is_ok
        assert any(history.of(Replied))
        assert any(history.of(Answered))


# -- transactions


def test_a_rollback_that_commits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks.ENDS, TransactionState.ROLLBACK, COMMIT)
    assert is_noticed({"transactions hold"}, "transactions")


@pytest.mark.slow
def test_a_check_that_commits_what_it_does_not_know_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "ENDS", {**checks.ENDS, TransactionState.UNKNOWN: COMMIT})
    assert is_noticed({"transactions hold"}, "transactions", is_hard_on_desks)


def test_a_question_that_nobody_answers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.Checks, "take", lambda self, channel, command: None)
    assert is_noticed({"progress"}, "transactions")


def test_a_commit_that_ends_the_half_message_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_commit", lambda node, transaction, half, whole: None)
    assert is_noticed({"transactions hold"}, "transactions")


# -- lots


def test_runs_settle_lots_also_where_their_desks_die() -> None:
    for fits in (is_calm, is_hard_on_desks):
        (plan,) = islice(plans_with("transactions", fits), 1)
        verdict, history = play(plan)
        assert verdict.is_ok, verdict.violations
        settled = [fact.lot for fact in history.of(LotSettled)]
        assert list(range(plan.workload.deals // DEALS_A_LOT)) == settled
        assert PARTS * ROWS * len(settled) == len(history.loads)


async def lose_sight_of_the_records(cluster: Cluster) -> list[str]:
    """Both desks are killed, and the name server leaves out the broker of their records when others come."""
    await cluster.start()
    broker = cluster.broker.broker
    assert broker is not None
    homes = await until(lambda: [node for node in broker.nodes if RECORDS in node.rules.topics], "a topic of records")
    forget = broker.intercept(without(homes[0]))
    for machine in cluster.desks.machines:
        cluster.crash(machine)
    cluster.desks.start()
    await asyncio.sleep(20)
    forget()
    cluster.is_healed = True
    await cluster.drain(PROGRESS_S)
    return [node.name for node in broker.nodes if RECORDS in node.rules.topics]


def test_the_records_of_lots_have_one_home_whatever_name_servers_leave_out() -> None:
    """A topic of two brokers has no one order; desks that came later made the records anew where they saw none."""
    cluster = Cluster(1, brokers=2, workload=Workload(messages=0, period_s=10.0, deals=DEALS_A_LOT))

    assert ["broker-a"] == cluster.run(lose_sight_of_the_records)
    assert [0] == [fact.lot for fact in cluster.history.of(LotSettled)]


@pytest.mark.slow
def test_a_lot_that_consumers_are_given_before_it_is_decided_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    marked = Outgoing.marked
    monkeypatch.setattr(Outgoing, "marked", lambda outgoing, marks, *, is_half=False: marked(outgoing, {}))
    assert is_noticed({"lots hold"}, "transactions")


def test_a_lot_that_is_done_without_its_commits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each commit had been confirmed."""

    async def confirmed(lots: Lots, halves: Sequence[HalfMessage], *, in_order: bool) -> list[HalfMessage]:
        return []

    monkeypatch.setattr(Lots, "_committed", confirmed)
    assert is_noticed({"lots hold"}, "transactions")


# -- requests


def test_a_reply_that_is_not_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kept(replies: Replies, request: object, body: bytes) -> bool:
        return True

    monkeypatch.setattr(Replies, "send", kept)
    assert is_noticed({"replies hold"}, "requests", is_calm)
