"""Every error the framework raises, split by whose fault it was.

    FrameworkError
    +-- ConfigurationError        the user's: settings, handlers, plugins, command line
    |   +-- ConfigurationMistakes several of them, found in one go
    |   +-- Forked                an application or producer used in a child process of its own
    |   +-- Sql92Error            a filter expression that RocketMQ would not understand, or not as it was meant
    +-- StrategyFault             a plugin's: an allocation that names strangers or names twice; the round is void
    +-- ProtocolError             the peer's: bytes that are not RocketMQ remoting, or lie about their own lengths
    |   +-- RecordDamaged         one stored message whose bytes contradict themselves
    +-- Refused                   the peer understood and said no: a response code and its remark
    +-- BrokerUnreachable         the world's: nobody answers
    |   +-- NotConnected          no connection can be made, which its maker has logged
    |   +-- ConnectionLost        a connection ended while something was waiting on it
    |   +-- RequestTimedOut       an answer did not come in time; the work may have been done
    +-- PartlySent                a large batch's: of its requests some were stored, and one failed
    +-- BodyUndecodable           the producer's: a body that cannot be opened (a dead letter)
    +-- BodyUnavailable           ours: codec, key or memory is missing (hold the queue, never a dead letter)
    +-- StoreError                the disk's: a data folder that is taken, damaged or full

Programmers' errors are assertions and are not here. A message names the thing, the value and the way out, on one line.
Each class has the `id` of the page that explains it; `mistakes.py` has the kinds of ConfigurationError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class FrameworkError(Exception):
    """The base of every error that the framework raises on purpose."""

    id: ClassVar[str] = "FA-X002"
    """Which page explains it: `framework-app explain ID`."""


class ConfigurationError(FrameworkError):
    """A setting, handler, plugin or argument that cannot work; `place` is its file and line where known."""

    def __init__(self, message: str, *, place: str | None = None) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class ConfigurationMistakes(ConfigurationError):
    """Everything that was found wrong in one go, so that a user mends it in one go."""

    def __init__(self, mistakes: Iterable[ConfigurationError]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


def retold(error: ConfigurationError, message: str, *, place: str | None = None) -> ConfigurationError:
    """The same mistake in other words, or with its place: the page that explains it stays the same."""
    told = ConfigurationError(message, place=place)
    told.id = error.id  # type: ignore[misc]  # a kind is a class; this one stands for another
    return told


class Findings:
    """What is wrong, gathered while one goes on looking; what two looks find is said once."""

    def __init__(self) -> None:
        self._found: dict[str, ConfigurationError] = {}

    def __len__(self) -> int:
        return len(self._found)

    @property
    def mistakes(self) -> list[ConfigurationError]:
        """In the order in which they were found."""
        return list(self._found.values())

    def note(self, *mistakes: ConfigurationError) -> None:
        for mistake in mistakes:
            several = mistake.mistakes if isinstance(mistake, ConfigurationMistakes) else (mistake,)
            for each in several:
                self._found.setdefault(str(each), each)

    def tried(self, work: Callable[[], T]) -> T | None:
        """What the work answers; None, and its mistakes noted, where it raises them."""
        try:
            return work()
        except ConfigurationError as mistake:
            self.note(mistake)
        return None

    def check(self) -> None:
        """Raise what was found: the one mistake as it is, several as ConfigurationMistakes."""
        if len(self._found) > 1:
            raise ConfigurationMistakes(self.mistakes)
        for only in self._found.values():
            raise only


class Forked(ConfigurationError):
    """A child process used an App or a Producer that its parent had started."""

    id = "FA-A002"


class Sql92Error(ConfigurationError):
    """A filter expression that cannot work; `at` is how many characters stand before the mistake."""

    id = "FA-H012"

    def __init__(self, reason: str, at: int, remedy: str | None = None) -> None:
        super().__init__(f"SQL92 filter, character {at + 1}: {reason}{f'; {remedy}' if remedy else ''}")
        self.at = at


class StrategyFault(FrameworkError):
    """An allocation strategy answered something that it must not. The queues stay as they are."""

    id = "FA-P006"


class ProtocolError(FrameworkError):
    """A peer sent bytes that no RocketMQ peer sends. Its connection is closed; others are not touched."""

    id = "FA-C006"

    def __init__(self, reason: str, *, peer: str | None = None) -> None:
        super().__init__(f"{peer}: {reason}" if peer else reason)
        self.reason = reason
        self.peer = peer


class RecordDamaged(ProtocolError):
    """A stored message whose lengths, magic number or checksum contradict each other."""

    id = "FA-C007"


_OF_THE_USER = re.compile(r"username cannot be null|User:\S+ is (not found|disabled)|check signature failed")
"""As RocketMQ says that a request is not signed, or by a user or with a key that it does not know."""


_OF_NAME_SERVERS = re.compile(r"\((105|106|206)\)")
"""Requests for routes, brokers and topics, which nobody else takes (3: the request is not supported)."""


_MISSING = re.compile(r"topic\[([\w%|-]+)\] not exist", re.ASCII)
"""As brokers say that they have no such topic, and make none by themselves."""


class Refused(FrameworkError):
    """A broker or name server answered with an error code: `code`, and its text, `remark`."""

    id = "FA-C005"

    def __init__(self, code: int, remark: str, *, request: str, peer: str) -> None:
        self.is_of_the_user = _OF_THE_USER.search(remark) is not None
        """Whether the broker does not know the user, or its key is wrong; else it refuses the request."""
        told, remedy = remark.strip().removesuffix("."), ""
        if self.is_of_the_user:
            remedy = "; check cluster.credentials"
        elif code == 3 and _OF_NAME_SERVERS.search(request):
            remedy = "; name servers know it: is this the address of a broker or a proxy?"
        elif code == 17 and (missing := _MISSING.match(remark)):
            # What follows is "apply first please!", and a link.
            told, remedy = missing[0], f"; create it: mqadmin updateTopic -n NAME_SERVER -c CLUSTER -t {missing[1]}"
        said = told + remedy if remedy else remark or "no remark"
        super().__init__(f"{request} refused by {peer}: code {code}, {said}")
        self.code = code
        self.remark = remark


class BrokerUnreachable(FrameworkError):
    """No broker or name server answers at an address."""

    id = "FA-C001"


class NotConnected(BrokerUnreachable):
    """No connection can be made. Who makes connections has said so, once an address."""

    id = "FA-C002"


def no_name_server(why: Iterable[object]) -> NotConnected:
    """What is raised where each name server failed, and why each did."""
    reasons = "; ".join(map(str, why))
    return NotConnected(f"no name server answers: {reasons}; check cluster.name_servers (--name-server)")


class ConnectionLost(BrokerUnreachable):
    """A connection ended while something was waiting on it. That is logged once an address, too."""

    id = "FA-C003"


class RequestTimedOut(BrokerUnreachable):
    """An answer did not come in time. The work may have been done all the same: a message may be stored."""

    id = "FA-C004"
    is_said = False  # whether it means that nobody is there, and whoever makes connections has said so


class PartlySent(FrameworkError):
    """Of a batch that needs several requests one failed; `stored` says where the messages before it are."""

    id = "FA-M004"

    def __init__(self, message: str, stored: Sequence[Any]) -> None:
        super().__init__(message)
        self.stored = tuple(stored)


class BodyUndecodable(FrameworkError):
    """A message body that cannot be opened: truncated, not what its flags say, or opening past every limit."""

    id = "FA-M002"


class BodyUnavailable(FrameworkError):
    """A message body that cannot be opened here: a codec, a key or memory is missing. The message is kept."""

    id = "FA-M003"


class StoreError(FrameworkError):
    """A broker's data folder that is taken, damaged, full, or not ours."""

    id = "FA-B001"


class Unproven(StoreError):
    """A record that nobody but a member can have written, and that does not prove to be one's."""


class Superseded(StoreError):
    """A record that counts no more: another member has taken the queue since its epoch was given."""


AWAY = "not connected"
"""In place of a reason that was said where it arose, and that would be another one each second."""


def is_said(error: object) -> bool:
    """Whether what follows from this error is worth no line of its own: that nobody is there was said where it arose.

    One broker that is away would be told of by each queue of each group, each second.
    """
    return isinstance(error, NotConnected | ConnectionLost) or (isinstance(error, RequestTimedOut) and error.is_said)


def shorten(value: object, limit: int = 80) -> str:
    """The value as it may stand in an error: its repr, cut, so that a hostile peer cannot flood a log."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def bare(text: str, limit: int = 300) -> str:
    """A peer's text as it may stand in an answer: without quotes, what cannot be printed escaped, and cut."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known name that is most like this one, else nothing. To be hung on a message."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
