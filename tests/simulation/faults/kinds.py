"""The kinds of fault: what each does, to whom, and how its happening is counted.

A kind strikes (does one thing to somebody, now), or is weather (changes what the network is like for the whole run and
is counted where it happens). Names are those of `--faults` of `tests/simulation/one.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.simulation.cluster import Cluster
from tests.simulation.faults import brokers, operators, outages, subscriptions, topics
from tests.simulation.faults.nemesis import Nemesis, Struck

AMID_A_LOT = 0.5
HOLD_MAX_S = 8.0
CUT_MAX_S = 12.0
CLOCK_STEPS_MS = (-3_600_000, -60_000, -5_000, 5_000, 60_000, 3_600_000)
UNKNOWN_CODE = 3999
"""Nobody's: a client must survive codes it has never heard of."""
STORM_CODES = (ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR, UNKNOWN_CODE)
STORMY_REQUESTS = (
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.HEART_BEAT,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
)


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind. `strike` does it once; `prepare` makes weather; `seen` counts where it happens by itself."""

    name: str
    strike: Callable[[Nemesis], Struck] | None = None
    prepare: Callable[[Nemesis], None] | None = None
    seen: Callable[[Cluster], int] | None = None
    needs: str = ""
    """The way of consuming (`plans/ways.py`) without which there is nothing to strike."""
    is_calm: bool = False
    """It harms nobody: calm runs have it, too."""

    def __reduce__(self) -> tuple[Callable[[str], FaultKind], tuple[str]]:
        return kind_named, (self.name,)  # verdicts travel between processes; functions stay where they are


# -- processes


def _crash(nemesis: Nemesis) -> Struck:
    machine = nemesis.steady_app()
    if machine is None:
        return None
    nemesis.cluster.crash(machine)
    nemesis.revive(machine, nemesis.chance.between(0.1, 6.0))
    return machine.name, "killed"


def _power_cut(nemesis: Nemesis) -> Struck:
    machine = nemesis.steady_app()
    if machine is None:
        return None
    nemesis.cluster.power_cut(machine)
    nemesis.revive(machine, nemesis.chance.between(0.1, 6.0))
    return machine.name, "gone without a word"


def _desk_crash(nemesis: Nemesis) -> Struck:
    """Who begins transactions, and who is asked about them; now and then both at once, or one amid its commits."""
    cluster, chance = nemesis.cluster, nemesis.chance
    draw, is_both, after_s = chance.random(), chance.happens(0.2), chance.between(0.1, 5.0)
    if not is_both and draw < AMID_A_LOT and cluster.desks.doom(after_s):
        return "a desk", "killed as soon as some of a lot is committed"
    alive = [machine for machine in cluster.desks.machines if machine.is_alive]
    struck = alive if is_both else alive[int(draw * len(alive)) :][:1]
    for machine in struck:
        cluster.crash(machine)
    if not struck:
        return None
    nemesis.in_the_world(cluster.desks.start, after_s)
    return ", ".join(machine.name for machine in struck), "killed"


def _stop(nemesis: Nemesis) -> Struck:
    return _hold(nemesis, nemesis.chance.between(0.5, HOLD_MAX_S), "stopped")


def _block(nemesis: Nemesis) -> Struck:
    return _hold(nemesis, nemesis.chance.between(0.1, 5.0), "its event loop blocked")


def _hold(nemesis: Nemesis, seconds: float, what: str) -> Struck:
    machine = nemesis.steady_app()
    if machine is None or machine.node is None:
        return None
    nemesis.loop.hold(machine.node, seconds)
    return machine.name, f"{what} for {seconds:.1f}s"


def _stop_broker(nemesis: Nemesis) -> Struck:
    node, seconds = nemesis.cluster.broker.node, nemesis.chance.between(0.2, 4.0)
    if node is None or not node.is_alive:
        return None
    nemesis.loop.hold(node, seconds)
    return "broker", f"stopped for {seconds:.1f}s"


def _broker_crash(nemesis: Nemesis) -> Struck:
    seconds = nemesis.chance.between(0.1, 3.0)
    if not nemesis.cluster.broker.is_alive:
        return None
    nemesis.cluster.crash(nemesis.cluster.broker)
    nemesis.revive_broker(seconds)
    return "broker", f"killed, back after {seconds:.1f}s"


def _broker_power_cut(nemesis: Nemesis) -> Struck:
    seconds = nemesis.chance.between(0.1, 3.0)
    if not nemesis.cluster.broker.is_alive:
        return None
    nemesis.cluster.power_cut(nemesis.cluster.broker)
    nemesis.revive_broker(seconds)
    return "broker", f"lost power and what was not synced, back after {seconds:.1f}s"


def _leave(nemesis: Nemesis) -> Struck:
    machine = nemesis.steady_app()
    if machine is None:
        return None
    seconds = nemesis.chance.between(0.1, 3.0)
    nemesis.send_away(machine, seconds)
    return machine.name, f"leaves in order, back {seconds:.1f}s later"


def _late_jobs(nemesis: Nemesis) -> Struck:
    draw, seconds = nemesis.chance.random(), nemesis.chance.between(0.2, 3.0)
    machine = nemesis.cluster.broker if draw < 0.5 else nemesis.steady_app()
    node = machine.node if machine is not None else None
    if machine is None or node is None:
        return None
    node.job_delay_max = seconds
    nemesis.for_a_while(seconds * 2, partial(setattr, node, "job_delay_max", machine.job_delay_max))
    return machine.name, f"its worker threads start up to {seconds:.1f}s late"


def _clock(nemesis: Nemesis) -> Struck:
    step, draw = nemesis.chance.pick(CLOCK_STEPS_MS), nemesis.chance.random()
    cluster = nemesis.cluster
    machine = cluster.broker if draw < 0.25 else cluster.producer if draw < 0.5 else nemesis.steady_app()
    if machine is None or machine.node is None or not machine.node.is_alive:
        return None  # while nobody runs there nobody can tell a step from time that has passed
    if machine.disk.is_full:
        return None  # nor can it be remembered over a restart
    machine.skew_ms += step
    machine.node.skew_ms += step
    return machine.name, f"wall clock stepped by {step / 1000:+g}s"


# -- the network


def _cut(nemesis: Nemesis) -> Struck:
    host, name = _somebody(nemesis)
    seconds = nemesis.chance.between(0.5, CUT_MAX_S)
    nemesis.network.cut(host, nemesis.broker_host, seconds)
    return name, f"cut off for {seconds:.1f}s"


def _cut_one_way(nemesis: Nemesis) -> Struck:
    host, name = _somebody(nemesis)
    seconds, outward = nemesis.chance.between(0.5, CUT_MAX_S), nemesis.chance.happens(0.5)
    source, target = (host, nemesis.broker_host) if outward else (nemesis.broker_host, host)
    nemesis.network.cut(source, target, seconds, both_ways=False)
    return name, f"cut off {'outwards' if outward else 'inwards'} for {seconds:.1f}s"


def _slow(nemesis: Nemesis) -> Struck:
    host, name = _somebody(nemesis)
    factor = nemesis.chance.pick((5.0, 40.0))
    nemesis.network.slow_down(host, factor)
    nemesis.for_a_while(nemesis.chance.between(2.0, 10.0), partial(nemesis.network.slow_down, host, 1.0))
    return name, f"{factor:g} times slower"


def _refuse(nemesis: Nemesis) -> Struck:
    seconds = nemesis.chance.between(0.2, 4.0)
    nemesis.network.refuse(nemesis.broker_host, seconds)
    broken = nemesis.network.break_connections(nemesis.broker_host, nemesis.chance.between(0.2, 1.0))
    return "broker", f"{broken} connections reset, new ones refused for {seconds:.1f}s"


def _lose_reply(nemesis: Nemesis) -> Struck:
    codes: Sequence[int] = nemesis.chance.pick(((), (), (RequestCode.CONSUMER_SEND_MSG_BACK,)))
    nemesis.cluster.wiretap.steal(nemesis.broker_host, 1 + nemesis.chance.below(3), codes)
    return "broker", "its next answers are lost, with their connections"


def _swizzle_clog(nemesis: Nemesis) -> Struck:
    """FoundationDB's: clog some links one by one, and open them in another order."""
    chance, network = nemesis.chance, nemesis.network
    hosts = chance.sample([machine.host for machine in nemesis.cluster.machines[1:]], 1 + chance.below(3))
    at = 0.0
    for host in hosts:
        at += chance.between(0.0, 2.0)
        nemesis.in_the_world(partial(network.cut, host, nemesis.broker_host, 30.0), at)
    for host in chance.sample(hosts, len(hosts)):
        at += chance.between(0.2, 2.0)
        nemesis.in_the_world(partial(_unclog, nemesis, host), at)
    return "the network", f"{len(hosts)} links clogged one by one and opened in another order"


