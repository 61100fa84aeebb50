"""Java's clients and mqadmin under users and rules: who may send, consume and administer, and how a refusal reads.

The same words on the box with `--auth`, and on a real RocketMQ 5.5.0 with its access control switched on, which takes a
cluster of its own (`make slow PART=box_users`). What is refused is refused with the same code and the same text.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.cli.processes import command
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer, Outgoing, PeerError, User
from tests.interop.mqadmin import Admin, AdminError
from tests.interop.places import QUICK_RETRIES
from tests.interop.processes import Nursery
from tests.patience import wait_until

# Each wait has a bound; all of them together are more than a test usually may take.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.xdist_group("box_users")]

ROOT, BILLING = User("root", "secret-of-root"), User("billing", "secret-of-billing")
RESOURCES = "Topic:orders-*,Group:billing"
USERS = f"""
users:
  {ROOT.name}: {{password: {ROOT.password}, type: super}}
  {BILLING.name}:
    password: {BILLING.password}
    rules:
      - {{resources: "{RESOURCES}", actions: "Pub, Sub"}}
"""
PROVIDERS = "org.apache.rocketmq.auth"
ACCESS_CONTROL = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationProvider": f"{PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{ROOT.name}","password":"{ROOT.password}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{ROOT.name}","secretKey":"{ROOT.password}"}}',
    "messageDelayLevel": QUICK_RETRIES,
}


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker that asks who is there, and mqadmin, which signs as whom it is told to."""

    address: str
    broker: str
    java: JavaPeer
    tools: Path

    def admin(self, user: User | None) -> Admin:
        self.tools.parent.mkdir(exist_ok=True)
        self.tools.unlink(missing_ok=True)
        if user is not None:
            self.tools.write_text(f"accessKey: {user.name}\nsecretKey: {user.password}\n")
        return Admin(self.java, self.address)


@contextlib.contextmanager
def _box(nursery: Nursery, folder: Path) -> Iterator[tuple[str, str]]:
    users = folder / "users.yaml"
    users.touch(mode=0o600)
    users.write_text(USERS)
    words = ("broker", "--memory", "--auth", "users.yaml", "--delay-levels", QUICK_RETRIES)
    with command(*words, folder=folder) as box:
        address = box.until("broker: ready").split("namesrv=")[1].split()[0]
        yield address, address
        assert box.end() == 0


@contextlib.contextmanager
def _real(nursery: Nursery, folder: Path) -> Iterator[tuple[str, str]]:
    with Cluster(folder, nursery, Shape(settings=ACCESS_CONTROL)) as cluster:
        yield cluster.name_server, cluster.addresses.brokers["broker-a"]


