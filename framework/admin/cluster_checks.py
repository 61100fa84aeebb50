"""Checks of name servers and brokers. Each reads the facts and says what is wrong; none asks anybody. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from framework.admin.facts import (
    BODY_MAX,
    CREATES_GROUPS,
    CREATES_TOPICS,
    DISK_FULL,
    INDEX,
    KEPT_HOURS,
    NAME_SERVERS,
    PERMISSION,
    POOL,
    SQL,
    TIMERS,
    BrokerFacts,
    ClusterFacts,
)
from framework.admin.findings import Check, Finding, Said, Unlooked, is_denied
from framework.admin.groups import reason_of
from framework.errors import FrameworkError, Refused
from framework.model.reserved import AUTO_CREATE_TOPIC
from framework.wire.bodies.config import GroupConfig
from framework.wire.bodies.route import PERM_READ, PERM_WRITE

OFF_MS = 1_000
"""A broker tells whole seconds; what is below that is nobody's mistake."""
FAR_OFF_MS = 60_000
FORCED = 0.85
"""diskSpaceCleanForciblyRatio, as shipped."""
LEAST_FULL, MOST_FULL = 0.35, 0.90
"""A broker takes no other value for where it begins to refuse; the second is the one as shipped."""
MAKES_TOPICS = "whether topics are made by sending to them"
READ_WRITE = PERM_READ | PERM_WRITE
QUEUES = 8
"""As many as mqadmin gives a new topic."""


def _name_servers(facts: ClusterFacts) -> Iterator[Said]:
    known = {name for told in facts.name_servers.values() if not isinstance(told, FrameworkError) for name in told}
    for server, told in facts.name_servers.items():
        if isinstance(told, Refused) and told.is_of_the_user:
            yield _refused(told, f"name server {server}")
        elif is_denied(told):
            yield Unlooked("which brokers it knows", f"name server {server}", reason_of(told))  # type: ignore[arg-type]
        elif isinstance(told, FrameworkError):
            yield Finding(
                f"a name server does not answer: {reason_of(told)}",
                f"name server {server}",
                "start it, or take it out of cluster.name_servers: each process that chooses it first waits for it",
                "warning",
            )
        else:
            for broker in sorted(known.difference(told)):
                yield Finding(
                    f"a name server does not know {broker}, which another one knows: clients that ask it miss queues",
                    f"name server {server}",
                    _register(facts, broker, server),
                    "severe",
                )
    if not known and not all(isinstance(told, FrameworkError) for told in facts.name_servers.values()):
        yield Finding(
            "no broker is registered",
            f"name server {', '.join(facts.name_servers)}",
            "set namesrvAddr in broker.conf to this name server, and start the broker",
            "severe",
        )


def _register(facts: ClusterFacts, name: str, server: str) -> str:
    """What has a broker tell one name server more of itself."""
    broker = next((each for each in facts.brokers if each.name == name), None)
    told = None if broker is None or isinstance(broker.settings, FrameworkError) else broker.settings.get(NAME_SERVERS)
    if broker is None or not told:
        return f"name {server} in namesrvAddr of the broker's broker.conf, and restart it"
    return switch_on(facts, broker, NAME_SERVERS, f"{told};{server}", then="it registers there within a minute or two")


def _credentials(facts: ClusterFacts) -> Iterator[Said]:
    """A stock name server asks nobody who it is; its brokers do."""
    for broker in facts.brokers:
        if isinstance(broker.settings, Refused) and broker.settings.is_of_the_user:
            yield _refused(broker.settings, broker.name)


def _refused(error: Refused, where: str) -> Finding:
    return Finding(
        f"it refuses what this client asks: {error.remark.removesuffix('.')}",
        where,
        "set cluster.credentials to an access key and a secret key that the cluster knows",
        "severe",
    )