def _unclog(nemesis: Nemesis, host: str) -> None:
    nemesis.network.mend(host, nemesis.broker_host)
    nemesis.network.mend(nemesis.broker_host, host)


def _somebody(nemesis: Nemesis) -> tuple[str, str]:
    machine = nemesis.chance.pick(nemesis.cluster.machines[1:])
    return machine.host, machine.name


def _rough_chunks(nemesis: Nemesis) -> None:
    nemesis.network.weather.split_rate = nemesis.network.weather.coalesce_rate = nemesis.chance.pick((0.1, 0.4))


def _stalls(nemesis: Nemesis) -> None:
    nemesis.network.weather.stall_rate = nemesis.chance.pick((0.01, 0.05))


# -- brokers that say no


def _code_storm(nemesis: Nemesis) -> Struck:
    chance, broker = nemesis.chance, nemesis.cluster.broker
    code, seconds, share = chance.pick(STORM_CODES), chance.between(0.5, 5.0), chance.pick((0.3, 1.0))
    requests = chance.sample(STORMY_REQUESTS, 1 + chance.below(len(STORMY_REQUESTS)))
    if not broker.is_alive or broker.broker is None:
        return None

    def hit(_: Request) -> bool:
        return chance.happens(share)

    for request in requests:
        storm = Interceptor(code=request, answer=_stormy(request, code), times=None, when=hit)
        nemesis.for_a_while(seconds, broker.broker.intercept(storm))
    return "broker", f"answers {len(requests)} kinds of request with code {int(code)} for {seconds:.1f}s"


