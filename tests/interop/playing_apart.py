"""Steps with a group or a topic to themselves: two brokers would else be in different states after them."""

from __future__ import annotations

from typing import Any

from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat
from framework.wire.fields import command_for
from framework.wire.requests import admin, group, offset, query
from framework.wire.requests.pull import COMMIT_OFFSET, SUBSCRIPTION, PullRequest
from tests.interop.blocking import seen
from tests.interop.playing import Player, Seen, with_status
from tests.interop.scenarios import Step


class WholePlayer(Player):
    """A player of every kind of step."""

    def _brief(self, step: Step) -> Seen:
        """A short heartbeat (V2) where no whole one was sent, in a group of its own, and who then is in it."""
        name = self._name("brief", is_group=True)
        beat = Heartbeat(client_id="client-brief", consumers=(ConsumerData(group=name),)).shortened(7)
        client = self._clients["a"].again()
        try:
            answer = client.ask(command_for(group.HeartbeatRequest(), beat.encode()))
            return {**seen(answer), "members": self._told(group.MembersRequest(consumer_group=name))}
        finally:
            client.close()
            self._until(lambda: self._told(group.MembersRequest(consumer_group=name))["code"] != 0)

    def _reset_late(self, step: Step) -> Seen:
        """A pull that takes a reset and commits what it had before, by a group of its own."""
        self._sent += 1
        name = self._name("late", is_group=True)
        self._told(admin.GroupConfigRequest(group=name))
        queue: dict[str, Any] = {"topic": self.topic, "queue_id": 0}
        reset = self._told(admin.ResetOffsetRequest(topic=self.topic, group=name, timestamp=0, is_force=True))
        pull = PullRequest(
            consumer_group=name, **queue, queue_offset=5, max_msg_nums=32, sys_flag=SUBSCRIPTION | COMMIT_OFFSET,
            commit_offset=5, suspend_timeout_millis=0, sub_version=1, subscription="*",
        )  # fmt: skip
        taken = with_status(self._ask(command_for(pull)))
        then = self._told(offset.QueryOffsetRequest(consumer_group=name, **queue))
        self._told(offset.UpdateOffsetRequest(consumer_group=name, **queue, commit_offset=0))
        return {"reset": reset, "taken": taken, "then": then}

    def _sealed(self, step: Step) -> Seen:
        """A send to a topic that is not writable, which nothing else looks at."""
        topic = self._name("sealed")
        self._make(topic, 1, 4)
        return seen(self._ask(self._message({"properties": {}}, b"sealed", topic)))

    def _unwritten(self, step: Step) -> Seen:
        """A queue that somebody has pulled from, and to which nobody ever sent."""
        queue: dict[str, Any] = {"topic": self._name("unwritten"), "queue_id": 0}
        made = seen(self._make(queue["topic"], 1, 6))
        pull = PullRequest(
            consumer_group=self._other, **queue, queue_offset=0, max_msg_nums=32, sys_flag=SUBSCRIPTION,
            commit_offset=0, suspend_timeout_millis=0, sub_version=1, subscription="*",
        )  # fmt: skip
        pulled = with_status(self._ask(command_for(pull)))
        return {
            "made": made,
            "pulled": pulled,
            "places": self._told(query.ConsumeQueueRequest(**queue, index=0, count=3)),
        }
