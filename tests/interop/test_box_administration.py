"""mqadmin against the broker in the box: what administrators see and change there, asserted on what mqadmin prints.

mqadmin keeps what queryMsgByUniqueKey and sendMessage made for their first call, and closes it: in one JVM, each is
called once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.processes import command
from tests.interop.java_peer import JavaPeer, Member, Outgoing, Sent
from tests.interop.mqadmin import Admin, AdminError
from tests.interop.places import Place
from tests.patience import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("box_administration")]

PAGE = Path(__file__).parents[2] / "docs" / "broker-requests.md"
CLUSTER = "DefaultCluster"
BROKER = "broker-a"
MESSAGES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A topic with messages, and a group with one Java member that has handled them."""

    admin: Admin
    address: str
    topic: str
    group: str
    client_id: str
    member: Member
    sent: list[Sent]

    def run(self, command: str, *words: str) -> str:
        return self.admin.run(command, *words)

    def progress(self) -> str:
        return self.run("consumerProgress", "-g", self.group)


@pytest.fixture(scope="module")
def scene(box: Place, java: JavaPeer) -> Iterator[Scene]:
    admin, topic = Admin(java, box.name_server), box.new_topic()
    group = f"readers-of-{topic}"
    made = admin.run("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4")
    assert f"create topic to {box.name_server} success" in made
    messages = [Outgoing(body=b"m%d" % number, keys=f"k{number} all", tags="red") for number in range(MESSAGES)]
    sent = java.send(box.name_server, topic, messages)
    member = java.consume(box.name_server, group, topic)
    assert len(member.received(MESSAGES)) == MESSAGES
    client_id = _found(r"(\S+@member-\d+)", admin.run("consumerConnection", "-g", group))
    scene = Scene(
        admin=admin, address=box.name_server, topic=topic, group=group, client_id=client_id, member=member, sent=sent
    )
    wait_until(lambda: "Consume Diff Total: 0" in scene.progress(), "the member's commit")
    yield scene
    member.leave()


@pytest.fixture
def new_name(box: Place) -> Callable[[], str]:
    return box.new_topic


def test_each_command_that_mqadmin_knows_stands_in_the_table_with_what_becomes_of_it(java: JavaPeer) -> None:
    printed: str = java.call("admin", words=[])["printed"]
    known = set(re.findall(r"^ {2,}(\w+) {2,}\S", printed, re.MULTILINE))
    section = PAGE.read_text(encoding="utf-8").split("## mqadmin")[1]
    rows = re.findall(r"^\| (\w+(?:, \w+)*) \|", section, re.MULTILINE)
    told = {command for commands in rows for command in commands.split(", ")} - {"command"}

    assert len(known) > 90, printed
    assert known ^ told == set()


def test_the_cluster_and_its_broker(scene: Scene) -> None:
    line = _line(BROKER, scene.run("clusterList"))
    assert line[:4] == [CLUSTER, BROKER, "0", scene.address]
    status = scene.run("brokerStatus", "-b", scene.address)
    assert re.search(r"^brokerActive +: true$", status, re.MULTILINE)
    assert int(_found(r"msgPutTotalTodayNow +: (\d+)", status)) >= MESSAGES
    configuration = scene.run("getBrokerConfig", "-b", scene.address)
    assert {"brokerName", "brokerPermission", "maxMessageSize"} <= set(
        re.findall(r"^(\w+) +=", configuration, re.MULTILINE)
    )
    assert re.search(r"listenPort += +\d+", scene.run("getNamesrvConfig"))
    assert "#SlaveNum" in scene.run("haStatus", "-b", scene.address)


def test_topics_are_listed_with_their_routes_and_ends(scene: Scene) -> None:
    assert scene.topic in scene.run("topicList").split()
    assert [CLUSTER, scene.topic, scene.group] in _rows(scene.run("topicList", "-c"))
    assert scene.run("topicClusterList", "-t", scene.topic).split() == [CLUSTER]
    assert _perm(scene) == 6
    ends = [row[2:4] for row in _rows(scene.run("topicStatus", "-t", scene.topic)) if row[0] == BROKER]
    assert [int(low) for low, _ in ends] == [0] * 4
    assert sum(int(end) for _, end in ends) >= MESSAGES


