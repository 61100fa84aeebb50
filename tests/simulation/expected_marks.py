"""The marks of the code: those that every CI run of the simulation must reach, and where the others are reached.

A mark that no seed reaches means a blind generator; a mark in neither list fails a test. A run's brokers, one or two,
and their name server are one process, as in the built-in broker: they die together, and are closed for writing apart.
"""

from __future__ import annotations

from tests.simulation.rare.rare_marks import RARELY, STRETCHED

SOMETIMES: tuple[str, ...] = (
    "a broker was kept that a name server left out",
    "a copy took the other road",
    "a finished chunk waited behind a gap",
    "a half-open connection was closed",
    "a handler expired",
    "a lease was lost",
    "a member came back to its seat",
    "a member was kept that a young broker did not list",
    "a lost notice was found by asking for the member list",
    "a message was parked",
    "a queue went on where its owner had been, beyond what its broker had stored",
    "a store of progress was put to use",
    "an address was left alone until its back-off was over",
    "broker: a request was intercepted",
    "broker: a send-back was repeated",
    "broker: the wall clock was set",
    "handlers still ran when the drain limit was over",
    "routes were refreshed in time",
)

SELDOM: dict[str, str] = {
    "a dead letter fails": "an orderly group must give up a message",
    "a dead letter is durable": "an orderly group must give up a message",
    "an offset is moved": "an administrator must ask a member, where brokers of 5.2 do it themselves",
}
"""Rare marks that some thousand seeds reach, not each three hundred."""
EXPECTED: tuple[str, ...] = (*SOMETIMES, *(mark for mark in (*STRETCHED, *RARELY) if mark not in SELDOM))
"""Of the rare marks a run draws a few: each must do what it does in some run."""
ELSEWHERE: dict[str, str] = {
    "a breaker closed": "a deploy whose handlers all fail is a way of its own; stories of the breaker",
    "a breaker opened": "likewise",
    "a broker answered 0 for a group that it has never seen": "the box never does; tests of the brokers",
    "a connection was told to go away": "the box never says so; tests of the channel do",
    "the clock of a broker was set": "asked for each five minutes, a run takes one; tests of the clocks",
    "a dead letter of an orderly queue could not be sent": "seldom; tests of orderly services",
    "a handler ended after its message had expired": "those of a run heed it; stories and tests of expiry",
    "a handler ended after its lease was lost": "seldom; tests of orderly services, and stories of order",
    "a handler ended after its queue was gone": "a drain of 30 s must run out; tests of the group have it sooner",
    "a lock was granted that could not be believed any more": "seldom; tests of the lease",
    "a message of another tag with the same hash was dropped": "two tags of one hash stand in tests of pulling",
    "a broker was kept that had gone away": "the name server of a run does not forget it; stories of restarts",
    "a pull answered offsets that were admitted before": "no broker of ours does; tests of the window do",
    "blocked lines held a whole window": "seldom; tests of orderly services",
    "a process that had been stopped looked around before it started anything": "seldom; stories of order",
    "a flapping member waited before it joined": "ends of a run are within grace; stories of calm",
    "a hand-over was not announced in time": "an owner must be stopped while it is listed; tests of progress",
    "an owner was superseded by one that is gone again": "lists must differ while a gap stays; tests of progress",
    "broker: a commit or a record of a former owner was refused": "a split view must meet a fence; stories of epochs",
    "a take-over passed over what had ended above a gap": "a stuck handler and a kill must meet; stories of progress",
    "a record of ranges was thrown away": "a reset must meet a gap; tests of progress",
    "ranges were folded for their size": "some eight hundred gaps; tests of the ranges",
    "a pull was answered after its queue had been taken away": "the pull is cancelled first; tests of the flow",
    "a route was kept though the name server forgot it": "the box forgets no topic; tests of the routes",
    "a short heartbeat was followed by a whole one": "a run sends whole ones; tests of heartbeats",
    "another name server was chosen": "a run has one name server; tests of the name servers",
    "the broker moved an offset, and was doubted": "logs lose nothing here; tests of the flow",
    "the broker moved an offset": "logs lose nothing here; tests of the flow, and of the group against a box",
}
