"""Plays a generated scenario on one broker and writes down what was seen, in words that two brokers can share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from framework.model.queue import MessageQueue
from framework.model.reserved import SCHEDULE_TOPIC
from framework.model.subscription import java_hash
from framework.wire import properties
from framework.wire.bodies.config import GroupConfig
from framework.wire.bodies.group import LockBatch
from framework.wire.bodies.heartbeat import CheckClientConfig, ConsumerData, Heartbeat, ProducerData, SubscriptionData
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import RequestHeader, command_for, to_fields
from framework.wire.requests import admin, group, offset, query
from framework.wire.requests.pull import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND, PullRequest
from framework.wire.requests.send import SendBackRequest, SendRequest, SendRequestV2
from framework.wire.stored import Record, decode_records
from tests.interop.blocking import Blocking, record_seen, seen
from tests.interop.scenarios import ODD, Scenario, Step, is_nonsense
from tests.patience import PATIENCE_S, wait_until
from tests.wire import batches

BROKER = "broker-a"
BORN_MS = 1_600_000_000_000
Seen = dict[str, Any]


def with_status(answer: RemotingCommand) -> Seen:
    """A pull's answer with the status of the store, which stands in the remark where the pull was not refused."""
    view = seen(answer)
    return {**view, "status": answer.remark} if answer.code in {0, 19, 20, 21} else view


