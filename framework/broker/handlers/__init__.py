"""The table of requests that the broker answers: which function of which family of them answers a code.

A function's docstring names where its answer differs from RocketMQ's; where it names nothing, no difference is known.
`python -m tests.house.pages` writes the docs' table from here. A family is imported when the first of its requests
comes, or by `load_rest`: all of them together are a third of the built-in broker's start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from framework.broker.answers import Answer, refuse
from framework.broker.request import Handler, Request
from framework.model.box import BoxAnswer, BoxHandler, BoxRequest
from framework.wire.codes import RequestCode as Code
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand

# What the built-in broker lacks is answered only where a tool that people use needs an answer: its line says which.
TABLE: dict[Code, str] = {
    Code.SEND_MESSAGE: "send.send_message",
    Code.PULL_MESSAGE: "pull.pull_message",
    Code.QUERY_MESSAGE: "messages.query_message",
    Code.QUERY_CONSUMER_OFFSET: "offsets.query_offset",
    Code.UPDATE_CONSUMER_OFFSET: "offsets.update_offset",
    Code.UPDATE_AND_CREATE_TOPIC: "topics.update_topic",
    Code.UPDATE_AND_CREATE_TOPIC_LIST: "topics.update_topics",
    Code.GET_ALL_TOPIC_CONFIG: "topics.all_topic_configs",
    Code.UPDATE_BROKER_CONFIG: "broker.update_broker_config",
    Code.GET_BROKER_CONFIG: "broker.broker_config",
    Code.GET_BROKER_RUNTIME_INFO: "statistics.broker_runtime",
    Code.SEARCH_OFFSET_BY_TIMESTAMP: "offsets.search_offset",
    Code.GET_MAX_OFFSET: "offsets.max_offset",
    Code.GET_MIN_OFFSET: "offsets.min_offset",
    Code.GET_EARLIEST_MSG_STORETIME: "offsets.earliest_store_time",
    Code.VIEW_MESSAGE_BY_ID: "messages.view_message",
    Code.HEART_BEAT: "members.heart_beat",
    Code.UNREGISTER_CLIENT: "members.unregister_client",
    Code.CONSUMER_SEND_MSG_BACK: "send_back.send_message_back",
    Code.END_TRANSACTION: "transactions.end_transaction",
    Code.GET_CONSUMER_LIST_BY_GROUP: "members.consumer_list",
    Code.LOCK_BATCH_MQ: "division.lock_batch",
    Code.UNLOCK_BATCH_MQ: "division.unlock_batch",
    Code.GET_ALL_CONSUMER_OFFSET: "statistics.all_offsets",
    Code.CHECK_CLIENT_CONFIG: "members.check_client_config",
    Code.PUT_KV_CONFIG: "name_server.put_value",
    Code.GET_KV_CONFIG: "name_server.get_value",
    Code.DELETE_KV_CONFIG: "name_server.delete_value",
    Code.GET_ROUTEINFO_BY_TOPIC: "name_server.route_info",
    Code.GET_BROKER_CLUSTER_INFO: "name_server.cluster_info",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "groups.update_group",
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "groups.all_group_configs",
    Code.GET_TOPIC_STATS_INFO: "statistics.topic_stats",
    Code.GET_CONSUMER_CONNECTION_LIST: "members.consumer_connections",
    Code.GET_PRODUCER_CONNECTION_LIST: "members.producer_connections",
    Code.WIPE_WRITE_PERM_OF_BROKER: "name_server.wipe_write_perm",
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: "name_server.all_topics",
    Code.DELETE_SUBSCRIPTIONGROUP: "groups.delete_group",
    Code.GET_CONSUME_STATS: "statistics.consume_stats",
    Code.DELETE_TOPIC_IN_BROKER: "topics.delete_topic",
    Code.DELETE_TOPIC_IN_NAMESRV: "name_server.delete_topic_route",  # the Dashboard and mqadmin deleteTopic
    Code.GET_KVLIST_BY_NAMESPACE: "name_server.values_of_namespace",
    Code.INVOKE_BROKER_TO_RESET_OFFSET: "offsets.reset_offset",
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "members.consumer_status",
    Code.GET_TOPICS_BY_CLUSTER: "name_server.topics_by_cluster",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: "groups.update_groups",
    Code.QUERY_TOPIC_CONSUME_BY_WHO: "statistics.groups_of_topic",
    Code.QUERY_CONSUME_TIME_SPAN: "statistics.consume_time_span",
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: "name_server.system_topics_of_cluster",
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: "topics.system_topics_of_broker",
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: "broker.clean_up",
    Code.GET_CONSUMER_RUNNING_INFO: "members.running_info",
    Code.CONSUME_MESSAGE_DIRECTLY: "members.consume_directly",
    Code.SEND_MESSAGE_V2: "send.send_message_v2",
    Code.CLONE_GROUP_OFFSET: "offsets.clone_offsets",
    Code.VIEW_BROKER_STATS_DATA: "statistics.broker_stats",
    Code.CLEAN_UNUSED_TOPIC: "broker.clean_up",
    Code.GET_BROKER_CONSUME_STATS: "statistics.broker_consume_stats",
    Code.UPDATE_NAMESRV_CONFIG: "broker.update_name_server_config",
    Code.GET_NAMESRV_CONFIG: "broker.name_server_config",
    Code.SEND_BATCH_MESSAGE: "send.send_batch_message",
    Code.QUERY_CONSUME_QUEUE: "messages.query_consume_queue",
    Code.RESUME_CHECK_HALF_MESSAGE: "transactions.resume_half_message",
    Code.SEND_REPLY_MESSAGE: "send.send_reply",
    Code.SEND_REPLY_MESSAGE_V2: "send.send_reply_v2",
    Code.ADD_WRITE_PERM_OF_BROKER: "name_server.add_write_perm",
    Code.GET_ALL_PRODUCER_INFO: "members.all_producers",
    Code.DELETE_EXPIRED_COMMITLOG: "broker.delete_commit_log",
    Code.QUERY_TOPICS_BY_CONSUMER: "groups.topics_of_group",
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: "members.subscription_of_group",
    Code.GET_TOPIC_CONFIG: "topics.get_topic_config",
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: "groups.get_group_config",
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: "groups.group_forbidden",
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: "broker.rocksdb_progress",  # mqadmin checkRocksdbCqWriteProgress
    Code.LITE_PULL_MESSAGE: "pull.lite_pull_message",
    Code.RECALL_MESSAGE: "send.recall_message",
    Code.QUERY_ASSIGNMENT: "division.query_assignment",
    Code.SET_MESSAGE_REQUEST_MODE: "division.set_request_mode",
    Code.GET_BROKER_HA_STATUS: "broker.ha_status",  # mqadmin haStatus
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: "broker.cold_data_config",  # mqadmin updateColdDataFlowCtrGroupConfig
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: "broker.cold_data_config",  # mqadmin removeColdDataFlowCtrGroupConfig
    Code.GET_COLD_DATA_FLOW_CTR_INFO: "broker.cold_data_info",  # mqadmin getColdDataFlowCtrInfo
    Code.SET_COMMITLOG_READ_MODE: "broker.read_ahead",  # mqadmin setCommitLogReadAheadMode
    Code.AUTH_CREATE_USER: "accounts.refuse_change",
    Code.AUTH_UPDATE_USER: "accounts.refuse_change",
    Code.AUTH_DELETE_USER: "accounts.refuse_change",
    Code.AUTH_GET_USER: "accounts.get_user",
    Code.AUTH_LIST_USER: "accounts.list_users",
    Code.AUTH_CREATE_ACL: "accounts.refuse_change",
    Code.AUTH_UPDATE_ACL: "accounts.refuse_change",
    Code.AUTH_DELETE_ACL: "accounts.refuse_change",
    Code.AUTH_GET_ACL: "accounts.get_acl",
    Code.AUTH_LIST_ACL: "accounts.list_acls",
    Code.BOX_QUERY_PROGRESS: "offsets.query_progress",
    Code.BOX_TAKE_PROGRESS: "offsets.take_progress",
    Code.BOX_UPDATE_PROGRESS: "offsets.update_progress",
    Code.POP_MESSAGE: "pop.pop_message",
    Code.ACK_MESSAGE: "pop.ack_message",
    Code.CHANGE_MESSAGE_INVISIBLETIME: "pop.change_invisible_time",
    Code.NOTIFICATION: "pop.notification",
    Code.POLLING_INFO: "pop.polling_info",
    Code.GET_BROKER_LITE_INFO: "broker.lite_info",  # mqadmin getBrokerLiteInfo
    Code.BATCH_ACK_MESSAGE: "pop.batch_ack",
}


class Unloaded:
    """Stands in `HANDLERS` for a function until its family is imported."""

    __slots__ = ("_code", "_own")

    def __init__(self, code: Code) -> None:
        self._code = code
        self._own: Handler | None = None

    def __call__(self, request: Request) -> Answer:
        return (self._own or self.load())(request)

    def load(self) -> Handler:
        """Import it, and have it in `HANDLERS` itself."""
        family, _, name = TABLE[self._code].partition(".")
        own: Handler = getattr(import_module(f"{__name__}.{family}"), name)
        self._own = own
        if HANDLERS.get(self._code) is self:  # and nothing that was put there since
            HANDLERS[self._code] = own
        return own


def load_rest() -> Iterator[None]:
    """Import one at each step, of those whose requests have not come yet; family by family, each a step of its own."""
    for code in sorted(TABLE, key=TABLE.__getitem__):
        handler = HANDLERS[code]
        if isinstance(handler, Unloaded):
            handler.load()
            yield


HANDLERS: dict[int, Handler] = {code: Unloaded(code) for code in TABLE}


def table_with(given: Mapping[int, BoxHandler] | None) -> Mapping[int, Handler]:
    """The broker's own handlers, with plugins' before them: of codes that it does not know, or in its place.

    A plugin's is called on the broker's loop and answers at once. If it fails or returns nothing, the broker answers.
    """
    if not given:
        return HANDLERS
    return {**HANDLERS, **{code: _before(HANDLERS.get(code), each) for code, each in given.items()}}


def _before(own: Handler | None, plugged: BoxHandler) -> Handler:
    def handle(request: Request) -> Answer:
        if own is not None and request.was_held:
            return own(request)  # it was asked when the request came in, and had no answer
        command = request.command
        answer = plugged(
            BoxRequest(command.code, dict(command.fields), command.body, request.client.peer, request.node.name)
        )
        if isinstance(answer, BoxAnswer):
            return RemotingCommand(answer.code, dict(answer.fields), answer.body, remark=answer.remark)
        if own is not None:
            return own(request)
        if answer is not None:
            return refuse(ResponseCode.SYSTEM_ERROR, str(answer))
        return refuse(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    return handle
