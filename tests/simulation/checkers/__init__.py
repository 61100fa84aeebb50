"""Checkers: one invariant per file. Each is a function that reads a history and yields what it found broken.

`ALL` is what every run must pass; stories and failures use these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.testing.errors import Violation
from tests.simulation.checkers.a_lasting_gap_is_kept import a_lasting_gap_is_kept
from tests.simulation.checkers.a_topic_that_is_left_rests import a_topic_that_is_left_rests
from tests.simulation.checkers.acknowledged_is_stored import acknowledged_is_stored
from tests.simulation.checkers.begins_where_it_was import begins_where_it_was
from tests.simulation.checkers.calm_runs_do_not_repeat import calm_runs_do_not_repeat
from tests.simulation.checkers.commit_never_passes_a_gap import commit_never_passes_a_gap
from tests.simulation.checkers.copies_are_asked_for_in_time import copies_are_asked_for_in_time
from tests.simulation.checkers.covered_in_time import covered_in_time
from tests.simulation.checkers.each_queue_has_one_owner import each_queue_has_one_owner
from tests.simulation.checkers.epochs_fence import epochs_fence
from tests.simulation.checkers.everybody_is_told import everybody_is_told
from tests.simulation.checkers.expired_in_time import expired_in_time
from tests.simulation.checkers.fences_hold import fences_hold
from tests.simulation.checkers.listeners_are_told import listeners_are_told
from tests.simulation.checkers.little_moves import little_moves
from tests.simulation.checkers.lots_hold import lots_hold
from tests.simulation.checkers.no_more_than_asked import no_more_than_asked
from tests.simulation.checkers.no_silent_drop import no_silent_drop
from tests.simulation.checkers.no_storm import no_storm
from tests.simulation.checkers.nothing_left_behind import nothing_left_behind
from tests.simulation.checkers.nothing_lost import nothing_lost
from tests.simulation.checkers.nothing_pauses import nothing_pauses
from tests.simulation.checkers.nothing_piles_up import nothing_piles_up
from tests.simulation.checkers.nothing_stalls import nothing_stalls
from tests.simulation.checkers.nothing_unexpected import nothing_unexpected
from tests.simulation.checkers.offsets_forward import offsets_forward
from tests.simulation.checkers.once_holds import once_holds
from tests.simulation.checkers.one_answer_a_request import one_answer_a_request
from tests.simulation.checkers.one_copy_an_attempt import one_copy_an_attempt
from tests.simulation.checkers.one_is_tried_at_a_time import one_is_tried_at_a_time
from tests.simulation.checkers.only_what_was_asked import only_what_was_asked
from tests.simulation.checkers.only_who_is_named import only_who_is_named
from tests.simulation.checkers.order_kept import order_kept
from tests.simulation.checkers.parked_go_at_once import parked_go_at_once
from tests.simulation.checkers.popped_is_handled import popped_is_handled, pops_do_not_repeat
from tests.simulation.checkers.pops_hold import pops_hold
from tests.simulation.checkers.progress_kept import (
    a_flush_covers_what_ended,
    passed_over_was_finished,
    what_was_kept_is_not_repeated,
)
from tests.simulation.checkers.published_first import published_first
from tests.simulation.checkers.replies_hold import replies_hold
from tests.simulation.checkers.retries_bounded import retries_bounded
from tests.simulation.checkers.retries_come import retries_come
from tests.simulation.checkers.retries_wait import retries_wait
from tests.simulation.checkers.saved_offsets_hold import saved_offsets_hold
from tests.simulation.checkers.skips_by_rule import skips_by_rule
from tests.simulation.checkers.snapshots_tell import snapshots_tell
from tests.simulation.checkers.stored_outlives import stored_outlives
from tests.simulation.checkers.transactions_hold import transactions_hold
from tests.simulation.checkers.views_may_differ import views_may_differ
from tests.simulation.checkers.who_is_heard_counts import who_is_heard_counts
from tests.simulation.checkers.within_rate import within_rate
from tests.simulation.history import History

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
