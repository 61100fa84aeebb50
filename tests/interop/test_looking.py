"""What only looks changes nothing: not a real cluster, not the box, and least of all a reset that waits to be taken.

A broker tells whoever pulls first as the group that its offset was moved, and forgets it. So behind each command comes
one pull as the group, which must still hear of it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest

from framework import Producer
from framework.admin import resets
from framework.admin.cluster import Admin
from framework.admin.groups import is_system
from framework.admin.moments import moment
from framework.cli import main
from framework.cli.dashboard import watching
from framework.cli.dashboard.site import PAGES
from framework.cli.exit_codes import ExitCode
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.model.reserved import TOOLS_GROUP
from framework.reading import Reader, ReaderSettings
from framework.reading.link import Link
from framework.wire.bodies.running import ProcessQueueInfo
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.admin.members import Member, online
from tests.cli.dashboard.desks import look, visitor
from tests.interop import probe
from tests.interop.places import Place

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("lone_cluster")]

DOCS = Path(__file__).parents[2] / "docs" / "commands.md"
PULL, TOPIC_CONFIGS, OFFSETS, GROUP_CONFIGS, MEMBERS = 11, 21, 43, 201, 203
SUBSCRIPTION = "4"
COUNT = 40
OF_A_TEST = re.compile(r"\d+-\d+")
"""What the fixture `numbers` puts into each name that a test makes."""
COMMANDS = Path(main.__file__).parent / "commands"
LOOKS: dict[str, list[tuple[str, ...]]] = {
    "tail": [
        ("TOPIC", "--from", "earliest"),
        ("TOPIC", "--from", "-3", "--json"),
        ("TOPIC", "--tag", "t", "--from", "-1h"),
    ],
    "topics": [(), ("--all",), ("--json",)],
    "groups": [(), ("--json",), ("GROUP",), ("GROUP", "--json")],
    "lag": [(), ("--json",), ("GROUP",), ("GROUP", "--json"), ("GROUP", "--fail-above", "1")],
    "trace": [("ID",), ("ID", "--json")],
    "doctor": [(), ("GROUP",), ("--json",)],
    "dlq": [
        *(("list", "GROUP", *more) for more in [(), ("--json",), ("--all",)]),
        ("show", "GROUP", "LETTER"),
        *((action, "GROUP", "--dry-run") for action in ("replay", "drop")),
        ("replay", "GROUP", "--to-retry", "--dry-run"),
    ],
    "reset": [("GROUP", "--to", place, "--dry-run") for place in ("earliest", "latest", "-1h")],
}
"""Each command that looks, with what it is asked. Capitals stand for what the scene has."""


def harmless() -> set[int]:
    """Requests that the docs list, with why each changes nothing."""
    table = DOCS.read_text().partition("### What looking does at a broker")[2].partition("\n## ")[0]
    return {int(number) for numbers in re.findall(r"\(([\d, ]+)\)", table) for number in numbers.split(",")}


HARMLESS = harmless()


@contextmanager
def requests() -> Iterator[list[RemotingCommand]]:
    """What is sent meanwhile, by commands and pages alike."""
    sent: list[RemotingCommand] = []

    def noted(link: Link, command: RemotingCommand, *, timeout_ms: int) -> tuple[int, int]:
        sent.append(command)
        return ask(link, command, timeout_ms=timeout_ms)

    ask, patch = Link.ask, pytest.MonkeyPatch()
    patch.setattr(Link, "ask", noted)
    try:
        yield sent
    finally:
        patch.undo()


class Scene:
    """A group that has handled everything, with a member, a dead letter, and a reset that nobody has taken yet."""

    def __init__(self, place: Place, reader: Reader, admin: Admin) -> None:
        self.place, self.admin = place, admin
        (self.broker,) = probe.known_brokers(place.name_server)
        self.topic = place.made_topic(queues=2)
        self.group = f"looked-at-{self.topic}"
        self.sent = asyncio.run(self._send())
        place.shows(self.topic, COUNT)
        self.queues = reader.queues(self.topic)
        self.ends = reader.max_offsets(self.queues)
        for queue, end in self.ends.items():
            reader.commit(self.group, queue, end)
        reader.send_back(self.group, self.queues[0], 0, delay_level=-1)
        place.shows(f"%DLQ%{self.group}", 1)
        letter = self.sent[self.queues[0], 0]
        self.names = {"TOPIC": self.topic, "GROUP": self.group, "ID": letter, "LETTER": letter}

    async def _send(self) -> dict[tuple[MessageQueue, int], str]:
        async with Producer(name_servers=[self.place.name_server]) as producer:
            sent = [await producer.send(self.topic, f"m{number}", tags="t") for number in range(COUNT)]
        return {(each.queue, each.queue_offset): each.message_id for each in sent}

    @property
    def member(self) -> Member:
        """It has the queues and does not pull."""
        held = {queue: ProcessQueueInfo() for queue in self.queues}
        return Member(client_id="member", group=self.group, wants={self.topic: "*"}, queues=lambda: held)

    def changes_nothing(self, looks: Callable[[], object], what: str) -> None:
        """Not while a reset waits, which is there behind it as before."""
        self.reset()
        before = self.state()
        with requests() as sent:
            looks()
        for command in sent:
            assert command.code in HARMLESS, f"{what}: docs/commands.md does not list {command.code}"
            if command.code == RequestCode.LITE_PULL_MESSAGE:
                assert TOOLS_GROUP == command.fields["consumerGroup"], what
        assert before == self.state(), what
        left = [self.take_reset(queue) for queue in self.queues]
        assert all(left), f"{what} took the reset of {self.group}: {left}"
        assert not any(self.take_reset(queue) for queue in self.queues), "a pull as the group takes it"

    def run(self, *words: str) -> None:
        code = main.run([*(self.names.get(word, word) for word in words), "--name-server", self.place.name_server])
        assert code in {ExitCode.CLEAN, ExitCode.FAILED}, words  # 1: the doctor finds something, the lag is too large

    def reset(self) -> None:
        planned = resets.plan(self.admin, self.group, self.topic, moment("earliest", 0))
        assert [] == resets.apply(self.admin, self.group, planned)

    def state(self) -> dict[str, object]:
        """All that a broker keeps of topics, groups, offsets and members, as far as a look could have changed it."""
        offsets = self._table(OFFSETS, "offsetTable")
        members = re.findall(rb'"clientId":"([^"]+)"', probe.ask(self.broker, MEMBERS, consumerGroup=self.group)[1])
        return {
            "topics": sorted(filter(self._may_change, self._table(TOPIC_CONFIGS, "topicConfigTable"))),
            "groups": sorted(filter(self._may_change, self._table(GROUP_CONFIGS, "subscriptionGroupTable"))),
            "offsets": {name: offset for name, offset in offsets.items() if self._may_change(name)},
            "members": members,
        }

    def _may_change(self, name: str) -> bool:
        """Not where it is of another test, which may still be at work here, or of the broker's own groups. What looks
        at everything looks at ours, too.
        """
        group = name.rpartition("@")[2]
        if re.search(rf"{self.topic}(?!\d)", name) or group == TOOLS_GROUP:
            return True
        return not is_system(group) and not OF_A_TEST.search(name)

    def _table(self, code: int, name: str) -> dict[str, object]:
        answer, body = probe.ask(self.broker, code)
        assert 0 == answer, body
        # Numbers that are keys stand without quotes.
        table: dict[str, object] = json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', body))[name]
        return table

    def take_reset(self, queue: MessageQueue) -> bool:
        """Whether one waits there; pulls as the group, as a member would, so that it waits no longer."""
        code, body = probe.ask(
            self.broker, PULL, consumerGroup=self.group, topic=queue.topic, queueId=str(queue.number),
            queueOffset=str(self.ends[queue]), sysFlag=SUBSCRIPTION, maxMsgNums="1",
            commitOffset="0", suspendTimeoutMillis="0", subVersion="0", subscription="*", expressionType="TAG",
        )  # fmt: skip
        assert code in {ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED}, body
        return code == ResponseCode.PULL_OFFSET_MOVED


@pytest.fixture
def reader(place: Place) -> Iterator[Reader]:
    with Reader(ReaderSettings((place.name_server,))) as reader:
        yield reader


@pytest.fixture
def scene(place: Place, reader: Reader) -> Iterator[Scene]:
    with Admin(ClusterOptions(name_servers=(place.name_server,))) as admin:
        scene = Scene(place, reader, admin)
        with online(place.name_server, scene.member):
            yield scene


def test_each_command_that_looks_is_tried() -> None:
    """A new one is either tried here or changes something by its very purpose."""
    looking = {
        path.stem for path in COMMANDS.glob("*.py") if re.search(r"Reads only|--dry-run|add_change", path.read_text())
    }
    assert looking - {"dashboard"} == set(LOOKS)


def test_what_another_test_does_meanwhile_is_not_taken_for_a_look(scene: Scene, reader: Reader) -> None:
    """Its members commit, and its topics are made, when it is over and this one begins. Whatever a look did shows."""
    before = scene.state()
    others = scene.place.made_topic(queues=1)
    (theirs,) = reader.queues(others)
    reader.commit(f"members-of-{others}", theirs, 0)
    assert before == scene.state()

    for group, queue in [(TOOLS_GROUP, theirs), (scene.group, scene.queues[0]), ("looker", scene.queues[0])]:
        reader.commit(group, queue, 0)
        after = scene.state()
        assert before != after, group
        before = after


@pytest.mark.parametrize("command", LOOKS)
def test_a_command_that_looks_changes_nothing_and_takes_no_reset(command: str, scene: Scene) -> None:
    for words in LOOKS[command]:
        scene.changes_nothing(partial(scene.run, command, *words), f"{command} {' '.join(words)}")


def test_no_page_of_the_dashboard_changes_anything(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "GROUPS_MAX", 10_000)  # whatever else is on this cluster
    who = visitor(scene.place.name_server)
    who.open()
    scene.changes_nothing(partial(look, who), "a look")
    wanted = urlencode(
        {"group": scene.group, "topic": scene.topic, "id": scene.names["ID"], "key": "k", "from": "earliest"}
    )
    for page in PAGES:
        scene.changes_nothing(partial(who.ask, "GET", f"{page}?{wanted}"), page)