def test_a_topic_is_made_changed_and_deleted(
    scene: Scene, java: JavaPeer, new_name: Callable[[], str], tmp_path: Path
) -> None:
    one, two, three = new_name(), new_name(), new_name()
    scene.run("updateTopic", "-b", scene.address, "-t", one, "-r", "2", "-w", "2", "-a", "+message.type=FIFO")
    listed = [{"topicName": name, "readQueueNums": 3, "writeQueueNums": 3} for name in (two, three)]
    batch = tmp_path / "topics.json"
    batch.write_text(json.dumps(listed))
    assert "success" in scene.run("updateTopicList", "-b", scene.address, "-f", str(batch))
    assert len([row for row in _rows(scene.run("topicStatus", "-t", three)) if row[0] == BROKER]) == 3
    changed = scene.run("updateTopicPerm", "-t", one, "-p", "4", "-b", scene.address)
    assert "from 6 to 4" in changed
    assert '"perm":4' in scene.run("topicRoute", "-t", one)

    java.send(scene.address, two, [Outgoing(body=b"gone soon")])
    assert "success" in scene.run("deleteTopic", "-c", CLUSTER, "-t", two)
    assert "No topic route info" in _denied(scene, "topicStatus", "-t", two)
    scene.run("updateTopic", "-c", CLUSTER, "-t", two, "-r", "3", "-w", "3")
    assert {row[3] for row in _rows(scene.run("topicStatus", "-t", two)) if row[0] == BROKER} == {"0"}


def test_a_message_is_found_every_way(scene: Scene) -> None:
    message = scene.sent[3]
    by_key = scene.run("queryMsgByKey", "-t", scene.topic, "-k", "k3")
    assert [row[:3] for row in _rows(by_key)[1:]] == [[message.message_id, str(message.queue), str(message.offset)]]
    assert len(_rows(scene.run("queryMsgByKey", "-t", scene.topic, "-k", "all"))) == 1 + MESSAGES
    shown = [
        scene.run("queryMsgByUniqueKey", "-t", scene.topic, "-i", message.message_id),
        scene.run("queryMsgById", "-t", scene.topic, "-i", str(message.offset_message_id)),
        scene.run(
            "queryMsgByOffset", "-t", scene.topic, "-b", BROKER, "-i", str(message.queue), "-o", str(message.offset)
        ),
    ]
    for each in shown:
        assert re.search(r"Keys: +\[k3[ ,]+all\]", each), each
        assert f"consumerGroup={scene.group}, trackType=CONSUMED" in each


def test_a_trace_is_found_by_the_message_s_id(scene: Scene, java: JavaPeer) -> None:
    message = scene.sent[0]
    told = ["Pub", "1795268276923", "DefaultRegion", "makers", scene.topic, message.message_id, "red", "k0",
            scene.address, "2", "5", "0", str(message.offset_message_id), "true", "127.0.0.1"]  # fmt: skip
    trace = Outgoing(body=("\x01".join(told) + "\x02").encode(), keys=message.message_id)
    java.send(scene.address, "RMQ_SYS_TRACE_TOPIC", [trace])

    assert "makers" in scene.run("queryMsgTraceById", "-i", message.message_id, "-t", "RMQ_SYS_TRACE_TOPIC")


def test_a_topic_s_messages_are_printed_and_sent_by_hand(scene: Scene) -> None:
    printed = scene.run("printMsg", "-t", scene.topic, "-d", "true")
    assert all(message.message_id in printed for message in scene.sent)
    by_queue = scene.run("printMsgByQueue", "-t", scene.topic, "-a", BROKER, "-i", "0", "-p", "true", "-d", "true")
    assert [each.message_id in by_queue for each in scene.sent] == [each.queue == 0 for each in scene.sent]
    assert "Consume ok" in scene.run("consumeMessage", "-t", scene.topic, "-c", "3")
    queue = scene.run("queryCq", "-t", scene.topic, "-q", "0", "-i", "0", "-c", "2", "-b", scene.address)
    assert queue.count("physicOffset=") == 2
    assert "SEND_OK" in scene.run("sendMessage", "-t", scene.topic, "-p", "by hand", "-k", "hand")
    assert "SEND_OK" in scene.run("sendMsgStatus", "-b", BROKER, "-s", "10", "-c", "2")
    assert scene.run("checkMsgSendRT", "-t", scene.topic, "-a", "3", "-s", "10").count("true") == 3


