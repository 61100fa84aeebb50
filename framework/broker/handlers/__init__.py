"""The table of requests that the broker answers: `ls` in this folder is the coverage report.

A file a request code, the number first, whose docstring names where the answer differs from RocketMQ's.
"""

from __future__ import annotations

from framework.broker.handlers import (
    rc_010_send_message,
    rc_011_pull_message,
    rc_014_query_consumer_offset,
    rc_015_update_consumer_offset,
    rc_017_update_topic,
    rc_029_search_offset,
    rc_030_max_offset,
    rc_031_min_offset,
    rc_032_earliest_store_time,
    rc_033_view_message,
    rc_034_heart_beat,
    rc_035_unregister_client,
    rc_036_send_message_back,
    rc_038_consumer_list,
    rc_041_lock_batch,
    rc_042_unlock_batch,
    rc_046_check_client_config,
    rc_105_route_info,
    rc_106_cluster_info,
    rc_310_send_message_v2,
    rc_320_send_batch,
)
from framework.broker.request import Handler
from framework.wire.codes import RequestCode

HANDLERS: dict[int, Handler] = {
    RequestCode.SEND_MESSAGE: rc_010_send_message.handle,
    RequestCode.PULL_MESSAGE: rc_011_pull_message.handle,
    RequestCode.QUERY_CONSUMER_OFFSET: rc_014_query_consumer_offset.handle,
    RequestCode.UPDATE_CONSUMER_OFFSET: rc_015_update_consumer_offset.handle,
    RequestCode.UPDATE_AND_CREATE_TOPIC: rc_017_update_topic.handle,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: rc_029_search_offset.handle,
    RequestCode.GET_MAX_OFFSET: rc_030_max_offset.handle,
    RequestCode.GET_MIN_OFFSET: rc_031_min_offset.handle,
    RequestCode.GET_EARLIEST_MSG_STORETIME: rc_032_earliest_store_time.handle,
    RequestCode.VIEW_MESSAGE_BY_ID: rc_033_view_message.handle,
    RequestCode.HEART_BEAT: rc_034_heart_beat.handle,
    RequestCode.UNREGISTER_CLIENT: rc_035_unregister_client.handle,
    RequestCode.CONSUMER_SEND_MSG_BACK: rc_036_send_message_back.handle,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: rc_038_consumer_list.handle,
    RequestCode.LOCK_BATCH_MQ: rc_041_lock_batch.handle,
    RequestCode.UNLOCK_BATCH_MQ: rc_042_unlock_batch.handle,
    RequestCode.CHECK_CLIENT_CONFIG: rc_046_check_client_config.handle,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: rc_105_route_info.handle,
    RequestCode.GET_BROKER_CLUSTER_INFO: rc_106_cluster_info.handle,
    RequestCode.SEND_MESSAGE_V2: rc_310_send_message_v2.handle,
    RequestCode.SEND_BATCH_MESSAGE: rc_320_send_batch.handle,
}
