"""Access control: what rules decide, what requests want, and what a whole broker then answers."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields
from ipaddress import ip_network

import pytest

import framework.wire.requests
from framework.broker.handlers import HANDLERS
from framework.broker.rules import ACTIONS, ANY, CLUSTER, GET, GROUP, PUB, SUB, TOPIC, UPDATE, Rule, User, Want, refusal
from framework.broker.users import Users, users_in
from framework.broker.wants import _BY_BODY, _BY_FIELDS, wants_of
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue
from framework.settings.document import parsed
from framework.wire.bodies.group import LockBatch
from framework.wire.bodies.heartbeat import CheckClientConfig, ConsumerData, Heartbeat, ProducerData, SubscriptionData
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import camel
from framework.wire.signing import sign
from tests.broker.broker_lab import BrokerLab, pull_command, send_command

NET = (ip_network("10.0.0.0/8"),)
HOST = "127.0.0.1"


def rule(kind: str, name: str, *actions: str, deny: bool = False, **options: object) -> Rule:
    return Rule(kind, name, frozenset(actions or ACTIONS), not deny, **options)  # type: ignore[arg-type]


EXACT, PREFIX = rule(TOPIC, "orders"), rule(TOPIC, "ord*")


@pytest.mark.parametrize(
    ("rules", "host", "is_allowed"),
    [
        ([], HOST, False),
        ([EXACT], HOST, True),
        ([rule(TOPIC, "order")], HOST, False),
        ([rule(TOPIC, "orders2")], HOST, False),
        ([PREFIX], HOST, True),
        ([rule(TOPIC, "*")], HOST, True),
        ([rule(ANY, "*")], HOST, True),
        ([rule(GROUP, "orders")], HOST, False),
        ([rule(CLUSTER, "*")], HOST, False),
        ([rule(TOPIC, "orders", SUB)], HOST, False),
        ([rule(TOPIC, "orders", PUB, SUB)], HOST, True),
        ([rule(TOPIC, "orders", deny=True)], HOST, False),
        # The most specific decides, in whatever order they stand.
        ([EXACT, rule(TOPIC, "ord*", deny=True)], HOST, True),
        ([rule(TOPIC, "ord*", deny=True), EXACT], HOST, True),
        ([PREFIX, rule(TOPIC, "orders", deny=True)], HOST, False),
        ([PREFIX, rule(TOPIC, "o*", deny=True)], HOST, True),
        ([PREFIX, rule(TOPIC, "order*", deny=True)], HOST, False),
        ([PREFIX, rule(TOPIC, "*", deny=True)], HOST, True),
        ([rule(TOPIC, "*"), rule(ANY, "*", deny=True)], HOST, True),
        ([rule(TOPIC, "*", deny=True), rule(ANY, "*")], HOST, False),
        ([EXACT, rule(TOPIC, "orders", deny=True)], HOST, False),
        # One that does not fit is as if it were not there.
        ([PREFIX, rule(TOPIC, "orders", SUB, deny=True)], HOST, True),
        ([PREFIX, rule(TOPIC, "orders", deny=True, sources=NET)], HOST, True),
        ([PREFIX, rule(TOPIC, "orders", deny=True, sources=NET)], "10.1.2.3", False),
        ([rule(TOPIC, "orders", sources=NET)], "10.1.2.3", True),
        ([rule(TOPIC, "orders", sources=NET)], "11.1.2.3", False),
        ([rule(TOPIC, "orders", sources=NET)], "::ffff:10.1.2.3", True),
        ([rule(TOPIC, "orders", sources=NET)], "2001:db8::1", False),
        ([rule(TOPIC, "orders", sources=(ip_network("2001:db8::/32"),))], "2001:db8::1", True),
        ([rule(TOPIC, "orders", sources=NET)], "unknown peer", False),
    ],
)
def test_what_rules_decide(rules: list[Rule], host: str, is_allowed: bool) -> None:
    user = User("us", "secret", rules=tuple(rules))

    assert (refusal(user, [Want(TOPIC, "orders", (PUB,))], host) is None) == is_allowed


def test_any_action_wanted_is_enough_and_all_that_is_wanted_must_be_allowed() -> None:
    user = User("us", "secret", rules=(rule(TOPIC, "orders", SUB), rule(GROUP, "g", deny=True)))

    assert refusal(user, [Want(TOPIC, "orders", (PUB, SUB, GET))], HOST) is None
    assert refusal(user, [Want(TOPIC, "orders", (SUB,)), Want(GROUP, "x", (SUB,))], HOST) == (
        "User:us has no permission to access Group:x from 127.0.0.1, no matched policies."
    )
    assert refusal(user, [Want(GROUP, "g", (SUB,))], HOST) == (
        "User:us has no permission to access Group:g from 127.0.0.1, the decision is deny."
    )
    assert refusal(User("root", "x", is_super=True), [Want(CLUSTER, "c", (UPDATE,))], HOST) is None
    assert "secret" not in repr(user)


def _wants(
    code: int, fields: dict[str, str] | None = None, body: bytes = b""
) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(want.kind, want.name, want.actions) for want in wants_of(RemotingCommand(code, fields, body), "c")]


def test_what_requests_want() -> None:
    orders = SubscriptionData(topic="orders")
    again = SubscriptionData(topic="%RETRY%g")
    joining = [(GROUP, "g", (SUB,)), (TOPIC, "orders", (SUB,))]
    beat = Heartbeat(
        client_id="c",
        producers=(ProducerData(group="p"),),
        consumers=(ConsumerData(group="g", subscriptions=(orders, again)),),
    )
    lock = LockBatch(group="g", client_id="c", queues=(MessageQueue("orders", "broker-a", 0),))

    assert _wants(310, {"b": "orders", "a": "p", "topic": "other"}) == [(TOPIC, "orders", (PUB,))]
    assert _wants(10, {"topic": "%RETRY%g"}) == [(GROUP, "g", (SUB,))]
    assert _wants(11, {"topic": "orders", "consumerGroup": "g"}) == [(TOPIC, "orders", (SUB,)), (GROUP, "g", (SUB,))]
    assert _wants(11, {"topic": "%RETRY%other", "consumerGroup": "g"})[0] == (GROUP, "other", (SUB,))
    assert _wants(34, body=beat.encode()) == [*joining, (GROUP, "g", (SUB,))]
    assert _wants(46, body=CheckClientConfig(client_id="c", group="g", subscription=orders).encode()) == joining
    assert _wants(41, body=lock.encode()) == _wants(42, body=lock.encode()) == joining
    assert _wants(35, {"producerGroup": "p"}) == []
    assert _wants(35, {"consumerGroup": "g"}) == [(GROUP, "g", (SUB,))]
    assert _wants(105, {"topic": "TBW102"}) == []
    assert _wants(105, {"topic": "orders"}) == [(TOPIC, "orders", (PUB, SUB, GET))]
    # What names nothing, and what nobody thought of, is for administrators.
    assert _wants(310) == [(CLUSTER, "c", (PUB,))]
    assert _wants(26) == [(CLUSTER, "c", (GET,))]
    assert _wants(200) == _wants(25) == _wants(99_999) == [(CLUSTER, "c", (UPDATE,))]


def test_what_is_named_after_a_group_is_the_groups() -> None:
    """Retries, dead letters, records of progress, and whatever else comes to be named so: no rule for topics reaches
    them, by no request that names a topic.
    """
    lock = LockBatch(group="g", client_id="c", queues=(MessageQueue("%ACK%other", "broker-a", 0),))
    beat = Heartbeat(
        client_id="c",
        consumers=(ConsumerData(group="g", subscriptions=(SubscriptionData(topic="%DLQ%other"),)),),
    )
    for kind in ("RETRY", "DLQ", "ACK", "anything"):
        for code, (actions, topics, _) in _BY_FIELDS.items():
            for field in topics:
                wanted = (SUB,) if actions == (PUB,) else actions
                assert (GROUP, "other", wanted) == _wants(code, {field: f"%{kind}%other"})[0], code
        assert (GROUP, "other", (SUB,)) in _wants(200_050, {"topic": f"%{kind}%other", "consumerGroup": "g"})
    assert (GROUP, "other", (SUB,)) in _wants(41, body=lock.encode())
    assert (GROUP, "other", (SUB,)) in _wants(34, body=beat.encode())
    assert (GROUP, "ns%billing", (SUB,)) == _wants(310, {"b": "%ACK%ns%billing"})[0], "a group of a namespace"
    assert (TOPIC, "ns%orders", (PUB,)) == _wants(310, {"b": "ns%orders"})[0]


TWO = """
users:
  billing: {password: b, rules: [{resources: ["Topic:orders", "Group:billing"], actions: [Pub, Sub]}]}
  stranger: {password: s, rules: [{resources: ["Topic:*", "Group:mine"], actions: [All]}]}