def test_groups_are_made_shown_and_deleted(scene: Scene, new_name: Callable[[], str], tmp_path: Path) -> None:
    one, two = new_name(), new_name()
    assert "retryMaxTimes=3" in scene.run("updateSubGroup", "-c", CLUSTER, "-g", one, "-r", "3", "-d", "true")
    batch = tmp_path / "groups.json"
    batch.write_text(json.dumps([{"groupName": two, "retryMaxTimes": 7, "consumeTimeoutMinute": 30}]))
    assert "success" in scene.run("updateSubGroupList", "-b", scene.address, "-f", str(batch))
    shown = scene.run("getConsumerConfig", "-g", two)
    assert re.search(r"retryMaxTimes += +7", shown)
    assert re.search(r"consumeTimeoutMinute += +30", shown)
    for mode in ("POP", "PULL"):
        assert mode in scene.run("setConsumeMode", "-c", CLUSTER, "-t", scene.topic, "-g", one, "-m", mode)
    cloned = scene.run("cloneGroupOffset", "-s", scene.group, "-d", one, "-t", scene.topic)
    assert "success" in cloned
    assert one in [row[1] for row in _rows(scene.run("statsAll", "-t", scene.topic))]
    assert "success" in scene.run("deleteSubGroup", "-c", CLUSTER, "-g", two, "-r", "true")
    assert "groupName" not in scene.run("getConsumerConfig", "-g", two)


def test_who_is_connected(scene: Scene) -> None:
    connected = scene.run("consumerConnection", "-g", scene.group)
    assert _line(scene.client_id, connected)[2] == "JAVA"
    assert {"CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET"} <= set(connected.split())
    wait_until(lambda: "interop-producer" in scene.run("producer", "-b", scene.address), "the producer's heartbeat")
    producers = scene.run("producerConnection", "-g", "interop-producer", "-t", scene.topic)
    assert "JAVA" in producers
    assert "not exist" in _denied(scene, "producerConnection", "-g", "nobody", "-t", scene.topic)


def test_a_member_is_asked_through_the_broker(scene: Scene) -> None:
    status = scene.run("consumerStatus", "-g", scene.group)
    assert "Rebalance OK" in status
    assert "Same subscription in the same group" in status
    stacks = scene.run("consumerStatus", "-g", scene.group, "-i", scene.client_id, "-s")
    assert "#Consumer MQ Detail#" in stacks
    assert "ConsumeMessageThread" in stacks
    directly = scene.run(
        "queryMsgById", "-t", scene.topic, "-i", str(scene.sent[0].offset_message_id), "-g", scene.group, "-d",
        scene.client_id,
    )  # fmt: skip
    assert "consumeResult=CR_SUCCESS" in directly

    def came_again() -> bool:
        return b"m0" in [message.body for message in scene.member.received(1, timeout_s=1)]

    wait_until(came_again, "the message in the member's hands")


def test_a_group_is_reset_and_reads_again(box: Place, java: JavaPeer, scene: Scene) -> None:
    """A held pull is sent back at once; then what the member committed before counts no more."""
    topic = box.new_topic()
    group = f"readers-of-{topic}"
    java.send(box.name_server, topic, [Outgoing(body=b"r%d" % number) for number in range(8)])
    member = java.consume(box.name_server, group, topic)
    assert len(member.received(8)) == 8

    reset = scene.run("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert {row[2] for row in _rows(reset) if row[0] == BROKER} == {"0"}
    assert {b"r%d" % number for number in range(8)} == {message.body for message in member.received(8)}

    member.leave()
    java.send(box.name_server, topic, [Outgoing(body=b"skipped")])
    skipped = scene.run("skipAccumulatedMessage", "-g", group, "-t", topic)
    assert sum(int(row[2]) for row in _rows(skipped) if row[0] == BROKER) == 9
    assert "Consume Diff Total: 0" in scene.run("consumerProgress", "-g", group)


def test_progress_is_reckoned_for_one_and_for_all(scene: Scene) -> None:
    everybody = scene.run("consumerProgress")
    assert _line(scene.group, everybody)[1] == "1"
    assert scene.group in scene.run("brokerConsumeStats", "-b", scene.address)
    divided = json.loads(scene.run("allocateMQ", "-t", scene.topic, "-i", "a,b"))["result"]
    assert [len(queues) for queues in divided.values()] == [2, 2]


def test_a_broker_that_may_only_be_read_takes_no_new_messages(scene: Scene) -> None:
    scene.run("updateBrokerConfig", "-b", scene.address, "-k", "brokerPermission", "-v", "4")
    try:
        assert _perm(scene) == 4
        assert re.search(r"brokerPermission += +4", scene.run("getBrokerConfig", "-b", scene.address))
    finally:
        scene.run("updateBrokerConfig", "-b", scene.address, "-k", "brokerPermission", "-v", "6")
    assert _perm(scene) == 6
    ignored = scene.run("updateBrokerConfig", "-b", scene.address, "-k", "flushDiskType", "-v", "ASYNC_FLUSH")
    assert f"update broker config success, {scene.address}" in ignored
    assert "SYNC_FLUSH" in scene.run("getBrokerConfig", "-b", scene.address)
    refused = _denied(scene, "updateBrokerConfig", "-b", scene.address, "-k", "brokerPermission", "-v", "7")
    assert "CODE: 29" in refused


def test_a_topic_of_mixed_types_is_refused(scene: Scene) -> None:
    words = ("-c", CLUSTER, "-t", f"mixed-{scene.topic}", "-a", "+message.type=MIXED")
    refused = _denied(scene, "updateTopic", *words)

    assert re.search(r"CODE: 29 +DESC: MIXED message type is not supported", refused)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("getColdDataFlowCtrInfo -b {address}", '"runtimeTable"'),
        ("updateColdDataFlowCtrGroupConfig -b {address} -g g -v 10", "success"),
        ("removeColdDataFlowCtrGroupConfig -b {address} -g g", "success"),
        ("setCommitLogReadAheadMode -b {address} -m 0", "success"),
        ("checkRocksdbCqWriteProgress -c DefaultCluster", "broker-a check doing"),
        ("getBrokerLiteInfo -b {address}", "default"),
    ],
)
def test_what_is_about_files_and_lite_topics_is_answered_and_nothing_done(
    scene: Scene, line: str, printed: str
) -> None:
    assert printed in scene.run(*line.format(address=scene.address).split())


