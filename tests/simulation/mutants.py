"""Mutants: the safeguards that can be left out, one at a time, and what must notice each.

A mutant that nothing catches is a finding about the checkers or the generator, not about the mutant. What the code is
without each stands in `safeguards.py`; a test holds both lists against each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from framework.testing.errors import Violation
from tests.simulation.checkers.retries_come import HOLDS
from tests.simulation.dialogue_mutants import DIALOGUE_MUTANTS
from tests.simulation.mutant import Mutant
from tests.simulation.plans.plan import SECONDS, draw
from tests.simulation.simulation import play

MUTANTS: tuple[Mutant, ...] = (
    *DIALOGUE_MUTANTS,
    Mutant(
        "what is held is renewed",
        "a popped message comes to another member while it waits or its handler runs",
        ("calm pops do not repeat",),
        where=lambda plan: plan.is_calm and "pop" in plan.workload.ways and plan.workload.messages >= 100,
    ),
    Mutant(
        "a renewal moves when a message comes back",
        "a popped message is given to another member though its holder was told until when it has it",
        ("a popped message has one holder", "popped messages come back"),
        where=lambda plan: "pop" in plan.workload.ways and not plan.has("clock"),
    ),
    Mutant(
        "an open breaker holds its queues",
        "a deploy whose handlers all fail sends a whole topic to the dead letters",
        ("one is tried at a time",),
        where=lambda plan: plan.has("bad-deploy"),
    ),
    Mutant(
        "commits stop at the first gap",
        "the highest finished offset is committed, past messages that are still at work",
        ("a commit never passes a gap",),
    ),
    Mutant(
        "what moved during a flush stays dirty",
        "a message that ends while the flush is under way waits for the next one to be committed",
        (),
        test="tests/core/test_offsets.py",
    ),
    Mutant(
        "the copy is durable before the source is settled",
        "a failed message counts as finished while its copy is still on the way",
        ("a commit never passes a gap", "nothing lost"),
    ),
    Mutant(
        "a send-back that nobody keeps is found",
        "a group that has lost its retry queue loses each message that fails, for the broker says yes",
        ("no silent drop", "a commit never passes a gap", "nothing lost"),
        where=lambda plan: plan.has("no-retry-queues"),
    ),
    Mutant(
        "what is due sooner moves the timer",
        "a retry with a short delay waits for one with a long delay that was there before it",
        ("retries come",),
        where=lambda plan: (
            not plan.has(*HOLDS, "clock") and plan.workload.groups[0].fail_rate > 0.1 and plan.workload.sync_s < 0.1
        ),
    ),
    Mutant(
        "send-back makes one copy",
        "a send-back that is asked for twice makes two copies",
        ("one copy an attempt",),
        where=lambda plan: plan.has("lose-reply"),
    ),
    Mutant(
        "an answer leaves after the commit",
        "a producer is told that its message is stored before it is",
        ("acknowledged is stored", "nothing lost"),
        where=lambda plan: plan.has("broker-power-cut", "broker-crash") and plan.workload.sync_s > 0.1,
    ),
    Mutant(
        "a commit reaches the disk",
        "commits are not synced, so a power cut undoes them",
        ("acknowledged is stored", "nothing lost", "a commit never passes a gap"),
        where=lambda plan: plan.has("broker-power-cut"),
    ),
    Mutant(
        "requests time out",
        "whoever asks a peer that has vanished waits until the connection is given up as idle",
        (),
        test="tests/simulation/test_mutants.py",
    ),
    Mutant(
        "running handlers are waited for",
        "a queue is handed over while its handlers run",
        ("calm runs do not repeat",),
        where=lambda plan: plan.is_calm and plan.has("leave") and plan.workload.messages > 100,
    ),
    Mutant(
        "the last offset is confirmed",
        "a member leaves without saying how far it has come",
        ("calm runs do not repeat",),
        where=lambda plan: plan.is_calm,
    ),
    Mutant(
        "an owner says its offset again",
        "what a former owner commits late stays stored, until something new arrives",
        (),
        test="tests/services/offsets/test_commit.py",
    ),
    Mutant(
        "a parked message is sent again",
        "a message whose copy could not be sent holds its queue for ever",
        ("progress",),
        where=lambda plan: plan.has("wipe-write-permission", "refuse", "code-storm"),
    ),
    Mutant(
        "a restart takes up the schedule",
        "what waits for its delay is forgotten by a broker that restarts, until something else is delayed",
        (),
        test="tests/simulation/test_mutants.py",
    ),
    Mutant(
        "a step of the wall clock moves no delay",
        "a wall clock set back by an hour holds retries for an hour, one set forward fires them at once",
        (),
        test="tests/broker/test_schedule_clock.py",
    ),
    Mutant(
        "a lock outlives a restart",
        "a restarted box grants a queue while the old owner still trusts its lock",
        (),
        test="tests/broker/test_locks.py",
    ),
    Mutant(
        "attempts are counted",
        "each copy is the first attempt again",
        ("progress", "nothing lost", "one copy an attempt"),
    ),
    Mutant(
        "a failed query is no reset",
        "a queue whose offset could not be asked for begins at its end",
        (),
        test="tests/simulation/test_mutants.py",
    ),
    Mutant(
        "a lease is counted from its request",
        "a lock whose confirmation came late is trusted for longer than the broker keeps it",
        (),
        test="tests/core/test_order_lease.py",
    ),
    Mutant(
        "a late result changes nothing",
        "what ends after its lease counts, and is committed beside the next owner's",
        (),
        test="tests/services/orderly/test_leases.py",
    ),
    Mutant(
        "a key is in one line at a time",
        "a key's later messages overtake the one that is tried again",
        (),
        test="tests/services/orderly/test_keys.py",
    ),
    Mutant(
        "offsets wait for the commit",
        "with commits by hand, what was handled and not committed is lost to a crash",
        ("a commit never passes a gap",),
        where=lambda plan: any(load.by_hand for load in plan.workload.groups),
    ),
    Mutant(
        "a lost connection leaves no lease",
        "a broker that comes back without its locks has them given to another while we trust ours",
        (),
        test="tests/scenarios/test_order.py",
    ),
    Mutant(
        "a file is on the disk before it takes its name",
        "a power cut leaves a file that is empty or torn under the name of the whole one",
        (),
        test="tests/net/test_files.py",
    ),
    Mutant(
        "saves go to two files in turn",
        "a broadcasting group's only file is damaged, and nobody knows how far it had come",
        (),
        test="tests/services/offsets/test_local_offsets.py",
    ),
    Mutant(
        "the result of an expired handler changes nothing",
        "what was sent back because it took too long is settled once more by its handler's late end",
        (),
        test="tests/services/pool/test_expiry.py",
    ),
    Mutant(
        "a limit counts from the start of the handler",
        "a message that waited behind others is given up as soon as its own handler begins",
        (),
        test="tests/services/pool/test_expiry.py",
    ),
    Mutant(
        "durations are measured by a clock that nobody sets",
        "a lease, a limit or a pause is an hour longer or shorter when somebody sets the wall clock",
        (),
        test="tests/scenarios/test_clocks.py",
    ),
    Mutant(
        "what is dated goes by the clock of the brokers",
        "a subscription that is changed on a machine whose clock is slow is taken for the older one",
        (),
        test="tests/scenarios/test_clocks.py",
    ),
    Mutant(
        "a reset voids what was kept",
        "a queue that an administrator moved back skips what was to be handled anew, once it has come that far again",
        (),
        test="tests/services/offsets/test_progress.py",
    ),
    Mutant(
        "a take-over looks for records",
        "with `auto` what a member has kept above a gap is repeated by its successor",
        (),
        test="tests/scenarios/test_auto_progress.py",
    ),
    Mutant(
        "a leaver by key closes its gaps",
        "what other keys have handled behind one that is slow, or is tried again, is repeated after a clean leave",
        (),
        test="tests/scenarios/test_hand_over.py",
    ),
    Mutant(
        "a record that is not applied is voided",
        "a record that was not believed is, by the next owner, when progress has passed its low end again",
        (),
        test="tests/services/offsets/test_progress.py",
    ),
    Mutant(
        "messages are compared before they are passed over",
        "in a topic that was made again, what lies at the offsets of the old one is skipped",
        (),
        test="tests/services/offsets/test_progress.py",
    ),
    Mutant(
        "the last message passed over is compared, too",
        "in a log that lost its tail, what lies at the offsets of the lost messages is skipped",
        (),
        test="tests/services/offsets/test_progress.py",
    ),
    Mutant(
        "the low end is confirmed before its ranges are kept",
        "ranges are kept above an offset that the broker does not hold, so that they count for nothing",
        (),
        test="tests/services/offsets/test_progress.py",
    ),
    Mutant(
        "an owner that was superseded takes its queue anew",
        "after a split view the owner that stays writes records that count for nothing",
        (),
        test="tests/services/offsets/test_progress_taken_anew.py",
    ),
    Mutant(
        "who leaves while we join keeps its seat",
        "a member that goes away between a newcomer's question and its first look loses its queues to it",
        (),
        test="tests/core/test_group_members.py",
    ),
    Mutant(
        "a take that was cut off is released",
        "who was given a queue in passing fences its owner, who leaves without its last commit",
        (),
        test="tests/services/offsets/test_progress_taken_anew.py",
    ),
    Mutant(
        "an outdated epoch is refused",
        "a former owner's late commit moves the offset back in the box, though its successor has an epoch",
        ("fences hold",),
        where=lambda plan: any(load.progress == "broker" for load in plan.workload.groups) and not plan.is_calm,
    ),
    Mutant(
        "each acquisition has an epoch of its own",
        "what a former owner still writes counts, also where its successor has voided it",
        (),
        test="tests/services/offsets/test_progress_taken_anew.py",
    ),
    Mutant(
        "a seat is kept through a restart",
        "a member with a name that is started again has its queues moved away and back",
        (),
        test="tests/scenarios/test_calm.py",
    ),
    Mutant(
        "a quarantine ends",
        "a member that came and went too often never joins its groups again",
        (),
        test="tests/scenarios/test_calm.py",
    ),
    Mutant(
        "a name belongs to one process",
        "two processes of one name both consume: part of the queues twice, part by nobody",
        (),
        test="tests/scenarios/test_calm.py",
    ),
    Mutant(
        "a flapper waits before it joins",
        "a member that is killed again and again has queues moved to it and away each time",
        (),
        test="tests/scenarios/test_storms.py",
    ),
    Mutant(
        "a broker that was restarted takes nobody off the list",
        "its list holds who has come back so far, and they take the queues of all others",
        ("who is heard counts",),
        where=lambda plan: plan.has("one-broker-restart"),
    ),
    Mutant(
        "a broker that answers is not given up with its route",
        "a name server that was started anew makes members leave the queues of brokers that it has not heard of yet",
        (),
        test="tests/scenarios/test_broker_restarts.py",
    ),
    Mutant(
        "a broker that restarts is expected back",
        "its queues and all others are divided anew when it goes and when it is back, by each member at another time",
        (),
        test="tests/scenarios/test_broker_restarts.py",
    ),
    Mutant(
        "a newcomer expects no broker back",
        "it divides other queues than those who knew the broker: some have two owners, and some have none",
        (),
        test="tests/scenarios/test_broker_restarts.py",
    ),
    Mutant(
        "an owner goes on where it was",
        "a broker that was killed has offsets of some seconds ago, and all since is handled again",
        (),
        test="tests/scenarios/test_broker_restarts.py",
    ),
    Mutant(
        "a name gives back its locks before it waits",
        "the others have its queues, and stand before its lock for up to a minute",
        (),
        test="tests/scenarios/test_calm.py",
    ),
    Mutant(
        "members that start together wait for each other",
        "of forty members that start at once each takes what is the next one's a moment later",
        (),
        test="tests/scenarios/test_storms.py",
    ),
    Mutant(
        "queues that stay are left alone",
        "each member that comes or goes stops every queue of all the others for a moment",
        ("nothing pauses",),
    ),
    Mutant(
        "a lock that is refused is not had",
        "two members that see different lists handle one orderly queue at the same time",
        ("order kept", "views may differ"),
    ),
    Mutant(
        "a hand-over is awaited",
        "a member that joins begins with a queue while its former owner is still at work on it",
        (),
        test="tests/scenarios/test_hand_over.py",
    ),
    Mutant(
        "who comes second waits again",
        "two members that waited for the same former owner both begin with its queue",
        (),
        test="tests/services/queue/test_hand_over.py",
    ),
    Mutant(
        "a key is recorded after success only",
        "what failed is a repeat when it comes again, and is dropped unhandled",
        (),
        test="tests/runtime/plans/test_once.py",
    ),
)


def hunt(mutant: Mutant, seeds: Iterable[int], *, most: int, seconds: float = SECONDS) -> tuple[int, Violation] | None:
    """The first seed at which one of the mutant's truths breaks, and how; None where none of `most` shows it."""
    plans = (plan for seed in seeds if mutant.where(plan := draw(seed, seconds=seconds)))
    for plan in islice(plans, most):
        verdict, _ = play(plan, mutants=(mutant.safeguard,))
        for violation in verdict.violations:
            if violation.truth in mutant.caught_by:
                return plan.seed, violation
    return None
