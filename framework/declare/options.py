"""The options of @consumer: what each may be, and with which others it may not stand.

Each function answers what the spec holds, and raises ConfigurationError without a place, which its caller knows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from framework.declare.publishing import topics_of
from framework.errors import Findings, nearest, shorten
from framework.mistakes import OptionWrong
from framework.model import sql92
from framework.model.durations import to_ms

OPTIONS = (
    "topic",
    "group",
    "orderly",
    "key",
    "commit",
    "broadcasting",
    "tags",
    "sql",
    "codec",
    "engine",
    "batch",
    "linger",
    "retry",
    "once",
    "ready_when",
    "name",
)
# One message beyond what a queue may hold by default would never come together.
BATCH_MAX = 1_024
LINGER_MAX_MS = 60_000
# Of an engine that says neither: a job costs far more than a call.
ENGINE_BATCH, ENGINE_LINGER_MS = 1_000, 1_000
EXAMPLE = 'write @consumer(topic="orders", group="billing")'
_SEPARATOR = "||"
_CLASS_FILTERS = frozenset({"class_filter", "class_filter_mode", "filter_class"})


def options_in(positional: tuple[object, ...], options: dict[str, object], findings: Findings) -> dict[str, object]:
    """Option -> value, of those that there are; the others are noted."""
    if len(positional) > 2:
        raise OptionWrong(f"only topic and group are positional, not {len(positional)} arguments; {EXAMPLE}")
    chosen = dict(zip(("topic", "group"), positional, strict=False))
    for option, value in options.items():
        if option in _CLASS_FILTERS:
            reason = f"{option}: no broker since 5.0 runs filter classes; write sql=, or tags="
        elif option not in OPTIONS:
            known = nearest(option, OPTIONS) or f"; known: {', '.join(OPTIONS)}"
            reason = f"unknown option {option!r}{known}; how a group runs belongs in the settings file"
        elif option in chosen:
            reason = f"{option} is given twice; {EXAMPLE}"
        else:
            chosen[option] = value
            continue
        findings.note(OptionWrong(reason))
    return chosen


def manner_of(chosen: dict[str, object], function: Callable[..., object]) -> tuple[str, int, int]:
    """Who calls the function, with how many messages at most, and how long those wait for each other."""
    engine = chosen.get("engine", "")
    if not isinstance(engine, str):
        raise OptionWrong(f'engine={shorten(engine)}: write the name of an engine, such as "spark"')
    batch = _batch(chosen.get("batch", ENGINE_BATCH if engine else 0))
    linger_ms = _linger(chosen.get("linger", ENGINE_LINGER_MS / 1000 if engine else 0))
    if engine and not batch:
        raise OptionWrong(f"batch=0: the engine {engine!r} takes batches; write how many messages at most")
    if engine and inspect.iscoroutinefunction(function):
        raise OptionWrong(f"the engine {engine!r} calls plain functions: write def, not async def")
    if linger_ms and not batch:
        raise OptionWrong("linger without batch: a single message does not wait; add batch=32")
    if engine and chosen.get("orderly", False) is not False:
        raise OptionWrong(f"the engine {engine!r} supports concurrent groups only: remove engine or orderly")
    return engine, batch, linger_ms


def _batch(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= BATCH_MAX:
        raise OptionWrong(f"batch={shorten(value)}: write how many messages at most, 1 to {BATCH_MAX}")
    return value


def _linger(value: object) -> int:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            linger_ms = to_ms(value)
        except ValueError as error:
            raise OptionWrong(f"linger: {error}") from None
        if linger_ms <= LINGER_MAX_MS:
            return linger_ms
    raise OptionWrong(f'linger={shorten(value)}: write a duration up to {LINGER_MAX_MS // 1000}s, such as "50ms"')


def codec_of(value: object, engine: str) -> str:
    if not isinstance(value, str):
        raise OptionWrong(f'codec={shorten(value)}: write the name of a codec, such as "json"')
    if value and engine:
        raise OptionWrong(f"codec={value!r} and engine={engine!r}: the engine reads bodies itself; remove one of them")
    return value


def sql_of(value: object, chosen: dict[str, object]) -> str | None:
    """The condition, understood before anything runs: a broker would tell it by codes, and a stock one not at all."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise OptionWrong(f"sql={shorten(value)}: write a condition such as \"price > 10 AND region = 'eu'\"")
    if "tags" in chosen:
        raise OptionWrong("tags and sql together: a broker filters by one of them; write TAGS = 'paid' in sql")
    sql92.parse(value)
    return value


def tags_of(value: object) -> str:
    if not isinstance(value, str):
        raise OptionWrong(f"tags={shorten(value)}: write a text such as 'created || paid'")
    parts = [part.strip() for part in value.split(_SEPARATOR)]
    if not all(parts) or any("|" in part or any(sign.isspace() for sign in part) for part in parts):
        raise OptionWrong(f"tags={shorten(value)}: write words joined by ||, or * for all")
    return value.strip()


def once_of(chosen: dict[str, object]) -> int:
    """For how long repeats are dropped."""
    once = chosen.get("once")
    if once is None:
        return 0
    once_ms = 0
    if isinstance(once, str | int | float) and not isinstance(once, bool):
        try:
            once_ms = to_ms(once)
        except ValueError as error:
            raise OptionWrong(f"once: {error}") from None
    if not once_ms:
        raise OptionWrong(f'once={shorten(once)}: write how long duplicates are dropped, such as "30m"')
    for option in ("engine", "batch"):
        if chosen.get(option):
            why = "a batch is handled as a whole, but each message alone is a duplicate or not"
            instead = "let the store that the batch is written to refuse duplicates (a unique key)"
            raise OptionWrong(f"once and {option}={shorten(chosen[option])}: {why}; leave {option} out, or {instead}")
    if chosen.get("commit") == "manual":
        raise OptionWrong(
            'once and commit="manual": a message that is rolled back would be a duplicate; remove one of them'
        )
    return once_ms


def check_key(key: object, orderly: object, once_ms: int) -> None:
    if orderly == "key" and once_ms:
        raise OptionWrong(
            f'key={shorten(key)} with once and orderly="key": it cannot be both the order\'s key and the '
            "duplicates' key; remove key (then the sharding key orders, and the message id finds duplicates), or once"
        )
    if orderly != "key" and not once_ms:
        raise OptionWrong(
            f'key={shorten(key)}: needs orderly="key" (the order of each key) or once="30m" (what is a duplicate); '
            "add one, or remove key"
        )
    if not callable(key) or inspect.iscoroutinefunction(key):
        raise OptionWrong(f"key={shorten(key)}: write a plain function that takes a message and returns its key")


def not_commit(value: object) -> str:
    if value == "manual":
        return 'commit="manual" needs orderly=True, the order of whole queues: write that, or remove commit'
    return f'commit={shorten(value)}: write "auto" or "manual"'


def publishes_of(function: Callable[..., object], commit: object, batch: int) -> tuple[str, ...]:
    topics = topics_of(function)
    if topics and (commit == "manual" or batch):
        which = 'commit="manual"' if commit == "manual" else f"batch={batch}"
        raise OptionWrong(f"@publishes and {which}: both use what the handler returns; remove one, or use a Producer")
    return topics