def _absent(facts: ClusterFacts) -> Iterator[Said]:
    for broker, why in facts.absent.items():
        yield Finding(
            f"a broker is gone: {why}",
            broker,
            "start it: its messages are not read until then; or take it out of cluster.brokers",
            "severe",
        )


def _addresses(facts: ClusterFacts) -> Iterator[Said]:
    for broker in facts.brokers:
        if broker.place.master is None:
            yield Finding(
                "a broker has no master: nothing can be sent to it, and no offset is stored",
                broker.name,
                "start the master, brokerId=0",
                "severe",
            )
        for address, reason in broker.unreached.items():
            is_master = address == broker.place.master
            kind = "broker" if is_master else "replica"
            host = address.rpartition(":")[0]
            yield Finding(
                f"the address that a {kind} advertises cannot be reached from here: {reason}",
                f"{broker.name} {address}",
                f"start it; or, if it runs: set brokerIP1 in broker.conf to an address that clients reach, not {host}; "
                f'or here: --set \'cluster.address_map={{"{address}": "HOST:PORT"}}\', or the same in the settings',
                "severe" if is_master else "warning",
            )


_LACKS = (
    (PERM_WRITE, "written", "sends fail, and failed messages cannot be sent back to it"),
    (PERM_READ, "read", "consumers get nothing from it"),
)


def _permission(facts: ClusterFacts) -> Iterator[Said]:
    for broker in facts.brokers:
        if isinstance(broker.settings, FrameworkError):
            yield _no_settings(broker, "whether it may be written and read")
            continue
        text = broker.settings.get(PERMISSION, "")
        if not text.isdecimal():
            yield Unlooked("whether it may be written and read", broker.name, f"it does not say {PERMISSION}")
            continue
        lacks = [(word, then) for bit, word, then in _LACKS if not int(text) & bit]
        if lacks:
            yield Finding(
                f"the broker may not be {' or '.join(word for word, _ in lacks)} ({PERMISSION}={text}): "
                f"{', and '.join(then for _, then in lacks)}",
                broker.name,
                switch_on(facts, broker, PERMISSION, "6"),
                "severe",
            )


def _disk(facts: ClusterFacts) -> Iterator[Said]:
    for broker in facts.brokers:
        if isinstance(broker.disk_used, FrameworkError):
            yield Unlooked("how full its disk is", broker.name, reason_of(broker.disk_used))
            continue
        full, used = _full_from(broker), f"its disk is {broker.disk_used:.0%} full"
        if broker.disk_used >= full:
            remedy = mqadmin(
                facts, "deleteExpiredCommitLog", "-b", broker.place.master,
                then=f"what is older than {KEPT_HOURS}, read or not; or give it room",
            )  # fmt: skip
            what = f"{used}: from {full:.0%} on it takes no message (code 14), and no retry"
            yield Finding(what, broker.name, remedy, "severe")
        elif broker.disk_used >= FORCED:
            what = f"{used}: it deletes its oldest messages, read or not, and from {full:.0%} on it takes none"
            remedy = f"give it room, or let it keep messages for a shorter time ({KEPT_HOURS})"
            yield Finding(what, broker.name, remedy, "warning")


def _full_from(broker: BrokerFacts) -> float:
    text = "" if isinstance(broker.settings, FrameworkError) else broker.settings.get(DISK_FULL, "")
    return min(max(int(text) / 100, LEAST_FULL), MOST_FULL) if text.isdecimal() else MOST_FULL


def _sizes(facts: ClusterFacts) -> Iterator[Said]:
    sizes: dict[int, list[BrokerFacts]] = {}
    for broker in facts.brokers:
        if isinstance(broker.settings, FrameworkError):
            yield _no_settings(broker, "how large a message may be")
        elif (text := broker.settings.get(BODY_MAX, "")).isdecimal():
            sizes.setdefault(int(text), []).append(broker)
    most = max(sizes, default=0)
    for size, brokers in sorted(sizes.items()):
        for broker in brokers if size < most else ():
            others = ", ".join(each.name for each in sizes[most])
            yield Finding(
                f"{BODY_MAX}={size}: it refuses larger messages, which {others} takes up to {most}",
                broker.name,
                switch_on(facts, broker, BODY_MAX, str(most)),
                "notice",
            )