@pytest.fixture(scope="module", params=["box", pytest.param("real", marks=pytest.mark.slow)])
def guarded(
    request: pytest.FixtureRequest, nursery: Nursery, java: JavaPeer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    with {"box": _box, "real": _real}[request.param](nursery, folder) as (address, broker):
        place = Guarded(address, broker, java, java.home / "conf" / "tools.yml")
        root = place.admin(ROOT)
        try:
            if request.param == "real":
                root.run("createUser", "-b", broker, "-u", BILLING.name, "-p", BILLING.password, "-t", "Normal")
                rule = ("-s", f"User:{BILLING.name}", "-r", RESOURCES, "-a", "Pub,Sub", "-d", "Allow")
                root.run("createAcl", "-b", broker, *rule)
            for topic in ("orders-eu", "salaries"):
                root.run("updateTopic", "-b", broker, "-t", topic, "-r", "2", "-w", "2")
            yield place
        finally:
            place.tools.unlink(missing_ok=True)


def _refusal(do: Callable[[], object]) -> tuple[int, str]:
    """The code and the text of the broker, as Java's client prints them."""
    with pytest.raises((PeerError, AdminError)) as caught:
        do()
    found = re.findall(r"CODE: (\d+) +DESC: (.*?)(?: BROKER: \S+)?(?:\n|$)", str(caught.value))
    assert found, str(caught.value)
    code, text = found[-1]
    return int(code), text.partition("\nFor more information")[0].strip()


def test_who_may_sends_consumes_fails_and_consumes_again(guarded: Guarded) -> None:
    java, address = guarded.java, guarded.address
    bodies = [b"%d" % i for i in range(5)]
    sent = java.send(address, "orders-eu", [Outgoing(body=body) for body in bodies], user=BILLING)
    java.send(address, "orders-eu", [Outgoing(body=b"batch-%d" % i) for i in range(3)], how="batch", user=BILLING)
    member = java.consume(address, "billing", "orders-eu", failures=1, user=BILLING)
    wanted = {(body, attempt) for body in (*bodies, b"batch-0", b"batch-1", b"batch-2") for attempt in (0, 1)}
    received: set[tuple[bytes, int]] = set()

    def is_all_there() -> bool:
        received.update((each.body, each.reconsumed) for each in member.received(100, timeout_s=0.3))
        return wanted <= received

    wait_until(is_all_there, "each message, and each again")
    member.leave()

    assert {each.status for each in sent} == {"SEND_OK"}
    assert {body for body, _ in received - wanted} <= {b"an order"}, "of another test; nothing that was refused"
    assert java.pull(address, "billing", "orders-eu", user=BILLING) in {"FOUND", "NO_NEW_MSG"}


def test_who_may_not_is_told_so_in_rocketmq_s_words(guarded: Guarded) -> None:
    java, address = guarded.java, guarded.address
    message = [Outgoing(body=b"x")]

    def denied(what: str) -> tuple[int, str]:
        return 16, f"User:billing has no permission to access {what} from 127.0.0.1, no matched policies."

    assert _refusal(lambda: java.send(address, "salaries", message, user=BILLING)) == denied("Topic:salaries")
    assert _refusal(lambda: java.pull(address, "payroll", "orders-eu", user=BILLING)) == denied("Group:payroll")


def test_who_is_unknown_gets_nowhere(guarded: Guarded) -> None:
    """The box's name server asks who is there, too, so that Java's producer finds no route; mqadmin prints the text."""
    java, address, where = guarded.java, guarded.address, ("-b", guarded.broker)
    texts = {
        User("nobody", "x"): "User:nobody is not found.",
        User(BILLING.name, "guessed"): "check signature failed.",
        None: "username cannot be null.",
    }
    for user, text in texts.items():
        admin = guarded.admin(user)
        assert _refusal(partial(admin.run, "getBrokerConfig", *where)) == (16, text)
        with pytest.raises(PeerError, match=r"No route info|CODE: 16"):
            java.send(address, "orders-eu", [Outgoing(body=b"forged")], user=user)


def test_a_push_consumer_that_may_not_is_no_member_and_gets_nothing(guarded: Guarded) -> None:
    java, address = guarded.java, guarded.address
    java.send(address, "salaries", [Outgoing(body=b"a secret")], user=ROOT)
    java.send(address, "orders-eu", [Outgoing(body=b"an order")], user=ROOT)
    spies = [
        java.consume(address, "billing", "salaries", user=BILLING),
        java.consume(address, "payroll", "orders-eu", user=BILLING),
    ]
    rightful = java.consume(address, "payroll", "salaries", user=ROOT)
    (message,) = rightful.received(1)
    members = guarded.admin(ROOT).run("consumerConnection", "-g", "payroll")
    for member in (*spies, rightful):
        member.leave()

    assert message.body == b"a secret"
    assert [spy.received(1, timeout_s=0.1) for spy in spies] == [[], []]
    assert members.count(" JAVA ") == 1


def test_mqadmin_does_what_its_user_may(guarded: Guarded) -> None:
    where = ("-b", guarded.broker)
    assert "orders-eu" in guarded.admin(ROOT).run("topicList")
    assert "broker-a" in guarded.admin(ROOT).run("topicStatus", "-t", "orders-eu")
    billing = guarded.admin(BILLING)
    making = ("updateTopic", *where, "-t", "orders-us", "-r", "1", "-w", "1")
    text = "User:billing has no permission to access Topic:orders-us from 127.0.0.1, no matched policies."

    assert _refusal(lambda: billing.run(*making)) == (16, text)
    assert "success" in guarded.admin(ROOT).run(*making)