"""


def test_who_may_do_everything_to_topics_may_nothing_to_another_groups_own() -> None:
    lab = BrokerLab(verify=Users(_read(TWO), "DefaultCluster").refusal)

    def ask(command: RemotingCommand, name: str) -> int:
        sign(command, name, name[0])
        return int(lab.answer(command).code)

    def back(place: str, origin: str, group: str) -> RemotingCommand:
        fields = {"offset": place, "group": group, "originTopic": origin, "delayLevel": "-1"}
        return RemotingCommand(36, fields)

    place = str(lab.records("orders")[0].commit_log_offset) if ask(send_command("orders"), "billing") == 0 else ""
    assert 0 == ask(back(place, "orders", "billing"), "billing"), "a member still sends back"
    (dead,) = lab.records("%DLQ%billing")
    for topic in ("%ACK%billing", "%DLQ%billing", "%RETRY%billing"):
        assert 16 == ask(send_command(topic), "stranger")
        assert 16 == ask(pull_command(0, topic, "mine"), "stranger")
    assert 0 == ask(send_command("%ACK%billing"), "billing"), "what a member has finished"
    assert 0 == ask(pull_command(0, "%ACK%billing", "billing"), "billing")
    assert 0 == ask(pull_command(0, "%DLQ%billing", "billing"), "billing"), (
        "dead letters are read by rights on the group"
    )
    # By its place in the log, under the name of another topic.
    assert 16 == ask(back(str(dead.commit_log_offset), "orders", "mine"), "stranger")
    assert 16 == ask(back(str(dead.commit_log_offset), "%DLQ%billing", "mine"), "stranger")
    assert 0 == ask(back(place, "orders", "mine"), "stranger")


def test_the_fields_that_wants_are_read_from_are_those_of_the_requests() -> None:
    """A name written wrong would look at nothing."""
    known: dict[int, set[str]] = {RequestCode.SEND_BATCH_MESSAGE: {"b"}, RequestCode.LITE_PULL_MESSAGE: set()}
    known |= {RequestCode.SEND_REPLY_MESSAGE: {"topic"}, RequestCode.SEND_REPLY_MESSAGE_V2: {"b"}}
    for module in pkgutil.iter_modules(framework.wire.requests.__path__):
        for kind in vars(importlib.import_module(f"framework.wire.requests.{module.name}")).values():
            if isinstance(kind, type) and hasattr(kind, "CODE"):
                names = {next(iter(one.metadata.values()), camel(one.name)) for one in fields(kind)}
                known.setdefault(kind.CODE, set()).update(names)
    known[RequestCode.LITE_PULL_MESSAGE] |= known[RequestCode.PULL_MESSAGE]

    for code, (_, topics, groups) in _BY_FIELDS.items():
        assert {*topics, *groups} <= known[code], code
    assert set(_BY_FIELDS) | set(_BY_BODY) <= set(HANDLERS)


FILE = """
users:
  root: {password: r, type: super}
  app:
    password: a
    rules:
      - {resources: ["Topic:orders-*", "group:billing"], actions: "Pub, sub"}
      - {resources: Topic:orders-secret, actions: [All], decision: deny}
      - {resources: "*", actions: get, sources: [10.0.0.0/8, 192.168.1.1]}
