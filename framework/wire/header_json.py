"""Header encoding 0: a command's header as one JSON object.

Owns what may stand in such a header and what a hostile one is answered with. It knows neither frames nor what the
extension fields mean. The standard library's scanner is used as it is: an ordinary header takes a few microseconds,
once a pull, and another parser would be a dependency for less than a tenth of a microsecond a message.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from framework.errors import ProtocolError, shorten
from framework.mistakes import MessageWrong
from framework.wire import fastjson
from framework.wire.codes import Language, request_name
from framework.wire.command import RemotingCommand

_LANGUAGE_NAMES = tuple(language.name for language in Language)
_LANGUAGE_BY_NAME = {language.name: int(language) for language in Language}
_quoted = fastjson.quoted
INT32_MIN, INT32_MAX = fastjson.INT32_MIN, fastjson.INT32_MAX


def encode(command: RemotingCommand) -> bytes:
    """The header's bytes. A text with a lone surrogate has no UTF-8 form: ConfigurationError."""
    number, remark = command.number, command.remark
    text = (
        f'{{"code":{command.code:d},"language":"{language_name(command.language)}","version":{command.version:d},'
        f'"opaque":{number:d},"flag":{command.flag:d},"serializeTypeCurrentRPC":"JSON"'
    )
    if remark is not None:
        text += f',"remark":{_quoted(remark)}'
    if command.fields:
        pairs = [f"{_quoted(name)}:{_quoted(value)}" for name, value in command.fields.items()]
        text += f',"extFields":{{{",".join(pairs)}}}'
    try:
        return f"{text}}}".encode()
    except UnicodeEncodeError as error:
        raise MessageWrong(
            f"{request_name(command.code)}: {shorten(error.object[max(0, error.start - 20) : error.end])} holds a lone "
            "surrogate, which UTF-8 cannot carry; remove it from the names, keys or properties given"
        ) from error


def language_name(code: int) -> str:
    """The enum's name as JSON carries it; a number that nobody has yet is OTHER."""
    return _LANGUAGE_NAMES[code] if 0 <= code < len(_LANGUAGE_NAMES) else "OTHER"


def decode(header: bytes, body: bytes) -> RemotingCommand:
    """The command that header and body make, read as RocketMQ reads it (`wire/fastjson.py`).

    Unknown keys are ignored, of a key given twice the last wins, and what is absent is 0: writers in other languages
    leave out a code, number or flag of 0.
    """
    try:
        text = header.decode()
        values, end = _scan(text, 0)
        if type(values) is not dict:
            raise ProtocolError(f"JSON header is {shorten(values)}, not an object")
        fields, remark = _fields(values.get("extFields")), values.get("remark")
        if remark is not None:
            remark = fastjson.text_of(remark)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"JSON header is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ProtocolError("JSON header is nested too deeply") from error
    except StopIteration as error:
        return _without_value(text, error)
    except ValueError as error:  # also an integer of more digits than Python converts
        raise ProtocolError(f"JSON header is malformed: {shorten(str(error))}") from error
    if end != len(text) and text[end:].strip(" \t\r\n"):
        raise ProtocolError(f"JSON header is followed by {shorten(text[end:])}")
    if "\\ud" in text or "\\uD" in text:
        _refuse_lone_surrogates(fields, remark)
    command = RemotingCommand(0, fields, body, remark=remark, language=_language(values.get("language", "JAVA")))
    command.code, command.number, command.flag, command.version = _numbers(values)
    return command


def _numbers(values: dict[str, Any]) -> list[int]:
    found = [values.get("code"), values.get("opaque"), values.get("flag"), values.get("version")]
    for value in found:
        if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
            return [fastjson.int32_of(name, values.get(name)) for name in ("code", "opaque", "flag", "version")]
    return found  # type: ignore[return-value]  # all of them are


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")  # NaN and Infinity, which Python's writer knows and fastjson refuses


# Not strict: as in fastjson, a text may hold control characters as they are.
_decoder = json.JSONDecoder(strict=False, parse_constant=_refuse_constant, parse_float=fastjson.Real)
_scan: Any = _decoder.scan_once  # type: ignore[attr-defined]  # typeshed leaves it out


def _without_value(text: str, error: StopIteration) -> NoReturn:
    if text.startswith("\ufeff"):
        raise ProtocolError("JSON header begins with a byte order mark") from error
    raise ProtocolError(f"JSON header is malformed at character {error.value}: {shorten(text)}") from error


def _language(value: Any) -> int:
    """Its name, or as some C++ clients write it, its number. It decides nothing: whatever is neither is OTHER."""
    if type(value) is str:
        known = _LANGUAGE_BY_NAME.get(value)
        if known is None:
            known = _LANGUAGE_BY_NAME.get(value.upper())
        if known is not None:
            return known
    if type(value) not in {int, fastjson.Real} and not (type(value) is str and value.lstrip("+").isdecimal()):
        return Language.OTHER
    try:
        number = fastjson.int32_of("language", value)
    except ProtocolError:
        return Language.OTHER
    return number if 0 <= number < len(_LANGUAGE_NAMES) else Language.OTHER


def _fields(value: object) -> dict[str, str]:
    if value is None or (type(value) is str and value in {"", "null"}):
        return {}
    if type(value) is list and len(value) == 1 and type(value[0]) is dict:
        (value,) = value  # fastjson takes a list of one object for the object
    if type(value) is not dict:
        raise ProtocolError(f"JSON header: extFields={shorten(value)} is not an object")
    for text in value.values():
        if type(text) is not str:
            return _as_texts(value)
    return value


def _as_texts(values: dict[str, Any]) -> dict[str, str]:
    # Java's own writer leaves null fields out; a peer that writes them means the same.
    texts = ((name, fastjson.text_of(value)) for name, value in values.items())
    return {name: text for name, text in texts if text is not None}


def _refuse_lone_surrogates(fields: dict[str, str], remark: str | None) -> None:
    """Only escapes of that range can make them, so only headers that may hold one are looked through."""
    try:
        "".join((*fields, *fields.values(), remark or "")).encode()
    except UnicodeEncodeError as error:
        raise ProtocolError("JSON header holds a lone surrogate") from error
