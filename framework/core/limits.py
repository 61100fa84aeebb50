"""Every bound of consuming, its default and its reason. Nothing in the framework grows without one."""

from __future__ import annotations

# Pulling
PULL_BATCH = 32  # the stock broker hands out no more (maxTransferCountOnMessageInMemory)
PULL_BYTES_MAX = 256 * 1024  # as the Java client: maxMsgBytes, and the broker's own default
OFFSET_JUMP_MAX = 1_000_000  # beyond a queue's end by more than any batch or filter scan: the answer is a lie
LONG_POLL_MS = 15_000  # how long a broker holds a pull that finds nothing; Java: brokerSuspendMaxTimeMillis
PULL_TIMEOUT_MS = 30_000  # as the Java client; twice the long poll: brokers end those each 5 s, later under load
POP_BATCH = 32  # brokers refuse to pop more at once
POP_HELD_MAX = 96  # as the Java client: popThresholdForQueue; what one member holds, no other can handle

# Flow control, one owned queue
CACHED_MESSAGES_MAX = 1_000  # as the Java client: pullThresholdForQueue
CACHED_BYTES_MAX = 16 * 1024 * 1024  # a quarter of the budget: one queue of large messages leaves room for others
SPAN_MAX = 2_000  # as the Java client: consumeConcurrentlyMaxSpan; what one stuck message can cost in repeats

# Flow control, the process
CONCURRENCY_MAX = 1_024  # of a group: each handler that runs has a slot, and each plain one a thread
BUDGET_BYTES = 64 * 1024 * 1024  # pulled bytes still referenced, all queues together (Java allows 100 MiB a queue)

# Standing back
FAILURE_DELAY_MS = 1_000  # Java stands back 3 s after any failure; a second is enough for a broker that restarts
FAILURE_DELAY_MAX_MS = 30_000
BUSY_DELAY_MS = 20  # as the Java client, where a broker answers that it has too much to do (215)
BUSY_DELAY_MAX_MS = 1_000  # Java's stays 20 ms: fifty refused pulls a second from each queue keep such a broker busy

DAMAGED_TRIES = 2  # how often a record must come damaged when it is asked for alone, before it may be skipped
ALONE_MAX = 1_024  # offsets that are asked for one by one behind a damaged pull; no answer names more
IDLE_DELAY_MS = 100  # an answer at once that brings nothing on: once is nothing, twice in a row is waited for
IDLE_DELAY_MAX_MS = 10_000  # below a long poll's 15 s: a broker that comes to its senses is noticed as soon
AT_ONCE_MS = 500  # brokers without long polls hold for a second: who answers sooner does not wait at all

# Offsets
STANDSTILL_MS = 60_000  # twice what a pull may take to be answered: who moved nothing for so long has stopped
FLUSH_MS = 1_000  # Java flushes each 5 s; a crash repeats what was not flushed
PUT_OFF_MS = 100  # an offset that waits for the first one of its topic to be confirmed is told after this
RETELL_MS = 30_000  # an offset that a former owner moved back late, or a broker lost, is told again after this

# Progress above a gap
RECORD_BYTES_MAX = 4_096  # some eight hundred ranges; more are folded, for a flush never fails by its size
LOOK_SECONDS = 1.0  # `auto`: how long a queue waits for a name server's word whether there are records
RANGES_SMALL = 32  # offsets ended above a gap that has just come up: less than this is not worth a record
RECORD_REFRESH_MS = 30_000  # an unchanged record is written again, so that those of others do not bury it
HANDOVER_MS = 2_000  # how long a queue waits for its former owner's word; a Java member never gives it
HANDOVER_LOOK_MS = 100
TAKE_AGAIN_MS = 5_000  # two that both take a queue for theirs do so no faster than this
UNREAD_TRIES = 5  # some ten seconds: a record that its broker cannot give until then is damaged, and is discarded
RECORDS_READ_MAX = 1_024  # how far back the last record of a queue is looked for: 32 pulls of a stock broker

