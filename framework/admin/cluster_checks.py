"""Checks of name servers and brokers. Each reads the facts and says what is wrong; none asks anybody. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from framework.admin.facts import CREATES_GROUPS, CREATES_TOPICS, INDEX, PERMISSION, SQL, BrokerFacts, ClusterFacts
from framework.admin.findings import Check, Finding, Said, Unlooked, is_denied
from framework.admin.groups import reason_of
from framework.errors import FrameworkError, Refused
from framework.wire.bodies.route import PERM_READ, PERM_WRITE

OFF_MS = 1_000
"""A broker tells whole seconds; what is below that is nobody's mistake."""
FAR_OFF_MS = 60_000


def _name_servers(facts: ClusterFacts) -> Iterator[Said]:
    known = {name for told in facts.name_servers.values() if not isinstance(told, FrameworkError) for name in told}
    for server, told in facts.name_servers.items():
        if isinstance(told, Refused) and told.is_of_the_user:
            yield Finding(
                f"it refuses what this client asks: {told.remark.removesuffix('.')}",
                f"name server {server}",
                "set cluster.credentials to an access key and a secret key that the cluster knows",
                "severe",
            )
        elif is_denied(told):
            yield Unlooked("which brokers it knows", f"name server {server}", reason_of(told))  # type: ignore[arg-type]
        elif isinstance(told, FrameworkError):
            yield Finding(
                f"a name server does not answer: {reason_of(told)}",
                f"name server {server}",
                "start it, or take it out of cluster.name_servers: each process that chooses it first waits for it",
                "warning",
            )
        elif missing := sorted(known.difference(told)):
            yield Finding(
                f"a name server does not know {', '.join(missing)}, which another one knows",
                f"name server {server}",
                f"name {server} in namesrvAddr of broker.conf; who asks this one sees a part of the queues",
                "severe",
            )
    if not known and not all(isinstance(told, FrameworkError) for told in facts.name_servers.values()):
        yield Finding(
            "no broker is registered",
            f"name server {', '.join(facts.name_servers)}",
            "set namesrvAddr in broker.conf to this name server, and start the broker",
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
                f'or cluster.address_map: {{"{address}": "HOST:PORT"}} in the settings here',
                "severe" if is_master else "warning",
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
        lacks = [word for bit, word in ((PERM_WRITE, "written"), (PERM_READ, "read")) if not int(text) & bit]
        if lacks:
            yield Finding(
                f"the broker may not be {' or '.join(lacks)} ({PERMISSION}={text}): sends fail, and failed messages "
                "cannot be sent back to it",
                broker.name,
                update(broker, PERMISSION, "6"),
                "severe",
            )


def _switch(name: str, what: str, then: str) -> Check[ClusterFacts]:
    """A switch that is better on, or known to be off."""

    def ask(facts: ClusterFacts) -> Iterator[Said]:
        for broker in facts.brokers:
            if isinstance(broker.settings, FrameworkError):
                yield _no_settings(broker, what)
            elif (is_on := broker.is_on(name)) is None:
                yield Unlooked(what, broker.name, f"it does not say {name}")
            elif not is_on:
                yield Finding(f"{name}=false: {then}", broker.name, update(broker, name, "true"), "notice")

    return Check(what, ask)


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


def update(broker: BrokerFacts, name: str, text: str) -> str:
    """The command that sets a broker's switch while it runs."""
    return (
        f"mqadmin updateBrokerConfig -b {broker.place.master} -k {name} -v {text} (and in broker.conf, for its restart)"
    )


def _no_settings(broker: BrokerFacts, what: str) -> Unlooked:
    assert isinstance(broker.settings, FrameworkError)
    return Unlooked(what, broker.name, reason_of(broker.settings))


CLUSTER_CHECKS: tuple[Check[ClusterFacts], ...] = (
    Check("name servers answer and know the same brokers", _name_servers),
    Check("brokers that were there are there", _absent),
    Check("advertised addresses can be reached", _addresses),
    Check("brokers may be written and read", _permission),
    Check("clocks agree", _clocks),
    _switch(
        CREATES_TOPICS,
        "whether topics are made by sending to them",
        "the first send to a new topic fails; make each topic first: mqadmin updateTopic -c CLUSTER -t TOPIC",
    ),
    _switch(
        CREATES_GROUPS,
        "whether groups are made by joining them",
        "a new group gets nothing; make each group first: mqadmin updateSubGroup -c CLUSTER -g GROUP",
    ),
    _switch(SQL, "whether SQL92 filters work", "a consumer with a SQL92 filter is refused; tags work"),
    _switch(INDEX, "whether messages are found by key", "trace, --key searches and the check of replays find nothing"),
)