class Player:
    """One scenario on one broker."""

    def __init__(self, scenario: Scenario, address: str, suffix: str) -> None:
        self._scenario = scenario
        self.topic, self.later = f"diff-{suffix}", f"diff-later-{suffix}"
        self.group, self._other = f"diff-g-{suffix}", f"diff-other-{suffix}"
        self._suffix = suffix
        self._clients = {name: Blocking(address) for name in "ab"}
        self._ends: dict[int, int] = {}
        """Queue -> how many messages were acknowledged."""
        self._records: list[Record] = []
        """The last that were pulled: for what needs a place in the log."""
        self._sent = 0
        self._delayed = 0
        self._returned = 0

    def play(self) -> list[tuple[str, Any]]:
        """What was seen at each step, and at the end in every queue."""
        try:
            found: list[tuple[str, Any]] = [("create", seen(self._make(self.topic, self._scenario.queues, 6)))]
            self._ends = dict.fromkeys(range(self._scenario.queues + 4), 0)
            self._make(self.later, 1, 6)
            self._told(admin.GroupConfigRequest(group=self._name(ODD, is_group=True)))  # asking makes it
            for number, step in enumerate(self._scenario.steps):
                found.append((f"{number}: {step}", getattr(self, f"_{step.kind}")(step)))
            self._make(self.topic, self._scenario.queues, 6)
            found += [(f"at last: {name}", view) for name, view in self._deliveries()]
            return found
        finally:
            for client in self._clients.values():
                client.close()

    # Sending

    def _make(self, topic: str, queues: int, perm: int, *, order: bool = False) -> RemotingCommand:
        request = admin.UpdateTopicRequest(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=perm, order=order
        )
        return self._ask(command_for(request))

    def _send(self, step: Step) -> Seen:
        how = step.how
        self._sent += 1
        body = f"m{self._sent}-".encode() + b"x" * how["size"]
        answer = self._ask(self._message(how, body, self._name(how["topic"])), step.client)
        if answer.code == 0 and how["topic"] == "own":
            self._stored(how["queue"], 1)
        return seen(answer)

    def _message(self, how: Seen, body: bytes, topic: str) -> RemotingCommand:
        texts = properties.encode({**how["properties"], "UNIQ_KEY": f"{self._suffix}-{self._sent}", "WAIT": "true"})
        kind = SendRequestV2 if how.get("is_short", True) else SendRequest
        header = kind(
            producer_group=f"diff-p-{self._suffix}", topic=topic, default_topic="TBW102", default_topic_queue_nums=1,
            queue_id=how.get("queue", 0), sys_flag=0, born_timestamp=BORN_MS + self._sent, flag=how.get("flag", 0),
            properties=texts, reconsume_times=0, unit_mode=False, batch=False,
        )  # fmt: skip
        return command_for(header, body)

    def _batch(self, step: Step) -> Seen:
        parts = []
        for texts in step.how["parts"]:
            self._sent += 1
            unique = {"UNIQ_KEY": f"{self._suffix}-{self._sent}", "WAIT": "true"}
            parts.append(batches.BatchedMessage(b"b%d" % self._sent, {**texts, **unique}))
        header = SendRequestV2(
            producer_group=f"diff-p-{self._suffix}", topic=self.topic, default_topic="TBW102",
            default_topic_queue_nums=1, queue_id=step.how["queue"], sys_flag=0, born_timestamp=BORN_MS + self._sent,
            flag=0, properties=properties.encode({"WAIT": "true"}), reconsume_times=0, unit_mode=False, batch=True,
        )  # fmt: skip
        answer = self._ask(RemotingCommand(RequestCode.SEND_BATCH_MESSAGE, to_fields(header), batches.encode(parts)))
        if answer.code == 0:
            self._stored(step.how["queue"], len(parts))
        return seen(answer)

    def _send_later(self, step: Step) -> Seen:
        name, value = step.how["wish"]
        self._sent += 1
        how = {"properties": {**step.how["properties"], name: value}}
        answer = self._ask(self._message(how, b"later %d" % self._sent, self.later))
        self._delayed += answer.code == 0
        # Where a delayed message waits is each broker's affair: so are queue and offset there.
        return {"code": answer.code}

    def _stored(self, queue: int, count: int) -> None:
        """A stock broker shows a message some moments after its answer: wait for that."""
        self._ends[queue] += count
        self._until(lambda: self._end_of(self.topic, queue) >= self._ends[queue])

    # Pulling

    def _pull(self, step: Step) -> Seen:
        answer = self._ask(self._pulling(step, 0), step.client)
        if answer.code == 0 and not is_nonsense(step.how):
            self._records = decode_records(answer.body) or self._records
        return with_status(answer)

    def _pulling(self, step: Step, hold_ms: int) -> RemotingCommand:
        how = step.how
        expression = how.get("filter")
        commits = how.get("commits")
        flag = (SUBSCRIPTION if expression else 0) | (COMMIT_OFFSET if commits else 0) | (SUSPEND if hold_ms else 0)
        request = PullRequest(
            consumer_group=self._name(how["group"], is_group=True), topic=self._name(how["topic"]),
            queue_id=how["queue"], queue_offset=self._place(how), max_msg_nums=how.get("count", 32), sys_flag=flag,
            commit_offset=self._place({**how, "at": commits}) if commits else 0, suspend_timeout_millis=hold_ms,
            sub_version=1, subscription=expression[0] if expression else None,
            expression_type=expression[1] if expression else None,
        )  # fmt: skip
        return command_for(request)

    def _hold(self, step: Step) -> Seen:
        """A pull that waits at the end of a queue, and a message that ends its wait."""
        queue = step.how["queue"]
        how = {"queue": queue, "at": "end", "filter": ("*", "TAG"), "group": "own", "topic": "own"}
        self._clients["b"].begin(self._pulling(Step("hold", "b", how), 15_000))
        self._ask(command_for(offset.MaxOffsetRequest(topic=self.topic, queue_id=queue)), "a")
        sent = self._send(Step("send", "a", {"topic": "own", "queue": queue, "size": 9, "flag": 0, "properties": {}}))
        if sent["code"] != 0:
            # Nothing comes, and a stock broker answers at its own leisure.
            self._clients["b"].close()
            self._clients["b"] = self._clients["a"].again()
            return {"sent": sent}
        return {"sent": sent, "held": with_status(self._clients["b"].end())}

    def _deliveries(self) -> list[tuple[str, Any]]:
        """Everything that is there at the end, queue by queue."""
        found: list[tuple[str, Any]] = []
        for queue in range(self._scenario.queues):
            found += [(f"queue {queue}", [record_seen(record) for record in self._all(self.topic, queue)])]
        self._until(lambda: self._end_of(self.later, 0) >= self._delayed)
        retries, dead = f"%RETRY%{self.group}", f"%DLQ%{self.group}"
        self._until(lambda: self._counted(retries) + self._counted(dead) >= self._returned)
        for topic in (self.later, retries, dead):
            records = [record_seen(record) for queue in range(2) for record in self._all(topic, queue)]
            for view in records:
                del view["offset"], view["queue"]  # in the order of their time, which two brokers need not share
                if topic != self.later:
                    view["properties"].pop("REAL_QID", None)  # which retry queue it is, is chance
            found.append((topic.replace(self._suffix, "?"), sorted(records, key=repr)))
        return found

    def _counted(self, topic: str) -> int:
        return sum(self._end_of(topic, queue) for queue in range(2))

    def _all(self, topic: str, queue: int) -> list[Record]:
        records: list[Record] = []
        for _ in range(20):
            request = PullRequest(
                consumer_group=self._other, topic=topic, queue_id=queue, queue_offset=len(records), max_msg_nums=32,
                sys_flag=SUBSCRIPTION, commit_offset=0, suspend_timeout_millis=0, sub_version=1, subscription="*",
            )  # fmt: skip
            answer = self._ask(command_for(request))
            if answer.code != 0:
                break
            records += decode_records(answer.body)
        return records

    # Offsets

    def _commit(self, step: Step) -> Seen:
        return self._of_queue(
            step, offset.UpdateOffsetRequest, consumer_group=self._group_of(step), commit_offset=self._place(step.how)
        )

    def _committed(self, step: Step) -> Seen:
        return self._of_queue(
            step, offset.QueryOffsetRequest, consumer_group=self._group_of(step), set_zero_if_not_found=step.how["zero"]
        )

    def _search(self, step: Step) -> Seen:
        at = {"zero": 0, "negative": -1, "future": int(time.time() * 1000) + 3_600_000}[step.how["time"]]
        return self._of_queue(step, offset.SearchOffsetRequest, timestamp=at, boundary_type=step.how["boundary"])

    def _max(self, step: Step) -> Seen:
        return self._of_queue(step, offset.MaxOffsetRequest)

    def _min(self, step: Step) -> Seen:
        return self._of_queue(step, offset.MinOffsetRequest)

    def _earliest(self, step: Step) -> Seen:
        return self._of_queue(step, offset.EarliestStoreTimeRequest)

    def _places(self, step: Step) -> Seen:
        return self._of_queue(step, query.ConsumeQueueRequest, index=self._place(step.how), count=3)

    def _of_queue(self, step: Step, request: Callable[..., RequestHeader], **fields: Any) -> Seen:
        header = request(topic=self._name(step.how["topic"]), queue_id=step.how["queue"], **fields)
        return seen(self._ask(command_for(header), step.client))

    # Send-backs and single messages

    def _back(self, step: Step) -> Seen:
        how = step.how
        record = self._record(how["index"])
        place = 1 if record is None or how["is_lost"] else record.commit_log_offset
        if place == 1:
            place = 1 << 50  # beyond every log
        request = SendBackRequest(
            offset=place, group=self._name(how["group"], is_group=True), delay_level=how["level"],
            origin_topic=self.topic, origin_msg_id="?", max_reconsume_times=how["reconsumed"],
        )  # fmt: skip
        # Ours makes one copy of a message that is sent back twice with the same attempt: that stands in the table.
        self._records = [one for one in self._records if one is not record]
        answer = self._ask(command_for(request))
        self._returned += answer.code == 0 and how["group"] == "own"
        return seen(answer)

    def _view(self, step: Step) -> Seen:
        record = self._record(step.how["index"])
        place = 1 << 50 if record is None else record.commit_log_offset
        return seen(self._ask(command_for(query.ViewMessageRequest(offset=place, topic=self.topic))))

    def _key(self, step: Step) -> Seen:
        request = query.QueryMessageRequest(
            topic=self.topic, key=step.how["key"], max_num=step.how["max"], begin_timestamp=0,
            end_timestamp=(1 << 62),
        )  # fmt: skip
        view = seen(self._ask(command_for(request)))
        if isinstance(view.get("body"), list):
            view["body"].sort(key=repr)
        return view

    # Members, locks

    def _beat(self, step: Step) -> Heartbeat:
        expression, kind = step.how["filter"]
        expression = expression or "*"  # as every client does
        is_named = kind == "TAG" and expression != "*"
        tags = tuple(tag.strip() for tag in expression.split("||")) if is_named else ()
        subscription = SubscriptionData(
            topic=self.topic, expression=expression, expression_type=kind, version=step.how["version"],
            tags=tags, codes=tuple(java_hash(tag) for tag in tags),
        )  # fmt: skip
        consumer = ConsumerData(group=self.group, subscriptions=(subscription,), message_model=step.how["model"])
        made = (ProducerData(group=f"diff-p-{self._suffix}"),) if step.how["produces"] else ()
        return Heartbeat(client_id=f"client-{step.client}", consumers=(consumer,), producers=made)

    def _heartbeat(self, step: Step) -> Seen:
        return seen(self._ask(command_for(group.HeartbeatRequest(), self._beat(step).encode()), step.client))

    def _check_filter(self, step: Step) -> Seen:
        (subscription,) = self._beat(step).consumers[0].subscriptions
        asked = CheckClientConfig(client_id="client-a", group=self.group, subscription=subscription)
        return seen(self._ask(command_for(group.CheckClientConfigRequest(), asked.encode())))

    def _members(self, step: Step) -> Seen:
        return seen(self._ask(command_for(group.MembersRequest(consumer_group=self._group_of(step)))))

    def _leave(self, step: Step) -> Seen:
        request = group.UnregisterRequest(client_id=f"client-{step.client}", consumer_group=self._group_of(step))
        return seen(self._ask(command_for(request), step.client))

    def _lock(self, step: Step) -> Seen:
        return seen(self._ask(command_for(group.LockRequest(), self._locks(step)), step.client))

    def _unlock(self, step: Step) -> Seen:
        return seen(self._ask(command_for(group.UnlockRequest(), self._locks(step)), step.client))

    def _locks(self, step: Step) -> bytes:
        queues = tuple(MessageQueue(self.topic, BROKER, number) for number in step.how["queues"])
        return LockBatch(group=self.group, client_id=f"client-{step.client}", queues=queues).encode()

    # Administration

    def _reset(self, step: Step) -> Seen:
        how = step.how
        fields: dict[str, Any] = {"timestamp": {"zero": 0, "end": -1}.get(how.get("time", ""), 0)}
        if "queue" in how:
            fields |= {"queue_id": how["queue"], "offset": self._place(how)}
        topic = self._name(how["topic"])
        return self._told(admin.ResetOffsetRequest(topic=topic, group=self.group, is_force=True, **fields))

    def _update_topic(self, step: Step) -> Seen:
        how = step.how
        return seen(self._make(self._name(how["name"]), how["queues"], how["perm"], order=how["order"]))

    def _update_group(self, step: Step) -> Seen:
        how = step.how
        config = GroupConfig(
            name=self._name(how["name"], is_group=True), consume_enable=how["consumes"],
            consume_broadcast_enable=how["broadcasts"], retry_queues=how["retry_queues"], retries_max=how["retries"],
        )  # fmt: skip
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        return seen(self._ask(RemotingCommand(code, body=config.encode())))

    def _topic(self, step: Step) -> Seen:
        return self._told(admin.TopicConfigRequest(topic=self._name(step.how["topic"])))

    def _group(self, step: Step) -> Seen:
        return self._told(admin.GroupConfigRequest(group=self._group_of(step)))

    def _stats(self, step: Step) -> Seen:
        return self._told(admin.TopicStatsRequest(topic=self._name(step.how["topic"])))

    def _progress(self, step: Step) -> Seen:
        return self._told(admin.ConsumeStatsRequest(consumer_group=self._group_of(step), topic=self.topic))

    def _groups_of_topic(self, step: Step) -> Seen:
        return self._told(admin.GroupsOfTopicRequest(topic=self._name(step.how["topic"])))

    def _topics_of_group(self, step: Step) -> Seen:
        return self._told(admin.TopicsOfGroupRequest(group=self._group_of(step)))

    def _subscription(self, step: Step) -> Seen:
        return self._told(admin.SubscriptionOfGroupRequest(group=self._group_of(step), topic=self.topic))

    def _connections(self, step: Step) -> Seen:
        return self._told(admin.ConsumerConnectionsRequest(consumer_group=self._group_of(step)))

    def _producers(self, step: Step) -> Seen:
        return self._told(admin.ProducerConnectionsRequest(producer_group=f"diff-p-{self._suffix}"))

    def _forbid(self, step: Step) -> Seen:
        group_name = self._group_of(step)
        return self._told(admin.GroupForbiddenRequest(group=group_name, topic=self.topic, readable=None))

    def _clone(self, step: Step) -> Seen:
        return self._told(
            admin.CloneOffsetsRequest(src_group=self._group_of(step), dest_group=self._other, topic=self.topic)
        )

    def _time_span(self, step: Step) -> Seen:
        topic = self._name(step.how["topic"])
        time.sleep(0.002)  # how long something has waited is 0 in the millisecond in which it was stored
        return self._told(query.ConsumeTimeSpanRequest(topic=topic, group=self._group_of(step)))

    def _delete_group(self, step: Step) -> Seen:
        return self._told(admin.DeleteGroupRequest(group_name=self._name("strange", is_group=True), clean_offset=True))

    def _delete_topic(self, step: Step) -> Seen:
        return self._told(admin.DeleteTopicRequest(topic=self._name("absent")))

    def _unknown(self, step: Step) -> Seen:
        return seen(self._ask(RemotingCommand(9999), step.client))

    def _told(self, request: RequestHeader) -> Seen:
        return seen(self._ask(command_for(request)))

    # Names and places

    def _name(self, which: str, *, is_group: bool = False) -> str:
        kind = "g-" if is_group else ""
        names = {
            "own": self.group if is_group else self.topic, "other": self._other, "illegal": "not legal!",
            "system": SCHEDULE_TOPIC, "empty": "",
        }  # fmt: skip
        return names.get(which, f"diff-{which}-{kind}{self._suffix}")

    def _group_of(self, step: Step) -> str:
        return self._name(step.how["group"], is_group=True)

    def _place(self, how: Seen) -> int:
        end = self._ends.get(how["queue"], 0)
        return {
            "start": 0, "middle": end // 2, "last": max(end - 1, 0), "end": end, "past": end + 1, "negative": -1,
            "far": end + 10_000,
        }[how["at"]]  # fmt: skip

    def _record(self, index: int) -> Record | None:
        return self._records[index % len(self._records)] if self._records else None

    def _end_of(self, topic: str, queue: int) -> int:
        answer = self._ask(command_for(offset.MaxOffsetRequest(topic=topic, queue_id=queue)))
        return int(answer.fields.get("offset", 0))

    def _ask(self, command: RemotingCommand, client: str = "a") -> RemotingCommand:
        """The answer; a stock broker on a busy machine says that it is busy, and has then done nothing."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self._clients[client].ask(command)).code == ResponseCode.SYSTEM_BUSY:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return answer

    def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait for it; where it never comes, the comparison tells."""
        with suppress(AssertionError):
            wait_until(is_so, pause_s=0.005)
