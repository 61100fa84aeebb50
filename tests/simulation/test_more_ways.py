"""The ways of consuming that have modules of their own: of each a promise is broken in the program, and noticed."""

from __future__ import annotations

import pytest

from framework.core.retry import SendBack, Settle
from framework.core.retry import decide as right_decision
from framework.hooks.builtin.dedup.once_memory import MemoryKeys
from framework.model import delay_levels
from framework.model.delivery import Delivery
from framework.model.outcome import Ack, DeadLetter, Outcome
from framework.runtime.group import kind
from framework.services.call import deliver
from framework.services.call.once import Handle, Once
from framework.services.queue.pull import PullLoop
from tests.simulation.noticing import is_noticed
from tests.simulation.plans.plan import Plan

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
# -- publishing and once


async def unsent(answer: object, *_: object) -> object:
    return answer if answer is None or isinstance(answer, Exception) else Ack()


async def never_asked(once: Once, delivery: Delivery, handle: Handle, key_of: object, keep_ms: int) -> object:
    return await handle(delivery.message, delivery)


async def forgetful(keys: MemoryKeys, key: str) -> bool:
    return False


def has_all_results(plan: Plan) -> bool:
    return plan.workload.groups[0].results == "all"


def has_keys_in_memory(plan: Plan) -> bool:
    return plan.workload.groups[0].once_store == "sim-memory" and plan.workload.keys > 0


def test_a_message_that_is_done_before_its_answer_is_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "published", unsent)
    assert is_noticed({"published first"}, "publishing")


def test_a_duplicate_for_which_no_store_is_asked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Once, "around", never_asked)
    assert is_noticed({"once holds"}, "once")


@pytest.mark.slow
def test_a_store_that_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryKeys, "has", forgetful)
    assert is_noticed({"once holds"}, "once", has_keys_in_memory)


# -- results


@pytest.mark.slow
def test_a_dead_letter_that_is_only_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(outcome: Outcome, attempt: int, max_retries: int) -> Settle | SendBack:
        if isinstance(outcome, DeadLetter):
            return Settle("dropped")
        return right_decision(outcome, attempt, max_retries)

    monkeypatch.setattr(kind, "decide", forgetful)
    assert is_noticed({"a commit never passes a gap", "nothing lost"}, "results", has_all_results)


def test_a_delay_that_nobody_heeds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_levels, "level_for", lambda delay_ms: 1)
    assert is_noticed({"retries wait"}, "results", has_all_results)


def test_a_full_window_that_is_dropped_and_looked_at_no_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not plain success empties its window, too."""
    left = PullLoop.left

    def deaf(pull: PullLoop, chunk: object, ended: int) -> None:
        if ended:
            left(pull, chunk, ended)  # type: ignore[arg-type]  # what it is given is passed on

    def is_dropping(plan: Plan) -> bool:
        return plan.workload.groups[0].results == "drops"

    monkeypatch.setattr(PullLoop, "left", deaf)
    assert is_noticed({"nothing stalls", "progress"}, "results", is_dropping)


def test_a_batch_that_passes_its_failed_message_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "decide_in_order", lambda outcome, attempt, most: Settle("handled"))
    assert is_noticed({"order kept", "a commit never passes a gap"}, "results-in-order")
