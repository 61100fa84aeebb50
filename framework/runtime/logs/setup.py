"""structlog, set up once a process: short facts with fields, to stderr, with no secret in them.

Owns the order of processors. The redaction stands last before the renderer, so that nothing is added behind its back.
Fields have fixed names: group, topic, queue, offset, broker, plugin, elapsed_ms, error.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import structlog
from structlog.typing import Processor

from framework.runtime.logs.lines import Lines
from framework.runtime.logs.processors import harmless, read_ids, with_id, with_short_failure
from framework.settings.secret_words import MASK, SECRET_WORDS

if TYPE_CHECKING:
    from framework.settings.schema import AppSettings
    from framework.settings.secret import Secret
import threading
from collections.abc import Sequence

from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_logger_name

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
SECRET_LENGTH_MIN = 4  # a shorter secret would mask half of every line
_ACCESS_KEY_SHOWN = 4


def configure(settings: AppSettings, *, stream: Any = None, first: Iterable[Processor] = ()) -> None:
    """Log as the settings say, from here on. `first` are a command's own processors."""
    from framework.runtime.logs.places import with_place  # what consumes; the built-in broker does without

    as_json = settings.logging.format == "json"
    begin(
        settings.logging.level, as_json=as_json, secrets=secrets_of(settings), stream=stream,
        first=(*first, with_place), levels=settings.logging.levels,
    )  # fmt: skip


def begin(
    level: str,
    *,
    as_json: bool = False,
    secrets: Iterable[str] = (),
    stream: Any = None,
    first: Iterable[Processor] = (),
    levels: Mapping[str, str] | None = None,
) -> None:
    """Log from here on, without settings: the built-in broker has none. Colours only where a person is looking."""
    target = stream if stream is not None else sys.stderr
    read_ids()
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        *first,
        structlog.processors.add_log_level,
        with_id,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # As text before the redaction: a traceback may quote a secret. Locals are never shown.
        structlog.processors.format_exc_info if level == "debug" else with_short_failure,
        Redaction(secrets),
        *_rendered(as_json=as_json, has_colours=target.isatty()),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: Lines(target),
        cache_logger_on_first_use=False,
    )
    route(LEVELS[level], processors, target, {name: LEVELS[each] for name, each in (levels or {}).items()})


def _rendered(*, as_json: bool, has_colours: bool) -> list[Processor]:
    if as_json:
        return [structlog.processors.JSONRenderer(default=str)]
    return [harmless, structlog.dev.ConsoleRenderer(colors=has_colours)]


class Redaction:
    """Masks what a key's name calls a secret, and every known secret inside any text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Longest first: one secret may be the beginning of another.
        self._secrets = sorted({text for text in secrets if len(text) >= SECRET_LENGTH_MIN}, key=len, reverse=True)

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for key, value in event.items():
            event[key] = self._masked(key, value)
        return event

    def _masked(self, key: str, value: Any) -> Any:
        if SECRET_WORDS.search(key) and value is not None:
            is_access_key = "access" in key.lower() and isinstance(value, str)
            return f"{value[:_ACCESS_KEY_SHOWN]}{MASK}" if is_access_key else MASK
        if isinstance(value, str):
            return self._cleaned(value)
        if isinstance(value, Mapping):
            return {name: self._masked(str(name), item) for name, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._masked("", item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._cleaned(str(value))

    def _cleaned(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text


def secrets_of(settings: AppSettings) -> list[str]:
    """Every Secret's text in these settings, and what plugins' settings hide."""
    credentials, tls = settings.cluster.credentials, settings.cluster.tls
    secrets: tuple[Secret, ...] = (
        credentials.secret_key, credentials.security_token, tls.key_password, settings.observe.token,
        settings.progress.key,
    )  # fmt: skip
    of_plugins = settings.hidden.texts(settings.plugins.settings)
    return [*(secret.reveal() for secret in secrets if secret), *of_plugins]


QUIET: Mapping[str, int] = dict.fromkeys(("py4j", "uvicorn.access", "httpx", "urllib3", "botocore"), logging.WARNING)
"""Loggers with a line for each call of something, unless `logging.levels` names them."""


class Bridge(logging.Handler):
    """Renders records by our processors. Safe to be called again by what it calls."""

    def __init__(self, processors: Sequence[Processor], target: Any) -> None:
        super().__init__()
        self._lines = Lines(target)
        self._busy = threading.local()
        self.named: tuple[str, ...] = ()
        """Loggers whose level we have set."""
        self.setFormatter(
            ProcessorFormatter(
                foreign_pre_chain=[ExtraAdder(), _without_rendered, add_logger_name],
                processors=[ProcessorFormatter.remove_processors_meta, *processors],
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(self._busy, "is_on", False):
            return  # a value that logs while it is turned into text
        self._busy.is_on = True
        try:
            text = self.format(record)
        except Exception as error:  # noqa: BLE001 - border: whoever logged, with arguments that do not fit its text
            place, reason = f"{record.pathname}:{record.lineno}", f"{type(error).__name__}: {error}"
            structlog.get_logger().warning("line not formatted", logger=record.name, place=place, reason=reason)
        else:
            self._lines.msg(text)
        finally:
            self._busy.is_on = False


def _without_rendered(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What another handler's formatter, which came first, has left in the record; nobody can log under these names."""
    for name in ("message", "asctime"):
        event.pop(name, None)
    return event


def route(level: int, processors: Sequence[Processor], target: Any, levels: Mapping[str, int]) -> None:
    """Have all loggers that nobody took out of the tree write by these, from `level` on; `levels` are single ones'.

    One handler at the root logger, put there where logging is configured and nowhere else: an application that is
    embedded in somebody's process leaves their logging alone.
    """
    unroute()
    bridge, root = Bridge(processors, target), logging.getLogger()
    root.addHandler(bridge)
    root.setLevel(level)
    wanted = {name: max(level, least) for name, least in QUIET.items()} | dict(levels)
    for name, least in wanted.items():
        logging.getLogger(name).setLevel(least)
    bridge.named = tuple(wanted)


def unroute() -> None:
    """As before `route`, but for handlers that others have added since."""
    root = logging.getLogger()
    for each in [handler for handler in root.handlers if isinstance(handler, Bridge)]:
        root.removeHandler(each)
        root.setLevel(logging.WARNING)
        for name in each.named:
            logging.getLogger(name).setLevel(logging.NOTSET)