def test_write_permission_is_wiped_from_routes_only(scene: Scene) -> None:
    try:
        assert re.search(rf"broker\[{BROKER}\].* OK, \d+", scene.run("wipeWritePerm", "-b", BROKER))
        assert _perm(scene) == 4
    finally:
        assert re.search(rf"broker\[{BROKER}\].* OK, \d+", scene.run("addWritePerm", "-b", BROKER))
    assert _perm(scene) == 6


def test_the_name_server_keeps_values(scene: Scene) -> None:
    assert "success" in scene.run("updateKvConfig", "-s", "ours", "-k", "colour", "-v", "red")
    assert "success" in scene.run("deleteKvConfig", "-s", "ours", "-k", "colour")
    order = f"{BROKER}:4"
    assert "success" in scene.run("updateOrderConf", "-t", scene.topic, "-m", "put", "-v", order)
    assert order in scene.run("updateOrderConf", "-t", scene.topic, "-m", "get")
    assert f'"orderTopicConf":"{order}"' in scene.run("topicRoute", "-t", scene.topic)
    scene.run("updateOrderConf", "-t", scene.topic, "-m", "delete")
    assert "orderTopicConf" not in scene.run("topicRoute", "-t", scene.topic)
    assert "CODE: 29" in _denied(scene, "updateNamesrvConfig", "-k", "serverWorkerThreads", "-v", "8")


def test_there_is_nothing_to_clean_and_everything_is_exported(scene: Scene, tmp_path: Path) -> None:
    for each in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert "success" in scene.run(each, "-b", scene.address)
    folder = str(tmp_path)
    assert "success" in scene.run("exportMetadata", "-c", CLUSTER, "-t", "-f", folder)
    assert "success" in scene.run("exportConfigs", "-c", CLUSTER, "-f", folder)
    assert "success" in scene.run("exportMetrics", "-c", CLUSTER, "-f", folder)
    exported = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert scene.topic in json.dumps(exported["topic.json"])
    assert BROKER in json.dumps(exported["configs.json"])


USERS = """
users:
  root: {password: secret-of-root, type: super}
  billing:
    password: secret-of-billing
    rules:
      - {resources: ["Topic:orders-*", "Group:billing"], actions: "Pub, Sub"}
"""


@pytest.fixture
def guarded(java: JavaPeer, tmp_path: Path) -> Iterator[tuple[str, Admin]]:
    """A box with users, and mqadmin as their administrator: it signs as its `tools.yml` says."""
    users, tools = tmp_path / "users.yaml", java.home / "conf" / "tools.yml"
    users.touch(mode=0o600)
    users.write_text(USERS)
    tools.parent.mkdir(exist_ok=True)
    tools.write_text("accessKey: root\nsecretKey: secret-of-root\n")
    try:
        with command("broker", "--memory", "--auth", "users.yaml", folder=tmp_path) as box:
            address = box.until("broker: ready").split("namesrv=")[1].split()[0]
            yield address, Admin(java, address)
            assert box.end() == 0
    finally:
        tools.unlink()


