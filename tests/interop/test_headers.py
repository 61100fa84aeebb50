"""JSON headers with drawn values of every kind: ours are read as RocketMQ's own classes read them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from framework.errors import ProtocolError
from framework.wire import header_json
from framework.wire.codes import RequestCode, ResponseCode
from tests import chance
from tests.golden.raw_client import RawClient
from tests.interop import oracle
from tests.interop.cluster import Addresses
from tests.interop.places import Place
from tests.wire.frames import decode_frame

pytestmark = pytest.mark.interop

HEADERS = 1500
NUMBERS = ("code", "opaque", "flag", "version")
KEYS = (*NUMBERS, "language", "remark", "extFields", "suspended of nobody")


def test_headers_of_drawn_values_are_read_as_rocketmq_reads_them() -> None:
    seed = chance.BASE  # FRESH_BASE=N draws others
    headers = [drawn_header(random.Random(seed + i)) for i in range(HEADERS)]

    answers = oracle.ask([{"header": header} for header in headers])
    differing = []
    for i, (header, theirs) in enumerate(zip(headers, answers, strict=True)):
        ours = read(header)
        if ours != as_ours(theirs) and not explained(header, ours):
            differing.append(f"seed {seed + i}: {header}: RocketMQ reads {theirs}, we read {ours}")
    refused = sum(answer == "refused" for answer in answers)

    assert "" == "\n".join(differing)
    assert HEADERS // 20 < refused < HEADERS // 2, "most of what is drawn ought to be readable, and some ought not"


def test_requests_whose_fields_are_no_texts_are_served(cluster: Addresses, box: Place) -> None:
    """As clients in other languages write them: the box used to close their connections."""
    for address in (cluster.brokers["broker-a"], box.name_server):
        with RawClient(address) as client:
            found = client.ask(
                RequestCode.GET_MAX_OFFSET, topic="SELF_TEST_TOPIC", queueId=0, committed=True, bname=None
            )
            odd = client.ask(
                RequestCode.PULL_MESSAGE, topic={"a": [1.5]}, consumerGroup=5, queueId=0, queueOffset=0, maxMsgNums=32,
                sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0, expressionType=None,
            )  # fmt: skip

        assert (ResponseCode.SUCCESS, "0") == (decode_frame(found).code, decode_frame(found).fields["offset"])
        assert ResponseCode.TOPIC_NOT_EXIST == decode_frame(odd).code
        assert '{"a":[1.5]}' in (decode_frame(odd).remark or ""), "a topic's name is its text"


def read(header: str) -> dict[str, Any] | str:
    try:
        command = header_json.decode(header.encode(), b"")
    except ProtocolError:
        return "refused"
    return {
        "code": command.code,
        "language": header_json.language_name(command.language),
        "version": command.version,
        "opaque": command.number,
        "flag": command.flag,
        "remark": command.remark,
        "fields": command.fields,
    }


def as_ours(answer: Any) -> Any:
    """A field of null is absent, and so is a language that RocketMQ does not know."""
    if answer == "refused":
        return answer
    fields = answer["fields"] or {}
    return {
        **answer,
        "language": answer["language"] or "OTHER",
        "fields": {name: text for name, text in fields.items() if text is not None},
    }


def explained(header: str, ours: dict[str, Any] | str) -> bool:
    """What we do otherwise on purpose: a number beyond 32 bits never wraps around, and no language is refused."""
    values = json.loads(header)
    if ours == "refused":
        return any(_is_beyond(values.get(key)) for key in NUMBERS)
    assert isinstance(ours, dict)
    return ours["language"] == "OTHER" and values.get("language") not in (None, "OTHER")


def _is_beyond(value: Any) -> bool:
    (value,) = value if isinstance(value, list) and len(value) == 1 else (value,)
    try:
        return not -(2**31) <= int(float(value)) < 2**31
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False


def drawn_header(chance: random.Random) -> str:
    parts = {"code": "11", "opaque": "5"}
    for key in chance.sample(KEYS, chance.randint(1, 2)):
        parts[key] = drawn_fields(chance) if key == "extFields" and chance.random() < 0.9 else drawn(chance)
    items = list(parts.items())
    chance.shuffle(items)
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in items) + "}"


def drawn_fields(chance: random.Random) -> str:
    return "{" + ",".join(f'"field{i % 3}":{drawn(chance)}' for i in range(chance.randint(0, 4))) + "}"


def drawn(chance: random.Random, depth: int = 0) -> str:
    """The JSON of one value of any kind."""
    kinds = [_integer, _real, _with_exponent, _word, _text]
    if depth < 3 and chance.random() < 0.25:
        within = [drawn(chance, depth + 1) for _ in range(chance.randint(0, 3))]
        if chance.random() < 0.5:
            return "[" + ", ".join(within) + "]"
        return "{" + ", ".join(f'"k{i}": {value}' for i, value in enumerate(within)) + "}"
    return chance.choice(kinds)(chance)


def _integer(chance: random.Random) -> str:
    return str(chance.randint(-1, 1) * chance.randrange(10 ** chance.choice([1, 2, 9, 10, 19, 30])))


def _real(chance: random.Random) -> str:
    digits = "".join(chance.choices("0123456789", k=chance.randint(1, 12)))
    return f"{chance.choice(['', '-'])}{chance.randrange(10 ** chance.randint(1, 12))}.{digits}"


def _with_exponent(chance: random.Random) -> str:
    exponent = chance.randint(0, 11)  # below 0, fastjson loses last digits
    return f"{chance.choice(['', '-'])}{chance.randint(1, 9999)}{chance.choice('eE')}{exponent}"


def _word(chance: random.Random) -> str:
    return chance.choice(["true", "false", "null"])


def _text(chance: random.Random) -> str:
    texts = [
        "",
        "x",
        "null",
        "true",
        "false",
        "JAVA",
        "go",
        "11",
        "-7",
        "3.5",
        "1e3",
        " 1",
        'a"b\\c\n',
        "标签",
        "\x01\x02",
        "/",
    ]
    return json.dumps(chance.choice(texts), ensure_ascii=chance.random() < 0.5)
