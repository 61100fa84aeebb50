"""What can be chosen about a broker, with the stock broker's values where it has them."""

from __future__ import annotations

from dataclasses import dataclass

from framework.model.delay_levels import DELAYS_MS
from framework.wire.frame import FRAME_BYTES_MAX, HEADER_BYTES_MAX

CLUSTER = "DefaultCluster"
REGION = "DefaultRegion"

# The largest body, its header, and a byte too much, so that one beyond the limit is refused by name and not by force.
_FRAME_SLACK = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Limits and ladders. Every limit has a code or a closed connection as its answer, never a crash."""

    cluster: str = CLUSTER
    names: tuple[str, ...] = ()
    """What the logical brokers are called, in their order; those beyond are broker-a, broker-b and so on."""
    delays_ms: tuple[int, ...] = DELAYS_MS
    timer_ms_max: int = 3 * 24 * 3_600_000  # timerMaxDelaySec
    body_bytes_max: int = 4 * 1024 * 1024  # maxMessageSize
    properties_bytes_max: int = 32_767  # the record's own field is a signed short
    pull_count_max: int = 32  # maxTransferCountOnMessageInMemory
    pull_bytes_max: int = 256 * 1024  # maxTransferBytesOnMessageInMemory
    short_poll_ms: int = 1000  # shortPollingTimeMills: how long a pull waits where longPollingEnable is off
    topic_queues: int = 8  # TBW102's own count: the most that a new topic gets
    keeps_locks: bool = True
    """Whether queue locks outlive a restart; a broker that serves its own process alone needs none that do."""
    is_sql_strict: bool = False
    """Refuse SQL92 filters that RocketMQ takes and misreads: `a = 007` would mean `a = 0`."""
    admission_ms: int = 0
    """How long a newcomer to a group is connected before the others divide queues with it; 0, the default: not at all.
    One that was here lately waits twice as long each time."""
    admission_ms_max: int = 300_000
    channels_max: int = 256
    unsent_bytes_max: int = 8 * 1024 * 1024
    """A reader this far behind on one connection is cut off."""
    unread_bytes_max: int = 64 * 1024 * 1024
    """Answers that all connections together have not taken in; beyond it who is longest behind is cut off."""
    frames_bytes_max: int = 32 * 1024 * 1024
    """Frames that have begun and not ended, of all connections; beyond it who began first is cut off."""
    waiting_pulls_max: int = 2048
    """Long polls of one connection; the next is told 2."""
    waiting_bytes_max: int = 64 * 1024 * 1024
    """What all long polls hold while they wait; beyond it the next is told 2."""
    heartbeat_bytes_max: int = 32 * 1024 * 1024
    """What is kept of heartbeats: members, producers, and what they want; beyond it one that adds to it is told 2."""
    writes_max: int = 10_000  # sendThreadPoolQueueCapacity
    write_bytes_max: int = 64 * 1024 * 1024
    """Requests that wait for the disk, and what they cost; beyond it a write is refused with 2."""
    topics_max: int = 1000
    groups_max: int = 1000
    queues_max: int = 65_536
    """Queues that ever got a message; a send into one more is told 2."""
    offsets_max: int = 100_000
    """Committed offsets, one a group and queue; one more is told 2."""
    offsets_saved_s: float = 0.5
    """One-way commits reach the disk at most this much later, or with the next write."""
    is_relaxed: bool = False
    """`durability: relaxed`: answers leave before the disk has the message; a power cut may lose the last ones."""
    kept_ms: int = 48 * 3_600_000  # fileReservedTime of the broker.conf that RocketMQ ships
    disk_clean_ratio: float = 0.75  # diskMaxUsedSpaceRatio: from here on what is too old goes at once
    disk_forced_ratio: float = 0.85  # diskSpaceCleanForciblyRatio: from here on the oldest go whatever their age
    disk_full_ratio: float = 0.90  # diskSpaceWarningLevelRatio: from here on sends are refused
    log_kept_bytes: int = 1 << 30
    """What force leaves of the log, its newest part; RocketMQ leaves its last file, which is as large."""
    sent_back_kept_ms: int = 3_600_000
    """How long a repeated send-back is recognised."""

    # Computed: limits that another one must fit into.

    @property
    def frame_bytes_max(self) -> int:
        """The largest request."""
        return min(self.body_bytes_max + _FRAME_SLACK, FRAME_BYTES_MAX)

    @property
    def answer_bytes_max(self) -> int:
        """The body of an answer that is made of several things: its frame is no larger than a request's may be."""
        return self.frame_bytes_max - HEADER_BYTES_MAX

    @property
    def values_max(self) -> int:
        """Of a request's body: a heartbeat that subscribes to each topic has a dozen for each."""
        return 12 * max(self.topics_max, 1000)

    @property
    def all_frames_bytes_max(self) -> int:
        """Of all frames under way, with room for one of the largest where it is the only one."""
        return max(self.frames_bytes_max, self.frame_bytes_max)

    @property
    def all_unread_bytes_max(self) -> int:
        """Of all answers that are not taken in, likewise."""
        return max(self.unread_bytes_max, FRAME_BYTES_MAX)