# Membership
REBALANCE_MS = 20_000  # as the Java client, so that mixed groups settle alike
REBALANCE_SOON_MS = 1_000  # before a topic that failed is tried again first, and the least distance between two rounds
REBALANCE_AGAIN_MAX_MS = 1_800  # at most; nobody says when a cause has ended, and it is to be healed within 2 s
MEMBER_CHECK_MS = 5_000  # a lost notice is noticed by asking for the member list, which is cheap
MEMBERS_LARGE = 200  # in groups beyond this it is not: each list names all; looks become rarer in proportion
LIST_KEPT_MS = 35_000  # who is missing on a young broker's list; a heartbeat's period, and time for it to get there
KNOWN_MS = 10_000  # since when members must have been there to have known a broker that went away just now
GATHER_MS = 100  # at a start, how long nobody else must have joined before queues are taken
GATHER_MAX_MS = 1_000  # and for how long that is waited for; where joins go on, rounds follow anyway
HEARTBEAT_MS = 30_000  # as the Java client; the broker forgets a silent member after 120 s

# Calm
GRACE_MAX_MS = 600_000  # a name is the other side's word: no queue waits longer for its owner than this
SHORT_LIFE_MS = 60_000  # whoever leaves sooner after its join is a flapper's first sign
FORGIVEN_MS = 600_000  # for how long a short life is remembered
CHANGES_MAX = 3  # joins and ends of one flapper that a group bears
CHANGES_WINDOW_MS = 60_000
QUARANTINE_MS = 10_000  # how long a flapper must be steady before it joins; doubles with each short life
QUARANTINE_MAX_MS = 300_000
FLAPPERS_MAX = 100

# Retries
MAX_RETRIES = 16  # as the Java client: 17 deliveries, then the dead-letter topic
BREAKER = 100  # messages that fail without a success between: more is a bad deploy, and not bad messages
TRIAL_PAUSE_MS = 1_000  # before the first message that is tried then; doubles with each that fails
TRIAL_PAUSE_MAX_MS = 60_000  # what a deploy that mends the handlers waits for at most
RETRY_SENDERS = 8  # send-backs under way at once in a group; each is one small request
SEND_BACK_DELAY_MS = 5_000  # as the Java client, which runs the handler again, each 5 s for ever
SEND_BACK_DELAY_MAX_MS = 300_000  # what refuses a copy now, refuses it for as long as some person lets it

# Handlers
HANDLER_MS = 900_000  # as the Java client: consumeTimeout
STALL_MS = 1_000  # an event loop that does nothing else for so long is blocked by somebody
SLOW_HOOK_MS = 100  # hooks are quick by contract: on the event loop nothing else runs meanwhile
EXPIRY_GRAIN_MS = 20  # limits that end so close together are looked at together; a fifth of what an expiry may be late

# Order
NO_SPAN = 2**63 - 1  # orderly queues know no span, as in the Java client
MAX_RETRIES_IN_ORDER = 2**31 - 1  # as the Java client: a failing message blocks its queue until somebody acts
LEASE_TRUST_MS = 27_000  # Java trusts a lock for 30 s; a tenth less, and counted from the sending
LEASE_RENEW_MS = 10_000  # Java renews each 20 s, so that one lost renewal stalls its queues; this leaves time for more
LEASE_RETRY_MS = 1_000  # after a refusal or a failure; the old owner may let go at any moment
SUSPEND_MS = 1_000  # as the Java client: suspendCurrentQueueTimeMillis, and its bounds
SUSPEND_MIN_MS = 10
SUSPEND_MAX_MS = 30_000
TURN_MS = 60_000  # as the Java client: how long one queue may run on while others wait for a worker

# Stopping
DRAIN_MS = 30_000  # how long running handlers may take to end
LATE_MS = 10_000  # beyond the drain limit: for an engine to give up what still runs
TURNS_MS = 5_000  # over which a parent asks its processes to end, one after the other
EXIT_MS = 2_000  # for an interpreter to end, on a busy machine
TRIES_LEAVING = 2  # of a key behind others that fails: a poisoned one must not hold up each leave for all that time
_LEAVING_REQUESTS = 3  # offsets, locks and groups: each waits for a broker that does not answer


def after_the_drain_ms(request_timeout_ms: int) -> int:
    """What may follow or precede the drain in a stop, all together."""
    return TURNS_MS + LATE_MS + _LEAVING_REQUESTS * request_timeout_ms + EXIT_MS


def stop_ms(drain_ms: int, request_timeout_ms: int) -> int:
    """From the signal to the process's end at most: what a supervisor's patience is held against."""
    return drain_ms + after_the_drain_ms(request_timeout_ms)