"""


def _read(text: str) -> tuple[User, ...]:
    document = parsed(text, "users.yaml")
    return users_in(document.values, document.places, "users.yaml")


def test_users_are_read_from_a_file() -> None:
    root, app = _read(FILE)
    both = frozenset((PUB, SUB))

    assert root == User("root", "r", is_super=True)
    assert app.rules == (
        Rule(TOPIC, "orders-*", both),
        Rule(GROUP, "billing", both),
        Rule(TOPIC, "orders-secret", frozenset(ACTIONS), is_allowed=False),
        Rule(ANY, "*", frozenset((GET,)), sources=(ip_network("10.0.0.0/8"), ip_network("192.168.1.1"))),
    )


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("users: {}", "nobody could do anything", ":1"),
        ("users: []", "keys and values", ":1"),
        ("users: {a: {password: b}}\naccess_key: x", "take access_key out", ":1"),
        ("users:\n  a: {}", "user 'a' needs a password", ":2"),
        ("users:\n  a:\n    pasword: x", "unknown key 'pasword'; known here: password, type, rules", ":3"),
        ("users:\n  a: {password: x, type: sper}", "one of Super, Normal; did you mean 'Super'?", ":2"),
        ("users:\n  a: {password: x, type: super, rules: [{resources: '*', actions: all}]}", "no rule binds", ":2"),
        ("users:\n  a: {password: x, rules: all}", "a list of rules", ":2"),
        ("users:\n  a:\n    password: x\n    rules:\n    - {resources: '*'}", "a rule needs actions", ":5"),
        ("users:\n  a: {password: x, rules: [{resources: '*', actions: read}]}", "one of All, Pub", ":2"),
        ("users:\n  a: {password: x, rules: [{resources: '*', actions: all, decision: no}]}", "one of Allow", ":2"),
        ("users:\n  a: {password: x, rules: [{resources: orders, actions: all}]}", "such as 'Topic:orders'", ":2"),
        ("users:\n  a: {password: x, rules: [{resources: 'Topic:a*b', actions: all}]}", "such as", ":2"),
        ("users:\n  a: {password: x, rules: [{resources: 'Tpic:a', actions: all}]}", "did you mean 'Topic'?", ":2"),
        ("users:\n  a: {password: x, rules: [{resources: '*', actions: all, sources: a}]}", "is no address", ":2"),
    ],
)
def test_a_file_that_will_not_do_is_refused_with_its_place(text: str, reason: str, place: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _read(text)

    assert reason in str(caught.value)
    assert f"users.yaml{place}" in str(caught.value)


def test_a_broker_serves_each_user_as_far_as_his_rules_go() -> None:
    users = Users(_read(FILE), "DefaultCluster")
    lab = BrokerLab(verify=users.refusal)

    def ask(command: RemotingCommand, name: str, password: str) -> tuple[int, str | None]:
        sign(command, name, password)
        answer = lab.answer(command)
        return int(answer.code), answer.remark

    def refused(resource: str, reason: str = "no matched policies.") -> tuple[int, str]:
        return 16, f"User:app has no permission to access {resource} from 127.0.0.1, {reason}"

    assert lab.answer(send_command("orders-1")).remark == "username cannot be null."
    assert ask(send_command("orders-1"), "nobody", "a") == (16, "User:nobody is not found.")
    assert ask(send_command("orders-1"), "app", "r") == (16, "check signature failed.")
    assert ask(send_command("orders-1"), "app", "a") == (0, None)
    assert ask(send_command("other"), "app", "a") == refused("Topic:other")
    assert ask(send_command("orders-secret"), "app", "a") == refused("Topic:orders-secret", "the decision is deny.")
    assert ask(pull_command(0, "orders-1", "billing"), "app", "a")[0] == 0
    assert ask(pull_command(0, "orders-1", "other"), "app", "a") == refused("Group:other")
    assert ask(RemotingCommand(26), "app", "a") == refused("Cluster:DefaultCluster")
    assert ask(RemotingCommand(34, None, b"no heartbeat"), "app", "a") == (16, "parse authorization context error.")
    for command in (send_command("other"), pull_command(0, "orders-1", "other"), RemotingCommand(26)):
        assert ask(command, "root", "r")[0] == 0
    assert [record.topic for record in lab.records("other")] == ["other"]
