"""Every header against the catalogue: its code, its fields' names, which must be there, and how wide they are.

The table repeats `requests.md`: `name` is a text, `:i` 32 bits, `:l` 64 bits, `:b` a boolean, `!` must be there.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import fields as fields_of
from dataclasses import is_dataclass

import pytest

from framework.errors import ProtocolError
from framework.wire import requests
from framework.wire.codes import RequestCode
from framework.wire.fields import from_fields, to_fields

SEND = (
    "producerGroup! topic! defaultTopic! defaultTopicQueueNums:i! queueId:i! sysFlag:i! bornTimestamp:l! flag:i! "
    "properties reconsumeTimes:i unitMode:b"
)
CATALOGUE = {
    "RouteRequest": (105, "topic! acceptStandardJsonOnly:b"),
    "TopicListRequest": (206, ""),
    "ClusterInfoRequest": (106, ""),
    "TopicsByClusterRequest": (224, "cluster!"),
    "SystemTopicsRequest": (304, ""),
    "PutKeyRequest": (100, "namespace! key! value!"),
    "GetKeyRequest": (101, "namespace! key!"),
    "GetKeyAnswer": (None, "value"),
    "DeleteKeyRequest": (102, "namespace! key!"),
    "KeysOfNamespaceRequest": (219, "namespace!"),
    "WipeWritePermissionRequest": (205, "brokerName!"),
    "WipeWritePermissionAnswer": (None, "wipeTopicCount:i!"),
    "AddWritePermissionRequest": (327, "brokerName!"),
    "AddWritePermissionAnswer": (None, "addTopicCount:i!"),
    "HeartbeatRequest": (34, ""),
    "HeartbeatAnswer": (None, "IS_SUPPORT_HEART_BEAT_V2:b IS_SUB_CHANGE:b"),
    "UnregisterRequest": (35, "clientID! producerGroup consumerGroup"),
    "CheckClientConfigRequest": (46, ""),
    "MembersRequest": (38, "consumerGroup!"),
    "LockRequest": (41, ""),
    "UnlockRequest": (42, ""),
    "PullRequest": (
        11,
        (
            "consumerGroup! topic! queueId:i! queueOffset:l! maxMsgNums:i! sysFlag:i! commitOffset:l! "
            "suspendTimeoutMillis:l! subVersion:l! subscription expressionType maxMsgBytes:i requestSource:i "
            "proxyFrowardClientId bname"
        ),
    ),
    "PullAnswer": (
        None,
        (
            "suggestWhichBrokerId:l! nextBeginOffset:l! minOffset:l! maxOffset:l! offsetDelta:l topicSysFlag:i "
            "groupSysFlag:i forbiddenType:i"
        ),
    ),
    "QueryOffsetRequest": (14, "consumerGroup! topic! queueId:i! setZeroIfNotFound:b bname"),
    "UpdateOffsetRequest": (15, "consumerGroup! topic! queueId:i! commitOffset:l! bname epoch:l"),
    "MaxOffsetRequest": (30, "topic! queueId:i! committed:b bname"),
    "MinOffsetRequest": (31, "topic! queueId:i! bname"),
    "SearchOffsetRequest": (29, "topic! queueId:i! timestamp:l! boundaryType bname"),
    "OffsetAnswer": (None, "offset:l!"),
    "EarliestStoreTimeRequest": (32, "topic! queueId:i! bname"),
    "EarliestStoreTimeAnswer": (None, "timestamp:l!"),
    "AllConsumerOffsetsRequest": (43, ""),
    "SendRequest": (10, f"{SEND} batch:b maxReconsumeTimes:i bname"),
    "SendRequestV2": (310, "a! b! c! d:i! e:i! f:i! g:l! h:i! i j:i k:b l:i m:b n"),
    "PushReplyRequest": (
        326,
        (
            "producerGroup! topic! defaultTopic! defaultTopicQueueNums:i! queueId:i! sysFlag:i! bornTimestamp:l! "
            "flag:i! bornHost! storeHost! storeTimestamp:l! properties reconsumeTimes:i unitMode:b"
        ),
    ),
    "SendAnswer": (None, "msgId! queueId:i! queueOffset:l! transactionId batchUniqId recallHandle MSG_REGION TRACE_ON"),
    "SendBackRequest": (
        36,
        "offset:l! group! delayLevel:i! originMsgId originTopic unitMode:b maxReconsumeTimes:i bname",
    ),
    "RecallRequest": (370, "topic! recallHandle! producerGroup bname"),
    "RecallAnswer": (None, "msgId!"),
    "EndTransactionRequest": (
        37,
        (
            "producerGroup! tranStateTableOffset:l! commitLogOffset:l! commitOrRollback:i! msgId! topic transactionId "
            "fromTransactionCheck:b bname"
        ),
    ),
    "CheckTransactionRequest": (
        39,
        "tranStateTableOffset:l! commitLogOffset:l! topic msgId transactionId offsetMsgId bname",
    ),
    "ResumeHalfMessageRequest": (323, "topic msgId"),
    "QueryMessageRequest": (12, "topic! key! maxNum:i! beginTimestamp:l! endTimestamp:l! _UNIQUE_KEY_QUERY:b"),
    "QueryMessageAnswer": (None, "indexLastUpdateTimestamp:l! indexLastUpdatePhyoffset:l!"),
    "ViewMessageRequest": (33, "offset:l! topic"),
    "ConsumeQueueRequest": (321, "topic! queueId:i! index:l! count:i! consumerGroup"),
    "ConsumeTimeSpanRequest": (303, "topic! group!"),
    "PopRequest": (
        200050,
        (
            "consumerGroup! topic! queueId:i! maxMsgNums:i! invisibleTime:l! pollTime:l! bornTime:l! initMode:i! "
            "expType exp order:b attemptId bname"
        ),
    ),
    "PopAnswer": (
        None,
        "popTime:l! invisibleTime:l! reviveQid:i! restNum:l! startOffsetInfo msgOffsetInfo orderCountInfo",
    ),
    "AckRequest": (200051, "consumerGroup! topic! queueId:i! extraInfo! offset:l! bname"),
    "BatchAckRequest": (200151, ""),
    "ChangeInvisibleTimeRequest": (
        200053,
        "consumerGroup! topic! queueId:i! extraInfo! offset:l! invisibleTime:l! bname",
    ),
    "ChangeInvisibleTimeAnswer": (None, "popTime:l! invisibleTime:l! reviveQid:i!"),
    "NotificationRequest": (200054, "consumerGroup! topic! queueId:i! pollTime:l! bornTime:l! order:b attemptId"),
    "NotificationAnswer": (None, "hasMsg:b! pollingFull:b"),
    "PollingInfoRequest": (200055, "consumerGroup! topic! queueId:i!"),
    "PollingInfoAnswer": (None, "pollingNum:i!"),
    "UpdateTopicRequest": (
        17,
        (
            "topic! defaultTopic! readQueueNums:i! writeQueueNums:i! perm:i! topicFilterType topicSysFlag:i "
            "order:b attributes force:b"
        ),
    ),
    "DeleteTopicRequest": (215, "topic!"),
    "TopicConfigRequest": (351, "topic!"),
    "AllTopicConfigsRequest": (21, "topicSeq:i dataVersion maxTopicNum:i"),
    "AllTopicConfigsAnswer": (None, "totalTopicNum:i"),
    "TopicStatsRequest": (202, "topic!"),
    "GroupsOfTopicRequest": (300, "topic!"),
    "DeleteGroupRequest": (207, "groupName! cleanOffset:b"),
    "AllGroupConfigsRequest": (201, "groupSeq:i dataVersion maxGroupNum:i"),
    "AllGroupConfigsAnswer": (None, "totalGroupNum:i"),
    "GroupConfigRequest": (352, "group!"),
    "GroupForbiddenRequest": (353, "group! topic! readable:b"),
    "TopicsOfGroupRequest": (343, "group!"),
    "SubscriptionOfGroupRequest": (345, "group! topic"),
    "ConsumerConnectionsRequest": (203, "consumerGroup!"),
    "ProducerConnectionsRequest": (204, "producerGroup!"),
    "ConsumeStatsRequest": (208, "consumerGroup! topic topicList"),
    "BrokerConsumeStatsRequest": (317, "isOrder:b"),
    "ResetOffsetRequest": (222, "topic! group! timestamp:l! isForce:b queueId:i offset:l"),
    "ResetClientOffsetRequest": (220, "topic! group! timestamp:l isForce:b"),
    "ClientStatusRequest": (221, "topic! group! clientAddr"),
    "ConsumerStatusRequest": (223, "topic! group! clientAddr"),
    "RunningInfoRequest": (307, "consumerGroup! clientId! jstackEnable:b"),
    "ConsumeDirectlyRequest": (
        309,
        "consumerGroup! clientId msgId brokerName topic topicSysFlag:i groupSysFlag:i",
    ),
    "CloneOffsetsRequest": (314, "srcGroup! destGroup! topic offline:b"),
    "BrokerRuntimeRequest": (28, ""),
    "ReadAheadRequest": (2004, "READ_AHEAD_MODE!"),
    "BrokerConfigRequest": (26, ""),
    "BrokerConfigAnswer": (None, "version!"),
    "BrokerStatsRequest": (315, "statsName! statsKey!"),
    "QueryProgressRequest": (31001, "consumerGroup! topic! queueId:i! bname"),
    "TakeProgressRequest": (31002, "consumerGroup! topic! queueId:i! bname"),
    "UpdateProgressRequest": (31003, "consumerGroup! topic! queueId:i! epoch:l! bname"),
    "ProgressAnswer": (None, "epoch:l!"),
    "UserRequest": (3004, "username"),
    "UserListRequest": (3005, "filter"),
    "AclRequest": (3009, "subject!"),
    "AclListRequest": (3010, "subjectFilter resourceFilter"),
}
SAMPLES = {"": "text", "i": str(-(2**31)), "l": str(2**63 - 1), "b": "true"}
TOO_WIDE = {"i": str(2**31), "l": str(2**63)}


def all_headers() -> dict[str, type]:
    modules = [
        importlib.import_module(f"{requests.__name__}.{one.name}") for one in pkgutil.iter_modules(requests.__path__)
    ]
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and is_dataclass(kind) and kind.__module__ == module.__name__
        if getattr(kind, "CODE", 0) >= 0  # else what several of them have in common
    }


HEADERS = all_headers()


def parts(name: str) -> list[tuple[str, str, bool]]:
    entries = [entry.partition(":") for entry in CATALOGUE[name][1].split()]
    return [(field.rstrip("!"), kind.rstrip("!"), "!" in field + kind) for field, _, kind in entries]


def test_the_catalogue_names_every_header_and_no_other() -> None:
    assert sorted(CATALOGUE) == sorted(HEADERS)


def test_no_two_headers_are_of_one_request_code() -> None:
    codes = [code for code, _ in CATALOGUE.values() if code is not None]

    assert len(codes) == len(set(codes))
    assert set(codes) <= set(RequestCode)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_header_has_the_code_and_fields_of_the_catalogue(name: str) -> None:
    kind = HEADERS[name]
    everything = {field: SAMPLES[kind] for field, kind, _ in parts(name)}

    assert CATALOGUE[name][0] == getattr(kind, "CODE", None)
    assert everything == to_fields(from_fields(kind, everything))
    assert len(everything) == len(fields_of(kind))


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_header_needs_what_the_catalogue_needs_and_no_more(name: str) -> None:
    needed = {field: SAMPLES[kind] for field, kind, required in parts(name) if required}

    from_fields(HEADERS[name], needed)
    for field in needed:
        with pytest.raises(ProtocolError, match=f"{name}: field {field} is missing"):
            from_fields(HEADERS[name], {other: text for other, text in needed.items() if other != field})


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_numbers_are_as_wide_as_in_the_catalogue(name: str) -> None:
    everything = {field: SAMPLES[kind] for field, kind, _ in parts(name)}

    for field, kind, _ in parts(name):
        if kind in TOO_WIDE:
            with pytest.raises(ProtocolError, match=f"{name}: field {field}=.* is outside"):
                from_fields(HEADERS[name], {**everything, field: TOO_WIDE[kind]})
