"""tests/features.md leaves out nothing that `DefaultMQPushConsumer` has.

The reference from which the page was made is not part of this repository, so its rows stand here by their titles, each
with words by which its row on the page is found. A row that is removed there, or a title that nobody answers, fails.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "features.md").read_text()
FIRST_CELLS = [
    re.split(r"(?<!\\)\|", line)[1].strip()
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| Java |")
]

PROPERTIES = re.findall(
    r"\S+",
    """
consumerGroup messageModel consumeFromWhere consumeTimestamp allocateMessageQueueStrategy subscribe MessageSelector
messageListener messageQueueListener offsetStore consumeThreadMin adjustThreadPoolNumsThreshold updateCorePoolSize
consumeConcurrentlyMaxSpan pullThresholdForQueue SizeForQueue pullThresholdForTopic SizeForTopic pullInterval
pullBatchSize pullBatchSizeInBytes consumeMessageBatchMaxSize postSubscriptionWhenPull maxReconsumeTimes
suspendCurrentQueueTimeMillis consumeTimeout popInvisibleTime popBatchNums popThresholdForQueue
awaitTerminationMillisWhenShutdown clientRebalance unitMode unitName enableTrace traceTopic traceMsgBatchNum namespace
namespaceV2 clientIP instanceName pollNameServerInterval heartbeatBrokerInterval persistConsumerOffsetInterval
pullTimeDelayMillsWhenException mqClientApiTimeout clientCallbackExecutorThreads vipChannelEnabled useTLS
useHeartbeatV2 enableHeartbeatChannelEventListener decodeReadBody decodeDecompressBody maxPageSizeInGetMetadata
detectTimeout detectInterval sendLatencyEnable startDetectorEnable enableStreamRequestType accessChannel language
""",
)

SYSTEM_PROPERTIES = re.findall(
    r"\S+",
    """
