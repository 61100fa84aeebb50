"""ConsumerSettings: every key of a group. What stands in `schema.py` about the others holds for these as well."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from framework.core import limits
from framework.model.allocation import Allocation
from framework.model.reserved import TRACE_TOPIC
from framework.model.subscription import Start
from framework.settings.fields import AllocationSetting, Live, RateSetting, Section, StartSetting, TopicName
from framework.settings.units import Duration, Size


class ConsumerSettings(Section):
    concurrency: Live[Annotated[int, Field(ge=1, le=limits.CONCURRENCY_MAX)]] = 20
    """Handlers that run at once in this process: tasks for async handlers, threads for others."""
    paused: Live[bool] = False
    """Start no handler and pull nothing while this is true. The group keeps its queues."""
    autostart: bool = True
    """Join when the application starts. false: join when the code calls app.start_consumer("GROUP"); until then this
    process is no member of the group."""
    rate: Live[RateSetting | None] = None
    """The most messages handed to handlers in this process, with retries: 100/s, 30/m, 1000/h. Empty: unlimited."""
    max_retries: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Retries after the first delivery; then the message goes to the dead-letter queue. Empty: 16 (17 deliveries), and
    unlimited in orderly groups. Broadcasting groups retry in place, then drop the message; empty: 0."""
    breaker: Live[Annotated[int, Field(ge=0, le=100_000)]] = limits.BREAKER
    """After this many failed messages of a topic without a success, try one at a time until one succeeds. 0: never."""
    start: StartSetting = Start("last")
    """Where a new group starts: first, last, an age (30m), or a time with its zone."""
    skip_older_than: Annotated[Duration, Field(ge=1)] | None = None
    """Messages stored longer ago than this are done without being handled, except retries. Empty: no such rule."""
    skip_backlog_over: Annotated[int, Field(ge=0)] | None = None
    """Messages further behind their queue's end than this are done unhandled, except retries. Empty: no such rule."""
    timeout: Live[Annotated[Duration, Field(ge=1)] | None] = limits.HANDLER_MS
    """How long a handler may run before `expiry` decides about its message. Not for orderly groups. Empty: no limit."""
    expiry: Live[Annotated[str, Field(min_length=1)]] = "send_back"
    """What happens to a message at `timeout`: send_back, dead_letter, drop, extend (runs on), or a plugin's policy."""
    stuck_after: Annotated[Duration, Field(ge=1)] = limits.HANDLER_MS
    """Orderly groups: report a queue or key that one message has blocked for this long, once per message. A
    handler that fails after running for this long is counted as timed_out."""
    delivery: Literal["pull", "pop", "broker"] = "pull"
    """How messages are taken. pull: members divide the queues. pop: any member takes any message, and brokers keep
    which are done (RocketMQ 5.0 and later). broker: pop or pull, as mqadmin setConsumeMode says per topic. See
    docs/popping.md."""
    invisible: Annotated[Duration, Field(ge=5_000, le=300_000)] = 60_000
    """How long a popped message is hidden from other members. It is renewed while the message waits or is handled;
    after a crash, another member gets the message when this is over. Not with `delivery: pull`."""
    pull_batch: Annotated[int, Field(ge=1, le=1024)] = limits.PULL_BATCH
    """Messages per pull. A RocketMQ broker returns at most 32."""
    cache_count: Live[Annotated[int, Field(ge=1, le=65_535)]] = limits.CACHED_MESSAGES_MAX
    """Stop pulling a queue while it holds more pulled messages than this that are not done. One pull may exceed it by
    `pull_batch`."""
    cache_bytes: Live[Annotated[Size, Field(ge=1 << 16)]] = limits.CACHED_BYTES_MAX
    """Stop pulling a queue while its pulled messages take more bytes than this. `app.budget` limits all queues."""
    topic_count: Live[Annotated[int, Field(ge=1)] | None] = None
    """`cache_count` for all owned queues of a topic together, in equal shares. Empty: no such limit."""
    topic_bytes: Live[Annotated[Size, Field(ge=1 << 16)] | None] = None
    """`cache_bytes` for all owned queues of a topic together, in equal shares. Empty: no such limit."""
    explicit_ack: bool = False
    """Only `Ack()` is success. A message whose handler returns nothing is retried."""
    undecodable: Literal["dead_letter", "retry", "hold", "drop"] = "dead_letter"
    """What happens to a body that does not fit the handler's annotation: dead_letter, retry, hold (its queue), drop."""
    undecodable_max: Annotated[int, Field(ge=0)] = 100
    """After so many undecodable bodies in a row of a topic, in a process, hold the queue instead. 0: never."""
    exits: Literal["dead_letter", "retry"] = "dead_letter"
    """A message whose handler ended processes three times fails; at `max_retries`: dead_letter, or retry (forever)."""
    damaged: Literal["hold", "skip"] = "hold"
    """A stored message with inconsistent bytes: hold its queue until a pull returns good ones, or skip it."""
    progress: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")] = "auto"
    """Where to keep which messages are done above an unfinished one, so that a crash repeats none of them. auto: as
    topic once a gap has lasted for 2 s, at no cost before; local if no topic may be created. topic: a topic of the
    group, %ACK%GROUP. local: files on this machine. broker: the built-in broker, which then rejects late commits of a
    previous owner. none: nowhere. Or a plugin's store. See docs/reliability.md."""
    once_store: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")] = "memory"
    """Where handlers with `once` record what they have handled. memory: this process, at most 100,000 keys per handler.
    sqlite: a file on this machine that survives crashes and is shared by its processes. Or a plugin's store."""
    allocation: AllocationSetting = Allocation("averaging")
    """The strategy that divides queues among a group's members, the same in all: its name, or {name: {option:
    value}}."""
    trace: bool = False
    """Send a trace of every delivery, for mqadmin queryMsgTraceById and the Dashboard."""
    trace_topic: TopicName = TRACE_TOPIC
    """The topic for traces. Brokers have the default one if traceTopicEnable is set, or if they create topics."""
