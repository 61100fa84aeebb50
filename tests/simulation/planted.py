"""Planted: small realistic mistakes, each of which once passed every test and every seed, and what finds it now.

A mistake is a change of a few lines of source. It stands here and not in the code as a safeguard that can be switched
off: that would put a question in the code's way for the sake of its tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.change import Change


@dataclass(frozen=True, slots=True)
class Mistake:
    """One, by the name that `python -m tests.simulation.planting` knows it by."""

    name: str
    module: str
    right: str
    """Lines of the module, as they are."""
    wrong: str
    effect: str
    """What users would see."""
    story: str
    """What is written for it: holds without it, and fails with it."""
    faults: tuple[str, ...] = ()
    """Kinds of fault with which a few seeds find it; empty where it takes more than these."""
    by_seeds: bool = True
    """Whether 200 fresh seeds find it; ARCHITECTURE says why not."""

    def put_into(self, source: str) -> str:
        return Change(self.module, self.right, self.wrong).put_into(source)


PLANTED: tuple[Mistake, ...] = (
    Mistake(
        "a-failed-write-counts-as-saved",
        "framework.broker.store.tables",
        "        if not committed:\n            self._dirty = {**self._in_flight, **self._dirty}\n",
        "",
        "the disk is full while offsets are saved: later writes leave them out, and a restart brings the old ones back",
        "tests/scenarios/test_full_disks.py::test_offsets_that_did_not_fit_are_saved_when_there_is_room",
        ("disk-full",),
    ),
    Mistake(
        "what-a-batch-drops-leaves-the-window-full",
        "framework.services.outcome.outcomes",
        "            if chunk.is_finished:\n                pull.left(chunk, 0)\n",
        "",
        "a handler of batches answers Drop: its queue is not pulled again until something else ends",
        "tests/scenarios/test_full_windows.py::test_a_window_of_ten_takes_what_comes_whatever_batches_answer",
    ),
    Mistake(
        "a-lost-lease-keeps-its-dead-letters",
        "framework.core.line",
        "        self.copies.clear()\n",
        "",
        "a lease is lost while a dead letter cannot be sent: it is sent again and again",
        "tests/services/orderly/test_leases.py::"
        "test_a_dead_letter_that_could_not_be_sent_is_not_sent_for_a_queue_that_was_lost",
        by_seeds=False,
    ),
    Mistake(
        "a-rollback-turns-pulls-round",
        "framework.core.line",
        "self._portions.extendleft(reversed(self._uncommitted))",
        "self._portions.extendleft(self._uncommitted)",
        "a rollback over three pulls replays 3, 4, 5, 0, 1, 2",
        "tests/core/test_line.py::test_a_rollback_over_several_pulls_brings_them_back_in_their_order",
    ),
    Mistake(
        "a-reset-is-not-seen-behind-the-confirm",
        "framework.services.offsets.progress",
        "                if window is not self._window or window.is_closed:\n"
        "                    return  # moved or gone meanwhile: these ranges may speak of what is handled anew\n",
        "",
        "a reset while a flush waits: ranges of before it are kept, and a later take-over passes over what was to be"
        " handled anew",
        "tests/services/offsets/test_progress.py::"
        "test_a_reset_between_a_flush_s_confirm_and_its_write_leaves_no_ranges",
        by_seeds=False,
    ),
    Mistake(
        "a-claim-counts-from-its-answer",
        "framework_outbox.relay",
        "        claimed_at = self._monotonic()\n"
        "        rows: list[Row] = await self._in_thread("
        "lambda: table.claim(self._name, settings.batch, settings.lease))\n",
        "        rows: list[Row] = await self._in_thread("
        "lambda: table.claim(self._name, settings.batch, settings.lease))\n"
        "        claimed_at = self._monotonic()\n",
        "a claim is slow: two relays send the rows of one key",
        "plugins/outbox/tests/test_outbox_relay.py::test_a_claim_that_takes_long_is_over_as_soon_as_the_table_says",
        by_seeds=False,
    ),
    Mistake(
        "a-broker-that-is-back-hurries-nobody",
        "framework.runtime.group.concurrent",
        "        self._retry_sender.hurry()\n",
        "        return\n",
        "after a long outage failed messages hold their queues for five minutes more",
        "tests/scenarios/test_retry.py::test_what_failed_in_a_long_outage_is_sent_as_soon_as_a_broker_is_there",
        ("outage",),
    ),
    Mistake(
        "an-offset-is-read-before-its-connection-is-there",
        "framework.client.brokers",
        "        address = self._routes.find(queue.broker, MASTER) or await self._routes.master_of(queue)\n"
        '        channel = self._pool.open_channel(address, "pulls") or await self._pool.channel(address, "pulls")\n'
        '        await marks.stretched("a one-way commit has its connection")\n'
        "        offset = committable()\n",
        "        offset = committable()\n"
        "        address = self._routes.find(queue.broker, MASTER) or await self._routes.master_of(queue)\n"
        '        channel = self._pool.open_channel(address, "pulls") or await self._pool.channel(address, "pulls")\n'
        '        await marks.stretched("a one-way commit has its connection")\n',
        "a one-way commit that had to wait for its connection follows the new owner's",
        "tests/client/test_brokers.py::test_a_one_way_commit_says_what_is_committable_when_its_connection_is_there",
    ),
    Mistake(
        "a-stop-forgets-what-expiry-decided",
        "framework.services.pool.expiry",
        "                self._carry_out(len(self._decided))\n                raise\n",
        "                raise\n",
        "a stop comes between an expiry's decision and its carrying out: the message is neither retried nor counted",
        "tests/services/pool/test_expiry.py::test_what_was_decided_is_carried_out_by_a_stop_that_comes_within_the_turn",
        by_seeds=False,
    ),
    Mistake(
        "a-leave-waits-for-an-answer-that-nobody-reads",
        "framework.client.brokers",
        'purpose = "requests" if self._pool.pulls_paused else "pulls"',
        'purpose = "pulls"',
        "a process whose pulled messages use up its budget is asked to stop: it never ends",
        "tests/scenarios/test_leaves_end.py::"
        "test_a_stop_with_the_budget_used_up_takes_no_longer_than_its_drain[1000-concurrent]",
    ),
)