def test_users_and_rules_are_shown_and_changed_in_their_file_alone(guarded: tuple[str, Admin]) -> None:
    address, admin = guarded
    where = ("-b", address)
    listed = _rows(admin.run("listUser", *where))
    assert [["root", "null", "Super", "enable"], ["billing", "null", "Normal", "enable"]] == listed[1:]
    assert listed[2] == _rows(admin.run("getUser", *where, "-u", "billing"))[1]
    rules = [
        ["User:billing", "Custom", "Topic:orders-*", "[Pub,", "Sub]", "[]", "Allow"],
        ["User:billing", "Custom", "Group:billing", "[Pub,", "Sub]", "[]", "Allow"],
    ]
    assert rules == _rows(admin.run("getAcl", *where, "-s", "User:billing"))[1:]
    assert rules[:1] == _rows(admin.run("listAcl", *where, "-r", "orders"))[1:]
    for line in (
        "createUser {b} -u x -p y -t Normal", "updateUser {b} -u billing -p y", "deleteUser {b} -u billing",
        "createAcl {b} -s User:billing -r Topic:a -a Pub -d Allow", "deleteAcl {b} -s User:billing",
        "updateAcl {b} -s User:billing -r Topic:a -a Pub -d Allow", "copyUser -f {address} -t {address} -u billing",
        "copyAcl -f {address} -t {address} -s User:billing",
    ):  # fmt: skip
        with pytest.raises(AdminError) as refused:
            admin.run(*line.format(b=f"-b {address}", address=address).split())
        assert "CODE: 29" in str(refused.value)
        assert "those of --auth users.yaml: edit it" in str(refused.value)


def test_a_broker_that_everybody_may_use_says_that_it_has_no_users(scene: Scene) -> None:
    for line in ("listUser", "listAcl", "createUser -u x -p y -t Normal"):
        refused = _denied(scene, *line.split(), "-b", scene.address)
        assert "started without --auth" in refused


@pytest.mark.parametrize(
    "line",
    [
        "addBroker -c {address} -b /none",
        "removeBroker -c {address} -b DefaultCluster:broker-a:0",
        "resetMasterFlushOffset -b {address} -o 0",
        "getBrokerEpoch -b broker-a",
        "getSyncStateSet -a {address} -b broker-a",
        "getControllerMetaData -a {address}",
        "getControllerConfig -a {address}",
        "updateControllerConfig -a {address} -k x -v y",
        "cleanBrokerMetadata -a {address} -bn broker-a -c DefaultCluster",
        "updateStaticTopic -t static -qn 2 -b broker-a",
        "switchTimerEngine -b {address} -e F",
        "exportPopRecord -b {address}",
        "rocksDBConfigToJson -c DefaultCluster -t topics",
        "electMaster -a {address} -b 0 -bn broker-a -c DefaultCluster",
    ],
)
def test_what_does_not_exist_here_is_refused_with_its_number(scene: Scene, line: str) -> None:
    """An error that mqadmin prints for a person, and none that it cannot read."""
    refused = _denied(scene, *line.format(address=scene.address).split())

    assert re.search(r"CODE: 3 +DESC: +request type \d+ not supported", refused)


@pytest.mark.parametrize(
    "line",
    [
        "getParentTopicInfo -p {topic}",
        "getLiteTopicInfo -p {topic} -l x",
        "getLiteClientInfo -p {topic} -g g -c c",
        "getLiteGroupInfo -p {topic} -g g",
        "triggerLiteDispatch -p {topic} -g g",
    ],
)
def test_of_lite_topics_mqadmin_says_that_the_broker_has_an_error(scene: Scene, line: str) -> None:
    """It keeps the broker's words for itself."""
    printed = scene.run(*line.format(topic=scene.topic).split())

    assert re.search(rf"\[?{BROKER}\]? +error", printed)


def test_a_topic_of_ours_is_no_static_one_that_could_be_remapped(scene: Scene) -> None:
    refused = _denied(scene, "remappingStaticTopic", "-t", scene.topic, "-b", BROKER)

    assert f"Mapping info should not be null in broker {BROKER}" in refused


def _denied(scene: Scene, command: str, *words: str) -> str:
    """What mqadmin prints when the broker refuses, or when it finds no way to it."""
    with pytest.raises(AdminError) as caught:
        scene.run(command, *words)
    return str(caught.value)


def _perm(scene: Scene) -> int:
    return int(_found(r'"perm":(\d)', scene.run("topicRoute", "-t", scene.topic)))


def _rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.strip()]


def _line(word: str, printed: str) -> list[str]:
    """The first row with the word."""
    return next(row for row in _rows(printed) if word in row)


def _found(pattern: str, printed: str) -> str:
    match = re.search(pattern, printed, re.MULTILINE)
    assert match, f"no {pattern} in:\n{printed}"
    return match[1]