def _stormy(request: int, code: int) -> RemotingCommand:
    """In place of a code that nobody knows, an offset that none can be."""
    if request == RequestCode.QUERY_CONSUMER_OFFSET and code == UNKNOWN_CODE:
        return RemotingCommand(ResponseCode.SUCCESS, {"offset": "-2"})
    return RemotingCommand(code, remark="a storm")


def _damage(nemesis: Nemesis) -> Struck:
    chance, wiretap, host = nemesis.chance, nemesis.cluster.wiretap, nemesis.broker_host
    seconds, share = chance.between(0.5, 8.0), chance.pick((0.3, 1.0))
    wiretap.damage(host, share, nemesis.loop.streams.named("damage"))
    nemesis.for_a_while(seconds, wiretap.stop_damaging)
    return "broker", f"damages {share:.0%} of the pulls that it answers for {seconds:.1f}s"


ALL_KINDS: tuple[FaultKind, ...] = (
    FaultKind("crash", _crash),
    FaultKind("power-cut", _power_cut),
    FaultKind("stop", _stop),
    FaultKind("block", _block),
    FaultKind("leave", _leave, is_calm=True),
    FaultKind("late-jobs", _late_jobs),
    FaultKind("clock", _clock),
    FaultKind("broker-crash", _broker_crash),
    FaultKind("broker-power-cut", _broker_power_cut),
    FaultKind("broker-stop", _stop_broker),
    FaultKind("cut", _cut),
    FaultKind("cut-one-way", _cut_one_way),
    FaultKind("slow", _slow),
    FaultKind("refuse", _refuse),
    FaultKind("lose-reply", _lose_reply, seen=lambda cluster: cluster.wiretap.stolen),
    FaultKind("swizzle-clog", _swizzle_clog),
    FaultKind("split-chunks", prepare=_rough_chunks, seen=lambda cluster: cluster.network.seen["split chunks"]),
    FaultKind("joined-chunks", prepare=_rough_chunks, seen=lambda cluster: cluster.network.seen["coalesced chunks"]),
    FaultKind("stall", prepare=_stalls, seen=lambda cluster: cluster.network.seen["retransmission stall"]),
    FaultKind("wipe-write-permission", topics.wipe_write_permission),
    FaultKind("more-queues", topics.more_queues),
    FaultKind("code-storm", _code_storm),
    FaultKind("fewer-queues", topics.fewer_queues),
    FaultKind("offsets-reset", topics.reset_offsets),
    FaultKind("topic-remade", topics.remake_topic),
    FaultKind("broker-permission", operators.close_brokers),
    FaultKind("retry-permission", operators.close_retry_topics),
    FaultKind("no-retry-queues", operators.take_retry_queues),
    FaultKind("pause", operators.pause),
    FaultKind("resize", operators.resize),
    FaultKind("subscribe-anew", operators.subscribe_anew),
    FaultKind("live-edit", operators.edit_settings),
    FaultKind("unsubscribe", subscriptions.unsubscribe, needs="second-topic", is_calm=True),
    FaultKind("one-broker-restart", brokers.restart_one, needs="two-brokers"),
    FaultKind("partial-route", brokers.leave_out_of_routes, needs="two-brokers"),
    FaultKind("damaged-records", _damage, seen=lambda cluster: cluster.wiretap.damaged),
    FaultKind("disk-full", outages.fill_a_disk),
    FaultKind("desk-crash", _desk_crash, needs="transactions"),
    FaultKind("consume-mode", operators.switch_mode, needs="pop-switched"),
    FaultKind("bad-deploy", operators.deploy_badly, needs="breaker"),
    FaultKind("outage", outages.cut_off_for_long, needs="slow-handlers"),
)
_BY_NAME = {kind.name: kind for kind in ALL_KINDS}
NAMES = tuple(_BY_NAME)


def kind_named(name: str) -> FaultKind:
    return _BY_NAME[name]