def _pool(facts: ClusterFacts) -> Iterator[Said]:
    for broker in facts.brokers:
        if isinstance(broker.settings, FrameworkError):
            yield _no_settings(broker, "whether what it has confirmed outlives its process")
        elif broker.is_on(POOL):
            yield Finding(
                f"{POOL}=true: what it has confirmed is lost if its process is killed",
                broker.name,
                f"{POOL}=false in broker.conf, and a restart, unless speed is worth that",
                "notice",
            )


def _switch(name: str, what: str, then: str, *, later: str = "") -> Check[ClusterFacts]:
    """A switch that is better on, or known to be off. `later`: what its remedy takes beside the command."""

    def ask(facts: ClusterFacts) -> Iterator[Said]:
        for broker in facts.brokers:
            if isinstance(broker.settings, FrameworkError):
                yield _no_settings(broker, what)
            elif (is_on := broker.is_on(name)) is None:
                yield Unlooked(what, broker.name, f"it does not say {name}")
            elif not is_on:
                remedy = switch_on(facts, broker, name, "true", then=later)
                yield Finding(f"{name}=false: {then}", broker.name, remedy, "notice")

    return Check(what, ask)


def _creates_topics(facts: ClusterFacts) -> Iterator[Said]:
    """A broker that is started without it has no template, and none can be made for it: the name is reserved."""
    for broker in facts.brokers:
        if isinstance(broker.settings, FrameworkError):
            yield _no_settings(broker, MAKES_TOPICS)
            continue
        is_on = broker.is_on(CREATES_TOPICS)
        if is_on is None or broker.makes_topics is None:
            why = (
                f"it does not say {CREATES_TOPICS}" if is_on is None else f"no name server tells of {AUTO_CREATE_TOPIC}"
            )
            yield Unlooked(MAKES_TOPICS, broker.name, why)
        elif not broker.makes_topics:
            why = f"{CREATES_TOPICS}=true, and it was started with false" if is_on else f"{CREATES_TOPICS}=false"
            yield Finding(
                f"{why}: the first send to a new topic fails",
                broker.name,
                make_topic(
                    facts, "TOPIC", broker=broker, then=f"for each TOPIC; or start it with {CREATES_TOPICS}=true"
                ),
                "notice",
            )


def _clocks(facts: ClusterFacts) -> Iterator[Said]:
    for broker in facts.brokers:
        if isinstance(broker.ahead, FrameworkError):
            yield Unlooked("what time it is there", broker.name, reason_of(broker.ahead))
        elif (off_ms := broker.off_ms or 0) >= OFF_MS:
            side = "ahead of" if broker.ahead.low_ms > 0 else "behind"
            yield Finding(
                f"the clocks differ: the broker's is at least {off_ms / 1000:,.0f} s {side} this machine's",
                broker.name,
                "synchronize both (chrony, systemd-timesyncd); until then ages, delays and --from TIME are off by it",
                "severe" if off_ms >= FAR_OFF_MS else "warning",
            )


# Remedies: commands that can be pasted as they are; behind one stands a comment of the shell


def mqadmin(facts: ClusterFacts, name: str, *words: object, then: str = "") -> str:
    """With a name server that answers: without one, mqadmin asks for it on the internet, and finds no broker."""
    answering = [server for server, told in facts.name_servers.items() if not isinstance(told, FrameworkError)]
    server = (answering or list(facts.name_servers))[0]
    line = shlex.join(["mqadmin", name, "-n", server, *map(str, words)])
    return f"{line}  # {then}" if then else line


