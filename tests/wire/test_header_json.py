"""Header encoding 0: what is accepted, and the one clear error for what is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigurationError, ProtocolError
from framework.wire import header_json
from framework.wire.codes import Language
from framework.wire.command import RemotingCommand

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
INT32 = st.integers(-(2**31), 2**31 - 1)
COMMANDS = st.builds(
    RemotingCommand,
    INT32,
    st.dictionaries(TEXT, TEXT, max_size=5),
    st.binary(max_size=20),
    number=INT32,
    flag=INT32,
    remark=st.none() | TEXT,
    language=st.sampled_from(sorted(Language)),
    version=INT32,
)


@given(COMMANDS)
def test_decoding_gives_back_what_was_encoded(command: RemotingCommand) -> None:
    assert command == header_json.decode(header_json.encode(command), command.body)


def test_java_header_is_read() -> None:
    header = (
        b'{"code":14,"extFields":{"queueId":"3","topic":"TopicTest","consumerGroup":"g1"},"flag":0,'
        b'"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}'
    )

    command = header_json.decode(header, b"hi")

    assert {"queueId": "3", "topic": "TopicTest", "consumerGroup": "g1"} == command.fields
    assert (14, 7, 479, Language.PYTHON, b"hi") == (
        command.code,
        command.number,
        command.version,
        command.language,
        command.body,
    )


def test_an_encoded_header_is_plain_json_with_javas_names() -> None:
    command = RemotingCommand(14, {"topic": "标签"}, number=7, flag=2, remark='say "hi"', version=479)

    assert {
        "code": 14, "language": "PYTHON", "version": 479, "opaque": 7, "flag": 2, "serializeTypeCurrentRPC": "JSON",
        "remark": 'say "hi"', "extFields": {"topic": "标签"},
    } == json.loads(header_json.encode(command))  # fmt: skip


def test_absent_parts_take_javas_defaults() -> None:
    assert RemotingCommand(
        5, {}, number=0, flag=0, remark=None, language=Language.JAVA, version=0
    ) == header_json.decode(b'{"code":5}', b"")
    assert 0 == header_json.decode(b'{"flag":1,"opaque":5}', b"").code, "other languages' writers leave out what is 0"


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (b'{"code":1,"code":2,"extFields":{"a":"1","a":"2"}}', {"a": "2"}),
        (b'{"code":2,"extFields":null,"remark":null,"language":null}', {}),
        (b'{"code":2,"extFields":{"a":null,"b":"x"}}', {"b": "x"}),
        (b'{"code":2,"extFields":{"a":"\\u6807\\ud83d\\ude00"}}', {"a": "标😀"}),
        (b'{"code":2,"never heard of":[1,{"a":true}]} \r\n', {}),
        (b'{"code":2,"extFields":{"a":"1\x012\t3\n"}}', {"a": "1\x012\t3\n"}),
        (b'{"code":2,"extFields":"","remark":5}', {}),
        (b'{"code":2,"extFields":[{"a":"x","b":1.50}]}', {"a": "x", "b": "1.50"}),
        (b'{"code":2,"opaque":null,"serializeTypeCurrentRPC":7,"suspended":{}}', {}),
    ],
)
def test_odd_but_honest_headers_are_read(header: bytes, fields: dict[str, str]) -> None:
    command = header_json.decode(header, b"")

    assert (2, fields) == (command.code, command.fields)


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ('"GO"', Language.GO),
        ('"KLINGON"', Language.OTHER),
        ("9", Language.GO),
        ("99", Language.OTHER),
        ("-1", Language.OTHER),
        ('"go"', Language.GO),
        ('"9"', Language.GO),
        ('"9.0"', Language.OTHER),
        ("9.5", Language.GO),
        ("null", Language.OTHER),
        ("true", Language.OTHER),
        ("{}", Language.OTHER),
        ("2147483648", Language.OTHER),
    ],
)
def test_languages_come_as_names_or_numbers(language: str, expected: Language) -> None:
    assert expected == header_json.decode(f'{{"code":1,"language":{language}}}'.encode(), b"").language


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"[]", r"JSON header is \[\], not an object"),
        (b'"x"', "JSON header is 'x', not an object"),
        (b"", "malformed at character 0: ''"),
        (b"{", "malformed"),
        (b"[" * 60_000, "nested too deeply"),
        (b'{"a":' * 12_000, "nested too deeply"),
        (b'{"code":NaN}', "NaN is not JSON"),
        (b'{"code":-Infinity}', "-Infinity is not JSON"),
        (b'{"code":1e999}', "code='1e999' is not an integer"),
        (b'{"code":"eleven"}', "code='eleven' is not an integer"),
        (b'{"code":[]}', r"code=\[\] is not an integer"),
        (b'{"code":1,"extFields":{"a":' + b"[" * 60_000, "nested too deeply"),
        (b'{"code":1,"extFields":{"a":' + b"[" * 600 + b"]" * 600 + b"}}", "nested too deeply"),
        (b'{"code":1,"extFields":{"a":["\\ud800"]}}', "lone surrogate"),
        (b'{"code":1,"extFields":5}', "extFields=5 is not an object"),
        (b'{"code":' + b"9" * 5000 + b"}", "malformed"),
        (b'{"code":9223372036854775808}', "code=9223372036854775808 is outside 32 bits"),
        (b'{"code":1,"opaque":9223372036854775808}', "opaque=9223372036854775808 is outside 32 bits"),
        (b'{"code":1,"version":2147483648}', "version=2147483648 is outside 32 bits"),
        (b'{"code":1,"flag":-2147483649}', "flag=-2147483649 is outside 32 bits"),
        (b'{"code":1,"extFields":[]}', r"extFields=\[\] is not an object"),
        (b'{"code":1,"extFields":[{},{}]}', "is not an object"),
        (b'{"code":1,"extFields":[[{}]]}', "is not an object"),
        (b'{"code":1,"extFields":{"a":"\\ud800"}}', "lone surrogate"),
        (b'{"code":1,"extFields":{"\\udfff":"a"}}', "lone surrogate"),
        (b'{"code":1,"remark":"\\ud800"}', "lone surrogate"),
        (b'{"code":1,"remark":"\xff"}', "not UTF-8 at byte 20"),
        (b'{"code":1,"remark":"\xed\xa0\x80"}', "not UTF-8"),
        (b'\xef\xbb\xbf{"code":1}', "begins with a byte order mark"),
        (b'{"code":1}{"code":2}', "followed by '{\"code\":2}'"),
    ],
)
def test_hostile_headers_get_one_clear_error(header: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason) as caught:
        header_json.decode(header, b"")

    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "command",
    [RemotingCommand(1, {"a": "\ud800"}), RemotingCommand(1, remark="\udfff"), RemotingCommand(1, {"\ud800": ""})],
)
def test_a_lone_surrogate_is_refused_before_it_is_sent(command: RemotingCommand) -> None:
    with pytest.raises(ConfigurationError, match="lone surrogate"):
        header_json.encode(command)


def test_a_language_nobody_has_is_written_as_other() -> None:
    assert b'"language":"OTHER"' in header_json.encode(RemotingCommand(1, language=99))
