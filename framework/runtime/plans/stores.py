"""Stores of plugins, opened for groups: where `once` handlers keep what they have handled. Wiring only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TypeVar

from framework.declare import ConsumerSpec
from framework.hooks.failures import plugin_failure, reject_coroutine
from framework.hooks.validated import named
from framework.mistakes import FolderUnusable, SettingUseless
from framework.model.contracts import DedupStore
from framework.ports import Workers, World
from framework.services.call.once import Once
from framework.settings.schema import AppSettings

Onces = dict[tuple[str, str], Once]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Means:
    """As `model.contracts.DedupMeans` says."""

    group: str
    folder: str
    now_ms: Callable[[], int]
    workers: Workers

    async def in_thread(self, job: Callable[[], T]) -> T:
        return await self.workers.run(job)


def once_for(
    group: str, specs: Iterable[ConsumerSpec], settings: AppSettings, stores: Mapping[str, DedupStore], world: World,
    running: Onces,
) -> dict[str, Once]:  # fmt: skip
    """Topic, as its handler writes it -> what remembers its messages. `running` are those that are at it already.

    Raises ConfigurationError for what cannot work.
    """
    chosen, place = settings.consumer(group), settings.place("consumers", group, "once_store")
    wanting = [spec for spec in specs if spec.once_ms]
    name, here = chosen.once_store, f"consumers.{group}.once_store"
    if not wanting:
        was_wanted = any(name == group for name, _ in running)  # by a topic that was unsubscribed since
        if "once_store" in chosen.model_fields_set and not was_wanted:
            raise SettingUseless(
                f'{here}: no handler of this group drops duplicates; write @consumer(..., once="30m"), or remove it',
                place=place,
            )
        return {}
    store = named("store", name, stores, ("consumers", group, "once_store"), settings)
    if wanting[0].broadcasting and name != "memory":
        raise SettingUseless(
            f"{here}: each process of a broadcasting group handles every message, so processes cannot share keys; "
            "write memory, or remove it",
            place=place,
        )
    folder = "" if name == "memory" else str(folder_of(settings, "once", "folder"))
    # What one process remembers needs no time of day, which brokers may be wrong about.
    now_ms = world.clock.monotonic_ms if name == "memory" else world.clock.now_ms
    means = _Means(group, folder, now_ms, world.workers)
    for spec in wanting:
        key = (group, spec.topic)
        if key not in running:
            opened = opened_store(store.name, partial(store.open, means), here, place)
            running[key] = Once(group, spec.topic, name, opened, world.clock)
    return {spec.topic: running[group, spec.topic] for spec in wanting}


def opened_store(name: str, open_it: Callable[[], T], here: str, place: str | None = None) -> T:
    """What a plugin's store opens; ConfigurationError for whatever it raises."""
    try:
        opened = open_it()
        reject_coroutine(opened, "open()")
    except BaseException as error:  # border: a plugin's
        plugin_failure(error)
        reason = f"{type(error).__name__}: {error}"
        raise FolderUnusable(f"{here}: the store {name!r} cannot be opened: {reason}", place=place) from error
    return opened


async def close_onces(running: Onces) -> None:
    for once in running.values():
        await once.close()


def folder_of(settings: AppSettings, *path: str) -> Path:
    """What the key at this path names. ConfigurationError where it is in a home directory that does not exist."""
    name: object = reduce(getattr, path, settings)
    assert isinstance(name, str), f"{path} is no text"
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise FolderUnusable(
            f"{'.'.join(path)}: {name} is in the home directory, and this process has none (HOME is not set); write an "
            "absolute path",
            place=settings.place(*path),
        ) from None
