"""SEND_MESSAGE_V2 (310): as 10, with the header's names cut to one letter. What modern clients send.

Differences: those of 10.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.broker.handlers.rc_320_send_batch import send_batch
from framework.broker.request import Answer, Request
from framework.broker.sending import Sent, send, sent_of
from framework.wire.requests.send import SendRequestV2

_INT32_DIGITS, _INT64_DIGITS = 9, 18  # at most, so that no range needs to be looked at
_NUMBERS = 4


def handle(request: Request) -> Answer:
    sent = plain(request.command.fields)
    if sent is not None:
        return send(request, sent)
    header = request.header(SendRequestV2)
    return send_batch(request, sent_of(header)) if header.batch else send(request, sent_of(header))


def plain(fields: Mapping[str, str]) -> Sent | None:
    """The header of one message read by hand, where nothing about it is unusual; None: to be read with all checks.

    Reading it field by field costs three times as much, which each send would pay.
    """
    try:
        queues, number, sys_flag, flag, born = fields["d"], fields["e"], fields["f"], fields["h"], fields["g"]
        small = queues + number + sys_flag + flag
        reconsumed, most = fields.get("j", "0"), fields.get("l")
        digits = f"{small}{born}{reconsumed}{most or ''}"
        if not (
            digits.isascii()
            and digits.isdecimal()
            and len(small) <= _INT32_DIGITS + _NUMBERS - 1
            and len(born) <= _INT64_DIGITS
            and len(reconsumed) <= _INT32_DIGITS
            and (most is None or len(most) <= _INT32_DIGITS)
            and fields.get("m", "false") == "false"
            and fields.get("k", "false") in {"false", "true"}
            and "a" in fields
        ):
            return None
        return Sent(
            topic=fields["b"],
            default_topic=fields["c"],
            default_queues=int(queues),
            number=int(number),
            sys_flag=int(sys_flag),
            born_ms=int(born),
            flag=int(flag),
            properties=fields.get("i") or "",
            reconsumed=int(reconsumed),
            retries_max=None if most is None else int(most),
        )
    except (KeyError, ValueError):
        return None