rebalance.waitInterval minInterval lockInterval lockMaxLiveTime pull.pullMaxIdleTime unlockDelayTimeMills
maxTimeConsumeContinuously localOffsetStoreDir
""",
)

ROWS = {
    "start: configuration is checked": "configuration is checked at start",
    "start: the retry topic": "`%RETRY%group` is subscribed",
    "start: checkClientInBroker": "filters other than by tag",
    "start: routes": "a topic without a route",
    "start: not restartable": "cannot be started again",
    "pull: process queue dropped": "dropped queue: its request ends",
    "pull: not running, no subscription, no broker": "not running, no subscription, no broker",
    "pull: paused": "`suspend`, `resume`",
    "pull: over a threshold": "over a threshold",
    "pull: orderly and not locked": "orderly and not locked",
    "pull: orderly, first pull after lock": "first pull after a lock",
    "pull: FOUND, list empty after tag filter": "found, all filtered",
    "pull: FOUND": "found: put, submit, next pull",
    "pull: NO_NEW_MSG, NO_MATCHED_MSG": "nothing new, nothing matched",
    "pull: OFFSET_ILLEGAL": "illegal offset",
    "pull: FLOW_CONTROL": "215 flow control",
    "pull: 24, 25": "24, 25",
    "pull: time-out": "held 15 s, time-out 30 s",
    "pull: an answer below the offset asked": "an answer below what was asked",
    "pull: commit offset": "commit offset rides on the pull",
    "pull: next broker": "the suggested broker is asked next",
    "pull: slave": "replicas get no offset",
    "pull: no timestamp for 120 s": "idle for 120 s",
    "pull: decode, inner batches, tags": "decode, inner batches, tags again",
    "pull: FilterMessageHook": "`FilterMessageHook`",
    "pull: MIN_OFFSET, MAX_OFFSET": "`MIN_OFFSET`, `MAX_OFFSET`",
    "process queue: low watermark": "the lowest that has not ended is committed",
    "process queue: one slow message": "one slow message holds the offset",
    "process queue: queueOffsetMax": "`queueOffsetMax` goes back",
    "process queue: orderly": "orderly: take, commit, roll back",
    "rebalance: period": "each 20 s, 1 s after an unbalanced round",
    "rebalance: triggers, route change": "at once on notice and start",
    "rebalance: balanced": "no route or no members counts as balanced",
    "rebalance: inputs": "queues and members are sorted",
    "rebalance: consumer list source": "members are asked of one random broker",
    "rebalance: remove queue": "a queue is left",
    "rebalance: add queue": "a queue is taken",
    "rebalance: unsubscribed topics": "unsubscribed topics",
    "rebalance: after change": "a change of queues raises `subVersion`",
    "rebalance: failures": "one failure stops no other topic",
    "rebalance: a strategy that raises": "a strategy that raises changes nothing",
    "rebalance: start offset": "stored offset, else the policy",
    "rebalance: start offset of a retry topic": "a retry topic begins at its end under TIMESTAMP",
    "rebalance: broker-side": "pop and broker-side assignment",
    "strategies: all but CONFIG": "AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, MACHINE_ROOM, MACHINE_ROOM_NEARBY",
    "strategies: CONFIG": "CONFIG",
    "concurrent: split": "pulled lists are cut",
    "concurrent: before listener": "a retry's own topic is shown",
    "concurrent: CONSUME_START_TIME": "`CONSUME_START_TIME`",
    "concurrent: result": 'an exception or null is "later"',
    "concurrent: return type": "kinds of ends",
    "concurrent: queue dropped after listener": "result after the queue went",
    "concurrent: ackIndex": "`ackIndex`",
    "concurrent: BROADCASTING failure": "broadcasting: failures are dropped",
    "concurrent: CLUSTERING failure": "failures are sent back, with a level",
    "concurrent: failures to send back": "what cannot be sent back",
    "concurrent: sendMessageBack, fall-back": "fall-back: a message to `%RETRY%group`",
    "concurrent: message id": "message id through retries",
    "concurrent: POP": "pop: acknowledge, invisible time",
    "orderly: lock upkeep": "locks each 20 s, trusted 30 s",
    "orderly: dispatch": "one task a queue",
    "orderly: loop": "60 s at one queue",
    "orderly: autoCommit=true": "automatic commit",
    "orderly: autoCommit=false": "COMMIT and ROLLBACK by hand",
    "orderly: checkReconsumeTimes": "at the maximum",
    "orderly: exception": "exception: suspend",
    "orderly: null": "null: suspend",
    "orderly: default retries": "no end of retries",
    "orderly: attempts": "attempts are in memory only",
    "orderly: BROADCASTING": "broadcasting needs no locks",
    "orderly: cleanExpired": "time-outs are not for orderly handlers",
    "time-outs: the cleaner": "cleaner of the timed out",
    "offsets: remote store": "remote store",
    "offsets: persist target": "a slave takes offsets",
    "offsets: local store": "local file",
    "offsets: ControllableOffset": "increase only, freeze",
    "hooks: ConsumeMessageHook": "`ConsumeMessageHook`",
    "hooks: RPCHook": "`RPCHook`",
    "trace consume": "trace records",
    "stats": "statistics of a minute",
    "running info": "running info (307)",
    "reset offset (220)": "reset by the broker, or by the client (220)",
    "public admin helpers": "`viewMessage`, `queryMessage`, `searchOffset`, `createTopic`",
    "direct consume (309)": "consume directly (309)",
    "subscribe, unsubscribe at run time": "subscribe and unsubscribe at run time",
    "heartbeats": "heartbeats to every known broker",
    "shutdown: order, interrupts, pulls go on": "shutdown interrupts handlers",
    "shutdown: within a listener": "`shutdown()` in a listener",
    "Go: delays": "Go: 3 s after an error",
    "Go: lock renewal": "Go: a renewed lock",
    "Go: tag filter": "Go: offsets stand still",
    "Go: leaks": "Go: rebalances leave goroutines",
    "Go: cleaner": "Go: the cleaner takes",
}


@pytest.mark.parametrize("name", [*PROPERTIES, *SYSTEM_PROPERTIES])
def test_each_property_has_its_row(name: str) -> None:
    assert any(re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", cell) for cell in FIRST_CELLS), name


@pytest.mark.parametrize("title", ROWS)
def test_each_row_of_the_reference_has_its_row(title: str) -> None:
    assert any(ROWS[title] in cell for cell in FIRST_CELLS), ROWS[title]
