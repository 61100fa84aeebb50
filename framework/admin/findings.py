"""Findings: what a check of a cluster says: what is wrong and the way out, or what it could not look at. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar, get_args

from framework.errors import FrameworkError, Refused
from framework.wire.codes import ResponseCode

T = TypeVar("T")

Told: TypeAlias = T | FrameworkError
"""What somebody answered, or why nobody did."""
Severity: TypeAlias = Literal["severe", "warning", "notice"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

_DENIALS = ("AclException", "has no permission", "signature failed", "Authentication", "Authorization", "username ")


@dataclass(frozen=True, slots=True)
class Finding:
    """severe: messages are lost, or stand still until somebody acts. warning: sooner or later so. notice: know it."""

    what: str
    where: str
    remedy: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Unlooked:
    """What could not be looked at: it may be well, or not."""

    what: str
    where: str
    why: str


Said: TypeAlias = Finding | Unlooked


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """One question to the facts."""

    title: str
    ask: Callable[[T], Iterator[Said]]


def is_denied(error: object) -> bool:
    """Whether an access rule says no. Older brokers say it with the code for any mistake."""
    if not isinstance(error, Refused):
        return False
    return error.code == ResponseCode.NO_PERMISSION or any(word in error.remark for word in _DENIALS)


def given(told: Told[T]) -> T:
    """The answer; or it raises why there is none."""
    if isinstance(told, FrameworkError):
        raise told
    return told


def tried(work: Callable[[], T]) -> Told[T]:
    """The answer, or why there is none."""
    try:
        return work()
    except FrameworkError as error:
        return error