def switch_on(facts: ClusterFacts, broker: BrokerFacts, name: str, text: str, *, then: str = "") -> str:
    """Sets a broker's setting while it runs, and writes it into its broker.conf."""
    return mqadmin(facts, "updateBrokerConfig", "-b", broker.place.master, "-k", name, "-v", text, then=then)


def make_topic(
    facts: ClusterFacts, name: str, queues: int = QUEUES, *, broker: BrokerFacts | None = None, then: str = ""
) -> str:
    """Makes a topic that may be read and written, or gives one so many queues: at a broker, or at each of a cluster."""
    return mqadmin(facts, "updateTopic", *at_brokers(facts, broker), "-t", name, "-r", queues, "-w", queues, then=then)


def permit_topic(facts: ClusterFacts, topic: str, perm: int = READ_WRITE, *, broker: BrokerFacts | None = None) -> str:
    """Lets a topic be read and written."""
    return mqadmin(facts, "updateTopicPerm", *at_brokers(facts, broker), "-t", topic, "-p", perm)


def make_group(facts: ClusterFacts, broker: BrokerFacts, kept: GroupConfig, *mended: str) -> str:
    """Makes the group, or mends one setting of it. What mqadmin is not told it sets to its own defaults, by which
    broadcasting members get nothing: so what the broker keeps is said again.
    """
    said = {
        "-s": (kept.consume_enable, True),
        "-m": (kept.consume_from_min_enable, False),
        "-d": (kept.consume_broadcast_enable, False),
        "-o": (kept.consume_message_orderly, False),
        "-q": (kept.retry_queues, 1),
        "-r": (kept.retries_max, 16),
        "-i": (kept.broker_id, 0),
        "-w": (kept.which_broker_when_consume_slowly, 1),
        "-a": (kept.notify_consumer_ids_changed_enable, True),
    }
    words = {option: str(value).lower() for option, (value, usual) in said.items() if value != usual}
    words |= dict(zip(mended[::2], mended[1::2], strict=True))
    if kept.retry_policy is not None and kept.retry_policy != type(kept.retry_policy)():
        words["-p"] = kept.retry_policy.encode().decode()
    pairs = [word for pair in words.items() for word in pair]
    return mqadmin(facts, "updateSubGroup", "-b", broker.place.master, "-g", kept.name, *pairs)


def at_brokers(facts: ClusterFacts, broker: BrokerFacts | None = None) -> tuple[str, str]:
    """How mqadmin is told of one broker, or of all."""
    if broker is not None:
        return "-b", str(broker.place.master)
    return "-c", min((each.place.cluster for each in facts.brokers), default="CLUSTER")


def _no_settings(broker: BrokerFacts, what: str) -> Unlooked:
    assert isinstance(broker.settings, FrameworkError)
    return Unlooked(what, broker.name, reason_of(broker.settings))


CLUSTER_CHECKS: tuple[Check[ClusterFacts], ...] = (
    Check("name servers answer and know the same brokers", _name_servers),
    Check("brokers know who asks", _credentials),
    Check("brokers that were there are there", _absent),
    Check("advertised addresses can be reached", _addresses),
    Check("brokers may be written and read", _permission),
    Check("clocks agree", _clocks),
    Check(MAKES_TOPICS, _creates_topics),
    _switch(
        CREATES_GROUPS,
        "whether groups are made by joining them",
        "a new group gets nothing",
        later="or make each group first: framework-app doctor GROUP --topic TOPIC says how",
    ),
    Check("its disk has room", _disk),
    Check("brokers take messages of one size", _sizes),
    Check("what is confirmed outlives the broker's process", _pool),
    _switch(
        TIMERS,
        "whether messages may be delayed to the second",
        "delays take a level, of at most 2 h as shipped, and other clients are refused",
        later="and a restart of the broker",
    ),
    _switch(SQL, "whether SQL92 filters work", "a consumer with a SQL92 filter is refused; tags work"),
    _switch(INDEX, "whether messages are found by key", "trace, --key searches and the check of replays find nothing"),
)
