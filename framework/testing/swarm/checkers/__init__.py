"""Checkers: one invariant per file. Each is a function that reads a history and yields what it found broken.

`ALL` is what every run must pass; stories and failures use these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.testing.errors import Violation
from framework.testing.swarm.checkers.a_lasting_gap_is_kept import a_lasting_gap_is_kept
from framework.testing.swarm.checkers.a_topic_that_is_left_rests import a_topic_that_is_left_rests
from framework.testing.swarm.checkers.acknowledged_is_stored import acknowledged_is_stored
from framework.testing.swarm.checkers.begins_where_it_was import begins_where_it_was
from framework.testing.swarm.checkers.calm_runs_do_not_repeat import calm_runs_do_not_repeat
from framework.testing.swarm.checkers.commit_never_passes_a_gap import commit_never_passes_a_gap
from framework.testing.swarm.checkers.copies_are_asked_for_in_time import copies_are_asked_for_in_time
from framework.testing.swarm.checkers.covered_in_time import covered_in_time
from framework.testing.swarm.checkers.each_queue_has_one_owner import each_queue_has_one_owner
from framework.testing.swarm.checkers.epochs_fence import epochs_fence
from framework.testing.swarm.checkers.everybody_is_told import everybody_is_told
from framework.testing.swarm.checkers.expired_in_time import expired_in_time
from framework.testing.swarm.checkers.fences_hold import fences_hold
from framework.testing.swarm.checkers.listeners_are_told import listeners_are_told
from framework.testing.swarm.checkers.little_moves import little_moves
from framework.testing.swarm.checkers.lots_hold import lots_hold
from framework.testing.swarm.checkers.no_more_than_asked import no_more_than_asked
from framework.testing.swarm.checkers.no_silent_drop import no_silent_drop
from framework.testing.swarm.checkers.no_storm import no_storm
from framework.testing.swarm.checkers.nothing_left_behind import nothing_left_behind
from framework.testing.swarm.checkers.nothing_lost import nothing_lost
from framework.testing.swarm.checkers.nothing_pauses import nothing_pauses
from framework.testing.swarm.checkers.nothing_piles_up import nothing_piles_up
from framework.testing.swarm.checkers.nothing_stalls import nothing_stalls
from framework.testing.swarm.checkers.nothing_unexpected import nothing_unexpected
from framework.testing.swarm.checkers.offsets_forward import offsets_forward
from framework.testing.swarm.checkers.once_holds import once_holds
from framework.testing.swarm.checkers.one_answer_a_request import one_answer_a_request
from framework.testing.swarm.checkers.one_copy_an_attempt import one_copy_an_attempt
from framework.testing.swarm.checkers.one_is_tried_at_a_time import one_is_tried_at_a_time
from framework.testing.swarm.checkers.only_what_was_asked import only_what_was_asked
from framework.testing.swarm.checkers.only_who_is_named import only_who_is_named
from framework.testing.swarm.checkers.order_kept import order_kept
from framework.testing.swarm.checkers.parked_go_at_once import parked_go_at_once
from framework.testing.swarm.checkers.popped_is_handled import popped_is_handled, pops_do_not_repeat
from framework.testing.swarm.checkers.pops_hold import pops_hold
from framework.testing.swarm.checkers.progress_kept import (
    a_flush_covers_what_ended,
    passed_over_was_finished,
    what_was_kept_is_not_repeated,
)
from framework.testing.swarm.checkers.published_first import published_first
from framework.testing.swarm.checkers.replies_hold import replies_hold
from framework.testing.swarm.checkers.retries_bounded import retries_bounded
from framework.testing.swarm.checkers.retries_come import retries_come
from framework.testing.swarm.checkers.retries_wait import retries_wait
from framework.testing.swarm.checkers.saved_offsets_hold import saved_offsets_hold
from framework.testing.swarm.checkers.skips_by_rule import skips_by_rule
from framework.testing.swarm.checkers.snapshots_tell import snapshots_tell
from framework.testing.swarm.checkers.stored_outlives import stored_outlives
from framework.testing.swarm.checkers.transactions_hold import transactions_hold
from framework.testing.swarm.checkers.views_may_differ import views_may_differ
from framework.testing.swarm.checkers.who_is_heard_counts import who_is_heard_counts
from framework.testing.swarm.checkers.within_rate import within_rate
from framework.testing.swarm.history import History

Checker = Callable[[History], Iterable[Violation]]

ALL: tuple[Checker, ...] = (
    nothing_unexpected,
    acknowledged_is_stored,
    nothing_lost,
    commit_never_passes_a_gap,
    begins_where_it_was,
    offsets_forward,
    one_answer_a_request,
    one_copy_an_attempt,
    retries_bounded,
    retries_wait,
    passed_over_was_finished,
    a_flush_covers_what_ended,
    what_was_kept_is_not_repeated,
    a_lasting_gap_is_kept,
    order_kept,
    epochs_fence,
    fences_hold,
    expired_in_time,
    no_more_than_asked,
    each_queue_has_one_owner,
    calm_runs_do_not_repeat,
    nothing_pauses,
    nothing_stalls,
    no_storm,
    views_may_differ,
    covered_in_time,
    who_is_heard_counts,
    little_moves,
    retries_come,
    no_silent_drop,
    everybody_is_told,
    saved_offsets_hold,
    parked_go_at_once,
    skips_by_rule,
    listeners_are_told,
    within_rate,
    one_is_tried_at_a_time,
    only_what_was_asked,
    only_who_is_named,
    published_first,
    once_holds,
    a_topic_that_is_left_rests,
    stored_outlives,
    nothing_left_behind,
    nothing_piles_up,
    snapshots_tell,
    copies_are_asked_for_in_time,
    transactions_hold,
    lots_hold,
    replies_hold,
    pops_hold,
    popped_is_handled,
    pops_do_not_repeat,
)

__all__ = [
    "ALL",
    "Checker",
    "a_flush_covers_what_ended",
    "a_lasting_gap_is_kept",
    "a_topic_that_is_left_rests",
    "acknowledged_is_stored",
    "begins_where_it_was",
    "calm_runs_do_not_repeat",
    "commit_never_passes_a_gap",
    "copies_are_asked_for_in_time",
    "covered_in_time",
    "each_queue_has_one_owner",
    "epochs_fence",
    "everybody_is_told",
    "expired_in_time",
    "fences_hold",
    "listeners_are_told",
    "little_moves",
    "lots_hold",
    "no_more_than_asked",
    "no_silent_drop",
    "no_storm",
    "nothing_left_behind",
    "nothing_lost",
    "nothing_pauses",
    "nothing_piles_up",
    "nothing_stalls",
    "nothing_unexpected",
    "offsets_forward",
    "once_holds",
    "one_answer_a_request",
    "one_copy_an_attempt",
    "one_is_tried_at_a_time",
    "only_what_was_asked",
    "only_who_is_named",
    "order_kept",
    "parked_go_at_once",
    "passed_over_was_finished",
    "popped_is_handled",
    "pops_do_not_repeat",
    "pops_hold",
    "published_first",
    "replies_hold",
    "retries_bounded",
    "retries_come",
    "retries_wait",
    "saved_offsets_hold",
    "skips_by_rule",
    "snapshots_tell",
    "stored_outlives",
    "transactions_hold",
    "views_may_differ",
    "what_was_kept_is_not_repeated",
    "who_is_heard_counts",
    "within_rate",
]
