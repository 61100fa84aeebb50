"""Header encoding 0: a command's header as one JSON object.

Owns what may stand in such a header and what a hostile one is answered with. It knows neither frames nor what the
extension fields mean. The standard library's scanner is used as it is: an ordinary header takes a few microseconds,
once a pull, and another parser would be a dependency for less than a tenth of a microsecond a message.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from framework.errors import ConfigurationError, ProtocolError, shorten
from framework.wire.codes import Language, request_name
from framework.wire.command import Command

INT32_MIN = -0x8000_0000
INT32_MAX = 0x7FFF_FFFF

_LANGUAGE_NAMES = tuple(language.name for language in Language)
_LANGUAGE_BY_NAME = {language.name: int(language) for language in Language}
# The encoder itself looks for every kind of value and at every level; a header has texts on one.
_quoted = json.encoder.encode_basestring


def encode(command: Command) -> bytes:
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
        raise ConfigurationError(
            f"{request_name(command.code)}: {shorten(error.object[max(0, error.start - 20) : error.end])} holds a lone "
            "surrogate, which UTF-8 cannot carry; remove it from the names, keys or properties given"
        ) from error


def language_name(code: int) -> str:
    """The enum's name as JSON carries it; a number that nobody has yet is OTHER."""
    return _LANGUAGE_NAMES[code] if 0 <= code < len(_LANGUAGE_NAMES) else "OTHER"


def decode(header: bytes, body: bytes) -> Command:
    """The command that header and body make. Unknown keys are ignored; of a key given twice the last wins, as Java."""
    try:
        text = header.decode()
        values, end = _scan(text, 0)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"JSON header is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ProtocolError("JSON header is nested too deeply") from error
    except StopIteration as error:
        return _without_value(text, error)
    except ValueError as error:  # also an integer of more digits than Python converts
        raise ProtocolError(f"JSON header is malformed: {shorten(str(error))}") from error
    if type(values) is not dict:
        raise ProtocolError(f"JSON header is {shorten(values)}, not an object")
    if end != len(text) and text[end:].strip(" \t\r\n"):
        raise ProtocolError(f"JSON header is followed by {shorten(text[end:])}")
    fields = _fields(values.get("extFields"))
    remark = values.get("remark")
    if remark is not None and type(remark) is not str:
        raise ProtocolError(f"JSON header: remark={shorten(remark)} is not a text")
    if "\\ud" in text or "\\uD" in text:
        _refuse_lone_surrogates(fields, remark)
    if "code" not in values:
        raise ProtocolError("JSON header has no code")
    return Command(
        _int32("code", values["code"]),
        fields,
        body,
        number=_int32("opaque", values.get("opaque", 0)),
        flag=_int32("flag", values.get("flag", 0)),
        remark=remark,
        language=_language(values.get("language")),
        version=_int32("version", values.get("version", 0)),
    )


def _refuse_number(text: str) -> NoReturn:
    # Called by the scanner for NaN, Infinity and every number with a point or an exponent: a header has none.
    raise ValueError(f"{shorten(text)} is not an integer")


_scan: Any = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_refuse_number).scan_once  # type: ignore[attr-defined]  # typeshed leaves it out


def _without_value(text: str, error: StopIteration) -> NoReturn:
    if text.startswith("\ufeff"):
        raise ProtocolError("JSON header begins with a byte order mark") from error
    raise ProtocolError(f"JSON header is malformed at character {error.value}: {shorten(text)}") from error


def _int32(name: str, value: object) -> int:
    if type(value) is not int:  # a bool is an int to isinstance, and none here
        raise ProtocolError(f"JSON header: {name}={shorten(value)} is not an integer")
    if not INT32_MIN <= value <= INT32_MAX:
        raise ProtocolError(f"JSON header: {name}={shorten(value)} is outside 32 bits")
    return value


def _language(value: object) -> int:
    if type(value) is str:
        return _LANGUAGE_BY_NAME.get(value, Language.OTHER)
    if value is None:
        return Language.OTHER
    number = _int32("language", value)  # some C++ clients write the number
    return number if 0 <= number < len(_LANGUAGE_NAMES) else Language.OTHER


def _fields(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if type(value) is not dict:
        raise ProtocolError(f"JSON header: extFields={shorten(value)} is not an object")
    for text in value.values():
        if type(text) is not str:
            return _without_nulls(value)
    return value


def _without_nulls(value: dict[str, Any]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, text in value.items():
        if type(text) is str:
            fields[name] = text
        elif text is not None:  # Java leaves null fields out; a peer that writes them means the same
            raise ProtocolError(f"JSON header: field {shorten(name)}={shorten(text)} is not a text")
    return fields


def _refuse_lone_surrogates(fields: dict[str, str], remark: str | None) -> None:
    """Only escapes of that range can make them, so only headers that may hold one are looked through."""
    try:
        "".join((*fields, *fields.values(), remark or "")).encode()
    except UnicodeEncodeError as error:
        raise ProtocolError("JSON header holds a lone surrogate") from error
