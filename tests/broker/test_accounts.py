"""Users and rules as administrators see them, and how changes are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.broker.users import Users, users_in
from framework.settings.document import parsed
from framework.wire.command import RemotingCommand
from framework.wire.signing import sign
from tests.broker.broker_lab import BrokerLab

FILE = """
users:
  root: {password: secret of root, type: super}
  app:
    password: secret of app
    rules:
      - {resources: ["Topic:orders-*", "Group:billing"], actions: "Pub, Sub"}
      - {resources: "*", actions: All, decision: Deny, sources: [10.0.0.0/8, 192.168.1.1]}
  watcher:
    password: secret of watcher
    rules:
      - {resources: "Cluster:*", actions: Get}
  idle: {password: secret of idle}
"""
ORDERS, BILLING, ALL = (
    {"resource": "Topic:orders-*", "actions": ["Pub", "Sub"], "decision": "Allow", "sourceIps": []},
    {"resource": "Group:billing", "actions": ["Pub", "Sub"], "decision": "Allow", "sourceIps": []},
    {"resource": "*", "actions": ["All"], "decision": "Deny", "sourceIps": ["10.0.0.0/8", "192.168.1.1/32"]},
)
WRITING = (3001, 3002, 3003, 3006, 3007, 3008)


@pytest.fixture
def lab() -> BrokerLab:
    document = parsed(FILE, "box.yaml")
    users = Users(users_in(document.values, document.places, "box.yaml"), "DefaultCluster", "--auth box.yaml")
    return BrokerLab(verify=users.refusal, users=users)


def asked(lab: BrokerLab, code: int, user: str = "root", **fields: str) -> RemotingCommand:
    command = RemotingCommand(code, dict(fields))
    sign(command, user, f"secret of {user}")
    return lab.answer(command)


def shown(lab: BrokerLab, code: int, user: str = "root", **fields: str) -> Any:
    answer = asked(lab, code, user, **fields)
    assert answer.code == 0, answer.remark
    assert b"secret" not in answer.body
    return json.loads(answer.body) if answer.body else None


def test_users_are_shown_without_their_passwords(lab: BrokerLab) -> None:
    root = {"username": "root", "userType": "Super", "userStatus": "enable"}
    app = {"username": "app", "userType": "Normal", "userStatus": "enable"}

    assert shown(lab, 3004, username="root") == root
    assert shown(lab, 3004, username="nobody") is None
    assert [user["username"] for user in shown(lab, 3005)] == ["root", "app", "watcher", "idle"]
    assert shown(lab, 3005, filter="ap") == [app]
    assert shown(lab, 3005, filter="x") is None
    assert asked(lab, 3004).code == 29


def test_rules_are_shown_by_subject_and_by_resource(lab: BrokerLab) -> None:
    def entries(acls: Any) -> dict[str, Any]:
        return {acl["subject"]: [entry for policy in acl["policies"] for entry in policy["entries"]] for acl in acls}

    assert entries([shown(lab, 3009, subject="User:app")]) == {"User:app": [ORDERS, BILLING, ALL]}
    assert shown(lab, 3009, subject="User:idle") is None
    assert (asked(lab, 3009, subject="User:x").code, asked(lab, 3009, subject="app").code) == (16, 16)
    assert list(entries(shown(lab, 3010))) == ["User:app", "User:watcher"]
    assert entries(shown(lab, 3010, subjectFilter="app", resourceFilter="billing")) == {"User:app": [BILLING]}
    assert shown(lab, 3010, resourceFilter="x") is None


def test_to_see_them_takes_get_on_the_cluster(lab: BrokerLab) -> None:
    for code in (3004, 3005, 3009, 3010):
        fields = {"username": "root", "subject": "User:app"}
        assert asked(lab, code, "watcher", **fields).code == 0
        assert asked(lab, code, "app", **fields).code == 16
    for code in WRITING:
        assert asked(lab, code, "watcher", username="x", subject="User:x").code == 16


@pytest.mark.parametrize("code", WRITING)
def test_a_change_is_refused_with_the_file_to_edit(lab: BrokerLab, code: int) -> None:
    answer = asked(lab, code, username="x", subject="User:x")

    assert (answer.code, answer.remark) == (
        29, "users and rules are those of --auth box.yaml: edit it, and start the broker again",
    )  # fmt: skip


@pytest.mark.parametrize("code", range(3001, 3011))
def test_without_a_file_there_are_no_users_and_it_says_so(code: int) -> None:
    answer = BrokerLab().answer(RemotingCommand(code, {"username": "x", "subject": "User:x"}))

    assert answer.code == 1
    assert "without --auth" in str(answer.remark)
