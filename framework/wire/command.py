"""Command: one request, answer or one-way, as it stands in a frame."""

from __future__ import annotations

from framework.wire.codes import Language

ANSWER_BIT = 1
ONE_WAY_BIT = 2
# MQVersion ordinal of V5_3_2: new enough for standard route JSON (401) and GO_AWAY (above 475).
OUR_VERSION = 477
OUR_VERSION_NAME = "V5_3_2"
V5_0_0 = 413


class RemotingCommand:
    """A frame's content. `fields` is the extension map: every value a text, as RocketMQ has it.

    A plain slotted class and mutable: one is made a frame, and signing adds fields to it.
    """

    __slots__ = ("body", "code", "fields", "flag", "language", "number", "remark", "version")

    def __init__(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        number: int = 0,
        flag: int = 0,
        remark: str | None = None,
        language: int = Language.PYTHON,
        version: int = OUR_VERSION,
    ) -> None:
        self.code = code
        self.fields = {} if fields is None else fields
        self.body = body
        self.number = number
        """Pairs an answer with its request ("opaque"); each side of a connection counts its own."""
        self.flag = flag
        self.remark = remark
        self.language = language
        self.version = version

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & ANSWER_BIT)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & ONE_WAY_BIT)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemotingCommand):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in RemotingCommand.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable: a command is never a key

    def __repr__(self) -> str:
        kind = "answer" if self.is_answer else "one-way" if self.is_one_way else "request"
        return f"<Command {kind} code={self.code} number={self.number} fields={self.fields} body={len(self.body)}B>"


class Excessive(RemotingCommand):
    """A request that is beyond a limit. Its body was read past, so that it can be answered and the connection go on."""

    __slots__ = ("reason",)

    def __init__(self, command: RemotingCommand, reason: str) -> None:
        super().__init__(
            command.code, command.fields, number=command.number, flag=command.flag, remark=command.remark,
            language=command.language, version=command.version,
        )  # fmt: skip
        self.reason = reason
