"""Mutants of transactions, lots and requests; what the code is without each stands in `dialogue_safeguards.py`."""

from __future__ import annotations

from tests.simulation.mutant import Mutant
from tests.simulation.plans.plan import Plan
from tests.simulation.ways.loading import DEALS_A_LOT


def with_lots(plan: Plan) -> bool:
    return plan.workload.deals >= DEALS_A_LOT and not plan.is_calm


DIALOGUE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a half message is none for consumers",
        "a message is handled before its local transaction has ended, and though it is rolled back",
        ("transactions hold",),
        where=lambda plan: plan.workload.deals > 0,
    ),
    Mutant(
        "a lot is decided once",
        "where a process dies amid its commits, the next one commits all that it has prepared anew as well",
        ("lots hold",),
        where=lambda plan: with_lots(plan) and plan.has("desk-crash"),
    ),
    Mutant(
        "a lot is over when all of it is committed",
        "a message whose commit a broker did not confirm is left hidden, though its lot is settled",
        ("lots hold",),
        where=with_lots,
    ),
    Mutant(
        "a question about an open lot is left open",
        "a broker that asks before a lot is decided drops a part of it",
        ("lots hold", "progress"),
        where=with_lots,
    ),
    Mutant(
        "a half message is sent once",
        "where an answer is lost, two half messages of one transaction are stored, and both are committed",
        ("transactions hold",),
        where=lambda plan: plan.workload.deals > 0 and plan.has("lose-reply", "cut", "broker-crash"),
    ),
    Mutant(
        "the end of a transaction is kept with its message",
        "the broker asks about what was committed, and commits it again",
        ("transactions hold",),
        where=lambda plan: plan.workload.deals > 0,
    ),
    Mutant(
        "a rollback is no commit",
        "consumers get what was rolled back",
        ("transactions hold",),
        where=lambda plan: plan.workload.deals > 0,
    ),
    Mutant(
        "a reply is for the request that it names",
        "a late reply ends the waiting of another request",
        ("replies hold",),
        where=lambda plan: any(load.replies and max(load.pauses_s) >= 2 for load in plan.workload.groups),
    ),
    Mutant(
        "a late reply is counted",
        "nobody sees that requests wait too shortly",
        ("replies hold",),
        where=lambda plan: plan.workload.asks > 0,
    ),
)
