"""What the wire costs: `python -m benchmarks.decode [--runs 7] [--body 100] [--json FILE]`.

Processor time a message for pulled messages of 100 bytes with five properties, a pull for frames and headers. The
cases take turns within each run, so that a busy machine slows all of them alike; shown are the median and the best.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import compression, frame
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection
from framework.wire.fields import command_for, from_fields
from framework.wire.requests.pull import SUSPEND, PullAnswer, PullRequest, PullTemplate, read_progress
from framework.wire.stored import Record, Records, decode, encode_record

QUEUE = MessageQueue("BenchmarkTopic", "broker-a", 3)
PROPERTIES = {
    "UNIQ_KEY": "0A00000100002A9F" * 2,
    "TAGS": "TagA",
    "CLUSTER": "DefaultCluster",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
}
SMALL, LARGE = 32, 1024
SECONDS_A_SAMPLE = 0.05


@dataclass
class Case:
    """Something to be timed: `work` does it `count` times over; `unit` is what it is counted by."""

    name: str
    unit: str
    count: int
    work: Callable[[], object]


def records(count: int, body: bytes, sys_flag: int = 0) -> bytes:
    record = Record(topic=QUEUE.topic, body=body, properties=PROPERTIES, sys_flag=sys_flag, born_ms=1_700_000_000_000)
    return encode_record(record) * count


def cases(body_bytes: int) -> list[Case]:
    body = bytes(range(256)) * (body_bytes // 256) + bytes(range(body_bytes % 256))
    small, large = records(SMALL, body), records(LARGE, body)
    codec = compression.Compression.ZLIB
    squeezed = records(LARGE, compression.compress(body, codec), codec.sys_flag)
    messages = decode(large, QUEUE)
    source = messages[0]._source  # noqa: SLF001  # the benchmark looks under the lid
    assert isinstance(source, Records)
    places = [message._at for message in messages]  # noqa: SLF001
    squeezed_source = Records(squeezed, QUEUE)
    squeezed_places = [message._at for message in decode(squeezed, QUEUE)]  # noqa: SLF001
    request = pull_request()
    template = PullTemplate(request)
    answer = pull_answer(small)
    received: Connection[int] = Connection()
    data = frame.encode(answer)
    return [
        Case(f"decode, pull of {SMALL}", "message", SMALL, lambda: decode(small, QUEUE)),
        Case(f"decode, pull of {LARGE}", "message", LARGE, lambda: decode(large, QUEUE)),
        Case("decode and read the body", "message", LARGE, lambda: bodies(decode(large, QUEUE))),
        Case("body", "message", LARGE, lambda: each(source.body, places)),
        Case("body, zlib", "message", LARGE, lambda: each(squeezed_source.body, squeezed_places)),
        Case("properties", "message", LARGE, lambda: each(source.properties, places)),
        Case("tag alone", "message", LARGE, lambda: each(source.tag, places)),
        Case("topic", "message", LARGE, lambda: each(source.topic, places)),
        Case("frame and JSON header of an answer", "pull", 1, lambda: receive(received, data)),
        Case("answer's offsets, typed", "pull", 1, lambda: from_fields(PullAnswer, answer.fields)),
        Case("answer's offsets, fast", "pull", 1, lambda: read_progress(answer.fields)),
        Case("request, plain", "pull", 1, lambda: frame.encode(command_for(request))),
        Case("request, template as command", "pull", 1, lambda: frame.encode(template.command(123_456, 123_400))),
        Case("request, template", "pull", 1, lambda: template.frame(7, 123_456, 123_400)),
    ]


def bodies(messages: list[Message]) -> None:
    for message in messages:
        message.body  # noqa: B018


def each(read: Callable[[int], object], places: list[int]) -> None:
    for at in places:
        read(at)


def receive(connection: Connection[int], data: bytes) -> None:
    connection.expect(7, 7)
    connection.receive_data(data)


def pull_request() -> PullRequest:
    return PullRequest(
        consumer_group="benchmark_group", topic=QUEUE.topic, queue_id=3, queue_offset=123_456, max_msg_nums=32,
        sys_flag=SUSPEND | 1, commit_offset=123_400, suspend_timeout_millis=15_000, sub_version=1_700_000_000_000,
        subscription="*", expression_type="TAG", max_msg_bytes=262_144, broker_name="broker-a",
    )  # fmt: skip


def pull_answer(body: bytes) -> RemotingCommand:
    fields = {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "123488", "minOffset": "0", "maxOffset": "12345678",
        "topicSysFlag": "0", "groupSysFlag": "0",
    }  # fmt: skip
    return RemotingCommand(0, fields, body, number=7, flag=1, remark="FOUND")


def sample(case: Case) -> float:
    """Nanoseconds a unit, over about a twentieth of a second."""
    clock = time.process_time
    done = 0
    began = clock()
    while (elapsed := clock() - began) < SECONDS_A_SAMPLE:
        case.work()
        done += case.count
    return elapsed / done * 1e9


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description="What the wire costs a message.")
    parser.add_argument("--runs", type=int, default=7, help="how often each case is measured, in turns (7)")
    parser.add_argument("--body", type=int, default=100, help="bytes of a message's body (100)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    every = cases(options.body)
    figures: dict[str, list[float]] = {case.name: [] for case in every}
    for _ in range(options.runs):
        for case in every:
            figures[case.name].append(sample(case))
    setting = f"body of {options.body} B, {options.runs} runs, Python {sys.version.split()[0]}"
    print(f"{'':36}{'median':>10}{'best':>10}   ns, {setting}")
    for case in every:
        times = figures[case.name]
        print(f"{case.name:36}{statistics.median(times):10.0f}{min(times):10.0f}   a {case.unit}")
    if options.json:
        rows = {name: {"median_ns": statistics.median(times), "best_ns": min(times)} for name, times in figures.items()}
        options.json.write_text(json.dumps({"body": options.body, "runs": options.runs, "cases": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
